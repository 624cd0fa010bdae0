{
  const { root, part, label, show, load, keys, say } = labelling;
  const body = root.querySelector(".medians tbody");
  const rows = [...body.querySelectorAll("tr.one")];
  let at = -1;

  // ---- the current row, which can be opened ----
  const visible = () => [...body.querySelectorAll("tr.one")].filter(row => !row.hidden);
  const current = () => rows[at] && !rows[at].hidden ? rows[at] : null;
  function go(row, scrolls = true) {
    rows[at]?.classList.remove("current");
    at = rows.indexOf(row);
    row.classList.add("current");
    if (scrolls) row.scrollIntoView({ block: "nearest", behavior: "instant" });
    choose();
  }
  function step(by) {
    const list = visible(), place = list.indexOf(rows[at]);
    const row = list[place < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(Math.max(place + by, 0), list.length - 1)];
    if (!row) return;
    go(row);
    row.focus({ preventScroll: true });
  }
  const opened = row => row.nextElementSibling?.matches(".opened") ? row.nextElementSibling : null;
  async function toggle(row) {
    go(row);
    const link = row.querySelector("a.open");
    if (opened(row)) {
      opened(row).remove();
      link.setAttribute("aria-expanded", "false");
      return;
    }
    const cell = document.createElement("td");
    cell.colSpan = row.cells.length;
    const more = document.createElement("tr");
    more.className = "opened";
    more.append(cell);
    cell.textContent = "…";
    row.after(more);
    link.setAttribute("aria-expanded", "true");
    try {
      const article = await load(row.dataset);
      cell.replaceChildren(article);
      show(article);
    } catch (problem) {
      cell.textContent = `It cannot be shown now: ${problem.message}.`;
    }
  }
  for (const link of body.querySelectorAll("a.open")) link.setAttribute("aria-expanded", "false");
  body.addEventListener("click", event => {
    const row = event.target.closest("tr.one");
    if (!row || event.target.closest("button") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("a") && !event.target.closest("a.open")) return;
    event.preventDefault();
    toggle(row);
  });
  body.addEventListener("focusin", event => {
    const row = event.target.closest("tr.one");
    // if the page scrolled while a mouse button is pressed, the click would be lost
    if (row && row !== rows[at]) go(row, false);
  });

  // ---- sorting and filtering ----
  const values = {
    name: row => row.dataset.name,
    status: row => row.querySelector(".vote b")?.textContent ?? "",
    verdict: row => 10 * row.dataset.urgency - (row.dataset.probability ?? 0),
  };
  function value(row, by) {
    if (values[by]) return values[by](row);
    const text = row.querySelector(`td[data-t="${by.slice(1)}"]`)?.dataset.value;
    return text ? Number(text) : Infinity;
  }
  function sort(head) {
    const up = head.getAttribute("aria-sort") !== "ascending", by = head.dataset.sort;
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = rows.map((row, place) => [value(row, by), place, row, opened(row)]);
    const order = ([a, i], [b, j]) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1) || i - j;
    body.append(...keyed.sort(order).flatMap(([, , row, more]) => more ? [row, more] : [row]));
  }
  for (const head of root.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(head));
  }
  const filter = part("filter");
  const wanted = { all: () => true, mine: row => !row.dataset.own, unsure: row => row.dataset.verdict === "unsure", fail: row => row.dataset.verdict === "fail" };
  function choose() {
    for (const row of rows) {
      // the current row stays visible until another becomes current
      row.hidden = !wanted[filter.value](row) && row !== rows[at];
      if (opened(row)) opened(row).hidden = row.hidden;
    }
    const many = rows.filter(wanted[filter.value]).length, mine = rows.filter(row => row.dataset.own).length;
    part("shown").textContent = [...(many === rows.length ? [] : [`${many} of ${rows.length}`]), ...(mine ? [`${mine} answered by you`] : [])].join(", ");
  }
  filter.addEventListener("change", () => {
    rows[at]?.classList.remove("current");
    at = -1;
    choose();
  });
  root.addEventListener("marked", choose);
  // the title has the versions after all rows have been answered
  root.addEventListener("refreshed", event => {
    root.querySelector("h1").textContent = event.detail;
    document.title = `${event.detail} \u00b7 perfjudge`;
  });
  choose();

  keys({
    current,
    choose: async (element, status) => {
      const row = element.matches("tr") ? element : element.closest("tr").previousElementSibling;
      go(row);
      await label(element, status);
    },
    more: {
      j: () => step(1),
      k: () => step(-1),
      o: () => current() ? toggle(current()) : say("no row is chosen: j goes to the first"),
    },
  });
}
