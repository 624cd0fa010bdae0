"use strict";
// Samples per core or node over time: dark is low, light is high, unknown values are blank.
(page => {
  const TOP = 40;
  const BOTTOM = 36;
  const RIGHT = 12;
  const LETTER = 6.6;
  const LEGEND = 160;

  const painted = (heat, colour) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [heat.seconds.length, heat.rows.length];
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    heat.values.forEach((value, at) => {
      if (Number.isNaN(value)) return;
      const { r, g, b } = d3.rgb(colour(value));
      image.data.set([r, g, b, 255], 4 * at);
    });
    context.putImageData(image, 0, 0);
    return canvas;
  };

  const legend = (svg, heat, [low, high], colour, left) => {
    for (let at = 0; at < LEGEND; at += 4)
      svg.append("rect").attr("x", left + at).attr("y", 6).attr("width", 4.2).attr("height", 10)
        .attr("fill", colour(low + ((high - low) * at) / (LEGEND - 4)));
    svg.append("text").attr("class", "tick").attr("x", left).attr("y", 30).text(page.amount(low));
    svg.append("text").attr("class", "tick end").attr("x", left + LEGEND).attr("y", 30).text(page.amount(high));
    svg.append("text").attr("class", "tick").attr("x", left + LEGEND + 8).attr("y", 15).text(heat.unit);
  };

  const walked = (heat, left, width, tall, height) => {
    const [rows, times] = [heat.rows.length, heat.seconds.length];
    const clamp = (value, most) => Math.max(0, Math.min(most, value));
    const wide = (width - left - RIGHT) / times;
    const cell = (row, time) => row * times + time;
    const [rowOf, timeOf] = [at => Math.floor(at / times), at => at % times];
    const keys = {
      ArrowRight: at => cell(rowOf(at), clamp(timeOf(at) + 1, times - 1)),
      ArrowLeft: at => cell(rowOf(at), clamp(timeOf(at) - 1, times - 1)),
      ArrowDown: at => cell(clamp(rowOf(at) + 1, rows - 1), timeOf(at)),
      ArrowUp: at => cell(clamp(rowOf(at) - 1, rows - 1), timeOf(at)),
      Home: at => cell(rowOf(at), 0),
      End: at => cell(rowOf(at), times - 1),
    };
    return {
      start: 0,
      at: (x, y) => cell(clamp(Math.floor((y - TOP) / tall), rows - 1), clamp(Math.floor((x - left) / wide), times - 1)),
      key: (name, at) => (keys[name] ? keys[name](at) : null),
      head: at => ({ name: heat.rows[rowOf(at)], date: "" }),
      lines: at => [
        `${page.amount(heat.seconds[timeOf(at)])} seconds`,
        Number.isNaN(heat.values[at]) ? "Not known" : `${page.amount(heat.values[at])} ${heat.unit}`,
      ],
      where: at => ({ x: left + (timeOf(at) + 0.5) * wide, y: TOP + (rowOf(at) + 0.5) * tall }),
      cursor: at => {
        const [x, y] = [left + timeOf(at) * wide, TOP + rowOf(at) * tall];
        return `M${x} ${TOP}V${height - BOTTOM}M${left} ${y + tall / 2}H${width - RIGHT}`;
      },
    };
  };

  page.drawHeat = (figure, number) => {
    const heat = page.heat(number);
    const plot = figure.querySelector(".plot");
    plot.textContent = "";
    const width = Math.max(240, plot.clientWidth);
    const tall = Math.max(3, Math.min(18, 360 / heat.rows.length));
    const height = TOP + BOTTOM + tall * heat.rows.length;
    const names = heat.rows.map(name => (name.length > 12 ? `${name.slice(0, 11)}\u2026` : name));
    const left = 14 + LETTER * d3.max(names, name => name.length);
    const extent = d3.extent(heat.values.filter(Number.isFinite));
    const stops = d3.range(page.shared.colours.length).map(at => extent[0] + ((extent[1] - extent[0]) * at) / (page.shared.colours.length - 1));
    const colour = d3.scale.linear().domain(stops).range(page.shared.colours).clamp(true);
    const canvas = plot.appendChild(painted(heat, colour));
    const share = (part, of) => `${(100 * part) / of}%`;
    Object.assign(canvas.style, {
      left: share(left, width), top: share(TOP, height), width: share(width - left - RIGHT, width), height: share(height - TOP - BOTTOM, height),
    });
    const svg = d3.select(plot).append("svg").attr("class", "timeline").attr("viewBox", `0 0 ${width} ${height}`).attr("aria-hidden", "true");
    if (extent[0] !== undefined) legend(svg, heat, extent, colour, left);
    const every = Math.ceil(12 / tall);
    names.forEach((name, at) => {
      if (at % every) return;
      svg.append("text").attr("class", "tick y").attr("x", left - 6).attr("y", TOP + (at + 0.5) * tall + 4).text(name).append("title").text(heat.rows[at]);
    });
    const x = d3.scale.linear().domain(d3.extent(heat.seconds)).range([left, width - RIGHT]);
    for (const tick of x.ticks(Math.max(2, Math.floor(width / 120))))
      svg.append("text").attr("class", "tick x middle").attr("x", Math.min(x(tick), width - RIGHT - 10)).attr("y", height - BOTTOM + 16).text(x.tickFormat(5, ",f")(tick));
    svg.append("text").attr("class", "tick x end").attr("x", width - RIGHT).attr("y", height - 4).text("seconds");
    svg.append("path").attr("class", "cursor");
    return walked(heat, left, width, tall, height);
  };
})(timelines);
