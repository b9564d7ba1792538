// Puts the page together: verdict, filters, what was left out, about, keys, and the address that holds the state.

function showVerdict() {
  const place = byId("verdict"), [style, mark] = VERDICT_LOOK[head.verdict];
  append(place, pill(head.verdict.replace("_", " "), style, mark), element("h1", "lead", head.summary));
  const info = head.info, where = element("p", "where");
  [info.target, `against ${info.reference}`, `standard ${info.standard}`].forEach((part, n) => append(where, n ? element("span", "sep", "·") : null, element("span", "", part)));
  append(place, where);
  if (head.position !== null) append(place, element("p", "why", reasonOf(head.position)));
  append(place, countsBar());
  if (head.next.length) append(place, append(element("div", "next"), ...head.next.map((item) => commandBox(item.why, item.command))));
}

function countsBar() {
  const counts = head.counts, box = element("div"), bar = element("div", "bar"), words = element("div", "counts");
  const rows = [["passed", counts.PASS, "good"], ["to look at", counts.WARN, "warn"], ["failed", counts.FAIL, "bad"], ["with errors", counts.ERROR, "bad"], ["not compared", counts.NOT_COMPARED, "dim"]];
  for (const [label, amount, style] of rows) {
    if (!amount) continue;
    const part = element("span", style);
    part.style.flex = `${amount} 1 0`;
    bar.append(part);
    words.append(append(element("span"), element("b", "", amount.toLocaleString("en")), ` ${label}`));
  }
  words.append(element("span", "", `calls: ${head.calls_line}`));
  return append(box, bar, words);
}

function reasonList(title, reasonCounts) {
  const rows = Object.entries(reasonCounts).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return null;
  const list = element("ul", "reasons");
  for (const [reason, amount] of rows) append(list, append(element("li"), element("b", "", amount.toLocaleString("en")), element("span", "", reason)));
  return append(element("div"), element("h3", "", title), list);
}

function showReasons() {
  append(byId("reasons"), reasonList("Cases not compared", head.not_compared), reasonList("Calls skipped", head.calls.skipped_because));
  byId("left-out").hidden = !byId("reasons").children.length;
}

function showAbout() {
  const about = byId("about"), info = head.info, list = element("dl");
  about.append(append(element("div", "card-head"), element("h2", "", "About this check")));
  definition(list, "source", info.sources.join(", "));
  definition(list, "target", info.target);
  definition(list, "reference", info.reference);
  definition(list, "standard", info.standard);
  for (const [api, place] of Object.entries(info.overrides)) definition(list, "override", `${api} = ${place}`);
  definition(list, "seed", String(info.seed));
  definition(list, "made", `${info.created} by trueline ${info.tool_version}, framework ${info.framework_version}`);
  definition(list, "time", `${head.seconds.toFixed(2)} s in the candidate`);
  definition(list, "folder", head.folder);
  append(about, append(element("div", "sides"), append(element("div"), list)), append(element("div", "next"), commandBox("make this check again", head.command)));
}

function fillFilters() {
  options(byId("kind"), "all verdicts", [["wrong", "wrong"], ["notright", "all but passed"], ["fail", "failed"], ["error", "errors"], ["warn", "to look at"], ["none", "not compared"], ["pass", "passed"]]);
  options(byId("part"), "forward and backward", [["forward", "forward not right"], ["backward", "backward not right"]]);
  options(byId("dtype"), "all dtypes", dtypes.slice().sort().map((name) => [name, name]));
  byId("dtype").hidden = dtypes.length < 2;
}

function setFilter(change) {
  Object.assign(filter, change);
  for (const [key, id] of CONTROLS) if (byId(id).value !== filter[key]) byId(id).value = filter[key];
  byId("clear").textContent = filter.api ? `clear (${shortApi(filter.api)})` : "clear";
  body.scrollTop = 0;
  refilter();
  saveAddress();
}

let typing = 0;
byId("search").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => setFilter({ text: event.target.value }), 90); });
for (const id of ["kind", "part", "dtype"]) byId(id).addEventListener("change", (event) => setFilter({ [id]: event.target.value }));
function clearFilter() { setFilter({ text: "", kind: "", part: "", dtype: "", api: "" }); }
byId("clear").addEventListener("click", clearFilter);

function saveAddress() {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(filter)) if (value !== "") words.set(key, value);
  if (state.selected >= 0) words.set("case", String(state.selected));
  try { history.replaceState(null, "", `#${words}`); } catch { /* a sandboxed page has no history */ }
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1)), change = {};
  for (const key of Object.keys(filter)) if (words.has(key)) change[key] = words.get(key);
  setFilter(change);
  const chosen = Number(words.get("case"));
  if (words.has("case") && Number.isInteger(chosen) && chosen >= 0 && chosen < count) select(chosen);
}

function nextNotRight(direction) {
  const rows = state.view, at = rows.indexOf(state.selected);
  for (let n = at < 0 ? (direction > 0 ? 0 : rows.length - 1) : at + direction; n >= 0 && n < rows.length; n += direction) {
    if (verdict[rows[n]] !== 0) { select(rows[n]); return; }
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { if (state.selected >= 0) select(-1); else if (document.activeElement) document.activeElement.blur(); return; }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); byId("search").focus(); }
  else if (event.key === "w" && head.position !== null) { if (rowOf(head.position) < 0) clearFilter(); select(head.position); }
  else if (event.key === "j") nextNotRight(1);
  else if (event.key === "k") nextNotRight(-1);
});

byId("runs").textContent = `${head.info.sources.join(", ")}  on  ${head.info.target}`;
setTheme(store("trueline-theme") || (systemDark.matches ? "dark" : "light"));
showVerdict();
fillFilters();
makeHead();
showReasons();
showAbout();
on("selected", saveAddress);
readAddress();
if (state.selected < 0 && head.position !== null) scrollToCall(head.position);
document.documentElement.dataset.ready = String(Math.round(performance.now())); // milliseconds since the page was opened
