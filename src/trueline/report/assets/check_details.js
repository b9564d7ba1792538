// One case: what was called, how it ended, and what was measured of each output and gradient.

const NUMBERS = ["RMSE", say("max abs"), say("max ULP"), say("mean ULP"), say("bias"), say("1 − cosine"), say("NaN, Inf unlike")];
const SIDES = { "candidate to gold": say("candidate to gold"), "honest to gold": say("honest to gold"), "candidate to honest": say("candidate to honest") };

function showDetails() {
  const i = state.selected;
  if (i < 0) return;
  const detail = data.details[i];
  if (detail && detail.row) learn(detail.row); // of a case that came by its address alone
  const parts = detail ? detailParts(detail) : askDetail(i, showDetails) ? [loadingNote()] : missingNote();
  fillDrawer(element("span", `tag ${classOf(i)}`, wordOf(i)), apiOf(i), summaryOf(i, detail), element("h3", "", say("Call")), element("pre", "", apiOf(i) + callOf(i)), ...parts);
}

function missingNote() {
  return [element("h3", "", say("Details")), element("p", "muted", say("This page keeps details of the cases that are not right and of some others."))];
}

function summaryOf(i, detail) {
  const list = element("dl");
  definition(list, say("status"), endingLook(endingOf(i))[0]);
  definition(list, say("why"), reasonOf(i));
  definition(list, say("score"), say("{scores} (above 1 fails)", { scores: scoresText(i) }));
  definition(list, say("module"), moduleOf(i));
  definition(list, say("source"), sourceOf(i));
  if (!detail) { definition(list, say("calls"), calls[i]); return list; }
  const more = calls[i] - detail.calls.length, names = detail.calls.join(", ");
  definition(list, say("calls"), !names ? calls[i] : more > 0 ? say("{names} and {n} more", { names, n: grouped(more) }) : names);
  definition(list, say("candidate"), detail.candidate);
  definition(list, say("reference"), detail.reference);
  definition(list, say("case"), say("{key}, seed {seed}", { key: detail.key, seed: detail.seed }));
  return list;
}

function detailParts(detail) {
  const parts = [];
  if (detail.repro) parts.push(element("h3", "", say("Reproduce")), ...scriptParts(detail.repro, detail.script, false));
  if (detail.tensors.length) parts.push(element("h3", "", say("Outputs and gradients")), ...detail.tensors.map(tensorBox));
  if (detail.inputs.length) parts.push(element("h3", "", say("Inputs")), element("pre", "", detail.inputs.join("\n")));
  return parts;
}

function tensorBox(tensor) {
  const box = element("div", "tensor"), title = element("div", "title");
  const name = tensor.part === "gradient" ? say("gradient of {path}", { path: tensor.path }) : say("output {path}", { path: tensor.path });
  append(title, element("b", "", name), element("span", "muted", `${tensor.dtype} [${tensor.shape.join(", ")}]`), element("span", `tag ${KIND_CLASS[tensor.verdict]}`, KIND_WORD[tensor.verdict]));
  const reason = tensor.score === null ? tensor.reason : say("{n} × the limit: {reason}", { n: scoreText(toNumber(tensor.score)), reason: tensor.reason });
  append(box, title, element("div", "reason", reason));
  if (tensor.worst) box.append(element("div", "worst", worstText(...tensor.worst)));
  if (tensor.measured.length) box.append(append(element("div", "scroll"), measuredTable(tensor.measured)));
  if (tensor.numbers && Object.keys(tensor.numbers).length) {
    const more = element("details");
    box.append(append(more, element("summary", "", say("all numbers")), pairsOf(tensor.numbers)));
  }
  return box;
}

function worstText(position, candidate, gold) {
  const what = candidate === null ? say("NaN or Inf where it must not be, or none where it must") : say("{candidate} instead of {gold}", { candidate: exact(candidate), gold: exact(gold) });
  return say("worst element {place}: {what}", { place: `[${position.join(", ")}]`, what });
}

function measuredTable(measured) {
  const table = element("table", "stats");
  table.append(append(element("tr"), element("th"), ...measured.map(([label]) => element("th", "", SIDES[label] || label))));
  NUMBERS.forEach((name, n) => {
    table.append(append(element("tr"), element("th", "", name), ...measured.map((side) => element("td", "", brief(side[n + 1])))));
  });
  return table;
}

// Four digits are enough to compare by eye.
function brief(value) {
  value = toNumber(value);
  return Number.isFinite(value) && !Number.isInteger(value) ? exact(Number(value.toPrecision(4))) : exact(value);
}

on("selected", showDetails);
