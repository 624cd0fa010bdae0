"use strict";
// Mouse, finger or arrow keys select a drawn element, whose values are shown in a tip next to it.
(page => {
  const tip = document.getElementById("tip");
  const announcement = document.getElementById("announcement");
  const EDGE = 8;
  const NARROW = 600;
  const GAP = 14;
  const SMALL = 0.75;

  const write = (head, lines) => {
    tip.textContent = "";
    const name = tip.appendChild(document.createElement("b"));
    name.textContent = head.name;
    name.dir = "auto";
    for (const line of [page.day(head.date), ...lines].filter(Boolean)) tip.appendChild(document.createElement("p")).textContent = line;
  };

  const within = (value, most) => Math.max(EDGE, Math.min(value, most - EDGE));

  // a tall tip, or any tip on a telephone, would hide the chart, so it is below or above
  const top = (box, middle) => {
    const tall = tip.offsetHeight;
    if (innerWidth >= NARROW && tall < SMALL * box.height) return within(middle - tall / 2, innerHeight - tall);
    const [below, above] = [innerHeight - box.bottom, box.top];
    return within(below > tall || below > above ? box.bottom : box.top - tall, innerHeight - tall);
  };

  const put = (plot, { x, y }) => {
    const box = plot.getBoundingClientRect();
    const scale = box.width / plot.querySelector("svg").viewBox.baseVal.width;
    tip.hidden = box.bottom < 0 || box.top > innerHeight;
    const [at, wide] = [box.left + x * scale, tip.offsetWidth];
    const beside = at + GAP + wide > innerWidth - EDGE ? at - GAP - wide : at + GAP;
    tip.style.left = `${within(beside, innerWidth - wide)}px`;
    tip.style.top = `${top(box, box.top + y * scale)}px`;
  };

  let follow = null;
  const close = plot => {
    tip.hidden = true;
    follow = null;
    plot.querySelector(".cursor")?.removeAttribute("d");
  };

  // `walkable()` returns the elements that are drawn now; they depend on the configuration
  page.walk = (plot, walkable) => {
    let at = null;
    const show = (next, aloud) => {
      const over = walkable();
      at = Math.max(page.since, next);
      const [head, lines] = [over.head(at), over.lines(at)];
      write(head, lines);
      plot.querySelector(".cursor").setAttribute("d", over.cursor(at));
      put(plot, over.where(at));
      follow = aloud ? () => put(plot, over.where(at)) : null;
      if (aloud) announcement.textContent = [head.name, page.day(head.date), ...lines].filter(Boolean).join(". ");
    };
    const point = event => {
      const over = walkable();
      if (!over) return;
      const box = plot.getBoundingClientRect();
      const scale = plot.querySelector("svg").viewBox.baseVal.width / box.width;
      const next = over.at((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
      if (next !== at || tip.hidden) show(next, false);
    };
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", event => event.pointerType === "mouse" && close(plot));
    plot.addEventListener("blur", () => close(plot));
    plot.addEventListener("focus", () => {
      if (plot.matches(":focus-visible") && walkable()) show(at ?? walkable().start, true);
    });
    plot.addEventListener("keydown", event => {
      if (event.key === "Escape") close(plot);
      const next = walkable()?.key(event.key, at ?? walkable().start) ?? null;
      if (next === null || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      show(next, true);
    });
    return { again: () => !tip.hidden && document.activeElement === plot && at !== null && walkable() && show(at, true) };
  };

  // a tip shown by a key moves with its chart, one shown by the mouse is hidden
  addEventListener("scroll", () => { if (follow) follow(); else tip.hidden = true; }, { passive: true });
})(timelines);
