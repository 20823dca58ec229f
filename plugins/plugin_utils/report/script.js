"use strict";
(() => {
  const body = document.querySelector("tbody");
  const rows = [...body.rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const filter = document.getElementById("filter");
  const only = document.getElementById("only");
  const shown = document.getElementById("shown");
  const nothing = document.getElementById("nothing");

  function show() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits = words.every((word) => texts.get(row).includes(word));
      const visible = fits && !(only.checked && row.classList.contains("right"));
      row.hidden = !visible;
      count += visible ? 1 : 0;
    }
    shown.textContent = `${count} of ${rows.length} machines`;
    nothing.hidden = count > 0;
  }

  function sort(heading, column) {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[column].dataset.sort;
    // Numbers within names count as numbers: edge-9 comes before edge-10.
    const order = new Intl.Collator("en", { numeric: true }).compare;
    const sorted = [...rows].sort((one, other) => order(value(one), value(other)) * (down ? -1 : 1));
    body.append(...sorted);
  }

  for (const [column, heading] of [...document.querySelectorAll("thead th")].entries()) {
    heading.querySelector("button").addEventListener("click", () => sort(heading, column));
  }
  for (const button of document.querySelectorAll("[data-filter]")) {
    button.addEventListener("click", () => {
      const same = filter.value === button.dataset.filter;
      filter.value = same ? "" : button.dataset.filter;
      show();
    });
  }
  filter.addEventListener("input", show);
  only.addEventListener("change", show);
  show();
})();
