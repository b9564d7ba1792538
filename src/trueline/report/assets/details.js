// One call: what it was given and gave back on both sides, where its error is, where it was made, and how to go on. Which
// part is shown is in the address.

const STATISTICS = [say("min"), say("max"), say("mean"), say("norm"), "NaN", "Inf", say("zeros")];
const METRICS = {
  cosine: say("cosine"), max_abs: say("max abs"), mean_abs: say("mean abs"), max_rel: say("max rel"), mean_rel: say("mean rel"), rmse: "RMSE",
  max_ulp: say("max ULP"), mean_ulp: say("mean ULP"), bias: say("bias"), nan_mismatch: say("NaN mismatch"), infinity_mismatch: say("Inf mismatch"),
};
const VERDICT_WORDS = [say("pass"), say("warn"), say("not compared"), say("fail"), say("fail")];
function verdictWord(n) { return VERDICT_WORDS[n]; }
function roleOf(tensor) { return { input: say("input"), output: say("output"), parameter: say("parameter") }[tensor.role] || tensor.role; }

const PANELS = {
  sides: [say("Both sides"), sidesPanel],
  error: [say("Where the error is"), errorPanel],
  stack: [say("Stack"), stackPanel],
  next: [say("Go on"), nextPanel],
};
let panel = "sides", shownCall = -1;

function detailOf(i) { return i === head.position ? head.origin.detail : data.details[i]; }

function showDetails() {
  const i = state.selected;
  if (i !== shownCall) Object.assign(pictured, { tensor: null, at: "", axes: "" });
  shownCall = i;
  if (i < 0) return;
  const detail = detailOf(i);
  const parts = detail ? [tabs(), element("div", "panel")] : [askDetail(i, showDetails) ? loadingNote() : missingNote(i)];
  fillDrawer(element("span", `tag ${classOf(i)}`, wordOf(i)), nameOf(i), summaryOf(i, detail), ...parts);
  if (detail) showPanel();
}

function showPanel() {
  const place = drawer.querySelector(".panel");
  if (!place) return;
  const content = PANELS[panel][1](detailOf(state.selected), state.selected);
  place.replaceChildren(...(Array.isArray(content) ? content : [content]).filter(Boolean));
  for (const tab of drawer.querySelectorAll("[role=tab]")) { tab.setAttribute("aria-selected", String(tab.dataset.panel === panel)); tab.tabIndex = tab.dataset.panel === panel ? 0 : -1; }
}

function tabs() {
  const bar = element("div", "tabs");
  bar.setAttribute("role", "tablist");
  for (const [name, [label]] of Object.entries(PANELS)) {
    const tab = element("button", "", label);
    tab.type = "button";
    tab.dataset.panel = name;
    tab.setAttribute("role", "tab");
    tab.addEventListener("click", () => choosePanel(name));
    bar.append(tab);
  }
  bar.addEventListener("keydown", (event) => {
    const names = Object.keys(PANELS), move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    choosePanel(names[(names.indexOf(panel) + move + names.length) % names.length]);
    bar.querySelector("[aria-selected=true]").focus();
  });
  return bar;
}
function choosePanel(name) {
  panel = name;
  showPanel();
  saveAddress();
}

hold((words) => {
  if (panel !== "sides") words.set("tab", panel);
  if (state.selected < 0) return;
  for (const key of ["tensor", "at", "axes"]) if (pictured[key] !== null && pictured[key] !== "") words.set(key, String(pictured[key]));
  if (pictured.gold) words.set("gold", "1");
}, (words) => {
  const numbers = (key) => (/^\d+(,\d+)*$/.test(words.get(key) || "") ? words.get(key) : "");
  panel = Object.hasOwn(PANELS, words.get("tab") || "") ? words.get("tab") : "sides";
  Object.assign(pictured, { tensor: /^\d+$/.test(words.get("tensor") || "") ? Number(words.get("tensor")) : null, at: numbers("at"), axes: numbers("axes"), gold: words.get("gold") === "1" });
  showPanel();
});

function summaryOf(i, detail) {
  const list = element("dl");
  const other = detail && detail.reference && detail.candidate && detail.reference.module !== detail.candidate.module ? say(", {name} in the reference", { name: detail.reference.module || say("outside any module") }) : "";
  definition(list, say("module"), (moduleOf(i) || say("outside any module")) + (detail && detail.module_class ? ` (${detail.module_class})` : "") + other);
  definition(list, say("source"), (detail && detail.stack[0]) || sourceOf(i));
  definition(list, say("where"), `${say("step {n}", { n: step[i] })}, ${say("rank {n}", { n: rank[i] })}` + (detail && detail.context ? `, ${detail.context}` : ""));
  const errors = say("inputs {inputs}, output {output}", { inputs: short(input[i]), output: short(output[i]) });
  if (!alone[i]) definition(list, say("error"), errors + (limit[i] > 0 ? say(", limit {n}", { n: short(limit[i]) }) + ` (${times(ratioOf(i))})` : ""));
  if (detail) definition(list, say("why"), detail.reason);
  return list;
}

function missingNote(i) {
  const side = alone[i] === ALONE.REFERENCE ? head.reference.path : head.candidate.path;
  return append(element("div"), element("h3", "", say("Details")), element("p", "muted", say("This page keeps details of the calls that differ and of some others. To see this one:")),
    commandBox("", `trueline show ${quote(side)} ${quote(nameOf(i))} --step ${step[i]} --rank ${rank[i]}`));
}

function sidesPanel(detail) {
  const parts = [element("h3", "", say("Arguments")), append(element("div", "scroll"), argumentsTable(detail))];
  if (detail.tensors.length) parts.push(element("h3", "", say("Tensors")), ...detail.tensors.map(tensorBox));
  return parts;
}

function stackPanel(detail) {
  const sides = [detail.reference, detail.candidate].filter(Boolean), parts = [];
  if (sides.length === 2 && sides[0].source !== sides[1].source) parts.push(element("p", "muted", say("The reference makes this call in {place}.", { place: sides[0].source || "?" })));
  parts.push(detail.stack.length ? element("pre", "", detail.stack.join("\n")) : element("p", "muted", say("No stack was kept: capture with --stacks.")));
  return parts;
}

function nextPanel(detail) {
  const words = { show: say("see it in the terminal"), check: say("check this call alone, forward and backward, against float64"), dump: say("keep its tensors"), reproduce: say("keep its tensors and run it again, without trueline") };
  return append(element("div", "next"), ...Object.entries(words).filter(([key]) => detail.commands[key]).map(([key, why]) => commandBox(why, detail.commands[key])));
}

// What a side lacks, or has otherwise, is marked.
function argumentsTable(detail) {
  const table = element("table", "stats arguments"), rows = [...detail.arguments];
  const result = (side) => (side ? `${side.result}${side.raised ? ` ${say("raised {error}", { error: side.raised })}` : ""}` : null);
  rows.push(["→", result(detail.reference), result(detail.candidate)]);
  table.append(append(element("tr"), element("th"), element("th", "", say("reference")), element("th", "", say("candidate"))));
  for (const [name, one, other] of rows) {
    const differs = one !== other, cell = (text) => element("td", text === null ? "muted" : "", text === null ? say("not there") : text);
    table.append(append(element("tr", differs ? "differs" : ""), element("th", "", name), cell(one), cell(other)));
  }
  return table;
}

function tensorBox(tensor, place) {
  const box = element("div", "tensor"), title = element("div", "title");
  const which = tensor.verdict >= 3 ? "fail" : ["pass", "warn", "none"][tensor.verdict];
  const described = tensor.candidate || tensor.reference;
  append(title, element("b", "", `${roleOf(tensor)} ${tensor.path}`), element("span", "muted", `${described.dtype} [${described.shape.join(", ")}] ${described.device}`), element("span", `tag ${which}`, verdictWord(tensor.verdict)));
  box.append(title);
  if (tensor.distance !== null) {
    const bound = tensor.limit === null ? "" : say(", limit {n}", { n: short(tensor.limit) });
    box.append(element("div", "", say("distance {n}", { n: short(tensor.distance) }) + (tensor.estimated ? say(" (estimated from sketches)") : "") + bound));
  }
  if (tensor.reason) box.append(element("div", "muted", tensor.reason));
  box.append(append(element("div", "scroll"), statisticsTable(tensor)));
  if (tensor.measurement) box.append(metricsOf(tensor.measurement));
  if (tensor.errors) box.append(append(element("div", "scroll"), errorsTable(tensor.errors)));
  if (tensor.reference && tensor.candidate) box.append(pictureButton(place));
  return box;
}

function pictureButton(place) {
  const button = element("button", "ghost", say("where is the error?"));
  button.type = "button";
  button.addEventListener("click", () => { Object.assign(pictured, { tensor: place, at: "", axes: "" }); choosePanel("error"); drawer.scrollTop = 0; });
  return button;
}

function metricsOf(measurement) {
  const slots = Object.fromEntries(Object.entries(METRICS).map(([key, label]) => [label, measurement[key]]));
  return pairsOf({ ...slots, [say("equal")]: say("{n} of {all}", { n: grouped(measurement.equal), all: grouped(measurement.count) }) });
}

function errorsTable(errors) {
  const table = element("table", "stats errors");
  table.append(append(element("tr"), ...[say("error against the gold"), say("candidate"), say("baseline"), say("ratio")].map((name) => element("th", "", name))));
  for (const [metric, candidate, baseline, ratio] of errors) {
    const row = append(element("tr"), element("th", "", metric), element("td", "", short(candidate)), element("td", "", short(baseline)));
    table.append(append(row, element("td", toNumber(ratio) > 1 ? "differs" : "", exact(ratio))));
  }
  return table;
}

function statisticsTable(tensor) {
  const table = element("table", "stats"), sides = [[say("reference"), tensor.reference], [say("candidate"), tensor.candidate]];
  table.append(append(element("tr"), element("th"), ...STATISTICS.map((name) => element("th", "", name))));
  if (tensor.baseline) sides.push([say("baseline"), tensor.baseline]);
  sides.forEach(([label, side], n) => {
    const row = append(element("tr"), element("th", "", label));
    if (!side || !side.statistics) {
      const cell = element("td", "muted", side ? side.missing : say("has no such tensor"));
      cell.colSpan = STATISTICS.length;
      row.append(cell);
    } else {
      const other = n ? tensor.reference : tensor.candidate;
      side.statistics.forEach((value, column) => {
        const differs = other && other.statistics && exact(other.statistics[column]) !== exact(value);
        row.append(element("td", differs ? "differs" : "", exact(value)));
      });
    }
    table.append(row);
  });
  return table;
}

on("selected", showDetails);
on("theme", showPanel); // the colours of a heat map are those of the theme
