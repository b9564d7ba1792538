// The data of the page, decoded, and the small helpers that all parts use.
// Every text is put into the page as text (textContent), never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const head = data.head;
const count = data.count;
const VERDICTS = ["PASS", "WARN", "NOT COMPARED", "FAIL", "ERROR"];
const KIND = { PASS: 0, NONE: 1, VICTIM: 2, WARN: 3, FAIL: 4, ORIGIN: 5 };
const KIND_CLASS = ["pass", "none", "victim", "warn", "fail", "origin"];
const KIND_WORD = ["pass", "not compared", "victim", "warn", "fail", "origin"];

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
const { step, rank, verdict, inherited, backward, index } = columns;
const output = columns.output_distance, input = columns.input_distance, limit = columns.limit;
const apis = data.names.api, modules = data.names.module, sources = data.names.source;

// What each call is in the story; a number, so that 200,000 of them are cheap to filter and draw.
const kind = new Uint8Array(count);
for (let i = 0; i < count; i++) {
  if (i === head.position) kind[i] = KIND.ORIGIN;
  else if (verdict[i] >= 3) kind[i] = inherited[i] ? KIND.VICTIM : KIND.FAIL;
  else if (inherited[i]) kind[i] = KIND.VICTIM;
  else kind[i] = verdict[i] === 2 ? KIND.NONE : verdict[i] === 1 ? KIND.WARN : KIND.PASS;
}

// Where the Runs part without a fault (a warning), the origin is marked but not called bad.
function isBad(i) { return verdict[i] >= 3 && !inherited[i]; }
function classOf(i) { return KIND_CLASS[kind[i]] + (kind[i] === KIND.ORIGIN && !isBad(i) ? " mild" : ""); }

function apiOf(i) { return apis[columns.api[i]]; }
function moduleOf(i) { return modules[columns.module[i]]; }
function sourceOf(i) { return sources[columns.source[i]]; }
function nameOf(i) { return `${apiOf(i)}${index[i] < 0 ? "" : "." + index[i]}.${backward[i] ? "backward" : "forward"}`; }
function ratioOf(i) { return limit[i] > 0 ? output[i] / limit[i] : NaN; }

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

// The one state of the page: which calls are in view, in which order, and which one is selected.
const filter = { text: "", kind: "", phase: "", step: "", rank: "", module: "" };
const sorting = { key: "position", down: false };
const state = { view: new Int32Array(0), inOrder: new Int32Array(0), selected: -1 };
const listeners = { view: [], selected: [], theme: [] };
function on(event, listener) { listeners[event].push(listener); }
function emit(event) { for (const listener of listeners[event]) listener(); }

function select(i) {
  state.selected = i;
  emit("selected");
}

// One boolean per distinct text tells most rows apart; only names with their number need a look at the row itself.
function textTest(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const has = (texts) => texts.map((name) => name.toLowerCase().includes(word));
    const inApi = has(apis), inModule = has(modules), inSource = has(sources);
    const numbered = /[.\d]/.test(word) || "forward".startsWith(word) || "backward".startsWith(word);
    return (i) => inApi[columns.api[i]] || inModule[columns.module[i]] || inSource[columns.source[i]]
      || (numbered && nameOf(i).toLowerCase().includes(word));
  });
  return (i) => tests.every((test) => test(i));
}

function kindTest(choice) {
  if (choice === "differ") return (i) => kind[i] >= KIND.VICTIM;
  if (choice === "bad") return isBad;
  if (choice === "") return () => true;
  return (i) => kind[i] === Number(choice);
}

function moduleTest(path) {
  const inside = modules.map((name) => name === path || name.startsWith(path + "."));
  return (i) => inside[columns.module[i]];
}

function refilter() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text));
  if (filter.kind) tests.push(kindTest(filter.kind));
  if (filter.phase !== "") tests.push((i) => backward[i] === Number(filter.phase));
  if (filter.step !== "") tests.push((i) => step[i] === Number(filter.step));
  if (filter.rank !== "") tests.push((i) => rank[i] === Number(filter.rank));
  if (filter.module) tests.push(moduleTest(filter.module));
  const found = new Int32Array(count);
  let size = 0;
  rows: for (let i = 0; i < count; i++) {
    for (const test of tests) if (!test(i)) continue rows;
    found[size++] = i;
  }
  state.inOrder = found.subarray(0, size);
  resort();
}

const SORT_VALUE = {
  output: (i) => output[i], input: (i) => input[i], limit: (i) => limit[i], ratio: ratioOf,
  step: (i) => step[i], rank: (i) => rank[i], verdict: (i) => kind[i], module: (i) => columns.module[i],
  name: (i) => columns.api[i] * 1e6 + index[i] * 2 + backward[i],
};

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
