// Calls or cases as a table. Only the rows that can be seen are in the page, whatever their number. The page says what
// is in a row: COLUMNS (key, label, class), LEFT (keys that sort upwards first), cellTexts, classOf, wordOf, NOUN.

const body = byId("grid-body"), spacer = byId("spacer"), gridHead = byId("grid-head");
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
    gridHead.append(append(cell, button));
  }
}

function sortBy(key) {
  if (sorting.key === key) sorting.down = !sorting.down;
  else { sorting.key = key; sorting.down = !LEFT.includes(key); }
  makeHead();
  body.scrollTop = 0;
  resort();
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
  byId("shown").textContent = total === count ? count.toLocaleString("en") : `${total.toLocaleString("en")} of ${count.toLocaleString("en")}`;
  byId("grid").setAttribute("aria-rowcount", String(total + 1));
  let empty = body.querySelector(".empty");
  if (total === 0 && !empty) body.append(element("div", "empty", `No ${NOUN} matches.`));
  if (total > 0 && empty) empty.remove();
  byId("clear").hidden = Object.values(filter).every((value) => value === "");
}

// The rows in view, in their order, for a spreadsheet.
function csvOf() {
  const quoted = (value) => { const text = String(value); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  const line = (values) => values.map(quoted).join(",");
  const lines = [line([...COLUMNS.map(([key, label]) => label || key), "source"])];
  for (const i of state.view) lines.push(line([...cellTexts(i), wordOf(i), sourceOf(i)]));
  return lines.join("\n") + "\n";
}
byId("copy-table").addEventListener("click", (event) => copy(csvOf(), event.target));

body.addEventListener("scroll", renderRows, { passive: true });
body.addEventListener("keydown", (event) => {
  const at = state.view.indexOf(state.selected);
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 };
  if (!(event.key in moves) || !state.view.length) return;
  event.preventDefault();
  const to = Math.min(state.view.length - 1, Math.max(0, at < 0 ? Math.floor(scrolledRow()) : at + moves[event.key]));
  select(state.view[to]);
});
new ResizeObserver(renderRows).observe(body);
on("view", () => { showTotal(); renderRows(); });
on("selected", () => { scrollToCall(state.selected); renderRows(); });
