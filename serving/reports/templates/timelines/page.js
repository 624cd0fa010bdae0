"use strict";
// The shown part of a page: filter, configuration, scrolling and printing.
(page => {
  const PAPER = 60;
  const all = selector => [...document.querySelectorAll(selector)];
  const [named, threads, since, shown, printed] = ["named", "threads", "since", "shown", "printed"].map(id => document.getElementById(id));

  const charts = all("figure.operation").map(figure => {
    const number = Number(figure.id.slice("op-".length));
    const select = figure.querySelector("select");
    const words = `${figure.closest(".benchmark").querySelector("h2").textContent} ${figure.querySelector("h3").textContent}`.toLowerCase();
    const chart = { figure, number, select, options: [...select.options], words, walkable: null, width: 0 };
    chart.draw = () => {
      chart.walkable = page.draw(figure, number, Number(select.value));
      chart.width = figure.clientWidth;
    };
    const walk = page.walk(figure.querySelector(".plot"), () => chart.walkable);
    select.addEventListener("change", () => { chart.draw(); walk.again(); });
    return chart;
  });
  const byFigure = new Map(charts.map(chart => [chart.figure, chart]));
  const drawn = chart => { if (chart.width !== chart.figure.clientWidth) chart.draw(); };

  const heats = new Map(all("figure.heat").map(figure => {
    const heat = { width: 0, walkable: null };
    heat.draw = () => {
      if (heat.width === figure.clientWidth) return;
      heat.walkable = page.drawHeat(figure, Number(figure.id.slice("heat-".length)));
      heat.width = figure.clientWidth;
    };
    page.walk(figure.querySelector(".plot"), () => heat.walkable);
    return [figure, heat];
  }));

  const medians = new Map(all(".medians").map(place => {
    const numbers = place.dataset.operations.split(" ").map(Number);
    return [place, { ...page.medians(place), numbers }];
  }));

  // draw elements only in and near the visible part of the page
  const near = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      if (byFigure.has(target)) drawn(byFigure.get(target));
      heats.get(target)?.draw();
      medians.get(target)?.come();
    }
    if (entries.some(entry => entry.isIntersecting) && !performance.getEntriesByName("timelines-drawn").length)
      performance.mark("timelines-drawn");
  }, { rootMargin: "400px 0px" });

  const isShown = chart => !chart.figure.hidden;
  const which = () => document.querySelector("input[name=which]:checked").value;
  const wanted = {
    all: () => true,
    marked: chart => "marked" in chart.figure.dataset,
    unstable: chart => "unstable" in chart.figure.dataset,
  };

  const updateCounts = () => {
    const left = charts.filter(isShown);
    const chosen = threads.value ? left.filter(chart => chart.options.some(one => one.dataset.threads === threads.value)).length : left.length;
    const lacking = chosen < left.length ? ` ${left.length - chosen} of them have no results at ${threads.value} threads and stay as they are.` : "";
    shown.textContent = `${left.length} of ${charts.length} operations.${lacking}`;
    printed.textContent = `Printed are ${Math.min(PAPER, left.length)} of ${charts.length} operations${left.length > PAPER ? ", the worst first: filter for others" : ""}.`;
    printed.hidden = left.length <= PAPER;
  };

  const filter = () => {
    const text = named.value.trim().toLowerCase();
    const fits = wanted[which()];
    for (const chart of charts) chart.figure.hidden = !(fits(chart) && chart.words.includes(text));
    for (const one of medians.values()) one.show(one.numbers.filter(number => isShown(charts[number])));
    for (const section of all(".benchmark")) section.hidden = !section.querySelector("figure:not([hidden])");
    updateCounts();
  };

  const configure = () => {
    for (const chart of charts) {
      const at = chart.options.findIndex(one => (threads.value ? one.dataset.threads === threads.value : one.defaultSelected));
      if (at < 0 || at === Number(chart.select.value)) continue;
      chart.select.value = at;
      if (chart.width) chart.draw();
    }
    updateCounts();
  };

  const shorten = () => {
    page.since = Number(since.value);
    for (const chart of charts) if (chart.width) chart.draw();
  };

  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target?.hidden) return;
    named.value = "";
    document.querySelector("input[name=which][value=all]").checked = true;
    filter();
    target.scrollIntoView();
  };

  let waiting = 0;
  const resized = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const chart of charts) if (chart.width && isShown(chart)) drawn(chart);
      for (const heat of heats.values()) if (heat.width) heat.draw();
    }, 120);
  };

  const paper = () => {
    const left = charts.filter(isShown).sort((one, other) => one.figure.dataset.rank - other.figure.dataset.rank);
    left.forEach((chart, at) => {
      chart.figure.classList.toggle("unprinted", at >= PAPER);
      if (at < PAPER) drawn(chart);
    });
    for (const section of all(".benchmark"))
      section.classList.toggle("unprinted", !section.querySelector("figure:not([hidden]):not(.unprinted)"));
    for (const heat of heats.values()) heat.draw();
    for (const one of medians.values()) one.print();
  };

  // charts are in the order of the report's numbers
  charts.sort((one, other) => one.number - other.number);
  document.documentElement.classList.add("scripted");
  document.getElementById("prefix").textContent = page.prefix && `The axes show version names without \u201c${page.prefix}\u201d.`;
  named.addEventListener("input", filter);
  for (const radio of all("input[name=which]")) radio.addEventListener("change", filter);
  threads.addEventListener("change", configure);
  since?.addEventListener("change", shorten);
  addEventListener("hashchange", reveal);
  addEventListener("resize", resized);
  addEventListener("beforeprint", paper);
  filter();
  reveal();
  for (const target of [...byFigure.keys(), ...heats.keys(), ...medians.keys()]) near.observe(target);
  performance.mark("timelines-ready");
})(timelines);
