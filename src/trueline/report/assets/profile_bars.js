// Where time and memory go: one bar for each API or each case, of both sides where there are two. What is drawn are the
// cases in view; a bar narrows the view to its API, or opens its case.

const BARS_SHOWN = 18;
const BAR_VALUES = {
  total: { ours: (i) => total[i] / stepsTold, theirs: (i) => (calls[i] * ((against_forward[i] || 0) + (against_backward[i] || 0))) / stepsTold, text: duration, sum: true, reading: say("Time of one step: how long all these calls take, forward and backward.") },
  lost: { ours: (i) => Math.max(0, lost[i]) / stepsTold, text: duration, sum: true, reading: say("Time of one step that these calls take longer than on the other side.") },
  memory: { ours: (i) => peak[i], theirs: (i) => against_peak[i], text: bytes, sum: false, reading: say("Memory of one call at its peak, beyond what was held before; the largest of the group.") },
};
const barValue = segmented(byId("bars-values"), "bars", [["total", say("time")], ...(compared ? [["lost", say("lost time")]] : []), ["memory", say("memory")]], () => drawBars());
const barGroup = segmented(byId("bars-groups"), "by", [["api", say("by API")], ["case", say("by case")]], () => drawBars());

function barRows() {
  const told = BAR_VALUES[barValue()], byApi = barGroup() === "api", groups = new Map();
  for (const i of state.inOrder) {
    const key = byApi ? columns.api[i] : i, ours = told.ours(i), theirs = told.theirs ? told.theirs(i) : NaN;
    if (!groups.has(key)) groups.set(key, { key, first: i, members: 0, ours: 0, theirs: 0, worst: 0 });
    const group = groups.get(key), join = (a, b) => (Number.isNaN(b) ? a : told.sum ? a + b : Math.max(a, b));
    group.members++;
    group.ours = join(group.ours, ours);
    group.theirs = join(group.theirs, theirs);
    if (verdict[i] !== 2) group.worst = Math.max(group.worst, verdict[i]);
  }
  return [...groups.values()].filter((one) => one.ours > 0 || one.theirs > 0).sort((a, b) => b.ours - a.ours);
}

function drawBars() {
  const told = BAR_VALUES[barValue()], rows = barRows(), shown = rows.slice(0, BARS_SHOWN), byApi = barGroup() === "api";
  const widest = Math.max(...shown.map((one) => Math.max(one.ours, compared && told.theirs ? one.theirs : 0)), Number.MIN_VALUE);
  byId("bars-of").textContent = rows.length > shown.length ? say("the {n} largest of {all}", { n: shown.length, all: grouped(rows.length) }) : "";
  byId("bars-reading").textContent = told.reading;
  byId("bars").replaceChildren(...shown.map((one) => barRow(one, told, widest, byApi)));
  if (!shown.length) byId("bars").append(element("div", "empty", say("No case matches.")));
  const entry = (className, text) => { const part = element("span", "", text); part.prepend(element("i", className)); return part; };
  byId("legend").replaceChildren(entry("ours", head.info.target), ...(compared && told.theirs ? [entry("theirs", overridden() ? say("{target}, without the override", { target: head.info.against }) : head.info.against)] : []));
}
function overridden() { return Object.keys(head.info.overrides).length > 0 && head.info.target === head.info.against; }

function barRow(one, told, widest, byApi) {
  const row = element("button", "bar-row"), i = one.first, tracks = element("span", "tracks"), marks = one.worst >= 3 ? " ✕" : one.worst === 1 ? " !" : "";
  row.type = "button";
  const track = (className, value) => { const bar = element("i", className); bar.style.width = `${(100 * value) / widest}%`; return append(element("span", "track"), bar); };
  append(tracks, track(one.worst >= 3 ? "ours bad" : "ours", one.ours), compared && told.theirs ? track("theirs", one.theirs) : null);
  const label = append(element("span", "bar-name"), element("b", one.worst >= 3 ? "bad" : "", apiOf(i) + marks), element("span", "muted", byApi ? several(one.members, "{n} case", "{n} cases") : callOf(i)));
  const other = compared && told.theirs && one.theirs > 0 ? `${ratioText(one.ours / one.theirs)}` : "";
  append(row, label, tracks, append(element("span", "bar-value"), element("b", "", told.text(one.ours)), element("span", "muted", other)));
  row.addEventListener("click", () => { if (byApi) setFilter({ text: filter.text === apiOf(i) ? "" : apiOf(i) }); else select(i); });
  return row;
}
on("view", drawBars);
