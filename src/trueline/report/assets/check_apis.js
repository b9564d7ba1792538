// One row for each API: how many of its cases are wrong, and how far the worst is from its limit.

const MOST_APIS = 400;

function apiRows() {
  const rows = apis.map((name) => ({ name, cases: 0, wrong: 0, none: 0, warned: 0, worst: NaN }));
  for (let i = 0; i < count; i++) {
    const row = rows[columns.api[i]], score = heightOf(i);
    row.cases++;
    if (isBad(i)) row.wrong++;
    if (verdict[i] === 1) row.warned++;
    if (verdict[i] === 2) row.none++;
    if (score >= 0 && !(row.worst >= score)) row.worst = score;
  }
  return rows.sort((a, b) => b.wrong - a.wrong || (b.worst || 0) - (a.worst || 0) || (a.name < b.name ? -1 : 1));
}

// The share of a bar: a hundredth of the limit or less is empty, a hundred times the limit or more is full.
function heatOf(score) { return score > 0 ? Math.min(1, Math.max(0.02, (Math.log10(score) + 2) / 4)) : 0; }

function apiNode(row) {
  const node = element("div", "node" + (filter.api === row.name ? " selected" : "")), label = element("span", "label"), button = element("button", "", row.name);
  button.type = "button";
  button.title = row.name;
  button.addEventListener("click", () => setFilter({ api: filter.api === row.name ? "" : row.name }));
  const heat = element("div", row.wrong ? "heat bad" : "heat good"), level = element("i");
  level.style.width = `${100 * heatOf(row.worst)}%`;
  return append(node, append(label, button), element("span", "number", row.cases.toLocaleString("en")), element("span", row.wrong ? "number bad" : "number", row.wrong || "–"), element("span", "number", row.none || "–"), element("span", row.worst > 1 ? "number bad" : "number", scoreText(row.worst)), append(heat, level));
}

function showApis() {
  const place = byId("apis"), rows = apiRows(), top = element("div", "node head");
  append(top, element("span", "", "API"), ...["cases", "wrong", "not compared", "÷ limit"].map((name) => element("span", "number", name)), element("span"));
  place.replaceChildren(top, ...rows.slice(0, MOST_APIS).map(apiNode));
  if (rows.length > MOST_APIS) place.append(element("div", "empty", `and ${(rows.length - MOST_APIS).toLocaleString("en")} more; search for them above`));
}

on("view", showApis);
