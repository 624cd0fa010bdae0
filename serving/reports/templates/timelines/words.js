"use strict";
// Texts of numbers, changes and verdicts.
(page => {
  const minus = text => text.replace("-", "\u2212");
  page.verdicts = ["not judged", "pass", "unsure", "fail", "invalid"];
  page.UNSURE = 2;
  page.FAIL = 3;
  page.INVALID = 4;

  // four significant digits, or all digits before the decimal point
  page.amount = value => {
    if (!Number.isFinite(value)) return "\u2013";
    const whole = value ? Math.floor(Math.log10(Math.abs(value))) : 0;
    const digits = Math.min(20, Math.max(0, 3 - whole));
    return minus(value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  };

  page.day = date => date.slice(0, 16).replace("T", " ");

  page.percent = share => `${(100 * share).toFixed(1)}\u00a0%`;

  // as a share, positive is worse
  page.loss = (operation, now, before) => (operation.better === "lower" ? now / before - 1 : 1 - now / before);

  page.moved = loss => {
    const much = page.percent(Math.abs(loss));
    if (Math.abs(loss) < 0.0005) return "as the baseline";
    return `${much} ${loss > 0 ? "worse" : "better"} than the baseline`;
  };

  const shared = names => {
    let length = 0;
    while (names.every(name => length < name.length && name[length] === names[0][length])) length++;
    const common = names[0].slice(0, length);
    return names.length < 2 ? 0 : Math.max(...[..."-_ /"].map(mark => common.lastIndexOf(mark))) + 1;
  };
  page.prefix = page.versions.length ? page.versions[0].name.slice(0, shared(page.versions.map(one => one.name))) : "";

  page.short = (name, most = 14) => {
    const rest = name.slice(page.prefix.length);
    return rest.length > most ? `${rest.slice(0, most - 5)}\u2026${rest.slice(-4)}` : rest;
  };

  page.isMarked = (operation, version) =>
    [operation.beside[version], operation.before[version]].some(mark => mark === page.UNSURE || mark === page.FAIL);

  // text and symbol of a mark in a chart or cell; `kind` selects its style
  page.mark = (operation, version) => {
    const { beside, before } = operation;
    if (before[version] === page.FAIL) return { kind: "fail", glyph: "\u25bc", text: "fail, began here" };
    if (beside[version] === page.FAIL) return { kind: "fail", glyph: "\u25ac", text: "fail, still worse than the baseline" };
    if (before[version] === page.UNSURE || beside[version] === page.UNSURE)
      return { kind: "unsure", glyph: "\u25c7", text: "unsure" };
    if (beside[version] === page.INVALID) return { kind: "invalid", glyph: "\u00d7", text: "cannot be judged" };
    return null;
  };

  page.verdictText = mark => (mark === page.INVALID ? "cannot be judged" : page.verdicts[mark]);

  const judged = (operation, version) => {
    const { beside, before, probability } = operation;
    const lines = [];
    if (beside[version]) {
      const likely = probability[version] === null ? "" : `, a regression with ${(probability[version] / 10).toFixed(1)}\u00a0%`;
      lines.push(`Beside the baseline: ${page.verdictText(beside[version])}${likely}`);
    }
    if (before[version]) {
      const began = before[version] === page.FAIL ? ", began here" : "";
      lines.push(`Beside the versions before: ${page.verdictText(before[version])}${began}`);
    }
    return lines;
  };

  page.changed = (operation, change) => {
    const [first, last] = [page.versions[change.first].name, page.versions[change.last].name];
    const when = first === last ? `with ${first}` : `from ${first} to ${last}`;
    const crept = change.kind === "creep" ? "crept " : "";
    const much = `${page.percent(Math.abs(change.share))} ${change.share < 0 ? "worse" : "better"}`;
    return `${crept}${much} ${when}${operation.threads.length > 1 ? ` (threads:\u00a0${change.threads})` : ""}`;
  };

  // lines of the tip of a version
  page.lines = (operation, chosen, version) => {
    const [low, q1, median, q3, high] = operation.five(chosen, version);
    const base = operation.five(chosen, page.baseline)[2];
    const lines = [];
    if (Number.isNaN(median)) lines.push(`No result (threads: ${operation.threads[chosen]})`);
    else {
      const isBase = version === page.baseline;
      const beside = isBase ? ", the baseline" : Number.isFinite(base) ? `, ${page.moved(page.loss(operation, median, base))}` : "";
      lines.push(`Median ${page.amount(median)} ${operation.unit}${beside}`);
      lines.push(`Quartiles ${page.amount(q1)} and ${page.amount(q3)}`);
      lines.push(`Minimum ${page.amount(low)}, maximum ${page.amount(high)}`);
    }
    const reasons = operation.words[version];
    const within = operation.changes.filter(change => change.first <= version && version <= change.last);
    return [
      ...lines,
      ...judged(operation, version),
      ...within.map(change => `Lasting change: ${page.changed(operation, change)}`),
      ...(reasons ? [`Reasons: ${reasons.join("; ")}`] : []),
    ];
  };
})(timelines);
