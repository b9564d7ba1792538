// Puts the page of a Run together: what is in it, filters, about, keys, and the address that holds the state.

const NO_FILTER = { text: "", kind: "", phase: "", step: "", rank: "" };
const CONTROLS = [["text", "search"], ["kind", "kind"], ["phase", "phase"], ["step", "step"], ["rank", "rank"]];

function showHead() {
  const place = byId("verdict");
  const look = head.bad ? ["NaN or infinity", "bad", "✕"] : head.close ? ["little room", "warn", "!"] : ["finite", "good", "✓"];
  append(place, pill(...look), element("h1", "lead", head.summary));
  const commands = head.bad || head.close ? [["where it was born, and whether it was meant", `trueline overflow ${quote(head.path)}`]] : [];
  commands.push(["hold it against another Run", `trueline compare REFERENCE ${quote(head.path)}`]);
  append(place, append(element("div", "next"), ...commands.map((item) => commandBox(...item))));
}

function showAbout() {
  const about = byId("about"), list = element("dl"), run = head.run, sides = element("div", "sides");
  about.append(append(element("div", "card-head"), element("h2", "", "About this Run")));
  definition(list, "program", run.command.join(" "));
  definition(list, "made", `${run.created} on ${run.host}`);
  definition(list, "framework", `${run.framework} ${run.framework_version}, Python ${run.python}`);
  definition(list, "devices", run.devices.join(", "));
  definition(list, "commit", run.git_commit);
  definition(list, "seed", run.seed === null ? "" : String(run.seed));
  sides.append(append(element("div"), list));
  for (const one of head.certificates) {
    const told = element("dl");
    for (const [name, value] of Object.entries(one)) definition(told, name.replaceAll("_", " "), typeof value === "object" && value !== null ? Object.entries(value).map(([key, amount]) => `${key}: ${amount}`).join(", ") : value);
    sides.append(append(element("div"), told));
  }
  about.append(sides);
}

function setFilter(change) {
  Object.assign(filter, change);
  for (const [key, id] of CONTROLS) if (byId(id).value !== filter[key]) byId(id).value = filter[key];
  body.scrollTop = 0;
  refilter();
  saveAddress();
}

function saveAddress() {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(filter)) if (value !== "") words.set(key, value);
  if (state.selected >= 0) words.set("call", String(state.selected));
  try { history.replaceState(null, "", `#${words}`); } catch { /* a sandboxed page has no history */ }
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1)), change = {};
  for (const key of Object.keys(filter)) if (words.has(key)) change[key] = words.get(key);
  setFilter(change);
  const call = Number(words.get("call"));
  if (words.has("call") && Number.isInteger(call) && call >= 0 && call < count) select(call);
}

function nextOdd(direction) {
  for (let i = state.selected < 0 ? (direction > 0 ? 0 : count - 1) : state.selected + direction; i >= 0 && i < count; i += direction) {
    if (kind[i] >= KIND.CLOSE && rowOf(i) >= 0) { select(i); return; }
  }
}

options(byId("kind"), "all calls", [["odd", "all that are odd"], ["nan", "with NaN"], ["infinite", "with infinity"], ["close", "little room"], ["raised", "raised"]]);
for (const [id, column] of [["step", step], ["rank", rank]]) {
  const values = distinct(column);
  options(byId(id), `all ${id}s`, values.map((value) => [String(value), `${id} ${value}`]));
  byId(id).hidden = values.length < 2;
}
let typing = 0;
byId("search").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => setFilter({ text: event.target.value }), 90); });
for (const id of ["kind", "phase", "step", "rank"]) byId(id).addEventListener("change", (event) => setFilter({ [id]: event.target.value }));
byId("clear").addEventListener("click", () => setFilter(NO_FILTER));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { if (state.selected >= 0) select(-1); else if (document.activeElement) document.activeElement.blur(); return; }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); byId("search").focus(); }
  else if (event.key === "j") nextOdd(1);
  else if (event.key === "k") nextOdd(-1);
});

byId("runs").textContent = head.path;
showHead();
makeHead();
showAbout();
on("selected", saveAddress);
setTheme(store("trueline-theme") || (systemDark.matches ? "dark" : "light"));
readAddress();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
