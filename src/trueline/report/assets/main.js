// Puts the page together: verdict, about, keys.

const HOW = { tensors: say("from the tensors"), digest: say("from statistics, sketches and digests"), stats: say("from statistics and sketches"), structure: say("from the structure alone") };
const EVIDENCE = {
  candidate_error: say("error of the candidate, replayed"), candidate_honest: say("error of an honest candidate"),
  reference_error: say("error of the reference, replayed"), reference_honest: say("error of an honest reference"),
};

function showVerdict() {
  const place = byId("verdict"), origin = head.origin;
  append(place, verdictPill(head.verdict), element("h1", "lead", tell(head.summary)));
  if (origin) append(place, ...originParts(origin));
  append(place, givenLine(), countsBar(), aloneBox());
  if (head.next.length) append(place, append(element("div", "next"), ...head.next.map((item) => commandBox(item.why, item.command))));
}

// What became of the calls; a part of the bar, and its word, filters them.
function countsBar() {
  const sums = new Array(6).fill(0);
  for (let i = 0; i < count; i++) sums[kind[i] < KIND.ORIGIN ? kind[i] : isBad(i) ? KIND.FAIL : KIND.WARN]++;
  const rows = [[say("passed"), KIND.PASS, "good", "0"], [say("to look at"), KIND.WARN, "warn", "3"], [say("failed"), KIND.FAIL, "bad", "bad"], [say("not compared"), KIND.NONE, "dim", "1"], [say("follow from the origin"), KIND.VICTIM, "victim", "2"]];
  const box = element("div"), bar = element("div", "bar"), words = element("div", "counts");
  const { PASS, WARN, FAIL, ERROR, NOT_COMPARED } = head.counts;
  const told = { [KIND.PASS]: PASS, [KIND.WARN]: WARN, [KIND.FAIL]: FAIL + ERROR, [KIND.VICTIM]: sums[KIND.VICTIM], [KIND.NONE]: NOT_COMPARED };
  for (const [label, which, style, choice] of rows) {
    if (!told[which]) continue;
    const part = element("span", style), word = element("button", "count");
    part.style.flex = `${sums[which]} 1 0`;
    bar.append(part);
    word.type = "button";
    word.addEventListener("click", () => { setFilter({ kind: choice }); byId("calls").scrollIntoView(); });
    words.append(append(word, element("b", "", `${MARKS[which]} ${grouped(told[which])}`), ` ${label}`));
  }
  words.append(element("span", "", [HOW[head.mode] || head.mode, say("standard {name}", { name: head.standard })].join(say(", "))));
  return append(box, bar, words);
}

// Calls that one side alone makes may be the fault themselves: one click shows them, the first with its source line.
function aloneBox() {
  const box = element("div", "badges");
  const rows = [
    ["extra", ALONE.CANDIDATE, (n) => several(n, "{n} call only in the candidate", "{n} calls only in the candidate")],
    ["missing", ALONE.REFERENCE, (n) => several(n, "{n} call only in the reference", "{n} calls only in the reference")],
  ];
  for (const [choice, side, words] of rows) {
    const amount = alone.reduce((sum, which) => sum + (which === side), 0);
    if (!amount) continue;
    const button = element("button", "pill warn", words(amount));
    button.type = "button";
    button.dataset.mark = "!";
    button.dataset.kind = choice;
    button.addEventListener("click", () => { clearFilter(); setFilter({ kind: choice }); select(state.inOrder[0]); });
    box.append(button);
  }
  return box.childElementCount ? box : null;
}

function showAbout() {
  const about = byId("about");
  about.append(append(element("div", "card-head"), element("h2", "", say("About this comparison"))));
  const notes = [...head.notes, ...head.unmatched];
  if (notes.length) append(about, append(element("ul", "notes"), ...notes.map((note) => element("li", "", tell(note)))));
  const sides = element("div", "sides");
  const runs = head.baseline ? [[say("Gold"), head.reference], [say("Candidate"), head.candidate], [say("Baseline"), head.baseline]] : [[say("Reference"), head.reference], [say("Candidate"), head.candidate]];
  for (const [label, side] of runs) {
    const list = element("dl");
    definition(list, say("run"), side.path);
    definition(list, say("program"), side.command.join(" "));
    definition(list, say("made"), say("{time} on {host}", { time: side.created, host: side.host }));
    definition(list, say("framework"), `${side.framework} ${side.framework_version}, Python ${side.python}`);
    definition(list, say("devices"), side.devices.join(", "));
    definition(list, say("commit"), side.git_commit);
    definition(list, say("seed"), side.seed === null ? "" : String(side.seed));
    definition(list, say("ranks"), String(side.world_size));
    append(sides, append(element("div"), element("h3", "", label), list));
  }
  about.append(sides);
}

function differs(i) { return kind[i] >= KIND.VICTIM; }

const compared = [head.reference.path, head.candidate.path].join("  →  ");
byId("runs").textContent = compared + (head.baseline ? say(", by the errors of {path}", { path: head.baseline.path }) : "");
showVerdict();
showGiven();
openUsefulBranches();
showAbout();
startPage([
  ["o", say("origin"), () => showRow(head.position)],
  ["j", say("next call that differs"), () => nextRow(1, differs)],
  ["k", say("previous call that differs"), () => nextRow(-1, differs)],
  ["e", say("where its error is"), () => { if (state.selected >= 0) choosePanel("error"); }],
], () => { if (state.selected < 0 && head.position !== null) scrollToCall(head.position); });
