{
  const { root, part, label, show, load, keys, say, person } = labelling;
  // how many are fetched ahead, and after how many labels the order is asked for again
  const AHEAD = 3, EVERY = 5;
  const list = [], articles = new Map(), done = new Set();
  let at = 0, first = 0, left = 0, learnt = 0, since = 0, asking = false;

  const article = one => {
    if (!articles.has(one.href)) articles.set(one.href, load(one.href).catch(problem => { articles.delete(one.href); throw problem; }));
    return articles.get(one.href);
  };
  const current = () => part("stage").querySelector("article.comparison");

  async function ask(anew = false) {
    if (asking) return;
    asking = true;
    try {
      const query = new URLSearchParams({ by: person(), ...(anew ? { anew: "" } : {}) });
      const answer = await fetch(`/comparisons/queue?${query}`);
      if (answer.status !== 200) {
        part("count").textContent = `${(await answer.json()).detail} …`;
        setTimeout(() => ask(anew), 700);
        return;
      }
      take(await answer.json());
    } catch {
      part("count").textContent = "the server does not answer; trying again";
      setTimeout(() => ask(anew), 3000);
    } finally {
      asking = false;
    }
  }
  // what was shown, and what comes at once, stays; the rest is taken in the new order
  function take(queue) {
    const skipped = list.filter(one => one.skipped && !done.has(one.id));
    list.length = Math.min(list.length, Math.max(first, at + (list.length ? 2 : 0)));
    const known = new Set([...list, ...skipped].map(one => one.id));
    list.push(...queue.comparisons.filter(one => !known.has(one.id) && !done.has(one.id)), ...skipped.filter(one => !list.includes(one)));
    left = queue.left;
    learnt = queue.learnt;
    since = 0;
    stage();
  }
  function count() {
    part("count").textContent = `${done.size} labelled on this page, ${Math.max(0, left - since)} left; the order is learnt from ${learnt} ${learnt === 1 ? "label" : "labels"}`;
  }
  async function stage() {
    count();
    const one = list[at], place = part("stage");
    first = Math.max(first, at + 1);
    part("back").disabled = at === 0;
    part("forth").disabled = part("skip").disabled = !one;
    if (!one) {
      place.replaceChildren(Object.assign(document.createElement("p"), { className: "lead", textContent: "Nothing is left to label. Thank you!" }));
      return;
    }
    if (current()?.dataset.id === one.id) return;
    try {
      const found = await article(one);
      if (list[at] !== one) return;
      place.replaceChildren(found);
      show(found);
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
    if (!one || element.dataset.id !== one.id || !await label(element, status) || status === null) return;
    if (!done.has(one.id)) since += 1;
    done.add(one.id);
    go(at + 1);
    if (since >= EVERY || list.length - at < AHEAD) ask();
  }
  function skip() {
    const one = list[at];
    if (!one) return;
    list.splice(at, 1);
    list.push(Object.assign(one, { skipped: true }));
    say(`skipped: ${one.name}; it comes again at the end`);
    stage();
  }
  // what was fetched before does not say what was labelled since
  root.addEventListener("kept", event => articles.delete(list.find(one => one.id === event.detail.id)?.href));
  root.addEventListener("undone", event => {
    const place = list.findIndex(one => one.id === event.detail.id);
    if (event.detail.before === null && done.delete(event.detail.id)) since -= 1;
    if (place >= 0) go(place);
  });
  for (const [id, act] of [["back", () => go(at - 1)], ["forth", () => go(at + 1)], ["skip", skip], ["anew", () => ask(true)]])
    part(id).addEventListener("click", act);
  keys({ current, choose, more: { s: skip, j: () => go(at + 1), k: () => go(at - 1) } });
  ask();
}
