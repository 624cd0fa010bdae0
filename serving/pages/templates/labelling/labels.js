"use strict";
// Labels on their way from the person to the store, and what the pages show of them.
const labelling = (() => {
  const root = document.getElementById("labelling");
  const part = id => document.getElementById(id);

  // what this browser remembers; where it may not, nothing is remembered
  const recall = (store, key, otherwise) => {
    try { return JSON.parse(store.getItem(`perfjudge.${key}`)) ?? otherwise; } catch { return otherwise; }
  };
  const remember = (store, key, value) => {
    try { store.setItem(`perfjudge.${key}`, JSON.stringify(value)); } catch { /* there is no room */ }
  };

  const say = text => { part("said").textContent = text; };
  const person = () => root.dataset.person || recall(localStorage, "name", "");

  // ---- who knows the verdict of what ----
  const KNOWN = 5000;
  const knows = id => recall(localStorage, `saw.${person()}`, []).includes(id);
  const see = ids => {
    const all = new Set([...recall(localStorage, `saw.${person()}`, []), ...ids]);
    remember(localStorage, `saw.${person()}`, [...all].slice(-KNOWN));
  };
  const hiding = () => part("hide").checked;
  const shown = element => element.classList.contains("chosen") || !hiding();

  function hideOrShow() {
    root.classList.toggle("verdicts-hidden", hiding());
    for (const element of root.querySelectorAll("[data-id]")) openVerdict(element);
    see([...root.querySelectorAll("[data-id]")].filter(one => one.dataset.verdict && shown(one)).map(one => one.dataset.id));
    root.dispatchEvent(new Event("hiding"));
  }
  function openVerdict(element) {
    const told = element.querySelector(":scope > details.told");
    if (told) told.open = shown(element);
  }

  // ---- who labels ----
  function introduce() {
    const name = person();
    part("me").textContent = name ? `You label as ${name}. ` : "";
    if (!name || root.dataset.person) return;
    const other = document.createElement("button");
    other.type = "button";
    other.className = "plain";
    other.textContent = "Not you?";
    other.addEventListener("click", () => asked(true).then(dress));
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
          own.clear();
          const before = recall(localStorage, "saw.", []);
          remember(localStorage, "name", name);
          if (!anew) see(before);
          introduce();
        }
        resolve(person());
      }, { once: true });
      dialog.showModal();
    });
  }

  // ---- sending: one after the other, each until it is acknowledged, always under its own key ----
  const SOON = 500, LATE = 8000;
  const waiting = [], own = new Map();
  let busy = false, wake = () => {};
  const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, "0")).join("");
  const pause = ms => new Promise(resolve => { wake = resolve; setTimeout(resolve, ms); });

  function worry(text) {
    part("unsent").hidden = !text;
    part("unsent").textContent = text;
  }
  // a server that was started again wants another token; until it has read what it offers, it has no page
  async function refreshed() {
    const page = new DOMParser().parseFromString(await (await fetch(location.href, { headers: { accept: "text/html" } })).text(), "text/html");
    const found = page.getElementById("labelling")?.dataset.csrf, before = root.dataset.csrf;
    if (found !== undefined) root.dataset.csrf = found;
    return found !== before;
  }
  async function attempt(one) {
    const answer = await fetch(`/v1/labels/${encodeURIComponent(one.id)}`, {
      method: "PUT",
      headers: { "content-type": "application/json", "x-csrf-token": root.dataset.csrf },
      body: JSON.stringify({ status: one.status, key: one.key, saw_verdict: one.saw, ...(root.dataset.person ? {} : { labelled_by: one.by }) }),
    });
    if (answer.ok) return { kept: await answer.json() };
    const told = (await answer.json().catch(() => ({}))).detail ?? `the server answers ${answer.status}`;
    if (answer.status === 403 && await refreshed()) return { again: 0, told };
    if (answer.status === 409) {
      one.key = newKey();
      return { again: 0, told };
    }
    if (answer.status === 408 || answer.status === 429 || answer.status >= 500)
      return { again: 1000 * Number(answer.headers.get("retry-after") ?? 0), told };
    return { refused: told };
  }
  async function pump() {
    if (busy) return;
    busy = true;
    let delay = SOON;
    while (waiting.length) {
      const one = waiting[0];
      const found = await attempt(one).catch(() => ({ again: 0, told: "the server does not answer" }));
      if (found.again !== undefined) {
        const many = waiting.length === 1 ? "1 label is" : `${waiting.length} labels are`;
        worry(`${many} not kept yet (${found.told}): trying again. Leave this page open.`);
        await pause(Math.max(delay, found.again));
        delay = Math.min(2 * delay, LATE);
        continue;
      }
      delay = SOON;
      waiting.shift();
      if (found.kept) {
        worry("");
        kept(one, found.kept.history);
      } else {
        worry(`Not kept: ${one.status ?? "withdrawal"} of ${one.name}. ${found.refused}`);
        mark(one.id, one.before);
      }
    }
    busy = false;
  }
  window.addEventListener("online", () => wake());
  window.addEventListener("beforeunload", event => { if (waiting.length) event.preventDefault(); });

  // ---- labelling ----
  const UNDONE = 200;
  const given = () => recall(sessionStorage, "given", []);
  const all = id => [...root.querySelectorAll("[data-id]")].filter(element => element.dataset.id === id);

  function send(id, name, before, status, by) {
    waiting.push({ id, name, before, status, by, saw: knows(id), key: newKey() });
    mark(id, status, true);
    pump();
  }
  async function label(element, status) {
    const { id, name, verdict, probability } = element.dataset;
    const button = element.querySelector(".choice");
    if (!button || button.disabled) return false;
    const by = await asked();
    if (!by) return false;
    const before = element.dataset.own || null;
    if (before === status) {
      say(`${name} is ${status ? `labelled ${status}` : "not labelled"} already`);
      return status !== null;
    }
    remember(sessionStorage, "given", [...given(), { id, name, before, by }].slice(-UNDONE));
    send(id, name, before, status, by);
    const model = verdict && status ? `; the model says ${verdict}${probability ? ` (${probability})` : ""}` : "";
    say(status ? `labelled ${status}: ${name} (undo: u)${model}` : `withdrawn: ${name} (undo: u)`);
    if (verdict) see([id]);
    part("undo").disabled = false;
    return true;
  }
  function undo() {
    const list = given(), last = list.pop();
    if (!last) return say("there is nothing to undo");
    remember(sessionStorage, "given", list);
    part("undo").disabled = !list.length;
    send(last.id, last.name, null, last.before, last.by);
    say(last.before ? `undone: ${last.name} is labelled ${last.before} again` : `undone: ${last.name} is not labelled any more`);
    root.dispatchEvent(new CustomEvent("undone", { detail: last }));
  }

  // ---- showing ----
  function mark(id, status, unkept = false) {
    own.set(id, status);
    for (const element of all(id)) {
      element.dataset.own = status ?? "";
      element.classList.toggle("unkept", unkept);
      if (status) element.classList.add("chosen");
      for (const button of element.querySelectorAll(".choice"))
        button.setAttribute("aria-pressed", String(button.dataset.status === status));
      const withdraw = element.querySelector(".withdraw");
      if (withdraw) withdraw.hidden = !status;
      openVerdict(element);
    }
  }
  function kept(one, history) {
    const last = new Map(history.map(entry => [entry.labelled_by, entry.status]));
    for (const element of all(one.id)) {
      element.classList.remove("unkept");
      const votes = element.querySelector(".votes"), source = votes?.querySelector(".source");
      const now = [...[...last].filter(([, status]) => status).map(vote), ...(source ? [source] : [])];
      votes?.replaceChildren(...now.flatMap(one => [one, " "]));
      const list = element.querySelector("details.history");
      if (list) {
        list.hidden = false;
        list.querySelector(".many").textContent = history.length;
        list.querySelector("ol").replaceChildren(...history.map(entryTold));
      }
    }
    root.dispatchEvent(new CustomEvent("kept", { detail: one }));
  }
  function node(name, className, ...inside) {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...inside);
    return made;
  }
  function vote([by, status]) {
    const made = node("span", by === person() ? "vote me" : "vote", node("b", "", status), ` ${by}`);
    made.dataset.by = by;
    return made;
  }
  function entryTold(entry) {
    const when = entry.labelled_at.slice(0, 19).replace("T", " ");
    const made = node("li", "", `${when} ${entry.labelled_by}: `, node("b", "", entry.status ?? "withdrawn"));
    if (entry.saw_verdict !== null)
      made.append(" ", node("span", "quiet", `(${entry.saw_verdict ? "knowing" : "without knowing"} what the model says)`));
    return made;
  }
  // takes what the server has written for what this person sees
  function show(element) {
    if (!element) return element;
    const mine = [...element.querySelectorAll(".vote[data-by]")].find(one => one.dataset.by === person());
    mine?.classList.add("me");
    const id = element.dataset.id, said = mine?.querySelector("b").textContent ?? null;
    mark(id, own.has(id) ? own.get(id) : said, waiting.some(one => one.id === id));
    if (element.dataset.verdict && shown(element)) see([element.dataset.id]);
    return element;
  }
  function dress() {
    for (const element of root.querySelectorAll("[data-id]")) {
      element.classList.remove("chosen");
      show(element);
    }
  }
  async function load(href) {
    const answer = await fetch(href, { headers: { accept: "text/html" } });
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return document.importNode(page.querySelector("article.comparison"), true);
  }

  // ---- keys and buttons ----
  function keys({ current = () => null, choose = label, more = {} }) {
    const chosen = status => () => {
      const element = current();
      if (element) choose(element, status);
    };
    const actions = { p: chosen("pass"), f: chosen("fail"), u: undo, "?": help, ...more };
    document.addEventListener("keydown", event => {
      const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing) return;
      if (document.querySelector("dialog[open]")) return;
      const act = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
      // a key that is held down labels once
      if (!act || (event.repeat && !"jk".includes(event.key))) return;
      event.preventDefault();
      act();
    });
    root.addEventListener("click", event => {
      const button = event.target.closest(".choice, .withdraw");
      if (button) choose(button.closest("[data-id]"), button.dataset.status ?? null);
    });
  }
  const help = () => part("help").showModal();
  part("helping")?.addEventListener("click", help);
  part("undo")?.addEventListener("click", undo);
  part("undo").disabled = !given().length;
  part("hide").checked = recall(localStorage, "hide", true);
  part("hide").addEventListener("change", () => {
    remember(localStorage, "hide", hiding());
    hideOrShow();
  });
  root.addEventListener("toggle", event => {
    const element = event.target.closest("[data-id]");
    if (event.target.matches("details.told") && event.target.open && element?.dataset.verdict) see([element.dataset.id]);
  }, true);
  introduce();
  hideOrShow();

  const unkept = () => waiting.length;

  return { root, part, say, label, show, dress, load, keys, hiding, person, unkept };
})();
