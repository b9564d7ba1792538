// One case: what was called, how it ended, and what was measured of each output and gradient.

const drawer = byId("drawer");
const NUMBERS = ["RMSE", "max abs", "max ULP", "mean ULP", "bias", "1 − cosine", "NaN, Inf unlike"];

function showDetails() {
  const i = state.selected;
  drawer.hidden = i < 0;
  if (i < 0) return;
  const detail = data.details[i], close = element("button", "ghost close", "close");
  close.type = "button";
  close.addEventListener("click", () => select(-1));
  drawer.replaceChildren(close, element("span", `tag ${classOf(i)}`, wordOf(i)), element("h2", "", apiOf(i)), summaryOf(i, detail));
  append(drawer, element("h3", "", "Call"), element("pre", "", apiOf(i) + callOf(i)));
  if (detail) append(drawer, ...detailParts(detail));
  else if (askDetail(i, showDetails)) drawer.append(loadingNote());
  else append(drawer, element("h3", "", "Details"), element("p", "muted", "This page keeps details of the cases that are not right and of some others."));
  drawer.scrollTop = 0;
}

function summaryOf(i, detail) {
  const list = element("dl");
  definition(list, "why", reasonOf(i));
  definition(list, "score", `forward ${scoreText(forward[i])}, backward ${scoreText(backward[i])} (above 1 fails)`);
  definition(list, "module", moduleOf(i));
  definition(list, "source", sourceOf(i));
  if (!detail) { definition(list, "calls", calls[i]); return list; }
  const more = calls[i] - detail.calls.length;
  definition(list, "calls", detail.calls.length ? detail.calls.join(", ") + (more > 0 ? ` and ${more.toLocaleString("en")} more` : "") : calls[i]);
  definition(list, "candidate", detail.candidate);
  definition(list, "reference", detail.reference);
  definition(list, "case", `${detail.key}, seed ${detail.seed}`);
  return list;
}

function detailParts(detail) {
  const parts = [];
  if (detail.repro) parts.push(element("h3", "", "Reproduce"), commandBox("runs this case in plain torch", detail.repro));
  if (detail.tensors.length) parts.push(element("h3", "", "Outputs and gradients"), ...detail.tensors.map(tensorBox));
  if (detail.inputs.length) parts.push(element("h3", "", "Inputs"), element("pre", "", detail.inputs.join("\n")));
  return parts;
}

function tensorBox(tensor) {
  const box = element("div", "tensor"), title = element("div", "title");
  const name = tensor.part === "gradient" ? `gradient of ${tensor.path}` : `output ${tensor.path}`;
  append(title, element("b", "", name), element("span", "muted", `${tensor.dtype} [${tensor.shape.join(", ")}]`), element("span", `tag ${KIND_CLASS[tensor.verdict]}`, tensor.word));
  const score = tensor.score === null ? "" : `${scoreText(toNumber(tensor.score))} × the limit: `;
  append(box, title, element("div", "reason", score + tensor.reason));
  if (tensor.worst) box.append(element("div", "worst", worstText(...tensor.worst)));
  if (tensor.measured.length) box.append(append(element("div", "scroll"), measuredTable(tensor.measured)));
  if (tensor.numbers && Object.keys(tensor.numbers).length) {
    const more = element("details");
    box.append(append(more, element("summary", "", "all numbers"), pairsOf(tensor.numbers)));
  }
  return box;
}

function worstText(position, candidate, gold) {
  const place = `worst element [${position.join(", ")}]: `;
  return place + (candidate === null ? "NaN or Inf where it must not be, or none where it must" : `${exact(candidate)} instead of ${exact(gold)}`);
}

function measuredTable(measured) {
  const table = element("table", "stats");
  table.append(append(element("tr"), element("th"), ...measured.map(([label]) => element("th", "", label))));
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
