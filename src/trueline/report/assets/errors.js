// Where in a tensor the error is: a heat map of a slice, histograms, the worst elements. A page from disk has pictures of
// the origin; a served page asks for that of any tensor and slice.

const HEAT = ["#f2f0e9", "#fde3b1", "#f9b872", "#ee8149", "#c94a2c", "#7f1d1d"]; // light to dark, so that grey tells it too

function errorPicture(tensor, call, place) {
  const box = element("div", "picture");
  if (tensor.picture) { showPicture(box, tensor.picture, call, place); return box; }
  if (!data.served || tensor.verdict === 0 || !tensor.reference || !tensor.candidate) return null;
  const button = element("button", "ghost", "where is the error?");
  button.type = "button";
  button.addEventListener("click", () => askPicture(box, tensor, call, place, []));
  box.append(button);
  return box;
}

function askPicture(box, tensor, call, place, at) {
  fetch(`data/tensor?position=${call}&place=${place}&at=${at.join(",")}`)
    .then((answer) => { if (!answer.ok) throw new Error(`${answer.status}`); return answer.json(); })
    .then((picture) => { tensor.picture = picture; showPicture(box, picture, call, place, tensor); })
    .catch(() => box.replaceChildren(element("p", "muted", "The tensors were not kept on both sides; capture with --data tensors.")));
}

function showPicture(box, picture, call, place, tensor) {
  box.replaceChildren();
  if (!picture) { box.append(element("p", "muted", "The tensors were not kept on both sides; capture with --data tensors.")); return; }
  append(box, element("h3", "", "Where the error is"), sliceControls(picture, (at) => askPicture(box, tensor, call, place, at)), heatMap(picture));
  append(box, histogramOf("Off by so much", picture.histogram.map(([power, amount]) => [power === "inf" ? "∞" : `1e${power}`, amount])));
  if (picture.ulps.length > 1) append(box, histogramOf("Units in the last place", picture.ulps.map((amount, n) => [n === 0 ? "0" : n === picture.ulps.length - 1 && n === 23 ? "more" : `≤ ${(2 ** (n - 1)).toLocaleString("en")}`, amount])));
  append(box, worstTable(picture.worst));
}

function sliceControls(picture, ask) {
  const said = element("p", "muted", `slice [${[...picture.at, ":", ":"].slice(-Math.max(1, picture.shape.length)).join(", ")}] of [${picture.shape.join(", ")}]`);
  if (!data.served || !picture.leading.length) return said;
  const box = append(element("div", "tools"), said);
  picture.leading.forEach((size, n) => {
    const control = element("input");
    control.type = "number"; control.min = "0"; control.max = String(size - 1); control.value = String(picture.at[n]);
    control.setAttribute("aria-label", `index in dimension ${n}`);
    control.addEventListener("change", () => { const at = [...picture.at]; at[n] = Number(control.value); ask(at); });
    box.append(control);
  });
  return box;
}

function heatMap(picture) {
  const rows = picture.heat.length, width = picture.heat[0].length;
  const values = picture.heat.map((row) => row.map(toNumber)), finite = values.flat().filter((value) => value > 0 && Number.isFinite(value));
  const top = Math.log10(Math.max(...finite, 1e-300)), bottom = top - Math.min(4, Math.max(1, top - Math.log10(Math.min(...finite, 10 ** top)))); // four decades: noise stays pale
  const canvas = element("canvas", "heatmap");
  canvas.width = width; canvas.height = rows;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Largest error ${short(10 ** top)}; ${finite.length} of ${rows * width} blocks differ`);
  const paint = canvas.getContext("2d");
  values.forEach((row, y) => row.forEach((value, x) => {
    const level = value === 0 ? 0 : !Number.isFinite(value) ? HEAT.length - 1 : 1 + Math.round(((Math.log10(value) - bottom) / (top - bottom)) * (HEAT.length - 2));
    paint.fillStyle = HEAT[Math.min(HEAT.length - 1, Math.max(0, level))];
    paint.fillRect(x, y, 1, 1);
  }));
  const legend = element("p", "muted", finite.length ? `from equal (light) to ${short(10 ** top)} (dark), ${picture.extent.join(" × ")} elements` : "equal here; choose another slice");
  const frame = element("div", "heat-frame");
  frame.style.aspectRatio = `${Math.max(width, rows / 2)} / ${Math.max(rows, width / 12)}`;
  return append(element("div"), append(frame, canvas), legend);
}

function histogramOf(title, rows) {
  if (!rows.length) return null;
  const most = Math.max(...rows.map(([, amount]) => amount)), box = append(element("div", "histogram"), element("h3", "", title));
  for (const [label, amount] of rows) {
    if (!amount) continue;
    const bar = element("i");
    bar.style.width = `${Math.max(1, (100 * Math.log1p(amount)) / Math.log1p(most))}%`;
    box.append(append(element("div", "bin"), element("span", "", label), append(element("div"), bar), element("b", "", amount.toLocaleString("en"))));
  }
  return box;
}

function worstTable(worst) {
  if (!worst.length) return null;
  const table = element("table", "stats"), top = element("tr");
  append(top, ...["element", "reference", "candidate", "off by"].map((name) => element("th", "", name)));
  table.append(top);
  for (const one of worst) table.append(append(element("tr"), element("th", "", `[${one.at.join(", ")}]`), element("td", "", exact(one.reference)), element("td", "differs", exact(one.candidate)), element("td", "", short(one.error))));
  return append(element("div"), element("h3", "", "The worst elements"), append(element("div", "scroll"), table));
}
