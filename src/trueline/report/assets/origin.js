// The cause of a divergence: its place on both sides, the calls of a region beside each other, the values that it is
// about, and what both programs give away.

function originParts(origin) {
  const finding = element("p", "why", tell(origin.finding)), why = element("p", language === "en" ? "why" : "why muted", origin.why);
  const sure = origin.confirmed === true ? ["good", "✓"] : origin.confirmed === false ? ["warn", "!"] : ["dim", "–"];
  const badges = append(element("div", "badges"), pill(tell(origin.confirmation), ...sure));
  const todo = origin.advice ? element("p", "why", tell(origin.advice)) : null;
  return [whereOf(origin), language === "en" ? null : finding, why, origin.region ? regionTable(origin) : null, namesOf(origin), todo, badges, factsOf(origin)];
}

// Where it is: the line of each side, the module. Where values explain it, no call stands for it.
function whereOf(origin) {
  const where = element("p", "where"), call = origin.call, [reference, candidate] = origin.sources;
  const parts = [say("step {n}", { n: call.step }), say("rank {n}", { n: call.rank })];
  if (origin.of_calls) parts.unshift(call.source || say("no source was kept"), origin.module);
  if (origin.taken) parts.unshift(say("taken by {call}", { call: call.name }), call.source || say("no source was kept"), origin.module);
  if (origin.of_calls && reference && candidate && reference !== candidate) parts.splice(1, 0, say("{place} in the reference", { place: reference }));
  parts.forEach((part, n) => append(where, n ? element("span", "sep", "·") : null, element("span", "", part)));
  return where;
}

function namesOf(origin) {
  if (!origin.names.length) return null;
  return append(element("ul", "names"), ...origin.names.map((name) => element("li", "", tell(name))));
}

// What each side computes where the other computes something else.
function regionTable(origin) {
  const sides = [["reference", say("the reference computes")], ["candidate", say("the candidate computes")]];
  const box = element("div", "region");
  for (const [side, title] of sides) {
    const calls = origin[`${side}_calls`], more = origin[`more_${side}_calls`];
    const list = element("ol");
    for (const [name, source] of calls) list.append(append(element("li"), element("b", "", name), source ? element("span", "muted", source) : null));
    const rest = more ? element("p", "muted", say("and {n} more", { n: grouped(more) })) : null;
    append(box, append(element("div"), element("h3", "", title), calls.length ? list : element("p", "muted", say("nothing in its place")), rest));
  }
  return box;
}

function factsOf(origin) {
  const facts = element("div", "facts"), pair = origin.comparison, ofCall = origin.of_calls && origin.kind !== "update";
  const bad = head.verdict === "FAIL" || head.verdict === "ERROR" ? "bad" : "";
  const bound = toNumber(pair.limit), error = toNumber(pair.output_distance), rows = [];
  if (ofCall) rows.push([say("distance of its inputs"), short(pair.input_distance), ""], [say("distance of its output"), short(pair.output_distance), bad]);
  else if (error > 0) rows.push([say("distance of the values"), short(pair.output_distance), bad]);
  if (bound > 0) rows.push([say("limit of honest arithmetic"), short(bound), ""], [ofCall ? say("output against its limit") : say("against the limit"), times(error / bound), bad]);
  for (const [name, value] of Object.entries(origin.evidence)) rows.push([EVIDENCE[name] || name.replaceAll("_", " "), short(value), ""]);
  for (const [label, value, style] of rows.slice(0, 8)) facts.append(fact(value, label, style));
  return facts;
}

// What both programs give away: in one line under the verdict, and those that differ as a table, the worst first.
function givenLine() { return head.given_away.sentence ? element("p", "given", tell(head.given_away.sentence)) : null; }

function showGiven() {
  const given = head.given_away;
  const columns = [[say("kind"), ""], [say("name"), "mono"], [say("step"), "number"], [say("rank"), "number wide"], [say("distance"), "number"], [say("verdict"), ""], [say("why"), "wide"]];
  const rows = given.rows.map(([kindWord, name, step, rank, distance, estimated, verdict, reason]) => {
    const [style, mark, word] = VERDICTS[verdict];
    const size = distance === null ? "–" : (estimated ? "≈ " : "") + short(distance);
    return { cells: [tell(kindWord), name, step, rank, size, { text: `${mark} ${word}`, className: style }, tell(reason)] };
  });
  const note = given.more ? say("the worst {n}; {more} more in the JSON report", { n: grouped(rows.length), more: grouped(given.more) }) : say("the worst first");
  tableCard(byId("given"), say("What the programs give away, where it differs"), note, columns, rows);
}
