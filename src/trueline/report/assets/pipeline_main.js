// Puts the page of a pipeline together: the verdict, the matrix, the curves, what changed, about.

function showHead() {
  const place = byId("verdict"), facts = element("div", "facts");
  place.append(verdictPill(head.verdict), element("h1", "lead", tell(head.summary)));
  place.append(element("p", "where", [head.model, head.mode, head.config].filter(Boolean).join(" · ")));
  const commands = Array.from({ length: count }, (_, i) => i).filter((i) => !isCheck(i));
  append(facts, fact(grouped(commands.length), say("commands")), fact(grouped(count - commands.length), say("checks of numbers")), fact(grouped(head.counts.FAIL + head.counts.ERROR), say("not right"), head.counts.FAIL + head.counts.ERROR ? "bad" : ""), fact(grouped(head.counts.NOT_COMPARED), say("not compared or skipped")));
  if (head.info) append(facts, fact(duration(head.info.seconds), say("all together")));
  append(facts, fact(bytes(Math.max(0, ...peak) || NaN), say("largest peak memory")));
  place.append(facts, append(element("div", "next"), commandBox(say("run it again; what is done and unchanged is kept"), head.again)));
}

const PLAN_COLUMNS = [[say("command"), "mono"]];
function showAbout() {
  const about = byId("about"), list = element("dl"), where = element("dl"), info = head.info;
  about.append(append(element("div", "card-head"), element("h2", "", say("About this pipeline"))));
  definition(list, say("model"), head.model);
  definition(list, say("mode"), head.mode);
  definition(list, say("config"), head.config);
  definition(list, say("folder"), head.path);
  if (info) {
    definition(where, say("made"), say("{when} on {host}", { when: info.created, host: info.host }));
    definition(where, say("at a time"), several(info.jobs, "{n} command", "{n} commands"));
    for (const [name, version] of Object.entries(info.versions)) definition(where, name, version);
    for (const [name, value] of Object.entries(info.environment)) definition(where, name, value);
    definition(where, "trueline", info.tool_version);
  }
  about.append(append(element("div", "sides"), append(element("div"), list), append(element("div"), where)));
  if (head.warnings.length) about.append(element("h3", "", say("What is odd about the config")), append(element("ul", "notes"), ...head.warnings.map((text) => element("li", "", text))));
  if (head.planned.length) about.append(element("h3", "", say("Planned, not run")), smallTable(PLAN_COLUMNS, head.planned.map((text) => ({ cells: [text] }))));
}

function isOdd(i) { return verdict[i] === 1 || verdict[i] >= 3; }

byId("runs").textContent = head.path;
showHead();
showMatrix();
showCurves();
showChanges();
showPast();
showAbout();
fitTable();
startPage([
  ["w", say("the first failure"), () => showRow(head.position)],
  ["j", say("next stage that is not simply right"), () => nextRow(1, isOdd)],
  ["k", say("previous stage that is not simply right"), () => nextRow(-1, isOdd)],
]);
