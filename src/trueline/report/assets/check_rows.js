// Rows that lie with the server: it filters and sorts, and the page asks for those that can be seen. A row that has not
// come yet is -1 in the view.

const WINDOW = 120;
const CSV_ROWS = 4_000;
const SERVER_SORTS = ["position", "api", "calls", "seconds", "score", "verdict"];
const known = { sort: { ...sorting }, words: "", asking: 0, busy: false };
const codes = Object.fromEntries(TEXTS.map((name) => [name, new Map()]));

function learn(row) {
  const i = row.position;
  for (const name of TEXTS) {
    const texts = data.names[name], seen = codes[name];
    if (!seen.has(row[name])) { seen.set(row[name], texts.length); texts.push(row[name]); }
    columns[name][i] = seen.get(row[name]);
  }
  for (const name of ["verdict", "calls"]) columns[name][i] = row[name];
  for (const name of ["forward", "backward", "seconds"]) columns[name][i] = row[name] === null ? NaN : toNumber(row[name]);
  for (const name of ["forward_verdict", "backward_verdict"]) columns[name][i] = row[name] === null ? NO_VERDICT : row[name];
  return i;
}

function wordsOf() {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) if (value !== "") words.set(name, value);
  words.set("sort", sorting.key);
  if (sorting.down) words.set("down", "1");
  return String(words);
}

async function fetchRows(words, from, size) {
  const answer = await fetch(`data/rows?${words}&from=${from}&size=${size}`);
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

function topRow() { return Math.max(0, Math.floor(scrolledRow()) - 20); }

// The whole view anew: after another filter, another order, or when the campaign has gone on.
async function askView() {
  if (!SERVER_SORTS.includes(sorting.key)) { Object.assign(sorting, known.sort); makeHead(); }
  known.sort = { ...sorting };
  known.words = wordsOf();
  const number = ++known.asking, from = topRow();
  body.classList.add("asking");
  try {
    const answer = await fetchRows(known.words, from, WINDOW);
    if (number !== known.asking) return; // somebody asked for something else meanwhile
    state.view = new Int32Array(answer.total).fill(-1);
    placeRows(answer);
    emit("view");
    fetchVisible();
  } catch { if (number === known.asking) serverGone(); }
  if (number === known.asking) body.classList.remove("asking");
}

function placeRows(answer) {
  answer.rows.forEach((row, n) => { if (answer.from + n < state.view.length) state.view[answer.from + n] = learn(row); });
}

async function fetchVisible() {
  const first = Math.floor(scrolledRow()), last = Math.min(state.view.length, first + Math.ceil(body.clientHeight / rowHeight()) + 6);
  if (known.busy || !state.view.subarray(first, last).includes(-1)) return;
  known.busy = true;
  const number = known.asking;
  let came = false;
  try {
    const answer = await fetchRows(known.words, topRow(), WINDOW);
    came = number === known.asking && answer.rows.length > 0;
    if (came) { placeRows(answer); renderRows(); }
  } catch { serverGone(); }
  known.busy = false;
  if (came) fetchVisible(); // whoever scrolled on meanwhile wants other rows
}

function serverGone() { byId("shown").textContent = say("the server does not answer any more"); }

// What is copied: the rows in view from the first on, up to a bound.
async function allRows() {
  const rows = [];
  while (rows.length < Math.min(state.view.length, CSV_ROWS)) {
    const answer = await fetchRows(known.words, rows.length, 400);
    if (!answer.rows.length) break;
    rows.push(...answer.rows.map(learn));
  }
  return rows;
}

if (windowed) {
  state.ask = askView;
  TABLE.rows = allRows;
  byId("copy-table").textContent = count > CSV_ROWS ? say("copy {n} as CSV", { n: grouped(CSV_ROWS) }) : say("copy as CSV");
  body.addEventListener("scroll", fetchVisible, { passive: true });
}
