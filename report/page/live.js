"use strict";
// The server sends the pictures whenever they have changed, and says when the run is over.
(() => {
  const pictures = document.getElementById("pictures");
  const state = document.getElementById("state");
  const events = new EventSource("live/events");
  events.addEventListener("message", (event) => {
    const at = [...pictures.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    const open = [...pictures.querySelectorAll("details[open]")].map((one) => one.id);
    pictures.innerHTML = JSON.parse(event.data);
    for (const id of open) if (id) document.getElementById(id)?.setAttribute("open", "");
    pictures.querySelectorAll(".scroll").forEach((one, number) => { one.scrollLeft = at[number] || 0; });
    state.textContent = "under way";
  });
  events.addEventListener("over", () => {
    events.close();
    location.replace("./");
  });
  events.addEventListener("error", () => { state.textContent = "the server does not answer"; });
})();
