"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("has-js");
  const all = (query, where) => Array.from((where || document).querySelectorAll(query));

  // A moment or a period, shown in every timeline: #t=9.9, #t=-3.1-12.7, #t=3.1-
  const show = (from, to) => {
    for (const svg of all("svg.timeline")) {
      const [start, end, left, right] = ["from", "to", "left", "right"].map((key) => Number(svg.dataset[key]));
      const x = (s) => left + ((Math.min(Math.max(s, start), end) - start) / (end - start)) * (right - left);
      const cursor = svg.querySelector(".cursor");
      const chosen = svg.querySelector(".chosen");
      cursor.setAttribute("x1", x(from));
      cursor.setAttribute("x2", x(from));
      cursor.setAttribute("visibility", "visible");
      chosen.setAttribute("visibility", to === null ? "hidden" : "visible");
      if (to !== null) {
        chosen.setAttribute("x", x(from));
        chosen.setAttribute("width", Math.max(1, x(to) - x(from)));
      }
    }
    document.getElementById("belief").scrollIntoView({ block: "start" });
  };

  const open = (element) => {
    for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    element.scrollIntoView({ block: "start" });
  };

  const follow = () => {
    const hash = decodeURIComponent(location.hash.slice(1));
    const time = /^t=(-?\d+(?:\.\d+)?)(?:(-)(-?\d+(?:\.\d+)?)?)?$/.exec(hash);
    if (time) {
      const to = time[3] ? Number(time[3]) : time[2] ? Infinity : null;
      show(Number(time[1]), to);
    } else if (hash) {
      const target = document.getElementById(hash);
      if (target) open(target);
    }
  };
  addEventListener("hashchange", follow);
  // A second click on the same link does not change the hash.
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) follow();
  });
  follow();

  const filter = document.getElementById("filter");
  if (filter) {
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (text) => words.every((word) => text.toLowerCase().includes(word));
      for (const group of all("details.group")) {
        const title = group.querySelector("summary").textContent;
        let left = 0;
        for (const row of all("tbody tr", group)) {
          const here = fits(`${title} ${row.textContent}`);
          row.classList.toggle("hidden", !here);
          left += here;
        }
        group.classList.toggle("hidden", left === 0);
        if (words.length && left) group.open = true;
      }
      for (const story of all("details.story")) story.classList.toggle("hidden", !fits(story.textContent));
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && document.activeElement !== filter) {
        event.preventDefault();
        filter.focus();
      }
    });
  }

  for (const table of all("table.sortable")) {
    all("thead th", table).forEach((head, column) => {
      head.tabIndex = 0;
      const sort = () => {
        const rising = head.getAttribute("aria-sort") !== "ascending";
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const body = table.tBodies[0];
        const collator = new Intl.Collator("en", { numeric: true });
        const before = (text) => (/^−\d/.test(text) ? parseFloat(text.slice(1)) : 0);
        const order = (a, b) => before(b) - before(a) || collator.compare(a, b);
        const rows = Array.from(body.rows);
        rows.sort((a, b) => (rising ? 1 : -1) * order(a.cells[column].textContent, b.cells[column].textContent));
        body.append(...rows);
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          sort();
        }
      });
    });
  }

  // What scrolls sideways can be reached by keyboard; a stop at each table that does not would only cost time.
  const widen = () => all(".scroll, .tablebox, table, pre").forEach((one) => {
    const overflows = one.scrollWidth > one.clientWidth + 1;
    one.classList.toggle("overflows", overflows && one.matches(".scroll"));
    if (overflows || one.matches(".tablebox") && one.scrollHeight > one.clientHeight + 1) one.tabIndex = 0;
    else if (!one.matches(".scroll")) one.removeAttribute("tabindex");
  });
  widen();
  addEventListener("resize", widen);
  document.addEventListener("toggle", widen, true);

  addEventListener("beforeprint", () => all("details").forEach((one) => { one.dataset.was = one.open; one.open = true; }));
  addEventListener("afterprint", () => all("details").forEach((one) => { one.open = one.dataset.was === "true"; }));
})();
