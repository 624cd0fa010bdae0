// Programs in JavaScript: node scripts.js NAME WORK [SIZE [SHAPE]]. Prints the seconds of the work.
const [name, work, given, shape] = process.argv.slice(2);
const size = (usual) => (given ? Number(given) : usual);
const programs = {
  sorting() {
    const numbers = Float64Array.from({ length: size(1000) }, (_, i) => (i * 7919) % 10007);
    const plain = Array.from(numbers);
    return shape === "plain" ? () => [...plain].sort((a, b) => a - b)[0] : () => numbers.slice().sort()[0];
  },
  json() {
    const document = Array.from({ length: size(50) }, (_, id) => ({ id, name: `row ${id}`, values: [id, id / 7, null] }));
    return shape === "indent" ? () => JSON.parse(JSON.stringify(document, null, 2)) : () => JSON.parse(JSON.stringify(document));
  },
  maps() {
    const words = Array.from({ length: size(1000) }, (_, i) => `word${(i * i) % 211}`);
    if (shape === "object") return () => { const n = {}; for (const w of words) n[w] = (n[w] || 0) + 1; return n; };
    return () => { const n = new Map(); for (const w of words) n.set(w, (n.get(w) || 0) + 1); return n; };
  },
  closures() {
    const numbers = Array.from({ length: size(2000) }, (_, i) => i);
    if (shape === "loop") return () => { let sum = 0; for (const x of numbers) if (x % 3) sum += x * 2; return sum; };
    return () => numbers.filter((x) => x % 3).map((x) => x * 2).reduce((a, b) => a + b, 0);
  },
  regex() {
    const text = Array.from({ length: size(100) }, (_, i) => `2026-05-${i} host${i} took ${i} ms\n`).join("");
    const pattern = shape === "lazy" ? /(\d+?)-(\d+?)-(\d+?) (.*?) took (.*?) ms/g : /(\d+)-(\d+)-(\d+) (\w+) took (\d+) ms/g;
    return () => [...text.matchAll(pattern)].length;
  },
  matrix() {
    const n = size(60);
    const Kind = shape === "float32" ? Float32Array : shape === "plain" ? Array : Float64Array;
    const a = Kind.from({ length: n * n }, (_, i) => (i % 7) / 3);
    return () => {
      const out = new Kind(n * n).fill(0);
      for (let i = 0; i < n; i++) for (let k = 0; k < n; k++) { const f = a[i * n + k]; for (let j = 0; j < n; j++) out[i * n + j] += f * a[k * n + j]; }
      return out;
    };
  },
};
const unit = programs[name]();
for (let i = 0; i < 20; i++) unit();
const begin = process.hrtime.bigint();
for (let i = 0; i < Number(work); i++) unit();
console.log(Number(process.hrtime.bigint() - begin) / 1e9);
