// The table of a page: its card with search and filters, which rows are in view in which order, and the rows themselves,
// of which only those that can be seen are in the page, whatever their number.
//
// The page says before what its table is: NOUN (the name of a row in the address; the card is the section NOUN + "s"),
// TABLE {title, search, none, selects: [[key of the filter, label, [[value, text], …]], …], narrowed?}, COLUMNS (key,
// label, class), LEFT (keys that sort upwards first), TITLED, SORT_VALUE, `filter`, `sorting`, filterTests, cellTexts,
// classOf, wordOf, sourceOf.

function makeCard() {
  const top = element("div", "card-head"), title = element("h2", "", TABLE.title + " "), tools = element("div", "tools filters");
  title.id = "rows-title";
  const shown = named("shown", element("span", "muted"));
  shown.setAttribute("aria-live", "polite");
  title.append(shown);
  const search = named("search", element("input"));
  Object.assign(search, { type: "search", placeholder: TABLE.search, autocomplete: "off", spellcheck: false });
  search.setAttribute("aria-label", TABLE.search);
  append(tools, search, ...TABLE.selects.map((one) => makeSelect(...one)), makeButton("copy-table", say("copy as CSV")), makeButton("clear", say("clear")));
  const grid = named("grid", element("div", "grid")), labels = named("grid-head", element("div", "row head")), rows = named("grid-body", element("div", "body"));
  grid.setAttribute("role", "grid");
  grid.setAttribute("aria-labelledby", "rows-title");
  labels.setAttribute("role", "row");
  rows.tabIndex = 0;
  append(grid, labels, append(rows, named("spacer", element("div", "spacer"))));
  append(byId(`${NOUN}s`), append(top, title, tools), grid);
}

function named(id, node) { node.id = id; return node; }
function makeButton(id, text) {
  const button = named(id, element("button", "ghost", text));
  button.type = "button";
  return button;
}

// A choice among one is none: such a control is not shown.
function makeSelect(key, label, choices) {
  const control = named(key, element("select"));
  control.setAttribute("aria-label", label);
  control.hidden = choices.length < 3;
  for (const [value, text] of choices) { const option = element("option", "", text); option.value = value; control.append(option); }
  return control;
}
// "all steps", then each of them.
function choicesOf(all, column, text) { return [["", all], ...distinct(column).map((value) => [String(value), text(value)])]; }

makeCard();
const body = byId("grid-body"), spacer = byId("spacer"), gridHead = byId("grid-head");

function setFilter(change) {
  Object.assign(filter, change);
  for (const [key, control] of CONTROLS) if (control.value !== filter[key]) control.value = filter[key];
  byId("clear").textContent = (TABLE.narrowed && TABLE.narrowed()) || say("clear");
  body.scrollTop = 0;
  refilter();
  saveAddress();
}
function clearFilter() { setFilter(Object.fromEntries(Object.keys(filter).map((key) => [key, ""]))); }

const CONTROLS = [["text", byId("search")], ...TABLE.selects.map(([key]) => [key, byId(key)])];
for (const [key, control] of CONTROLS.slice(1)) control.addEventListener("change", () => setFilter({ [key]: control.value }));
let typing = 0;
byId("search").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => setFilter({ text: event.target.value }), 60); });
byId("clear").addEventListener("click", clearFilter);

// One flag per distinct text tells most rows apart; only names with their number need more, and these repeat from step to
// step.
function textTest(text, names, nameOfRow) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const inside = names.map((name) => columns[name]), found = names.map((name) => flagsOf(data.names[name], word));
    const byName = nameOfRow && (/[.\d]/.test(word) || "forward".startsWith(word) || "backward".startsWith(word)) ? nameTest(word, nameOfRow) : null;
    return (i) => {
      for (let n = 0; n < inside.length; n++) if (found[n][inside[n][i]]) return true;
      return byName ? byName(i) : false;
    };
  });
  return tests.length === 1 ? tests[0] : (i) => tests.every((test) => test(i));
}
function flagsOf(texts, word) { return Uint8Array.from(texts, (text) => (text.toLowerCase().includes(word) ? 1 : 0)); }
function nameTest(word, nameOfRow) {
  const known = new Map();
  return (i) => {
    const number = SORT_VALUE.name(i);
    let found = known.get(number);
    if (found === undefined) known.set(number, (found = nameOfRow(i).toLowerCase().includes(word)));
    return found;
  };
}

// The address holds the filter, the order and the selected row.
const firstOrder = { ...sorting };
hold((words) => {
  for (const [key, value] of Object.entries(filter)) if (value !== "") words.set(key, value);
  if (sorting.key !== firstOrder.key || sorting.down !== firstOrder.down) words.set("sort", (sorting.down ? "-" : "") + sorting.key);
  if (state.selected >= 0) words.set(NOUN, String(state.selected));
}, (words) => {
  const order = words.get("sort") || "", key = order.replace(/^-/, "");
  Object.assign(sorting, COLUMNS.some(([one]) => one === key) ? { key, down: order.startsWith("-") } : firstOrder);
  makeHead();
  setFilter(Object.fromEntries(Object.keys(filter).map((key) => [key, words.get(key) || ""])));
  const row = words.get(NOUN) || "", i = /^\d+$/.test(row) && Number(row) < count ? Number(row) : -1;
  if (i !== state.selected) select(i);
});

// Which rows are in view, in which order. Where the rows lie with the server (`state.ask`) it is asked, and who asked fills
// the view.
function refilter() {
  if (state.ask) { state.ask(); return; }
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
  if (state.ask) { state.ask(); return; }
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

// The next row in view, or the one before, that is worth a look.
function nextRow(direction, worthALook) {
  const rows = state.view, at = rows.indexOf(state.selected);
  for (let n = at < 0 ? (direction > 0 ? 0 : rows.length - 1) : at + direction; n >= 0 && n < rows.length; n += direction) {
    if (worthALook(rows[n])) { select(rows[n]); return; }
  }
}

// The row that a page is about, whatever the filter.
function showRow(i) {
  if (i === null || i === undefined) return;
  if (rowOf(i) < 0) clearFilter();
  select(i);
}

const MAX_HEIGHT = 12_000_000; // browsers stop at some 16 to 33 million pixels: beyond, a scrolled pixel means several rows
const pool = [];

function rowHeight() { return window.matchMedia("(max-width: 720px)").matches ? 48 : 34; }
function fullHeight() { return state.view.length * rowHeight(); }
function scrolledRow() {
  const full = fullHeight(), shown = Math.min(full, MAX_HEIGHT), room = body.clientHeight;
  if (full <= MAX_HEIGHT) return body.scrollTop / rowHeight();
  return (body.scrollTop / Math.max(1, shown - room)) * Math.max(0, state.view.length - room / rowHeight());
}

function makeHead() {
  gridHead.replaceChildren();
  for (const [key, label, className] of COLUMNS) {
    const cell = element("span", className), button = element("button", "", label);
    cell.setAttribute("role", "columnheader");
    if (sorting.key === key) { cell.classList.add("sorted"); button.textContent = `${label} ${sorting.down ? "↓" : "↑"}`; cell.setAttribute("aria-sort", sorting.down ? "descending" : "ascending"); }
    button.type = "button";
    button.addEventListener("click", () => sortBy(key));
    gridHead.append(label ? append(cell, button) : cell);
  }
}

function sortBy(key) {
  if (sorting.key === key) sorting.down = !sorting.down;
  else { sorting.key = key; sorting.down = !LEFT.includes(key); }
  makeHead();
  body.scrollTop = 0;
  resort();
  saveAddress();
}

function makeRow() {
  const row = element("div", "row");
  row.setAttribute("role", "row");
  for (const [, , className] of COLUMNS) {
    const cell = element("span", className);
    cell.setAttribute("role", "gridcell");
    row.append(cell);
  }
  row.lastChild.append(element("span", "tag"));
  row.addEventListener("click", () => select(Number(row.dataset.call)));
  body.append(row);
  return row;
}

function fillRow(row, i) {
  const which = classOf(i);
  row.className = `row ${which}` + (i === state.selected ? " selected" : "");
  row.dataset.call = String(i);
  row.setAttribute("aria-selected", String(i === state.selected));
  cellTexts(i).forEach((text, column) => {
    const cell = row.children[column];
    cell.textContent = String(text);
    if (TITLED.includes(COLUMNS[column][0])) cell.title = String(text);
  });
  const tag = row.lastChild.firstChild;
  tag.className = `tag ${which}`;
  tag.textContent = wordOf(i);
}

function renderRows() {
  const height = rowHeight(), total = state.view.length;
  spacer.style.height = `${Math.min(fullHeight(), MAX_HEIGHT)}px`;
  const start = scrolledRow(), first = Math.max(0, Math.floor(start) - 4);
  const last = Math.min(total, first + Math.ceil(body.clientHeight / height) + 9);
  while (pool.length < last - first) pool.push(makeRow());
  pool.forEach((row, slot) => {
    const position = first + slot;
    row.hidden = position >= last;
    if (position >= last) return;
    row.style.transform = `translateY(${Math.round(body.scrollTop + (position - start) * height)}px)`;
    row.setAttribute("aria-rowindex", String(position + 2));
    fillRow(row, state.view[position]);
  });
}

function scrollToCall(i) {
  const position = state.view === state.inOrder ? rowOf(i) : state.view.indexOf(i);
  if (position < 0) return;
  const room = body.clientHeight / rowHeight(), start = scrolledRow();
  if (position >= start && position < start + room - 1) return;
  const target = Math.max(0, position - room / 2);
  const full = fullHeight();
  body.scrollTop = full <= MAX_HEIGHT ? target * rowHeight() : (target / Math.max(1, state.view.length - room)) * (MAX_HEIGHT - body.clientHeight);
}

function showTotal() {
  const total = state.view.length;
  byId("shown").textContent = total === count ? grouped(count) : say("{n} of {all}", { n: grouped(total), all: grouped(count) });
  byId("grid").setAttribute("aria-rowcount", String(total + 1));
  let empty = body.querySelector(".empty");
  if (total === 0 && !empty) body.append(element("div", "empty", TABLE.none));
  if (total > 0 && empty) empty.remove();
  byId("clear").hidden = Object.values(filter).every((value) => value === "");
}

// The rows in view, in their order, for a spreadsheet; a page whose rows lie with the server gets them there (TABLE.rows).
function csvOf(shown) {
  const rows = [[...COLUMNS.map(([key, label]) => label || key), say("source")]];
  for (const i of shown) rows.push([...cellTexts(i), wordOf(i), sourceOf(i)]);
  return csvText(rows);
}
byId("copy-table").addEventListener("click", async (event) => copy(csvOf(TABLE.rows ? await TABLE.rows() : state.view), event.target));

body.addEventListener("scroll", renderRows, { passive: true });
body.addEventListener("keydown", (event) => {
  const at = state.view.indexOf(state.selected);
  if (event.key === "Enter" && at < 0 && state.view.length) { select(state.view[Math.ceil(scrolledRow())]); return; }
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 };
  if (!(event.key in moves) || !state.view.length) return;
  event.preventDefault();
  const to = Math.min(state.view.length - 1, Math.max(0, at < 0 ? Math.floor(scrolledRow()) : at + moves[event.key]));
  select(state.view[to]);
});
new ResizeObserver(renderRows).observe(body);
on("view", () => { showTotal(); renderRows(); });
on("selected", () => { scrollToCall(state.selected); renderRows(); });
