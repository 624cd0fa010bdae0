// Returns what is cut off, too small to read, or written over something else; closed parts are looked into.
const found = [], width = window.innerWidth;
const seen = (element) => element.getClientRects().length > 0;
const told = (element) => `${element.tagName} ${element.id || element.className}`.trim();
const wrong = (text, what) => found.push(`${text.textContent} ${what} in ${told(text.closest("figure"))}`);
document.querySelectorAll("details").forEach((part) => { part.open = true; });
const whole = document.documentElement.scrollWidth;
if (whole > width) found.push(`is ${whole} wide`);
for (const element of document.querySelectorAll("body *")) {
  if (element.closest("svg, .swagger-ui") || !seen(element)) continue;
  const clips = getComputedStyle(element).overflowX !== "visible" || element.matches(".box");
  const scrolls = width < 768 && element.matches(".wide-chart[tabindex='0'][aria-label]");
  if (clips && !scrolls && element.scrollWidth > element.clientWidth + 1)
    found.push(`${told(element)} cuts off ${element.scrollWidth - element.clientWidth} pixels`);
}
const apart = (one, other) =>
  one.right <= other.left + 0.5 || other.right <= one.left + 0.5 ||
  one.bottom <= other.top + 1.5 || other.bottom <= one.top + 1.5;
for (const chart of document.querySelectorAll("svg.chart")) {
  if (!seen(chart)) continue;
  const frame = chart.getBoundingClientRect(), scale = frame.width / chart.viewBox.baseVal.width;
  for (const text of chart.querySelectorAll("text")) {
    const box = text.getBoundingClientRect(), size = parseFloat(getComputedStyle(text).fontSize) * scale;
    const across = box.left > frame.left - 2 && box.right < frame.right + 2;
    if (!across || box.top < frame.top - 3 || box.bottom > frame.bottom + 3) wrong(text, "is cut off");
    if (size < 8.9) wrong(text, `has ${size.toFixed(1)} pixels`);
  }
  for (const axes of chart.querySelectorAll("g[id*='-axes_']"))
    for (const side of ["xtick_", "ytick_"]) {
      const ticks = [...axes.querySelectorAll(`g[id*='-${side}']`)];
      const labels = ticks.map((tick) => [...tick.querySelectorAll("text")]);
      const boxes = labels.map((lines) => lines.map((line) => line.getBoundingClientRect()));
      for (let place = 1; place < boxes.length; place++)
        if (boxes[place].some((one) => boxes[place - 1].some((other) => !apart(one, other))))
          wrong(labels[place][0], "lies on its neighbour");
    }
}
return [...new Set(found)];
