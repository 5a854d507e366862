"use strict";
// The list follows the folder: when something changes, the table is read again, and ticks and focus stay.
(() => {
  const state = document.getElementById("state");
  const list = document.getElementById("list");
  let first = true;
  const refresh = async () => {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("list");
    const kept = new Set([...list.querySelectorAll("input:checked")].map((box) => box.value));
    const open = new Set([...list.querySelectorAll("details[open]")].map((one) => one.dataset.of));
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    const at = focused && [focused.tagName, focused.getAttribute("href"), focused.value].join(" ");
    for (const box of fresh.querySelectorAll("input[type=checkbox]")) box.checked = kept.has(box.value);
    for (const one of fresh.querySelectorAll("details")) one.open = open.has(one.dataset.of);
    list.replaceChildren(...fresh.childNodes);
    if (at) {
      for (const one of list.querySelectorAll("a, input")) {
        if ([one.tagName, one.getAttribute("href"), one.value].join(" ") === at) one.focus();
      }
    }
  };
  const events = new EventSource("/events");
  events.addEventListener("open", () => { state.textContent = "followed as it changes"; });
  events.addEventListener("error", () => { state.textContent = "the server does not answer; the list stands still"; });
  events.addEventListener("changed", () => {
    if (first) { first = false; return; }
    refresh();
  });
})();
