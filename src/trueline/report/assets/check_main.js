// Puts the page together: verdict, statuses, what was left out, about, keys.

function showVerdict() {
  const place = byId("verdict"), info = head.info, where = element("p", "where");
  const waits = progress.running && !head.key; // nothing is wrong so far, and nothing is said yet of what waits
  place.replaceChildren(waits ? pill(...progressTitle()) : verdictPill(head.verdict), element("h1", "lead", waits ? say("Nothing is wrong so far") : tell(head.summary)));
  [info.target, say("against {reference}", { reference: info.reference }), say("standard {name}", { name: info.standard })].forEach((part, n) => append(where, n ? element("span", "sep", "·") : null, element("span", "", part)));
  append(place, where, head.reason ? element("p", "why", head.reason) : null, statusBar());
  if (head.next.length) append(place, append(element("div", "next"), ...head.next.map((item) => commandBox(item.why, item.command))));
}

// Every case has one status; together they are all cases.
function statusCounts() {
  const counts = new Map(Object.keys(ENDINGS).map((name) => [name, 0]));
  for (const [, , ending, , cases] of data.matrix.cells) { const name = data.matrix.endings[ending]; counts.set(name, (counts.get(name) || 0) + cases); }
  return [...counts].filter(([, cases]) => cases);
}

function statusBar() {
  const box = element("div"), bar = element("div", "bar"), words = element("div", "counts statuses");
  for (const [name, cases] of statusCounts()) {
    const [word, look, mark] = endingLook(name), part = element("span", look), button = element("button", `status ${look}`);
    part.style.flex = `${cases} 1 0`;
    part.title = word;
    bar.append(part);
    button.type = "button";
    button.dataset.ending = name;
    button.setAttribute("aria-pressed", String(filter.ending === name));
    button.addEventListener("click", () => filterCases({ ending: filter.ending === name ? "" : name }));
    words.append(append(button, element("i", "mark", mark), element("b", "", grouped(cases)), ` ${word}`));
  }
  const warned = head.counts.WARN ? element("span", "", say("{n} of those that pass are to look at", { n: grouped(head.counts.WARN) })) : null;
  const line = progress.running ? null : element("span", "", say("calls: {line}", { line: tell(head.calls_line) }));
  return append(box, bar, append(words, warned, line));
}

function markStatus() {
  for (const button of document.querySelectorAll(".status")) button.setAttribute("aria-pressed", String(filter.ending === button.dataset.ending));
}

function reasonList(title, reasonCounts) {
  const rows = Object.entries(reasonCounts).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return null;
  const list = element("ul", "reasons");
  for (const [reason, amount] of rows) append(list, append(element("li"), element("b", "", grouped(amount)), element("span", "", reason)));
  return append(element("div"), element("h3", "", title), list);
}

function showReasons() {
  byId("reasons").replaceChildren();
  append(byId("reasons"), reasonList(say("Cases not compared"), head.not_compared), reasonList(say("Calls skipped"), head.calls.skipped_because));
  byId("left-out").hidden = !byId("reasons").children.length;
}

function showAbout() {
  const about = byId("about"), info = head.info, list = element("dl");
  about.replaceChildren(append(element("div", "card-head"), element("h2", "", say("About this check"))));
  definition(list, say("sources"), info.sources.join(", "));
  definition(list, say("target"), info.target);
  definition(list, say("reference"), info.reference);
  definition(list, say("standard"), info.standard);
  for (const [api, place] of Object.entries(info.overrides)) definition(list, say("override"), `${api} = ${place}`);
  definition(list, say("seed"), String(info.seed));
  definition(list, say("made"), say("{when} by trueline {version}, framework {framework}", { when: info.created, version: info.tool_version, framework: info.framework_version }));
  definition(list, say("time"), say("{n} s in the candidate", { n: head.seconds.toFixed(2) }));
  definition(list, say("folder"), head.folder);
  append(about, append(element("div", "sides"), append(element("div"), list)), append(element("div", "next"), commandBox(say("make this check again"), head.command)));
}

function notRight(i) { return i >= 0 && verdict[i] !== 0 && !isWaiting(i); }
function worstRow() { return windowed ? data.rows[head.key] : head.position; }

function showAll() {
  showVerdict();
  showReasons();
  showAbout();
}

byId("runs").textContent = say("{sources}  on  {target}", { sources: head.info.sources.join(", "), target: head.info.target });
showAll();
on("counts", showAll);
on("view", markStatus);
startPage([
  ["w", say("worst failure"), () => { const row = worstRow(); if (row !== null && row !== undefined) openCase(row); }],
  ["j", say("next case that is not right"), () => nextRow(1, notRight)],
  ["k", say("previous case that is not right"), () => nextRow(-1, notRight)],
], () => { if (state.selected < 0 && !windowed && head.position !== null) scrollToCall(head.position); });
