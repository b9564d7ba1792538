// What all pages share: their data, words in two languages, small helpers, the state of the page.
// Every text is put into the page as text (textContent), never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const head = data.head;
const count = data.count || 0;
function byId(id) { return document.getElementById(id); }

function store(key, value) {
  try { if (value === undefined) return localStorage.getItem(key); localStorage.setItem(key, value); } catch { /* a file page may have no storage */ }
  return null;
}

// The language is that of the address, else the one chosen last, else the browser's. It is settled before anything is
// shown: whoever chooses another gets the page anew.
const spoken = new URLSearchParams(location.hash.slice(1)).get("lang") || store("trueline-language") || (/^zh/i.test(navigator.language) ? "zh" : "en");
const language = spoken === "zh" ? "zh" : "en";

function translated(text) { return language === "zh" && Object.hasOwn(CHINESE, text) ? CHINESE[text] : text; }
function filled(text, values) { return text.replace(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(values, name) ? String(values[name]) : whole)); }

// A text of ours in the language of the page, with {name} replaced. Always called with the text itself, never with data.
function say(text, values = {}) { return filled(translated(text), values); }

// A sentence that came with the data: a text, or the template that it was made of with its values (phrases.py).
function tell(phrase) {
  if (phrase === null || phrase === undefined) return "";
  if (typeof phrase !== "object") return String(phrase);
  if (phrase.parts) return phrase.parts.map(tell).join(translated(phrase.join));
  return filled(translated(phrase.say), Object.fromEntries(Object.entries(phrase.with).map(([name, value]) => [name, tell(value)])));
}
function several(n, one, many) { return say(n === 1 ? one : many, { n: grouped(n) }); }
function grouped(n) { return n.toLocaleString("en"); }

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
for (const [name, column] of Object.entries(data.columns || {})) { columns[name] = decode(column); column.data = ""; }

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
function loadingNote() { return element("p", "muted", say("Loading…")); }

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// Rows for a spreadsheet. A cell that begins like a formula is none: names come from programs that nobody vouches for.
function csvText(rows) {
  const quoted = (value) => {
    const text = String(value), safe = /^[=+@\t\r]|^-(?![\d.∞–]|$)/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(quoted).join(",") + "\n").join("");
}

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
  button.textContent = done ? say("copied") : say("select and copy");
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

function commandBox(why, command) {
  const box = element("div", "command"), text = element("div"), button = element("button", "ghost", say("copy"));
  button.type = "button";
  button.addEventListener("click", () => copy(command, button));
  append(text, why ? element("span", "muted", tell(why)) : null, element("code", "", command));
  return append(box, text, button);
}

function pill(text, style, mark) {
  const node = element("span", `pill ${style}`, text);
  node.dataset.mark = mark;
  return node;
}

// How a verdict looks: a colour, a mark that tells it without the colour, and its word.
const VERDICTS = {
  PASS: ["good", "✓", say("PASS")], WARN: ["warn", "!", say("WARN")], NOT_COMPARED: ["dim", "–", say("NOT COMPARED")],
  FAIL: ["bad", "✕", say("FAIL")], ERROR: ["bad", "✕", say("ERROR")],
};
function verdictPill(name) {
  const [style, mark, word] = VERDICTS[name];
  return pill(word, style, mark);
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

// The panel of the one row that is selected: its tag and title, then what the page knows of it.
const drawer = byId("drawer");
function fillDrawer(tag, title, ...parts) {
  const close = element("button", "ghost close", say("close"));
  close.type = "button";
  close.addEventListener("click", () => select(-1));
  drawer.replaceChildren(close, ...(tag ? [tag] : []), element("h2", "", title), ...parts.filter(Boolean));
  drawer.hidden = false;
  drawer.scrollTop = 0;
}
on("selected", () => { if (state.selected < 0) { drawer.hidden = true; drawer.replaceChildren(); } });

function distinct(column) { return [...new Set(column)].sort((a, b) => a - b); }
