// Small tables, whole in the page, that copy as CSV; and the words of times and sizes.

// `columns`: [[label, class], …]; `rows`: {cells: [text or {text, className}, …], pick?}. A row that can be picked is a
// button in its first cell as well, for those who have no mouse.
function smallTable(columns, rows) {
  const table = element("table", "small-table"), top = element("tr");
  for (const [label, className] of columns) { const cell = element("th", className, label); cell.scope = "col"; top.append(cell); }
  table.append(append(element("thead"), top));
  const body = element("tbody");
  for (const { cells, pick } of rows) body.append(smallRow(columns, cells, pick));
  return append(element("div", "scroll"), append(table, body));
}

function smallRow(columns, cells, pick) {
  const row = element("tr", pick ? "pick" : "");
  cells.forEach((one, n) => {
    const told = one !== null && typeof one === "object" ? one : { text: one };
    const cell = element("td", `${columns[n][1]} ${told.className || ""}`.trim(), pick && n === 0 ? "" : told.text);
    if (pick && n === 0) { const button = element("button", "link", told.text); button.type = "button"; cell.append(button); }
    row.append(cell);
  });
  if (pick) row.addEventListener("click", pick);
  return row;
}

// The button that copies a small table; put beside its title.
function copyTable(columns, rows) {
  const button = element("button", "ghost", say("copy as CSV"));
  button.type = "button";
  button.addEventListener("click", () => copy(csvText([columns.map(([label]) => label), ...rows.map(({ cells }) => cells.map((one) => (one !== null && typeof one === "object" ? one.text : one)))]), button));
  return button;
}

function tableCard(place, title, note, columns, rows) {
  const top = append(element("div", "card-head"), element("h2", "", title), note ? element("span", "muted", note) : null, append(element("div", "tools"), copyTable(columns, rows)));
  place.replaceChildren(top, smallTable(columns, rows));
  place.hidden = !rows.length;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const size = Math.abs(seconds);
  if (size >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  if (size >= 60) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  for (const [unit, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) if (size >= unit) return `${Number((seconds / unit).toPrecision(3))} ${name}`;
  return size === 0 ? "0" : `${Number((seconds * 1e9).toPrecision(2))} ns`;
}

function bytes(amount) {
  if (amount === null || amount === undefined || Number.isNaN(amount)) return "–";
  let left = amount;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (Math.abs(left) < 1000) return `${unit === "B" ? Math.round(left) : Number(left.toPrecision(3))} ${unit}`;
    left /= 1000;
  }
  return `${Number(left.toPrecision(3))} TB`;
}

// How an item of the facts under the sentence of a page looks.
function fact(value, label, style) { return append(element("div", `fact ${style || ""}`), element("div", "value", value), element("div", "label", label)); }

// Buttons of which one is pressed; what is pressed stands in the address.
function segmented(place, name, choices, changed) {
  let value = choices[0][0];
  const buttons = new Map();
  const press = (chosen) => {
    value = choices.some(([key]) => key === chosen) ? chosen : choices[0][0];
    for (const [key, button] of buttons) button.setAttribute("aria-pressed", String(key === value));
  };
  for (const [key, text] of choices) {
    const button = element("button", "", text);
    button.type = "button";
    button.dataset.value = key;
    button.addEventListener("click", () => { press(key); changed(); saveAddress(); });
    buttons.set(key, button);
    place.append(button);
  }
  press(value);
  holdValue(name, () => (value === choices[0][0] ? "" : value), (text) => { const before = value; press(text); if (before !== value) changed(); });
  return () => value;
}

// A table of few rows is no higher than they are.
function fitTable() {
  const fit = () => { body.style.height = `min(66vh, 620px, ${Math.max(3, state.view.length) * rowHeight() + 10}px)`; renderRows(); };
  on("view", fit);
  window.addEventListener("resize", fit);
}
