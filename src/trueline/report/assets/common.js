// What all pages share: their data, small helpers, the state of the page, the theme.
// Every text is put into the page as text (textContent), never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const head = data.head;
const count = data.count;
const VERDICTS = ["PASS", "WARN", "NOT COMPARED", "FAIL", "ERROR"];
const VERDICT_LOOK = { PASS: ["good", "✓"], WARN: ["warn", "!"], NOT_COMPARED: ["warn", "?"], FAIL: ["bad", "✕"], ERROR: ["bad", "✕"] };

function byId(id) { return document.getElementById(id); }

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined && text !== null) node.textContent = String(text);
  return node;
}

function append(parent, ...children) {
  for (const child of children) if (child) parent.append(child);
  return parent;
}

const ARRAYS = { Uint8Array, Uint16Array, Uint32Array, Int32Array, Float32Array };

function decode(column) {
  const text = atob(column.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[column.type](bytes.buffer);
}

const columns = {};
for (const [name, column] of Object.entries(data.columns)) { columns[name] = decode(column); column.data = ""; }

// Numbers arrive as numbers, or as "nan", "inf", "-inf" where JSON cannot say them.
function toNumber(value) {
  if (typeof value !== "string") return value;
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : NaN;
}

function short(value) {
  value = toNumber(value);
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size >= 0.01 && size < 10000) return String(Number(value.toPrecision(3)));
  return value.toExponential(1).replace("e+", "e");
}

function exact(value) {
  value = toNumber(value);
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7) return value.toExponential(3).replace("e+", "e");
  return String(Number(value.toPrecision(6)));
}

function times(value) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "–";
  const rounded = Number(value.toPrecision(2));
  return (rounded < 1e6 ? rounded.toLocaleString("en", { maximumSignificantDigits: 2 }) : rounded.toExponential(0).replace("e+", "e")) + " ×";
}

// Details that the page does not hold are asked of the server that sent it, once each; a page from disk has no server.
const asked = new Set();
function askDetail(i, show) {
  if (!data.served || asked.has(i)) return false;
  asked.add(i);
  fetch(`data/detail?position=${i}`)
    .then((answer) => { if (!answer.ok) throw new Error(`${answer.status}`); return answer.json(); })
    .then((detail) => { data.details[i] = detail; })
    .catch(() => {})
    .finally(() => { if (state.selected === i) show(); });
  return true;
}
function loadingNote() { return element("p", "muted", "Loading…"); }

function store(key, value) {
  try { if (value === undefined) return localStorage.getItem(key); localStorage.setItem(key, value); } catch { /* a file page may have no storage */ }
  return null;
}

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

async function copy(text, button) {
  let done = true;
  try { await navigator.clipboard.writeText(text); } catch {
    const area = element("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = done ? "copied" : "select and copy";
  setTimeout(() => { button.textContent = before; }, 1400);
}

// The one state of the page: which rows are in view, in which order, and which one is selected.
const state = { view: new Int32Array(0), inOrder: new Int32Array(0), selected: -1 };
const listeners = { view: [], selected: [], theme: [] };
function on(event, listener) { listeners[event].push(listener); }
function emit(event) { for (const listener of listeners[event]) listener(); }

function select(i) {
  state.selected = i;
  emit("selected");
}

// Which rows are in view, in which order. A page says what its filter asks (filterTests) and how its columns sort
// (SORT_VALUE).
function refilter() {
  const tests = filterTests();
  const found = new Int32Array(count);
  let size = 0;
  rows: for (let i = 0; i < count; i++) {
    for (const test of tests) if (!test(i)) continue rows;
    found[size++] = i;
  }
  state.inOrder = found.subarray(0, size);
  resort();
}

function resort() {
  const value = SORT_VALUE[sorting.key];
  if (!value) {
    state.view = sorting.down ? state.inOrder.slice().reverse() : state.inOrder;
  } else {
    const keys = new Float64Array(count);
    for (const i of state.inOrder) { const v = value(i); keys[i] = Number.isNaN(v) ? -Infinity : v; }
    const sign = sorting.down ? -1 : 1;
    state.view = state.inOrder.slice().sort((a, b) => (keys[a] === keys[b] ? a - b : sign * (keys[a] < keys[b] ? -1 : 1)));
  }
  emit("view");
}

function rowOf(i) {
  const rows = state.inOrder;
  let low = 0, high = rows.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (rows[middle] === i) return middle;
    if (rows[middle] < i) low = middle + 1; else high = middle - 1;
  }
  return -1;
}

function commandBox(why, command) {
  const box = element("div", "command"), text = element("div"), button = element("button", "ghost", "copy");
  button.type = "button";
  button.addEventListener("click", () => copy(command, button));
  append(text, why ? element("span", "muted", why) : null, element("code", "", command));
  return append(box, text, button);
}

function pill(text, style, mark) {
  const node = element("span", `pill ${style}`, text);
  node.dataset.mark = mark;
  return node;
}

function definition(list, name, value) {
  if (value === "" || value === null || value === undefined) return;
  append(list, element("dt", "", name), element("dd", "", value));
}

function quote(text) { return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`; }

function pairsOf(measurement) {
  const box = element("div", "pairs");
  for (const [name, value] of Object.entries(measurement)) {
    box.append(append(element("div"), element("span", "", name), element("b", "", typeof value === "string" && value.includes("of") ? value : exact(value))));
  }
  return box;
}

function options(control, first, values) {
  control.replaceChildren();
  for (const [value, text] of [["", first], ...values]) { const option = element("option", "", text); option.value = value; control.append(option); }
}

function distinct(column) { return [...new Set(column)].sort((a, b) => a - b); }

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  emit("theme");
}
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
byId("theme").addEventListener("click", () => { const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; store("trueline-theme", next); setTheme(next); });
systemDark.addEventListener("change", () => { if (!store("trueline-theme")) setTheme(systemDark.matches ? "dark" : "light"); });
