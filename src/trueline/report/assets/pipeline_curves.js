// The curves of the trainings: the same training in several precisions in one picture, and how this run of the pipeline
// stands among the ones before it.

const CURVES = {
  loss: { label: say("loss"), reading: say("The loss of each training; those that begin alike are pairs and should stay together.") },
  scale: { label: say("loss scale"), reading: say("The loss scale: it falls where gradients overflowed and the step was skipped.") },
  gradient_norm: { label: say("gradient norm"), reading: say("The norm of all gradients; one that is a loss scale larger than in single precision was not unscaled.") },
  update_norm: { label: say("update norm"), reading: say("How far the weights moved in a step; zero is a step that was skipped.") },
};

function curveLines(name) {
  return head.histories.map((one) => {
    const ys = one[name].map((value) => (value === null ? null : toNumber(value)));
    const label = [one.trainer, one.precision, one.devices && one.devices !== "-1" ? `gpu ${one.devices}` : ""].filter(Boolean).join(" ") || one.stage;
    return { name: label, xs: one.steps, ys, crosses: one.steps.filter((_, n) => ys[n] !== null && !Number.isFinite(ys[n])) };
  }).filter((line) => line.ys.some((y) => y !== null));
}

function showCurves() {
  const choices = Object.keys(CURVES).filter((name) => curveLines(name).length).map((name) => [name, CURVES[name].label]);
  if (!choices.length) return;
  byId("curves").hidden = false;
  byId("curves-values").hidden = choices.length < 2;
  const chosen = segmented(byId("curves-values"), "curve", choices, () => draw());
  const redraw = liveChart(byId("curves-chart"), () => ({ lines: curveLines(chosen()), label: CURVES[chosen()].label, across: say("step") }));
  const draw = () => { byId("curves-reading").textContent = CURVES[chosen()].reading; redraw(); };
  byId("curves-reading").textContent = CURVES[chosen()].reading;
}

const CHANGE_WORDS = { "new failure": say("new failure"), fixed: say("fixed"), slower: say("slower"), larger: say("larger"), "less exact": say("less exact"), new: say("new"), gone: say("gone") };
const CHANGE_LOOK = { "new failure": ["✕", "bad"], fixed: ["✓", "good"], slower: ["!", "warn"], larger: ["!", "warn"], "less exact": ["!", "warn"], new: ["+", ""], gone: ["–", ""] };
const CHANGE_COLUMNS = [[say("stage"), "mono"], [say("what"), ""], [say("before"), ""], [say("now"), ""]];
function showChanges() {
  const rows = head.changes.map((one) => {
    const [mark, className] = CHANGE_LOOK[one.what] || ["", ""], i = placeOfStage.get(one.stage);
    return { cells: [one.stage, { text: `${mark} ${CHANGE_WORDS[one.what] || one.what}`, className }, one.before, one.now], pick: i === undefined ? null : () => showRow(i) };
  });
  tableCard(byId("changes"), say("Since the last run"), "", CHANGE_COLUMNS, rows);
}

function showPast() {
  if (!head.past.length || !head.info) return;
  byId("past").hidden = false;
  const now = { created: head.info.created, verdict: head.verdict, seconds: head.info.seconds, now: true }, runs = [...head.past.slice(-39), now];
  const longest = Math.max(...runs.map((one) => one.seconds), Number.MIN_VALUE);
  byId("past-bars").replaceChildren(...runs.map((one) => {
    const [style, mark] = VERDICTS[one.verdict] || ["dim", "?"], bar = element("div", `past-run ${style}${one.now ? " now" : ""}`), fill = element("i");
    fill.style.height = `${Math.max(3, (100 * one.seconds) / longest)}%`;
    bar.title = `${one.created}: ${one.verdict}, ${duration(one.seconds)}`;
    return append(bar, append(element("span", "past-track"), fill), element("b", "", mark), element("span", "muted", duration(one.seconds)));
  }));
}
