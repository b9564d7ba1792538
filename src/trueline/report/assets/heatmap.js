// A heat map of one slice of a tensor, the largest error along each dimension, and histograms.

// Light to dark on paper, dark to light on a dark page, so that grey tells it too.
const HEAT = { light: ["#f2f0e9", "#fde3b1", "#f9b872", "#ee8149", "#c94a2c", "#7f1d1d"], dark: ["#20262e", "#4a2a1e", "#8a3b1c", "#d0622c", "#f5a052", "#ffe3a8"] };
const BEYOND = "#8f2bd1"; // NaN or infinity on one side alone
const DECADES = 4; // noise stays pale
function palette() { return HEAT[document.documentElement.dataset.theme === "dark" ? "dark" : "light"]; }

// From an error to the number of its colour: the largest finite one is the last.
function heatScale(values) {
  const finite = values.filter((value) => value > 0 && Number.isFinite(value));
  const top = Math.log10(Math.max(...finite, 1e-300)), least = Math.log10(Math.min(...finite, 10 ** top));
  const decades = Math.min(DECADES, Math.max(1, top - least)), levels = HEAT.light.length - 1;
  const level = (value) => (value > 0 ? Math.min(levels, Math.max(1, Math.round(levels + ((Math.log10(value) - top) / decades) * (levels - 1)))) : 0);
  const valueOfLevel = (n) => 10 ** (top + ((n - levels) / (levels - 1)) * decades);
  return { finite: finite.length, beyond: values.filter((value) => value === Infinity).length, top: 10 ** top, color: (value) => (value === Infinity ? BEYOND : palette()[level(value)]), valueOfLevel, levels };
}

function paintCells(image, values, scale) {
  image.width = values[0].length; image.height = values.length;
  const paintOn = image.getContext("2d");
  values.forEach((row, y) => row.forEach((value, x) => { paintOn.fillStyle = scale.color(value); paintOn.fillRect(x, y, 1, 1); }));
}

// Which indices a cell stands for.
function blockOf(cell, cells, size) {
  const from = Math.floor((cell * size) / cells), to = Math.floor(((cell + 1) * size) / cells) - 1;
  return from >= to ? String(from) : `${from}–${to}`;
}

function heatMap(picture, heat) {
  const values = heat.map((row) => row.map(toNumber)), scale = heatScale(values.flat()), rows = values.length, width = values[0].length;
  const image = element("canvas", "heatmap"), frame = element("div", "heat-frame"), told = element("p", "muted told");
  image.setAttribute("role", "img");
  const said = scale.finite || scale.beyond ? say("Largest error {n}; {some} of {all} blocks differ", { n: scale.beyond ? "∞" : short(scale.top), some: grouped(scale.finite + scale.beyond), all: grouped(rows * width) }) : say("equal here; choose another slice");
  image.setAttribute("aria-label", said);
  told.textContent = said;
  paintCells(image, values, scale);
  frame.style.aspectRatio = `${Math.max(width, rows / 2)} / ${Math.max(rows, width / 10)}`;
  image.addEventListener("pointermove", (event) => {
    const x = Math.min(width - 1, Math.max(0, Math.floor((event.offsetX / image.clientWidth) * width))), y = Math.min(rows - 1, Math.max(0, Math.floor((event.offsetY / image.clientHeight) * rows)));
    told.textContent = say("row {row}, column {column}: off by up to {n}", { row: blockOf(y, rows, picture.extent[0]), column: blockOf(x, width, picture.extent[1]), n: short(values[y][x]) });
  });
  image.addEventListener("pointerleave", () => { told.textContent = said; });
  return append(element("div", "heat-box"), append(frame, image), append(element("div", "heat-foot"), told, heatLegend(scale)));
}

function heatLegend(scale) {
  const legend = element("div", "heat-legend"), swatch = (color, text) => {
    const box = element("i");
    box.style.background = color;
    return append(element("span"), box, text);
  };
  legend.append(swatch(palette()[0], say("equal")));
  if (scale.finite) for (const n of [1, Math.ceil(scale.levels / 2), scale.levels]) legend.append(swatch(palette()[n], short(scale.valueOfLevel(n))));
  if (scale.beyond) legend.append(swatch(BEYOND, say("NaN or infinity")));
  return legend;
}

// The largest error at each index of each dimension: a wrong channel stands out. Selecting one shows its slice.
function profilesOf(picture, choose) {
  if (!picture.profiles.length) return null;
  const box = append(element("div", "profiles"), element("h3", "", say("The largest error along each dimension")));
  picture.profiles.forEach((profile, dimension) => {
    const values = profile.map(toNumber), scale = heatScale(picture.profiles.flat().map(toNumber)), image = element("canvas", "profile"), size = picture.shape[dimension];
    paintCells(image, [values], scale);
    const differ = values.filter((value) => value > 0).length;
    image.setAttribute("role", "img");
    image.setAttribute("aria-label", say("dimension {n}: {some} of {all} blocks differ", { n: dimension, some: differ, all: values.length }));
    const told = element("span", "told", say("{some} of {all} differ", { some: differ, all: values.length }));
    const at = (event) => Math.min(values.length - 1, Math.max(0, Math.floor((event.offsetX / image.clientWidth) * values.length)));
    image.addEventListener("pointermove", (event) => { told.textContent = `${blockOf(at(event), values.length, size)}: ${short(values[at(event)])}`; });
    image.addEventListener("pointerleave", () => { told.textContent = say("{some} of {all} differ", { some: differ, all: values.length }); });
    const place = picture.rest.indexOf(dimension);
    if (choose && place >= 0) {
      image.classList.add("choosable");
      image.addEventListener("click", (event) => { const next = [...picture.at]; next[place] = Math.floor((at(event) * size) / values.length); choose(next); });
    }
    box.append(append(element("div", "profile-row"), element("span", "", say("dimension {n} ({size})", { n: dimension, size: grouped(size) })), image, told));
  });
  return box;
}

function histogramOf(title, rows) {
  if (!rows.length) return null;
  const most = Math.max(...rows.map(([, amount]) => amount)), box = append(element("div", "histogram"), element("h3", "", title));
  for (const [label, amount] of rows) {
    if (!amount) continue;
    const bar = element("i");
    bar.style.width = `${Math.max(1, (100 * Math.log1p(amount)) / Math.log1p(most))}%`;
    box.append(append(element("div", "bin"), element("span", "", label), append(element("div"), bar), element("b", "", grouped(amount))));
  }
  return box;
}
