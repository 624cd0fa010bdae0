"use strict";
// The chart of an operation: a box per version, lines of the baseline, verdicts and changes.
(page => {
  const HEIGHT = 270;
  const TOP = 44;
  const BOTTOM = 40;
  const STRIP = 8;
  const NEAR = 0.05;
  const DENSE = 5;
  // width of a letter on the axes, in pixels
  const LETTER = 6.6;

  const span = (operation, chosen) => {
    const all = page.inSight().flatMap(version => Array.from(operation.five(chosen, version)));
    const base = operation.five(chosen, page.baseline)[2];
    return d3.extent([...all, base * (1 - NEAR), base * (1 + NEAR)].filter(Number.isFinite));
  };

  const kindOf = (operation, version) => {
    const mark = page.mark(operation, version);
    return mark && mark.kind !== "invalid" ? mark.kind : "";
  };

  // one path instead of an element per line, as a page has hundreds of thousands of boxes
  const boxes = (layer, known, { operation, chosen, x, y, step }) => {
    const half = Math.max(0.6, Math.min(9, step * 0.34));
    // narrow boxes are drawn lightly, with their medians joined to a line
    const dense = step < DENSE ? " dense" : "";
    const shown = number => number.toFixed(2);
    for (const [kind, versions] of d3.entries(d3.nest().key(at => kindOf(operation, at)).map(known)).map(one => [one.key, one.value])) {
      const lines = { five: "", median: "" };
      let filled = "";
      for (const version of versions) {
        const [low, q1, median, q3, high] = Array.from(operation.five(chosen, version), value => shown(y(value)));
        const [left, middle, right] = [-half, 0, half].map(by => shown(x(version) + by));
        const [from, to] = dense ? [-step / 2, step / 2].map(by => shown(x(version) + by)) : [left, right];
        const cap = half > 2 ? `M${left} ${low}H${right}M${left} ${high}H${right}` : "";
        lines.five += `M${middle} ${low}V${q1}M${middle} ${q3}V${high}${cap}`;
        filled += `M${left} ${q1}H${right}V${q3}H${left}Z`;
        lines.median += `M${from} ${median}H${to}`;
      }
      layer.append("path").attr("class", `five ${kind}${dense}`).attr("d", lines.five);
      layer.append("path").attr("class", `five box ${kind}${dense}`).attr("d", filled);
      layer.append("path").attr("class", `median ${kind}`).attr("d", lines.median);
    }
  };

  const baseline = (layer, base, { y, width, left, right }) => {
    if (!Number.isFinite(base)) return;
    const apart = Math.abs(y(base * (1 + NEAR)) - y(base)) > 11;
    for (const [by, text] of [[0, "base"], [NEAR, "+5\u00a0%"], [-NEAR, "\u22125\u00a0%"]]) {
      const at = y(base * (1 + by));
      layer.append("path").attr("class", by ? "base near" : "base").attr("d", `M${left} ${at}H${width - right}`);
      if (apart || !by) layer.append("text").attr("class", "side").attr("x", width - right + 4).attr("y", at + 4).text(text);
    }
  };

  const changes = (layer, { operation, chosen, x, step, height, width, left, right }) => {
    let free = 0;
    const inSight = operation.changes.filter(change => change.last >= page.since);
    for (const change of inSight.sort((one, other) => one.first - other.first)) {
      const kind = change.share < 0 ? "worse" : "better";
      const [from, to] = [Math.max(left, x(change.first) - step / 2), Math.min(width - right, x(change.last) + step / 2)];
      const other = change.threads === operation.threads[chosen] ? "" : " other";
      const wide = Math.max(3, to - from);
      layer.append("rect").attr("class", `change ${kind}${other}`).attr("x", from).attr("y", 20).attr("width", wide)
        .attr("height", height - BOTTOM - 20).append("title").text(page.changed(operation, change));
      layer.append("path").attr("class", `bracket ${kind}${other}`).attr("d", `M${from} 27V20H${from + wide}V27`);
      const text = `${change.kind === "creep" ? "crept " : ""}${page.percent(Math.abs(change.share))} ${kind}`;
      const long = text.length * LETTER;
      const start = Math.max(left, Math.min(width - right - long, (from + to - long) / 2));
      // texts without room here are in the list above the chart
      if (start < free) continue;
      free = start + long + 8;
      layer.append("text").attr("class", `share ${kind}`).attr("x", start).attr("y", 14).text(text);
    }
  };

  const SHAPES = { [page.UNSURE]: "diamond", [page.FAIL]: "triangle-down" };
  const verdicts = (layer, { operation, x, step, height }) => {
    const wide = Math.max(1.2, step * 0.9);
    for (const at of page.inSight()) {
      const version = page.versions[at];
      const [beside, before] = [operation.beside[at], operation.before[at]];
      if (beside >= page.UNSURE) {
        const tall = { [page.FAIL]: STRIP, [page.UNSURE]: STRIP / 2 }[beside] || 2;
        layer.append("rect").attr("class", `beside ${page.verdicts[beside]}`).attr("x", x(at) - wide / 2)
          .attr("y", height - BOTTOM + 4 + STRIP - tall).attr("width", wide).attr("height", tall)
          .append("title").text(`${version.name}: ${page.verdictText(beside)} beside the baseline`);
      }
      if (before === page.UNSURE || before === page.FAIL) {
        const began = before === page.FAIL ? ", began here" : "";
        if (began) layer.append("path").attr("class", "begin").attr("d", `M${x(at)} ${TOP - 8}V${height - BOTTOM}`);
        layer.append("path").attr("class", `began ${page.verdicts[before]}`).attr("transform", `translate(${x(at)},${TOP - 9})`)
          .attr("d", d3.svg.symbol().type(SHAPES[before]).size(before === page.FAIL ? 70 : 34)())
          .append("title").text(`${version.name}: ${page.verdicts[before]} beside the versions before${began}`);
      }
    }
  };

  const axes = (layer, { x, y, width, height, left, right, ticks }) => {
    const format = y.tickFormat(5, ",f");
    for (const tick of ticks) {
      layer.append("path").attr("class", "grid").attr("d", `M${left} ${y(tick)}H${width - right}`);
      layer.append("text").attr("class", "tick y").attr("x", left - 6).attr("y", y(tick) + 4).attr("data-value", tick)
        .text(format(tick).replace("-", "\u2212"));
    }
    let free = 0;
    for (const at of page.inSight()) {
      const version = page.versions[at];
      const text = page.short(version.name);
      const half = (text.length * LETTER) / 2;
      const middle = Math.max(left + half, Math.min(width - half, x(at)));
      if (middle - half < free) continue;
      free = middle + half + 22;
      layer.append("text").attr("class", "tick x middle").attr("x", middle).attr("y", height - 10).text(text)
        .append("title").text(version.name);
    }
    layer.append("path").attr("class", "axis").attr("d", `M${left} ${height - BOTTOM + 1}H${width - right}`);
    if (page.baseline >= page.since) layer.append("circle").attr("class", "baseline").attr("cx", x(page.baseline)).attr("cy", height - BOTTOM + 1).attr("r", 4)
      .append("title").text(`${page.versions[page.baseline].name}: the baseline`);
  };

  const placed = (operation, chosen, width) => {
    const [low, high] = span(operation, chosen);
    const y = d3.scale.linear().domain(low === high ? [low * 0.95, high * 1.05 || 1] : [low, high]).range([HEIGHT - BOTTOM - 6, TOP + 4]);
    const ticks = y.ticks(5);
    const format = y.tickFormat(5, ",f");
    const left = 16 + LETTER * d3.max(ticks, tick => format(tick).length);
    const right = 38;
    const step = (width - left - right) / page.inSight().length;
    const x = version => left + (version - page.since + 0.5) * step;
    return { operation, chosen, width, height: HEIGHT, left, right, step, x, y, ticks };
  };

  const walked = place => {
    const { operation, chosen, x, y, step, left } = place;
    const [first, last] = [page.since, page.versions.length - 1];
    const marked = page.inSight().filter(at => page.isMarked(operation, at));
    const keys = {
      ArrowRight: at => Math.min(last, at + 1),
      ArrowLeft: at => Math.max(first, at - 1),
      ArrowUp: at => marked.find(one => one > at) ?? at,
      ArrowDown: at => marked.findLast(one => one < at) ?? at,
      PageUp: at => Math.min(last, at + 10),
      PageDown: at => Math.max(first, at - 10),
      Home: () => first,
      End: () => last,
    };
    const mid = at => operation.five(chosen, at)[2];
    return {
      start: Math.max(first, page.baseline),
      at: offset => Math.max(first, Math.min(last, first + Math.floor((offset - left) / step))),
      key: (name, at) => (keys[name] ? keys[name](at) : null),
      head: at => page.versions[at],
      lines: at => page.lines(operation, chosen, at),
      where: at => ({ x: x(at), y: Number.isNaN(mid(at)) ? HEIGHT / 2 : y(mid(at)) }),
      cursor: at => `M${x(at)} ${TOP}V${HEIGHT - BOTTOM}`,
    };
  };

  page.draw = (figure, number, chosen) => {
    const operation = page.operation(number);
    const plot = figure.querySelector(".plot");
    plot.textContent = "";
    const svg = d3.select(plot).append("svg").attr("class", "timeline").attr("aria-hidden", "true");
    const width = Math.max(240, plot.clientWidth);
    svg.attr("viewBox", `0 0 ${width} ${HEIGHT}`).attr("data-threads", operation.threads[chosen]);
    const known = page.inSight().filter(at => !Number.isNaN(operation.five(chosen, at)[2]));
    if (!known.length) {
      svg.append("text").attr("class", "side").attr("x", 12).attr("y", 60).text(`No result (threads: ${operation.threads[chosen]})`);
      return null;
    }
    const place = placed(operation, chosen, width);
    changes(svg, place);
    axes(svg, place);
    baseline(svg, operation.five(chosen, page.baseline)[2], place);
    boxes(svg, known, place);
    verdicts(svg, place);
    svg.append("path").attr("class", "cursor");
    return walked(place);
  };
})(timelines);
