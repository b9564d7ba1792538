// Puts the page together: verdict, filters, about, keys, theme, and the address that holds the state.

function showVerdict() {
  const place = byId("verdict"), origin = head.origin;
  const [style, mark] = VERDICT_LOOK[head.verdict];
  append(place, pill(head.verdict.replace("_", " "), style, mark), element("h1", "lead", head.summary));
  if (origin) {
    const where = element("p", "where"), call = origin.call;
    const parts = [call.source || "no source was kept", origin.module, `step ${call.step}`, `rank ${call.rank}`];
    parts.forEach((part, n) => append(where, n ? element("span", "sep", "·") : null, element("span", "", part)));
    append(place, where, element("p", "why", origin.why));
    const sure = origin.confirmed === true ? ["good", "✓"] : origin.confirmed === false ? ["warn", "!"] : ["dim", "–"];
    append(place, append(element("div", "badges"), pill(origin.confirmation, ...sure)));
    place.append(factsOf(origin));
  }
  append(place, countsBar());
  if (head.next.length) append(place, append(element("div", "next"), ...head.next.map((item) => commandBox(item.why, item.command))));
}

function factsOf(origin) {
  const facts = element("div", "facts"), pair = origin.comparison;
  const bad = head.verdict === "FAIL" || head.verdict === "ERROR" ? "bad" : "";
  const bound = toNumber(pair.limit), error = toNumber(pair.output_distance);
  const rows = [["distance of its inputs", short(pair.input_distance), ""], ["distance of its output", short(pair.output_distance), bad]];
  if (bound > 0) rows.push(["limit of honest arithmetic", short(bound), ""], ["output against its limit", times(error / bound), bad]);
  for (const [name, value] of Object.entries(origin.evidence)) rows.push([name.replaceAll("_", " "), short(value), ""]);
  for (const [label, value, style] of rows.slice(0, 8)) facts.append(append(element("div", `fact ${style}`), element("div", "value", value), element("div", "label", label)));
  return facts;
}

function countsBar() {
  const sums = new Array(6).fill(0);
  for (let i = 0; i < count; i++) sums[kind[i] < KIND.ORIGIN ? kind[i] : isBad(i) ? KIND.FAIL : KIND.WARN]++;
  const rows = [["passed", sums[KIND.PASS], "good"], ["to look at", sums[KIND.WARN], "warn"], ["failed", sums[KIND.FAIL], "bad"], ["victims", sums[KIND.VICTIM], "victim"], ["not compared", sums[KIND.NONE], "dim"]];
  const box = element("div"), bar = element("div", "bar"), words = element("div", "counts");
  for (const [label, amount, style] of rows) {
    if (!amount) continue;
    const part = element("span", style);
    part.style.flex = `${amount} 1 0`;
    bar.append(part);
    words.append(append(element("span"), element("b", "", amount.toLocaleString("en")), ` ${label}`));
  }
  const how = { tensors: "from the tensors", digest: "from statistics, sketches and digests", stats: "from statistics and sketches", structure: "from the structure alone" };
  words.append(element("span", "", `${how[head.mode] || head.mode}, standard ${head.standard}`));
  return append(box, bar, words);
}

function showAbout() {
  const about = byId("about");
  about.append(append(element("div", "card-head"), element("h2", "", "About this comparison")));
  const notes = [...head.notes, ...head.unmatched];
  if (notes.length) append(about, append(element("ul", "notes"), ...notes.map((note) => element("li", "", note))));
  const sides = element("div", "sides");
  const runs = head.baseline ? [["Gold", head.reference], ["Candidate", head.candidate], ["Baseline", head.baseline]] : [["Reference", head.reference], ["Candidate", head.candidate]];
  for (const [label, side] of runs) {
    const list = element("dl");
    definition(list, "run", side.path);
    definition(list, "program", side.command.join(" "));
    definition(list, "made", `${side.created} on ${side.host}`);
    definition(list, "framework", `${side.framework} ${side.framework_version}, Python ${side.python}`);
    definition(list, "devices", side.devices.join(", "));
    definition(list, "commit", side.git_commit);
    definition(list, "seed", side.seed === null ? "" : String(side.seed));
    definition(list, "ranks", String(side.world_size));
    append(sides, append(element("div"), element("h3", "", label), list));
  }
  about.append(sides);
}

function fillFilters() {
  options(byId("kind"), "all calls", [["differ", "all that differ"], ["bad", "failed"], ["3", "to look at"], ["2", "victims"], ["0", "passed"], ["1", "not compared"]]);
  for (const [id, column] of [["step", step], ["rank", rank]]) {
    const values = distinct(column);
    options(byId(id), `all ${id}s`, values.map((value) => [String(value), `${id} ${value}`]));
    byId(id).hidden = values.length < 2;
  }
}

function setFilter(change) {
  Object.assign(filter, change);
  for (const [key, id] of [["text", "search"], ["kind", "kind"], ["phase", "phase"], ["step", "step"], ["rank", "rank"]]) if (byId(id).value !== filter[key]) byId(id).value = filter[key];
  const clear = byId("clear");
  clear.textContent = filter.module ? `clear (module ${filter.module})` : "clear";
  body.scrollTop = 0;
  refilter();
  saveAddress();
}

let typing = 0;
byId("search").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => setFilter({ text: event.target.value }), 90); });
for (const id of ["kind", "phase", "step", "rank"]) byId(id).addEventListener("change", (event) => setFilter({ [id]: event.target.value }));
byId("clear").addEventListener("click", () => setFilter({ text: "", kind: "", phase: "", step: "", rank: "", module: "" }));

function saveAddress() {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(filter)) if (value !== "") words.set(key, value);
  if (state.selected >= 0) words.set("call", String(state.selected));
  try { history.replaceState(null, "", `#${words}`); } catch { /* a sandboxed page has no history */ }
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const change = {};
  for (const key of Object.keys(filter)) if (words.has(key)) change[key] = words.get(key);
  setFilter(change);
  const call = Number(words.get("call"));
  if (words.has("call") && Number.isInteger(call) && call >= 0 && call < count) select(call);
}

function nextThatDiffers(direction) {
  for (let i = state.selected < 0 ? (direction > 0 ? 0 : count - 1) : state.selected + direction; i >= 0 && i < count; i += direction) {
    if (kind[i] >= KIND.VICTIM && rowOf(i) >= 0) { select(i); return; }
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { if (state.selected >= 0) select(-1); else if (document.activeElement) document.activeElement.blur(); return; }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); byId("search").focus(); }
  else if (event.key === "o" && head.position !== null) { if (rowOf(head.position) < 0) setFilter({ text: "", kind: "", phase: "", step: "", rank: "", module: "" }); select(head.position); }
  else if (event.key === "j") nextThatDiffers(1);
  else if (event.key === "k") nextThatDiffers(-1);
});

byId("runs").textContent = `${head.reference.path}  →  ${head.candidate.path}` + (head.baseline ? `, by the errors of ${head.baseline.path}` : "");
setTheme(store("trueline-theme") || (systemDark.matches ? "dark" : "light"));
showVerdict();
fillFilters();
makeHead();
openUsefulBranches();
renderTree();
showAbout();
on("selected", saveAddress);
readAddress();
if (state.selected < 0 && head.position !== null) scrollToCall(head.position);
document.documentElement.dataset.ready = String(Math.round(performance.now())); // milliseconds since the page was opened
