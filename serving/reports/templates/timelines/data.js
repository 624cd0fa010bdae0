"use strict";
// The data in the page, decoded when needed.
const timelines = {};

(page => {
  const parsed = id => JSON.parse(document.getElementById(id).textContent);

  // little-endian, as on all machines with browsers
  const floats = text => {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
    return new Float32Array(bytes.buffer);
  };

  const once = make => {
    const kept = new Map();
    return number => {
      if (!kept.has(number)) kept.set(number, make(number));
      return kept.get(number);
    };
  };

  page.shared = parsed("shared");
  page.versions = page.shared.versions.map(([name, date, href]) => ({ name, date, href }));
  page.baseline = page.shared.baseline;
  // the first version in charts; a control hides older ones
  page.since = 0;
  page.inSight = () => d3.range(page.since, page.versions.length);

  page.operation = once(number => {
    const read = parsed(`data-${number}`);
    const five = floats(read.five);
    const marks = text => Uint8Array.from(text, Number);
    return {
      ...read,
      beside: marks(read.beside),
      before: marks(read.before),
      changes: read.changes.map(([kind, first, last, share, threads]) => ({ kind, first, last, share, threads })),
      // minimum, quartiles and maximum of a version at a configuration
      five: (chosen, version) => {
        const start = 5 * (chosen * page.versions.length + version);
        return five.subarray(start, start + 5);
      },
    };
  });

  page.heat = once(number => {
    const read = parsed(`heat-data-${number}`);
    return { ...read, seconds: floats(read.seconds), values: floats(read.values) };
  });
})(timelines);
