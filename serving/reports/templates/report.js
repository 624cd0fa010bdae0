"use strict";
// Sort tables by their headers, and show values of marks in charts. The page is complete without scripts.
(() => {
  const order = new Intl.Collator("en", { numeric: true });
  const cellText = (cell) =>
    [...(cell?.childNodes ?? [])]
      .filter((node) => !(node.nodeType === 1 && node.matches("small, .seeds")))
      .map((node) => node.textContent)
      .join(" ")
      .trim();
  const plain = (text) => parseFloat(text.replaceAll(",", "").replace("\u2212", "-").replace("+", ""));
  const missing = (text) => text === "" || text === "\u2013";

  function sort(table, column, descending) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [cellText(row.cells[column]), row]);
    const known = rows.filter(([text]) => !missing(text));
    const numbers = known.every(([text]) => /^[+\u2212-]?[\d.]/.test(text));
    const compare = numbers ? (a, b) => plain(a) - plain(b) : order.compare;
    known.sort(([a], [b]) => (descending ? compare(b, a) : compare(a, b)));
    body.append(...[...known, ...rows.filter(([text]) => missing(text))].map(([, row]) => row));
    for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
    table.tHead.rows[0].cells[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    return numbers;
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const choice = document.createElement("select");
    choice.add(new Option("as it stands", ""));
    heads.forEach((head, column) => {
      const name = head.textContent.trim();
      if (!name) return;
      for (const [way, how] of [["", "ascending"], ["-", "descending"]])
        choice.add(new Option(`${name}, ${how}`, `${way}${column}`));
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const numbers = sort(table, column, now !== "descending");
        if (!now && !numbers) sort(table, column, false);
      });
    });
    const first = [...table.tBodies[0].rows];
    choice.addEventListener("change", () => {
      table.tBodies[0].append(...first);
      if (choice.value) sort(table, Math.abs(parseInt(choice.value, 10)), choice.value.startsWith("-"));
    });
    const label = document.createElement("label");
    label.className = "sort-by";
    label.append("Sort by ", choice);
    table.before(label);
  }

  for (const table of document.querySelectorAll("table.sortable"))
    if (table.tHead?.rows.length === 1 && table.tBodies[0].rows.length > 2) sortable(table);

  if (!document.querySelector(".spots")) return;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const hide = () => { tip.hidden = true; };
  const show = (event) => {
    const mark = event.target.closest?.(".spots > *");
    if (!mark) return hide();
    const title = mark.querySelector("title");
    if (title) {
      // the browser would show the title as well, with a delay
      mark.dataset.tooltip = title.textContent;
      title.remove();
    }
    tip.textContent = mark.dataset.tooltip;
    tip.hidden = false;
    const high = tip.offsetHeight, wide = tip.offsetWidth, edge = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, edge - wide - 4))}px`;
    tip.style.top = `${event.clientY - high - 12 < 4 ? event.clientY + 16 : event.clientY - high - 12}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", hide, { passive: true, capture: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
})();
