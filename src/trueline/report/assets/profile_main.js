// Puts the page of a profile together: the verdict, sums that add up, what was not compared, about.

function showHead() {
  const place = byId("verdict"), facts = element("div", "facts"), totals = head.totals;
  place.append(compared ? verdictPill(head.verdict) : pill(say("timed"), "dim", "✓"), element("h1", "lead", tell(head.summary)));
  append(facts, fact(duration(totals.seconds), stepsTold > 1 ? say("a step on {target}", { target: head.info.target }) : say("all calls on {target}", { target: head.info.target })));
  if (compared) {
    append(facts, fact(duration(totals.against), say("on {target}", { target: overridden() ? say("{target}, without the override", { target: head.info.against }) : head.info.against })));
    append(facts, fact(duration(Math.abs(totals.lost)), totals.lost >= 0 ? say("lost in a step") : say("gained in a step"), totals.lost > 0 ? "bad" : ""));
    append(facts, fact(grouped(head.counts.FAIL + head.counts.ERROR), say("cases beyond the limits"), head.counts.FAIL + head.counts.ERROR ? "bad" : ""));
  }
  append(facts, fact(grouped(count), say("cases")));
  if (totals.explained) append(facts, fact(`${Math.round(100 * totals.explained)} %`, say("of the step explained")));
  place.append(facts);
  const run = head.info.sources.length === 1 ? head.info.sources[0] : "";
  if (run && head.path) place.append(append(element("div", "next"), commandBox(say("time and memory beside the numbers of every call"), `trueline view ${quote(run)} --profile ${quote(head.path)}`)));
}

const REASON_COLUMNS = [[say("calls"), "number narrow"], [say("why"), ""]];
function showReasons() {
  const counts = new Map();
  for (let i = 0; i < count; i++) if (verdict[i] === 2 && (compared || !isTimed(i))) { const text = `${apiOf(i)}: ${reasonOf(i)}`; counts.set(text, (counts.get(text) || 0) + calls[i]); }
  for (const [reason, amount] of Object.entries(head.info.skipped)) counts.set(reason, (counts.get(reason) || 0) + amount);
  const rows = [...counts.entries()].sort((a, b) => b[1] - a[1]).map(([text, amount]) => ({ cells: [grouped(amount), text] }));
  tableCard(byId("reasons"), compared ? say("Not compared and skipped") : say("Not timed and skipped"), "", REASON_COLUMNS, rows);
}

function showAbout() {
  const about = byId("about"), list = element("dl"), info = head.info, told = head.told || {}, devices = element("dl");
  about.append(append(element("div", "card-head"), element("h2", "", say("About this profile"))));
  definition(list, say("source"), info.sources.join(", "));
  definition(list, say("target"), info.target);
  definition(list, say("against"), info.against);
  for (const [api, place] of Object.entries(info.overrides)) definition(list, say("override"), `${api} = ${place}`);
  definition(list, say("calls"), tell(told.calls));
  definition(list, stepsTold > 1 ? say("a step") : say("all"), tell(told.step));
  definition(list, say("explains"), tell(told.explained));
  if (compared) definition(list, say("limits"), say("{time} the time, {memory} the memory", { time: ratioText(info.limits.time), memory: ratioText(info.limits.memory) }));
  definition(devices, say("made"), info.created);
  definition(devices, say("threads"), String(info.threads));
  for (const [name, version] of Object.entries(info.versions)) definition(devices, name, version);
  for (const [target, line] of Object.entries(told.devices || {})) definition(devices, target, tell(line));
  definition(devices, say("accuracy"), info.check);
  definition(devices, "trueline", info.tool_version);
  about.append(append(element("div", "sides"), append(element("div"), list), append(element("div"), devices)));
}

function isOdd(i) { return verdict[i] === 1 || verdict[i] >= 3; }

byId("runs").textContent = head.path || head.info.sources.join(", ");
document.body.classList.toggle("compared", compared);
document.body.classList.toggle("checked", checked);
showHead();
showReasons();
showAbout();
fitTable();
startPage([
  ["w", say("the case that lost most"), () => { for (const i of state.inOrder) if (verdict[i] >= 3) { select(i); return; } }],
  ["j", say("next case that is not simply right"), () => nextRow(1, isOdd)],
  ["k", say("previous case that is not simply right"), () => nextRow(-1, isOdd)],
]);
