// Puts the page of an overflow report together: what was found and what helps, the way, what comes next, per rank.

function showHead() {
  const place = byId("verdict"), origin = head.position === null ? null : data.details[head.position];
  place.append(pill(head.wrong ? say("Overflow") : say("Clean"), head.wrong ? "bad" : "good", head.wrong ? "✕" : "✓"), element("h1", "lead", tell(head.summary)));
  if (origin) place.append(...originParts(origin));
  const facts = element("div", "facts"), births = count;
  append(facts, fact(grouped(head.alarms), say("alarms"), head.alarms ? "bad" : ""), fact(grouped(births - head.alarms - head.meant), say("inherited")), fact(grouped(head.meant), say("meant")), fact(grouped(head.forecasts.length), say("will overflow if the trend holds")), fact(grouped(head.measured), say("tensors looked at")));
  place.append(facts);
  const WHY = { look: say("this call on the terminal"), check: say("execute every call alone against float64"), view: say("all calls of this Run as a page"), "record that step": say("record every call of that step"), "name the call": say("have the call named") };
  place.append(append(element("div", "next"), ...head.next.map((one) => commandBox(WHY[one.why], one.command))));
}

function originParts(origin) {
  const where = element("p", "where"), parts = [origin.source, origin.in_module, say("step {step}, rank {rank}", { step: origin.at_step, rank: origin.rank })].filter(Boolean);
  parts.forEach((text, n) => { if (n) where.append(element("span", "sep", "·")); where.append(text); });
  const badges = append(element("div", "badges"), pill(kindText(origin.kind), "dim", "∞"), naturePill(origin.nature), origin.ends ? pill(say("ends in {ends}", { ends: origin.ends }), "dim", "→") : null, pill(several(origin.victims, "{n} call inherited it", "{n} calls inherited it"), "dim", "↓"));
  const why = element("p", "why", origin.why + (origin.element ? ` [${origin.element.join(", ")}]${operandsText(origin)}` : ""));
  const advice = origin.advice ? append(element("p", "advice"), element("b", "", `${say("What helps")}: `), origin.advice) : null;
  return [where, why, badges, advice].filter(Boolean);
}

function showWay() {
  const origin = head.position === null ? null : data.details[head.position];
  if (!origin || !origin.way.length) return;
  byId("way").hidden = false;
  byId("way-picture").append(wayPicture(origin.way, origin.ends, origin.way[0].step === undefined ? null : showCall));
}

// The courses that are drawn: that of the origin, and those of the calls that come next.
function courseChart(found) {
  const lines = found.filter((one) => one.course).slice(0, 6).map((one) => ({ name: `${one.call}${one.module ? ` (${one.module})` : ""}`, xs: one.course.steps, ys: one.course.headroom, crosses: one.course.steps.filter((_, n) => one.course.bad[n]) }));
  return lines.length ? { lines, label: say("bits left"), across: say("step"), floor: 0, even: true } : null;
}

const FORECAST_COLUMNS = [[say("call"), "mono"], [say("module"), ""], [say("dtype"), "wide"], [say("bits left"), "number"], [say("bits a step"), "number"], [say("overflows in step"), "number"], [say("source"), "wide mono"]];
function showCourses() {
  const origin = head.position === null ? null : data.details[head.position];
  const choices = [...(origin && origin.course ? [["origin", say("origin")]] : []), ...(head.forecasts.some((one) => one.course) ? [["next", say("next to overflow")]] : [])];
  byId("course").hidden = !choices.length && !head.forecasts.length;
  if (choices.length) {
    byId("course-values").hidden = choices.length < 2;
    const chosen = segmented(byId("course-values"), "course", choices, () => redraw());
    const redraw = liveChart(byId("course-chart"), () => courseChart(chosen() === "origin" ? [origin] : head.forecasts));
  }
  if (!head.forecasts.length) return;
  const rows = head.forecasts.map((one) => ({ cells: [one.call, one.module, one.dtype, one.headroom.toFixed(1), one.slope.toFixed(2), { text: `! ${one.step} (${one.earliest}–${one.latest})`, className: "warn" }, one.source], pick: () => showForecast(one) }));
  const top = append(element("div", "card-head"), element("h3", "", say("Will overflow if the trend holds")), append(element("div", "tools"), copyTable(FORECAST_COLUMNS, rows)));
  byId("forecasts").append(top, smallTable(FORECAST_COLUMNS, rows));
}

function showForecast(one) {
  const list = element("dl");
  definition(list, say("module"), one.module || say("outside any module"));
  definition(list, say("source"), one.source);
  definition(list, say("tensor"), `${one.path}, ${one.dtype}`);
  definition(list, say("bits left"), `${one.headroom.toFixed(1)}, ${say("{slope} a step", { slope: one.slope.toFixed(3) })}`);
  definition(list, say("overflows in step"), `${one.step} (${one.earliest}–${one.latest})`);
  definition(list, say("seen in"), several(one.steps, "{n} step", "{n} steps"));
  definition(list, say("what helps"), one.advice);
  lookAt(one);
  fillDrawer(element("span", "tag warn", `! ${say("forecast")}`), one.call, list, one.course ? named("birth-course", element("div", "line-plot")) : null, one.course ? named("birth-reading", element("p", "muted reading")) : null, element("h3", "", say("Go on")), commandBox(say("this call on the terminal"), `trueline show ${quote(head.path)} ${quote(one.call)}`));
  if (one.course) drawLines(byId("birth-course"), { ...courseChart([one]), height: 180 }, byId("birth-reading"));
  saveAddress();
}

function showBefore() {
  const origin = head.position === null ? null : data.details[head.position];
  if (origin && origin.before.length) tableCard(byId("before"), say("The calls just before"), say("of the same rank, the oldest first; what they gave"), CALL_COLUMNS, [...origin.before, ...origin.way.slice(0, 1)].map(callRow));
}

const WATCH_COLUMNS = [[say("rank"), "number"], [say("steps"), "number"], [say("looks at tensors"), "number"], [say("steps with overflow"), ""], [say("steps in which it was meant"), ""]];
function someSteps(steps) { return steps.length > 12 ? `${steps.slice(0, 12).join(", ")}, … ${steps[steps.length - 1]}` : steps.join(", "); }
function showWatched() {
  const rows = head.watched.map((one) => ({ cells: [one.rank, grouped(one.steps), grouped(one.looks), { text: one.overflows.length ? `✕ ${someSteps(one.overflows)}` : "✓", className: one.overflows.length ? "bad" : "good" }, someSteps(one.meant)] }));
  tableCard(byId("watched"), say("What the watch saw"), "", WATCH_COLUMNS, rows);
  const messages = head.watched.flatMap((one) => one.messages);
  if (messages.length) byId("watched").append(append(element("ul", "notes messages"), ...messages.map((text) => element("li", "", text))));
}

const SKIP_COLUMNS = [[say("step"), "number"], [say("rank"), "number"], [say("loss scale"), "number"]];
function showSkipped() {
  const rows = head.skipped.map((one) => ({ cells: [one.step, one.rank, exact(one.scale)] }));
  tableCard(byId("skipped"), say("Steps that the loss scaler skipped"), say("each with the scale that was too large"), SKIP_COLUMNS, rows);
}

function showAbout() {
  const about = byId("about"), list = element("dl");
  about.append(append(element("div", "card-head"), element("h2", "", say("About this report"))));
  definition(list, "Run", head.path);
  definition(list, say("looked at"), tell(head.scope));
  definition(list, say("ranks"), head.ranks.join(", "));
  about.append(append(element("div", "sides"), append(element("div"), list)));
  if (head.notes.length) about.append(element("h3", "", say("Notes")), append(element("ul", "notes"), ...head.notes.map((text) => element("li", "", text))));
}

// A call of the way or before the birth, or a forecast, that is open in the panel: "way 3", "before 0", "next 2".
function looks() {
  const origin = head.position === null ? null : data.details[head.position];
  return { way: origin ? origin.way : [], before: origin ? origin.before : [], next: head.forecasts };
}
holdValue("look", () => (drawer.hidden || state.selected >= 0 ? "" : looking), (text) => {
  const [where, number] = text.split(" "), found = (looks()[where] || [])[Number(number)];
  if (found && text !== looking) (where === "next" ? showForecast : showCall)(found);
});

function isAlarm(i) { return Boolean(alarm[i]); }

byId("runs").textContent = head.path;
showHead();
showWay();
showCourses();
showBefore();
showWatched();
showSkipped();
showAbout();
fitTable();
startPage([
  ["o", say("the origin"), () => showRow(head.position)],
  ["j", say("next alarm"), () => nextRow(1, isAlarm)],
  ["k", say("previous alarm"), () => nextRow(-1, isAlarm)],
]);
