// Send dropped or chosen files to the server, which compares them, and show the answer.
(() => {
  const form = document.getElementById("compare-files");
  const [problem, state, answer] = ["problem", "state", "answer"].map((name) => document.getElementById(`compare-${name}`));
  const inputs = [...form.querySelectorAll("input[type=file]")], [baseline, target] = inputs;
  const natural = new Intl.Collator("en", { numeric: true });
  // base64 is a third longer; above this, the server would close the connection before the answer is read
  const limit = Math.floor((form.dataset.limit * 3) / 4 / 2 ** 20) - 1;
  let last = 0;

  function setFiles(input, files) {
    const list = new DataTransfer();
    for (const file of files) list.items.add(file);
    input.files = list.files;
  }

  const readFile = (file) => new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve({ name: file.name, content: reader.result.split(",")[1] ?? "" }));
    reader.addEventListener("error", () => reject(new Error(`${file.name}: cannot be read; expected a file, not a directory`)));
    reader.readAsDataURL(file);
  });

  async function request() {
    if (!baseline.files.length) throw new Error("no results: expected a baseline");
    const size = inputs.flatMap((input) => [...input.files]).reduce((sum, file) => sum + file.size, 0);
    if (size > limit * 2 ** 20) throw new Error(`the files have more than ${limit} MiB; compare them with: perfjudge compare BASELINE TARGET`);
    const content = { forms: ["html"] };
    for (const input of inputs)
      content[input.name] = await Promise.all([...input.files].sort((a, b) => natural.compare(a.name, b.name)).map(readFile));
    if (form.elements.better.value) content.better = form.elements.better.value;
    const headers = { "content-type": "application/json" };
    if (form.elements.token?.value) headers.authorization = `Bearer ${form.elements.token.value}`;
    const response = await fetch(form.dataset.path, { method: "POST", headers, body: JSON.stringify(content) });
    const result = await response.json().catch(() => ({ detail: `${response.status} ${response.statusText}` }));
    if (!response.ok) throw new Error(result.detail);
    return new DOMParser().parseFromString(result.html, "text/html").body.childNodes;
  }

  async function compare() {
    const number = ++last;
    state.textContent = "comparing";
    let shown = [], wrong = "";
    try { shown = await request(); } catch (error) { wrong = error.message; }
    // a later request replaces this one
    if (number !== last) return;
    answer.replaceChildren(...shown);
    problem.textContent = wrong;
    problem.hidden = !wrong;
    state.textContent = wrong ? "" : "compared; the answer is below";
  }

  const compareIfComplete = () => { if (baseline.files.length && target.files.length) compare(); };
  form.addEventListener("submit", (event) => { event.preventDefault(); compare(); });
  form.addEventListener("change", compareIfComplete);
  form.elements.exchange.addEventListener("click", () => {
    const before = [...baseline.files];
    setFiles(baseline, target.files);
    setFiles(target, before);
    compareIfComplete();
  });
  for (const type of ["dragenter", "dragover"])
    form.addEventListener(type, (event) => { event.preventDefault(); form.classList.add("over"); });
  form.addEventListener("dragleave", () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("over");
    const files = [...event.dataTransfer.files].sort((a, b) => a.lastModified - b.lastModified || natural.compare(a.name, b.name));
    if (!files.length) return;
    const box = event.composedPath().find((part) => part.matches?.(".drop"));
    if (box) setFiles(box.querySelector("input"), files);
    else if (files.length === 2) files.forEach((file, side) => setFiles(inputs[side], [file]));
    else setFiles(baseline.files.length ? target : baseline, files);
    compareIfComplete();
  });
})();
