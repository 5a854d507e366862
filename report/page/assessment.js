"use strict";
(() => {
  // A click on a heading sorts the faults by its column; a second click turns the order round.
  const table = document.getElementById("matrix");
  const body = table.tBodies[0];
  const value = (row, column, kind) => {
    const cell = row.cells[column];
    if (kind === "text") return cell.textContent.trim();
    const number = Number(cell.dataset.value);
    return Number.isNaN(number) ? -1 : number;
  };
  Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
    const button = document.createElement("button");
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const kind = heading.dataset.sort;
      const first = kind === "text" ? "ascending" : "descending";
      const order = heading.getAttribute("aria-sort") === first ? (first === "ascending" ? "descending" : "ascending") : first;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = Array.from(body.rows);
      rows.sort((one, two) => {
        const [a, b] = [value(one, column, kind), value(two, column, kind)];
        return sign * (kind === "text" ? a.localeCompare(b) : a - b);
      });
      body.append(...rows);
    });
  });
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      target.open = true;
      target.scrollIntoView({ block: "start" });
    }
  };
  addEventListener("hashchange", follow);
  follow();
})();
