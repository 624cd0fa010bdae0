"use strict";
// Send labels to the server, and show them on the pages.
const labelling = (() => {
  const root = document.getElementById("labelling");
  const part = id => document.getElementById(id);

  // storage of the browser; if it is forbidden or full, nothing is stored
  const recall = (store, key, otherwise) => {
    try { return JSON.parse(store.getItem(`perfjudge.${key}`)) ?? otherwise; } catch { return otherwise; }
  };
  const remember = (store, key, value) => {
    try { store.setItem(`perfjudge.${key}`, JSON.stringify(value)); } catch { /* forbidden or full */ }
  };

  // cookies that the server reads as well: pages depend on the person
  const cookie = name => decodeURIComponent(document.cookie.split("; ").find(one => one.startsWith(`perfjudge.${name}=`))?.slice(11 + name.length) ?? "");
  const YEAR = 365 * 24 * 3600;
  const setCookie = (name, value) => { document.cookie = `perfjudge.${name}=${encodeURIComponent(value)}; path=/comparisons; max-age=${value ? YEAR : 0}; samesite=lax`; };

  const say = text => { part("message").textContent = text; };
  const person = () => root.dataset.person || cookie("name");
  const seesAll = () => root.dataset.seesAll !== undefined;
  const words = status => status.replace("_", " ");

  // ---- comparisons whose verdict the person has seen: all on a shown page ----
  const KNOWN = 5000;
  const knows = comparison => recall(localStorage, `saw.${person()}`, []).includes(comparison);
  function see(elements) {
    const seen = elements.filter(one => one.dataset.verdict).map(one => one.dataset.comparison);
    if (!seen.length) return;
    const every = new Set([...recall(localStorage, `saw.${person()}`, []), ...seen]);
    remember(localStorage, `saw.${person()}`, [...every].slice(-KNOWN));
  }

  // ---- name of the person ----
  function introduce() {
    const name = person();
    part("me").textContent = name ? `You label as ${name}. ` : "";
    if (!name || root.dataset.person) return;
    const other = document.createElement("button");
    other.type = "button";
    other.className = "plain";
    other.textContent = "Not you?";
    // the page depends on the person; unsent labels are sent first
    other.addEventListener("click", () => asked(true).then(now => { if (now !== name) soon(() => location.reload()); }));
    part("me").append(other);
  }
  function asked(anew = false) {
    if (person() && !anew) return Promise.resolve(person());
    const dialog = part("who"), field = part("who-name");
    field.value = person();
    dialog.returnValue = "";
    return new Promise(resolve => {
      dialog.addEventListener("close", () => {
        const name = field.value.trim();
        if (dialog.returnValue === "ok" && name && name !== person()) {
          const before = recall(localStorage, "saw.", []);
          setCookie("name", name);
          if (!anew) remember(localStorage, `saw.${name}`, [...recall(localStorage, `saw.${name}`, []), ...before]);
          introduce();
        }
        resolve(person());
      }, { once: true });
      dialog.showModal();
    });
  }

  // ---- sending: one label after the other, each with its own key, again until it is acknowledged ----
  const SOON = 500, LATE = 8000;
  const waiting = [], changes = new Map();
  let busy = false, wake = () => {};
  const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, "0")).join("");
  const pause = ms => new Promise(resolve => { wake = resolve; setTimeout(resolve, ms); });

  function worry(text) {
    part("unsent").hidden = !text;
    part("unsent").textContent = text;
  }
  // a restarted server has another token; until it has read its comparisons, it returns no page
  async function refreshed() {
    const page = new DOMParser().parseFromString(await (await fetch(location.href, { headers: { accept: "text/html" } })).text(), "text/html");
    const found = page.getElementById("labelling")?.dataset.csrf, before = root.dataset.csrf;
    if (found !== undefined) root.dataset.csrf = found;
    return found !== before;
  }
  async function attempt(one) {
    const answer = await fetch(`/v1/labels/${one.comparison}`, {
      method: "PUT",
      headers: { "content-type": "application/json", "x-csrf-token": root.dataset.csrf },
      body: JSON.stringify({ status: one.status, key: one.key, saw_verdict: one.saw, ...(root.dataset.person ? {} : { labelled_by: one.by }) }),
    });
    if (answer.ok) return { kept: true };
    const problem = (await answer.json().catch(() => ({}))).detail ?? `the server answers ${answer.status}`;
    if (answer.status === 403 && await refreshed()) return { again: 0, problem };
    if (answer.status === 409) {
      one.key = newKey();
      return { again: 0, problem };
    }
    if (answer.status === 408 || answer.status === 429 || answer.status >= 500)
      return { again: 1000 * Number(answer.headers.get("retry-after") ?? 0), problem };
    return { refused: problem };
  }
  async function pump() {
    if (busy) return;
    busy = true;
    let delay = SOON;
    while (waiting.length) {
      const one = waiting[0];
      if (one.act) {
        waiting.shift();
        await one.act();
        continue;
      }
      const found = await attempt(one).catch(() => ({ again: 0, problem: "the server does not answer" }));
      if (found.again !== undefined) {
        const many = unkept() === 1 ? "1 label is" : `${unkept()} labels are`;
        worry(`${many} not kept yet (${found.problem}): trying again. Leave this page open.`);
        await pause(Math.max(delay, found.again));
        delay = Math.min(2 * delay, LATE);
        continue;
      }
      delay = SOON;
      waiting.shift();
      worry(found.kept ? "" : `Not kept: ${one.status ? words(one.status) : "withdrawal"} of ${one.name}. ${found.refused}`);
      changes.set(one.comparison, (changes.get(one.comparison) ?? 0) + 1);
      root.dispatchEvent(new CustomEvent("kept", { detail: one }));
      refresh(one);
    }
    busy = false;
  }
  const unkept = () => waiting.filter(one => !one.act).length;
  // `act` runs after all earlier labels are stored, and before later ones are sent
  function soon(act) {
    waiting.push({ act });
    pump();
  }
  window.addEventListener("online", () => wake());
  window.addEventListener("beforeunload", event => { if (unkept()) event.preventDefault(); });

  // ---- labelling ----
  const UNDONE = 200;
  const given = () => recall(sessionStorage, "given", []);
  const all = comparison => [...root.querySelectorAll("[data-comparison]")].filter(element => element.dataset.comparison === comparison);
  const phrase = status => status === "cannot_tell" ? "cannot tell" : `labelled ${status}`;

  function send(one) {
    const label = { ...one, saw: knows(one.comparison), key: newKey() };
    waiting.push(label);
    mark(label);
    pump();
  }
  async function label(element, status) {
    const button = element.querySelector(".choice");
    if (!button || button.disabled) return false;
    const stranger = !person(), by = await asked();
    if (!by) return false;
    // a person who has just given a name may have labelled earlier
    if (stranger) await Promise.all([...root.querySelectorAll("[data-comparison]")].filter(one => ofPerson(one, by)).map(one => refresh(one.dataset)));
    const { comparison, name, href } = element.dataset;
    const before = all(comparison)[0]?.dataset.own || null;
    if (before === status) {
      say(status ? `${name}: ${phrase(status)} already` : `${name} is not labelled`);
      return status !== null;
    }
    remember(sessionStorage, "given", [...given(), { comparison, name, href, before, by }].slice(-UNDONE));
    const message = status ? `${phrase(status)}: ${name} (undo: u)` : `withdrawn: ${name} (undo: u)`;
    say(message);
    send({ comparison, name, href, status, by, message });
    part("undo").disabled = false;
    return true;
  }
  function undo() {
    const list = given(), last = list.pop();
    if (!last) return say("there is nothing to undo");
    remember(sessionStorage, "given", list);
    part("undo").disabled = !list.length;
    say(last.before ? `undone: ${last.name} is ${phrase(last.before)} again` : `undone: ${last.name} is not labelled any more`);
    send({ ...last, status: last.before });
    root.dispatchEvent(new CustomEvent("undone", { detail: last }));
  }

  // ---- showing: stored labels, and labels that are not sent yet ----
  const ofPerson = (element, by) => [...element.querySelectorAll(".vote")].some(one => one.dataset.by === by);
  function mark({ comparison, status, by }) {
    if (by !== person()) return;
    for (const element of all(comparison)) {
      element.dataset.own = status ?? "";
      element.classList.add("unkept");
      press(element);
    }
    root.dispatchEvent(new CustomEvent("marked", { detail: { comparison, status } }));
  }
  function press(element) {
    for (const button of element.querySelectorAll(".choice"))
      button.setAttribute("aria-pressed", String(button.dataset.status === element.dataset.own));
    const withdraw = element.querySelector(".withdraw");
    if (withdraw) withdraw.hidden = !element.dataset.own;
  }
  const LATER = 2000;
  let refreshing = 0;
  const settled = () => !waiting.length && !refreshing;
  async function refresh({ comparison, href, message }) {
    if (!all(comparison).length) return;
    refreshing += 1;
    try {
      const article = await load({ comparison, href });
      if (waiting.some(one => one.comparison === comparison)) return;
      for (const element of all(comparison)) take(element, article);
      const { verdict, probability, own } = article.dataset;
      root.dispatchEvent(new CustomEvent("marked", { detail: { comparison, status: own || null } }));
      root.dispatchEvent(new CustomEvent("refreshed", { detail: article.querySelector(".where a").textContent }));
      if (verdict && own && message && part("message").textContent === message)
        say(`${message}; the model says ${verdict}${probability ? ` (${probability})` : ""}`);
    } catch {
      setTimeout(() => refresh({ comparison, href, message }), LATER);
    } finally {
      refreshing -= 1;
    }
  }
  // replace an article; in a row of a report, update the differing parts
  function take(element, article) {
    if (element.matches("article")) {
      const fresh = document.importNode(article, true), history = fresh.querySelector(".history");
      if (history && element.querySelector(".history")?.open) history.open = true;
      element.replaceWith(show(fresh));
      return;
    }
    for (const name of ["own", "verdict", "urgency", "probability"]) {
      delete element.dataset[name];
      if (article.dataset[name] !== undefined) element.dataset[name] = article.dataset[name];
    }
    element.classList.remove("unkept");
    element.querySelector(".votes").replaceWith(document.importNode(article.querySelector(".votes"), true));
    const { verdict, probability } = element.dataset;
    const inside = verdict === undefined ? [] : [node("span", `verdict ${verdict}`, verdict || "\u2013")];
    if (probability !== undefined) inside.push(" ", node("small", "", probability));
    element.querySelector(".of-model")?.replaceChildren(...inside);
    press(show(element));
  }
  function node(name, className, ...inside) {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...inside);
    return made;
  }
  // labels that are not sent yet are shown as if they were stored
  function show(element) {
    if (!element) return element;
    const pending = waiting.filter(one => one.comparison === element.dataset.comparison && one.by === person()).pop();
    if (pending) {
      element.dataset.own = pending.status ?? "";
      element.classList.add("unkept");
      press(element);
    }
    see([element]);
    return element;
  }
  // the server's article about a comparison, including all acknowledged labels
  async function load({ comparison, href }) {
    for (;;) {
      const before = changes.get(comparison);
      const answer = await fetch(href, { headers: { accept: "text/html" } });
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (changes.get(comparison) === before) return document.importNode(page.querySelector("article.comparison"), true);
    }
  }

  // ---- keys and buttons ----
  function keys({ current = () => null, choose = label, more = {} }) {
    const chosen = status => () => {
      const element = current();
      if (element) choose(element, status);
    };
    const actions = { p: chosen("pass"), f: chosen("fail"), c: chosen("cannot_tell"), u: undo, "?": help, ...more };
    document.addEventListener("keydown", event => {
      const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing) return;
      if (document.querySelector("dialog[open]")) return;
      // Enter presses a button or link that has the focus
      if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
      const act = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
      // a key that is held down gives one label
      if (!act || (event.repeat && !"jk".includes(event.key))) return;
      event.preventDefault();
      act();
    });
    root.addEventListener("click", event => {
      const button = event.target.closest(".choice, .withdraw");
      if (button) choose(button.closest("[data-comparison]"), button.dataset.status ?? null);
      const peek = event.target.closest(".peek a");
      if (!peek || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      refresh({ comparison: peek.closest("[data-comparison]").dataset.comparison, href: peek.getAttribute("href") });
    });
  }
  const help = () => part("help").showModal();
  part("helping")?.addEventListener("click", help);
  part("undo")?.addEventListener("click", undo);
  part("undo").disabled = !given().length;
  part("hide").addEventListener("change", () => {
    setCookie("show", part("hide").checked ? "" : "all");
    const address = new URL(location.href);
    address.searchParams.delete("show");
    // unsent labels are sent first
    soon(() => location.replace(address));
  });
  introduce();
  // a page in the browser's cache may lack recent labels
  window.addEventListener("pageshow", event => { if (event.persisted) location.reload(); });
  see([...root.querySelectorAll("[data-comparison]")]);

  return { root, part, say, label, show, load, keys, soon, seesAll, unkept, settled };
})();
