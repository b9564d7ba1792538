// Where in a tensor the error is: a choice of tensor and slice, both in the address; the worst elements and their gold. A
// page from disk has pictures of the origin; a served page asks for that of any tensor and slice.

const pictured = { tensor: null, at: "", axes: "", gold: false };
const LAST_ULP = 23;

// The tensor that is shown unless another one was chosen: the worst output.
function usualTensor(detail) {
  const weight = (tensor) => (tensor.verdict >= 3 ? 4 : tensor.verdict === 1 ? 3 : 0) + (tensor.role === "output" ? 2 : 0) + (tensor.picture ? 1 : 0);
  return detail.tensors.reduce((best, tensor, place) => (weight(tensor) > weight(detail.tensors[best]) ? place : best), 0);
}
function shownTensor(detail) { return pictured.tensor !== null && pictured.tensor < detail.tensors.length ? pictured.tensor : usualTensor(detail); }

function errorPanel(detail, call) {
  if (!detail.tensors.length) return element("p", "muted", say("This call has no tensors on both sides."));
  const place = shownTensor(detail), box = element("div", "picture");
  append(box, detail.tensors.length > 1 ? tensorChoice(detail, place) : null);
  const shown = append(element("div"), loadingNote());
  box.append(shown);
  withPicture(detail.tensors[place], call, place, (picture) => {
    if (state.selected === call && shown.isConnected) showPicture(shown, picture, detail.tensors[place], call, place);
  });
  return box;
}

function tensorChoice(detail, place) {
  const control = element("select"), label = element("label", "muted", say("tensor") + " ");
  detail.tensors.forEach((tensor, n) => { const option = element("option", "", `${roleOf(tensor)} ${tensor.path} (${verdictWord(tensor.verdict)})`); option.value = String(n); control.append(option); });
  control.value = String(place);
  control.id = "tensor-choice";
  control.addEventListener("change", () => choosePicture({ tensor: Number(control.value), at: "", axes: "" }));
  return append(element("div", "tools"), append(label, control));
}

function choosePicture(change) {
  Object.assign(pictured, change);
  showPanel();
  saveAddress();
}

// The picture of a tensor as it is asked for now. What a page from disk does not hold is said.
const pictures = new Map();
function withPicture(tensor, call, place, show) {
  const usual = pictured.at === "" && pictured.axes === "";
  if (tensor.picture && (usual || !data.served)) { queueMicrotask(() => show(tensor.picture)); return; }
  if (!data.served) { queueMicrotask(() => show(null)); return; }
  const address = `data/tensor?position=${call}&place=${place}&at=${pictured.at}&axes=${pictured.axes}`;
  if (!pictures.has(address)) pictures.set(address, fetch(address).then((answer) => { if (!answer.ok) throw new Error(String(answer.status)); return answer.json(); }));
  pictures.get(address).then(show, () => { pictures.delete(address); show({ missing: say("the server did not answer") }); });
}

function showPicture(box, picture, tensor, call, place) {
  if (!picture) {
    const words = say("This page holds such pictures of the origin alone. To see those of any call:");
    box.replaceChildren(element("p", "muted", words), commandBox("", `trueline view ${quote(head.reference.path)} ${quote(head.candidate.path)}`));
    return;
  }
  if (picture.missing) { box.replaceChildren(element("p", "muted", say("Nothing to draw: {reason}.", { reason: picture.missing }))); return; }
  const [slice, heat] = chosenSlice(picture), ask = data.served ? (at) => choosePicture({ at: at.join(",") }) : null;
  const ulps = picture.ulps.map((amount, n) => [n === 0 ? "0" : n === LAST_ULP ? say("more") : `≤ ${grouped(2 ** (n - 1))}`, amount]);
  box.replaceChildren(element("p", "", say("{n} of {all} elements are equal", { n: grouped(picture.equal), all: grouped(picture.elements) })));
  append(box, sliceControls(picture, slice), heatMap(picture, heat), profilesOf(picture, ask),
    append(element("div", "histograms"), histogramOf(say("Off by so much"), picture.histogram.map(([power, amount]) => [power === "inf" ? "∞" : `1e${power}`, amount])), picture.ulps.length > 1 ? histogramOf(say("Units in the last place"), ulps) : null),
    worstBox(picture, tensor, call, place));
}

// A page from disk has the slices with the largest errors; a served one has the slice that it asked for.
function chosenSlice(picture) {
  const kept = !data.served && picture.slices && picture.slices.find((slice) => slice.at.join(",") === pictured.at);
  return kept ? [kept.at, kept.heat] : [picture.at, picture.heat];
}

function sliceControls(picture, slice) {
  const slots = picture.shape.map((_, dimension) => (picture.axes.includes(dimension) ? ":" : slice[picture.rest.indexOf(dimension)]));
  const said = element("p", "muted", say("slice [{slice}] of [{shape}]", { slice: slots.join(", "), shape: picture.shape.join(", ") })), box = append(element("div", "tools"), said);
  if (!data.served) return append(box, picture.slices ? sliceChoice(picture.slices, slice) : null);
  picture.rest.forEach((dimension, n) => {
    const control = element("input");
    Object.assign(control, { type: "number", min: "0", max: String(picture.shape[dimension] - 1), value: String(slice[n]) });
    control.setAttribute("aria-label", say("index in dimension {n}", { n: dimension }));
    control.addEventListener("change", () => { const at = [...slice]; at[n] = Number(control.value); choosePicture({ at: at.join(",") }); });
    box.append(append(element("label", "muted", say("dimension {n}", { n: dimension }) + " "), control));
  });
  return append(box, picture.rest.length ? axesChoice(picture) : null);
}

function sliceChoice(slices, slice) {
  const control = element("select");
  control.setAttribute("aria-label", say("Slice"));
  for (const one of slices) { const option = element("option", "", `[${one.at.join(", ")}, :, :]`); option.value = one.at.join(","); control.append(option); }
  control.value = slice.join(",");
  control.addEventListener("change", () => choosePicture({ at: control.value }));
  return append(element("label", "muted", say("largest errors first") + " "), control);
}

// Any two dimensions can be the rows and the columns.
function axesChoice(picture) {
  const control = element("select"), usual = picture.axes.join(",");
  control.setAttribute("aria-label", say("Rows and columns of the map"));
  picture.shape.forEach((_, a) => picture.shape.forEach((__, b) => {
    if (a >= b) return;
    const option = element("option", "", say("dimensions {a} and {b}", { a, b }));
    option.value = `${a},${b}`;
    control.append(option);
  }));
  control.value = usual;
  control.addEventListener("change", () => choosePicture({ axes: control.value, at: "" }));
  return control;
}

// The worst elements. The gold is what the reference's call gives in float64; asking for it runs that call again.
function worstBox(picture, tensor, call, place) {
  if (!picture.worst.length) return null;
  const box = element("div", "worst"), gold = picture.gold || tensor.gold;
  const tools = append(element("div", "tools"), element("h3", "", say("The worst elements"))), copyButton = element("button", "ghost", say("copy as CSV"));
  copyButton.type = "button";
  copyButton.addEventListener("click", () => copy(csvText(worstRows(picture, gold)), copyButton));
  append(tools, copyButton);
  box.append(tools);
  if (gold) append(box, goldWords(gold));
  else if (data.served && tensor.role === "output") append(tools, goldButton(tensor, call, place));
  box.append(append(element("div", "scroll"), worstTable(picture, gold)));
  if (!gold && pictured.gold && data.served && tensor.role === "output") askGold(tensor, call, place);
  return box;
}

function goldButton(tensor, call, place) {
  const button = element("button", "ghost", pictured.gold ? say("replaying…") : say("replay in float64 for the gold"));
  button.type = "button";
  button.id = "ask-gold";
  button.addEventListener("click", () => { pictured.gold = true; button.textContent = say("replaying…"); saveAddress(); askGold(tensor, call, place); });
  return button;
}

function askGold(tensor, call, place) {
  if (tensor.goldAsked) return;
  tensor.goldAsked = true;
  fetch(`data/gold?position=${call}&place=${place}`)
    .then((answer) => { if (!answer.ok) throw new Error(String(answer.status)); return answer.json(); })
    .catch(() => ({ missing: say("the server did not answer") }))
    .then((gold) => { tensor.gold = gold; if (state.selected === call) showPanel(); });
}

function goldWords(gold) {
  if (gold.missing) return element("p", "muted", say("No gold: {reason}.", { reason: gold.missing }));
  const one = toNumber(gold.reference), other = toNumber(gold.candidate);
  return append(element("p", "gold-words"), pill(say("the candidate is {n} away from the gold", { n: short(other) }), other > one ? "bad" : "good", other > one ? "✕" : "✓"), " ", pill(say("the reference {n}", { n: short(one) }), one > other ? "bad" : "good", one > other ? "✕" : "✓"));
}

function worstRows(picture, gold) {
  const known = gold && !gold.missing;
  const rows = [[say("element"), say("reference"), say("candidate"), ...(known ? [say("gold")] : []), say("off by")]];
  picture.worst.forEach((one, n) => rows.push([`[${one.at.join(", ")}]`, digits(one.reference), digits(one.candidate), ...(known ? [digits(gold.values[n])] : []), short(one.error)]));
  return rows;
}
// Every digit that tells two float32 apart; complex numbers come as text.
function digits(value) { return /j\)?$/.test(String(value)) ? value : typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(9))) : exact(value); }

function worstTable(picture, gold) {
  const table = element("table", "stats"), [labels, ...rows] = worstRows(picture, gold);
  table.append(append(element("tr"), ...labels.map((name) => element("th", "", name))));
  rows.forEach((cells) => table.append(append(element("tr"), ...cells.map((text, n) => element(n ? "td" : "th", n === 2 ? "differs" : n === 3 && labels.length === 5 ? "gold" : "", text)))));
  return table;
}
