"use strict";
// The medians of a benchmark's operations at their featured configuration: versions down, operations across.
(page => {
  const ACROSS = 60;
  const PRINTED = 8;
  const phone = matchMedia("(max-width: 48rem)");
  const made = (name, parent, text = "") => {
    const element = parent.appendChild(document.createElement(name));
    element.textContent = text;
    return element;
  };

  const marked = (cell, mark) => {
    if (!mark) return;
    cell.className = mark.kind;
    const glyph = made("span", cell, mark.glyph);
    glyph.title = mark.text;
    glyph.className = `mark ${mark.kind}`;
    glyph.setAttribute("aria-hidden", "true");
    made("span", cell, ` ${mark.text}`).className = "visually-hidden";
  };

  const row = (body, at, operations) => {
    const version = page.versions[at];
    const line = made("tr", body);
    const head = made("th", line);
    head.scope = "row";
    const name = version.href ? made("a", head) : made("span", head);
    if (version.href) name.href = version.href;
    made("bdi", name, version.name);
    if (version.date) made("small", head, ` ${version.date.slice(0, 10)}`);
    if (at === page.baseline) made("small", head, " baseline");
    for (const operation of operations) {
      const cell = made("td", line, page.amount(operation.five(operation.featured, at)[2]));
      marked(cell, page.mark(operation, at));
    }
  };

  const table = (place, numbers) => {
    const box = place.querySelector(".scrolled");
    const operations = numbers.map(page.operation);
    box.textContent = "";
    const whole = document.createElement("table");
    const head = made("tr", whole.createTHead());
    made("th", head, "version").scope = "col";
    for (const operation of operations) {
      const column = made("th", head);
      column.scope = "col";
      made("bdi", column, operation.name).title = operation.name;
      made("small", column, `${operation.unit}, threads: ${operation.threads[operation.featured]}`);
    }
    const body = whole.createTBody();
    page.versions.forEach((_, at) => row(body, at, operations));
    box.appendChild(whole);
  };

  const pages = (place, numbers) => {
    const size = phone.matches ? 1 : ACROSS;
    const select = place.querySelector("select");
    select.textContent = "";
    for (let from = 0; from < numbers.length; from += size) {
      const to = Math.min(from + size, numbers.length);
      const name = size === 1 ? document.getElementById(`name-${numbers[from]}`).textContent : `${from + 1} to ${to} of ${numbers.length}`;
      made("option", select, name).value = from;
    }
    place.querySelector("label").hidden = numbers.length <= size;
    return size;
  };

  // the table of a benchmark's filtered operations; drawn when it is near the visible part
  page.medians = place => {
    const benchmark = place.dataset.benchmark;
    made("h3", place, "Medians");
    made("p", place, "Of the featured configuration. A version's name is a link to its result. \u25bc began here, \u25ac still worse than the baseline, \u25c7 unsure, \u00d7 cannot be judged.").className = "quiet";
    const label = made("label", place, "operations ");
    const select = made("select", label);
    const box = made("div", place);
    box.className = "scrolled";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Medians of ${benchmark}`);
    box.style.setProperty("--rows", page.versions.length + 2);
    const unprinted = made("p", place);
    unprinted.className = "unprinted-note";
    let numbers = [];
    let size = ACROSS;
    let near = false;
    const fill = () => {
      if (!near || !numbers.length) return;
      const from = Number(select.value) || 0;
      table(place, numbers.slice(from, from + size));
    };
    select.addEventListener("change", fill);
    const show = left => {
      numbers = left;
      place.hidden = !numbers.length;
      size = pages(place, numbers);
      place.classList.toggle("wide", numbers.length > PRINTED);
      unprinted.textContent = `The medians of ${numbers.length} operations are too wide for paper: filter for ${PRINTED} or fewer to print them.`;
      fill();
    };
    phone.addEventListener("change", () => show(numbers));
    return {
      show,
      come: () => { if (!near) { near = true; fill(); } },
      print: () => { if (numbers.length && numbers.length <= PRINTED) { near = true; table(place, numbers); } },
    };
  };
})(timelines);
