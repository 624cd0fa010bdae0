{
  const { root, part, label, show, load, keys, soon, seesAll, say } = labelling;
  // number of comparisons to fetch in advance, and of labels after which the order is requested again
  const AHEAD = 3, EVERY = 5;
  const list = [], articles = new Map();
  // comparisons answered on this page: now, and at the server's last count of those left
  const done = new Set();
  let before = new Set(), at = 0, first = 0, left = 0, learnt = 0, asking = false;

  const article = one => {
    if (!articles.has(one.href)) articles.set(one.href, load(one).catch(problem => { articles.delete(one.href); throw problem; }));
    return articles.get(one.href);
  };
  const current = () => part("stage").querySelector("article.comparison");
  const since = () => done.size - before.size;

  // `soon` sends earlier labels first, so that the server counts them, and no later ones
  function ask(anew = false) {
    if (asking) return;
    asking = true;
    soon(async () => {
      const again = (text, delay) => {
        part("count").textContent = text;
        setTimeout(() => ask(anew), delay);
      };
      try {
        const answered = new Set(list.filter(one => one.kept).map(one => one.comparison));
        const answer = await fetch(`/comparisons/queue${anew ? "?anew" : ""}`);
        if (answer.status !== 200) return again(`${(await answer.json()).detail} …`, 700);
        before = answered;
        take(await answer.json());
      } catch {
        again("the server does not answer; trying again", 3000);
      } finally {
        asking = false;
      }
    });
  }
  // comparisons up to the next one keep their places; the others get the new order
  function take(queue) {
    const skipped = list.filter(one => one.skipped && !done.has(one.comparison));
    list.length = Math.min(list.length, Math.max(first, at + (list.length ? 2 : 0)));
    const known = new Set([...list, ...skipped].map(one => one.comparison));
    list.push(...queue.comparisons.filter(one => !known.has(one.comparison) && !done.has(one.comparison)), ...skipped.filter(one => !list.includes(one)));
    left = queue.left;
    learnt = queue.learnt;
    stage();
  }
  function count() {
    part("count").textContent = `${done.size} answered on this page, ${Math.max(0, left - since())} left; the order is learnt from ${learnt} ${learnt === 1 ? "label" : "labels"}`;
    part("forth").classList.toggle("first", Boolean(current()?.dataset.own));
  }
  async function stage() {
    count();
    const one = list[at], place = part("stage");
    first = Math.max(first, at + 1);
    part("back").disabled = at === 0;
    part("forth").disabled = part("skip").disabled = !one;
    place.setAttribute("aria-busy", String(Boolean(one) && current()?.dataset.comparison !== one.comparison));
    if (!one) {
      place.replaceChildren(Object.assign(document.createElement("p"), { className: "lead", textContent: "Nothing is left to label. Thank you!" }));
      return;
    }
    if (current()?.dataset.comparison === one.comparison) return;
    try {
      const found = await article(one);
      if (list[at] !== one) return;
      place.replaceChildren(show(found));
      place.setAttribute("aria-busy", "false");
      count();
      scrollTo({ top: Math.min(scrollY, place.offsetTop - 8) });
    } catch (problem) {
      place.textContent = `${one.name} cannot be shown now: ${problem.message}.`;
      setTimeout(() => { if (list[at] === one) stage(); }, 2000);
    }
    for (const ahead of list.slice(at + 1, at + 1 + AHEAD)) article(ahead).catch(() => {});
  }
  function go(to) {
    at = Math.min(Math.max(to, 0), list.length);
    stage();
  }
  async function choose(element, status) {
    const one = list[at];
    if (!one || element.dataset.comparison !== one.comparison || !await label(element, status) || status === null) return;
    // without `seesAll`, verdict and versions are shown now, and a key continues
    if (seesAll()) go(at + 1);
    if (Math.abs(since()) >= EVERY || list.length - at < AHEAD) ask();
  }
  function skip() {
    const one = list[at];
    if (!one) return;
    list.splice(at, 1);
    list.push(Object.assign(one, { skipped: true }));
    say(`skipped: ${one.name}; it appears again at the end`);
    stage();
  }
  const listed = comparison => list.find(one => one.comparison === comparison);
  root.addEventListener("marked", event => {
    const { comparison, status } = event.detail;
    if (listed(comparison)) done[status ? "add" : "delete"](comparison);
    count();
  });
  // articles fetched earlier do not have the new label
  root.addEventListener("kept", event => {
    articles.delete(event.detail.href);
    const one = listed(event.detail.comparison);
    if (one) one.kept = event.detail.status !== null;
  });
  root.addEventListener("undone", event => {
    const place = list.indexOf(listed(event.detail.comparison));
    if (place >= 0) go(place);
    else ask();
  });
  for (const [id, act] of [["back", () => go(at - 1)], ["forth", () => go(at + 1)], ["skip", skip], ["anew", () => ask(true)]])
    part(id).addEventListener("click", act);
  keys({ current, choose, more: { s: skip, j: () => go(at + 1), k: () => go(at - 1), Enter: () => { if (current()?.dataset.own) go(at + 1); } } });
  ask();
}
