// The matrix: a row for each way to train, a column for each thing that was done with it. A cell says how that ended, how
// far its numbers are from those of the stage before, and what it cost.

const placeOfStage = new Map(Array.from({ length: count }, (_, i) => [nameOf(i), i]));
const edgeOf = new Map(head.edges.map((edge) => [edge.position, edge]));
const COLUMN_WORDS = { train: say("train"), eval: say("evaluate"), export: say("export") };

function showMatrix() {
  const { columns: labels, rows } = head.matrix;
  if (!rows.length) return;
  byId("matrix").hidden = false;
  const top = element("tr");
  for (const label of [say("trainer"), say("precision"), say("devices"), ...labels.map((name) => COLUMN_WORDS[name] || (name.startsWith("infer ") ? `${say("infer")} ${name.slice(6)}` : name))]) { const cell = element("th", "", label); cell.scope = "col"; top.append(cell); }
  const body = element("tbody");
  for (const row of rows) {
    const line = append(element("tr"), element("th", "mono", row.trainer), element("th", "mono", row.precision), element("th", "muted", row.devices));
    for (const cells of row.cells) line.append(append(element("td"), ...matrixCell(cells)));
    body.append(line);
  }
  byId("matrix-table").replaceChildren(append(element("thead"), top), body);
}

// A cell with several commands (batch sizes, threads) shows the worst of them and how many went well.
function matrixCell(cells) {
  if (!cells.length) return [element("span", "muted", "–")];
  const worst = cells.reduce((a, b) => (cellVerdict(b) > cellVerdict(a) ? b : a));
  const which = cellVerdict(worst), good = cells.filter((one) => cellVerdict(one) <= 1).length;
  const button = element("button", `cell ${CLASSES[which]}`), [command, check] = worst;
  button.type = "button";
  button.append(append(element("span", "cell-top"), element("b", "", `${MARKS[which]} ${verdict[command] >= which || check === null ? statusText(command) : WORDS[which]}`), cells.length > 1 ? element("span", "", say("{n} of {all}", { n: good, all: cells.length })) : null));
  const edge = worstEdge(cells);
  if (edge) button.append(...errorBar(edge, which));
  else if (check !== null && textOf("said", check)) button.append(element("span", "cell-cost", textOf("said", check)));
  button.append(element("span", "cell-cost", `${duration(cells.reduce((sum, [i]) => sum + seconds[i], 0))} · ${bytes(Math.max(...cells.map(([i]) => peak[i])) || NaN)}`));
  button.addEventListener("click", () => showRow(check !== null && verdict[check] > verdict[command] ? check : command));
  return [button];
}

function cellVerdict([command, check]) { return Math.max(verdict[command], check === null ? 0 : verdict[check]); }
function worstEdge(cells) {
  const edges = cells.map(([, check]) => (check === null ? null : edgeOf.get(check))).filter((edge) => edge && edge.error !== null);
  return edges.reduce((a, b) => (a === null || shareOf(b) > shareOf(a) ? b : a), null);
}
function shareOf(edge) { const limit = toNumber(edge.limit); return limit ? toNumber(edge.error) / limit : toNumber(edge.error) ? Infinity : 0; }

// How much of its limit an error takes, on a logarithmic scale: a thousandth is an empty bar, a thousand times a full one.
function errorBar(edge, which) {
  const text = element("span", "cell-error", edge.limit === null || edge.limit === undefined ? say("error {error}", { error: short(edge.error) }) : say("error {error} of {limit}", { error: short(edge.error), limit: short(edge.limit) }));
  text.title = say("{candidate} against {reference}", { candidate: edge.candidate, reference: edge.reference });
  const heat = element("span", `heat ${which >= 3 ? "bad" : "good"}`), fill = element("i"), share = shareOf(edge);
  fill.style.width = `${share ? Math.min(100, Math.max(2, ((Math.log10(share) + 3) / 6) * 100)) : 0}%`;
  return [text, append(heat, fill)];
}
