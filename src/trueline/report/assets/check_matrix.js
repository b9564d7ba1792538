// APIs by dtypes: how many cases of each there are and how the worst of them ended. The worst APIs come first; of
// thousands only those that can be seen are in the page. A cell, an API or a dtype that is clicked filters the cases.

const grid = byId("matrix"), gridSpace = byId("matrix-space"), matrixTop = byId("matrix-head"), matrixSearch = byId("matrix-search");
const MATRIX_ROW = 34;
const matrix = { rows: [], shown: [], pool: [] };

function emptyCell() { return { cases: 0, wrong: 0, warned: 0, none: 0, waiting: 0, worst: NaN, endings: {} }; }

function addTo(cell, ending, told, cases, score) {
  cell.cases += cases;
  cell.endings[ending] = (cell.endings[ending] || 0) + cases;
  if (told === null) cell.waiting += cases;
  else if (told >= 3) cell.wrong += cases;
  else if (told === 2) cell.none += cases;
  else if (told === 1) cell.warned += cases;
  const value = toNumber(score);
  if (value !== null && !(cell.worst >= value)) cell.worst = value;
}

function gather() {
  const { apis: names, dtypes: kinds, endings: ends, cells } = data.matrix;
  const make = (name) => ({ name, all: emptyCell(), cells: kinds.map(emptyCell) });
  const rows = names.map(make), total = make("");
  for (const [api, dtype, ending, told, cases, score] of cells) {
    for (const row of [rows[api], total]) { addTo(row.all, ends[ending], told, cases, score); addTo(row.cells[dtype], ends[ending], told, cases, score); }
  }
  const rank = ({ all }) => (all.wrong ? 3 : all.warned ? 2 : all.none ? 1 : 0);
  rows.sort((a, b) => rank(b) - rank(a) || b.all.wrong - a.all.wrong || (b.all.worst || 0) - (a.all.worst || 0) || (a.name < b.name ? -1 : 1));
  matrix.rows = rows;
  matrix.total = total;
}

// A cell has no room for long numbers; its title says them in full.
function rounded(n) { return n < 1000 ? String(n) : n < 99_950 ? `${Number((n / 1000).toPrecision(n < 9_950 ? 2 : 3))}k` : n < 999_500 ? `${Math.round(n / 1000)}k` : `${Number((n / 1e6).toPrecision(2))}M`; }

// The look of a cell: colour, mark, and a text that says how many of how many.
function cellLook(cell) {
  const part = (n) => (n === cell.cases ? rounded(n) : `${rounded(n)}/${rounded(cell.cases)}`);
  if (!cell.cases) return ["nothing", "", ""];
  if (cell.wrong) return ["bad", "✕", part(cell.wrong)];
  if (cell.warned) return ["warn", "!", part(cell.warned)];
  if (cell.waiting) return ["wait", "…", part(cell.cases - cell.waiting)];
  if (cell.none) return ["dim", "–", part(cell.none)];
  return ["good", "✓", rounded(cell.cases)];
}

function endingsText(cell) {
  return Object.entries(cell.endings).sort((a, b) => b[1] - a[1]).map(([name, n]) => `${grouped(n)} ${endingLook(name)[0]}`).join(", ");
}

function fillCell(button, cell, name, dtype) {
  const [look, mark, text] = cellLook(cell), chosen = filter.api === name && filter.dtype === dtype;
  button.className = `cell ${look}` + (chosen ? " selected" : "");
  button.textContent = mark ? `${mark} ${text}` : "";
  button.disabled = !cell.cases;
  button.title = cell.cases ? `${name || say("all APIs")}, ${dtype}: ${endingsText(cell)}` : "";
  button.setAttribute("aria-label", button.title);
  button.setAttribute("aria-pressed", String(chosen));
  button.onclick = () => filterCases(chosen ? {} : { api: name, dtype });
}

function makeMatrixRow() {
  const row = element("div", "matrix-row"), label = element("button", "label");
  row.setAttribute("role", "row");
  label.type = "button";
  append(row, label, element("span", "number"), element("span", "number"), element("span", "number"));
  for (const _ of data.matrix.dtypes) { const cell = element("button", "cell"); cell.type = "button"; row.append(cell); }
  return row;
}

function fillMatrixRow(row, { name, all, cells }) {
  const [label, cases, wrong, worst, ...buttons] = row.children;
  const shown = name || say("all {n} APIs", { n: grouped(matrix.rows.length) });
  label.textContent = narrow.matches ? shortApi(shown) : shown;
  label.title = shown;
  label.onclick = () => filterCases({ api: filter.api === name && !filter.dtype ? "" : name });
  row.classList.toggle("selected", Boolean(name) && filter.api === name && !filter.dtype);
  cases.textContent = grouped(all.cases);
  wrong.textContent = all.wrong ? grouped(all.wrong) : "–";
  wrong.className = all.wrong ? "number bad" : "number";
  worst.textContent = scoreText(all.worst);
  worst.className = all.worst > 1 ? "number bad" : "number";
  buttons.forEach((button, n) => fillCell(button, cells[n], name, data.matrix.dtypes[n]));
}

function renderMatrix() {
  const first = Math.max(0, Math.floor((grid.scrollTop - matrixTop.offsetHeight) / MATRIX_ROW) - 2);
  const last = Math.min(matrix.shown.length, first + Math.ceil(grid.clientHeight / MATRIX_ROW) + 5);
  while (matrix.pool.length < last - first) { const row = makeMatrixRow(); matrix.pool.push(row); gridSpace.append(row); }
  matrix.pool.forEach((row, slot) => {
    const position = first + slot;
    row.hidden = position >= last;
    if (row.hidden) return;
    row.style.transform = `translateY(${position * MATRIX_ROW}px)`;
    fillMatrixRow(row, matrix.shown[position]);
  });
}

function makeMatrixHead() {
  const top = element("div", "matrix-row titles"), all = makeMatrixRow();
  append(top, element("span", "label", say("API")), ...[say("cases"), say("wrong"), say("÷ limit")].map((text) => element("span", "number", text)));
  for (const dtype of data.matrix.dtypes) {
    const button = element("button", "cell-title", dtype);
    button.type = "button";
    button.title = dtype;
    button.addEventListener("click", () => filterCases({ dtype: filter.dtype === dtype && !filter.api ? "" : dtype }));
    top.append(button);
  }
  fillMatrixRow(all, matrix.total);
  matrixTop.replaceChildren(top, ...(matrix.rows.length > 1 ? [all] : []));
}

function showMatrix() {
  const words = matrixSearch.value.toLowerCase().split(/\s+/).filter(Boolean);
  matrix.shown = matrix.rows.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
  gridSpace.style.height = `${matrix.shown.length * MATRIX_ROW}px`;
  grid.style.setProperty("--kinds", String(data.matrix.dtypes.length));
  byId("matrix-shown").textContent = words.length ? say("{n} of {all}", { n: grouped(matrix.shown.length), all: grouped(matrix.rows.length) }) : grouped(matrix.rows.length);
  byId("matrix-none").hidden = matrix.shown.length > 0 || !matrix.rows.length;
  byId("matrix-card").hidden = !matrix.rows.length;
  makeMatrixHead();
  renderMatrix();
}

// One line for each API and dtype, with a column for each status.
function matrixCsv() {
  const names = Object.keys(ENDINGS).filter((name) => data.matrix.endings.includes(name));
  const lines = [["API", "dtype", "cases", "wrong", ...names]];
  for (const row of matrix.shown) {
    row.cells.forEach((cell, n) => { if (cell.cases) lines.push([row.name, data.matrix.dtypes[n], cell.cases, cell.wrong, ...names.map((name) => cell.endings[name] || 0)]); });
  }
  return csvText(lines);
}

grid.addEventListener("scroll", renderMatrix, { passive: true });
new ResizeObserver(renderMatrix).observe(grid);
matrixSearch.addEventListener("input", () => { grid.scrollTop = 0; showMatrix(); saveAddress(); });
byId("copy-matrix").addEventListener("click", (event) => copy(matrixCsv(), event.target));
holdValue("apis", () => matrixSearch.value, (text) => { matrixSearch.value = text; showMatrix(); });
on("counts", () => { gather(); showMatrix(); });
on("view", () => { makeMatrixHead(); renderMatrix(); });
gather();
showMatrix();
