// How far a campaign is that still runs: asked of the server every now and then, and everything that counts is shown
// anew. The page says when it has ended, and asks no more.

const POLL_MILLISECONDS = 1500;
const PATIENCE = 8; // an answer that takes long is asked for so much more seldom
const progress = { running: Boolean(data.running), was: Boolean(data.running), cases: count, done: NaN, rate: null, left: null, state: "", lost: false };

function durationText(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return say("not known yet");
  if (value < 90) return say("{n} s", { n: Math.round(value) });
  if (value < 5400) return say("{n} min", { n: Math.round(value / 60) });
  return say("{n} h", { n: short(value / 3600) });
}

function fact(value, label, look = "") {
  return append(element("div", `fact ${look}`), element("div", "value", value), element("div", "label", label));
}

function progressTitle() {
  if (progress.lost) return [say("The server does not answer any more"), "warn", "!"];
  if (progress.running) return [say("Running"), "wait", "…"];
  return progress.done < progress.cases ? [say("Stopped"), "warn", "!"] : [say("Finished"), "good", "✓"];
}

function showProgress() {
  const card = byId("progress-card");
  card.hidden = !progress.was;
  if (!progress.was) return;
  const { done, cases } = progress, share = cases && done === done ? done / cases : 0, bar = byId("progress-bar");
  byId("progress-title").replaceChildren(pill(...progressTitle()));
  bar.value = share;
  bar.textContent = `${Math.round(100 * share)} %`;
  const wrong = data.matrix.cells.reduce((n, cell) => n + (cell[3] >= 3 ? cell[4] : 0), 0);
  byId("progress-facts").replaceChildren(
    fact(done === done ? say("{n} of {all}", { n: grouped(done), all: grouped(cases) }) : "–", say("cases done")),
    fact(`${(100 * share).toFixed(share > 0.999 && share < 1 ? 2 : 1)} %`, say("of all")),
    fact(progress.rate === null ? "–" : short(progress.rate), say("cases a second")),
    fact(progress.running ? durationText(progress.left) : "–", say("left")),
    fact(grouped(wrong), say("wrong so far"), wrong ? "bad" : ""),
  );
}

function showSlowest() {
  const place = byId("slowest");
  byId("slowest-card").hidden = !data.slowest.length;
  const most = data.slowest.length ? data.slowest[0].seconds : 1;
  place.replaceChildren(...data.slowest.map((one) => {
    const heat = element("div", "heat good"), level = element("i");
    level.style.width = `${(100 * one.seconds) / most}%`;
    return append(element("li"), caseButton(one.key, one.api), element("b", "", timeText(one.seconds)), append(heat, level));
  }));
}

function takeProgress(told) {
  const ended = progress.running && !told.running;
  Object.assign(progress, { running: told.running, cases: told.cases, done: told.done, rate: told.rate, left: told.seconds_left, lost: false });
  if (told.matrix) {
    progress.state = told.state;
    Object.assign(head, told.head);
    for (const name of ["matrix", "groups", "slowest", "rows"]) data[name] = told[name];
    forgetWaiting();
    emit("counts");
    askView();
  }
  showProgress();
  if (ended) askChanges();
}

// What was told of cases that had not ended is asked for again.
function forgetWaiting() {
  for (const i of Object.keys(data.details).map(Number)) if (isWaiting(i)) { delete data.details[i]; asked.delete(i); }
  if (state.selected >= 0 && isWaiting(state.selected)) showDetails();
}

async function poll() {
  const begun = performance.now();
  try {
    const answer = await fetch(`data/progress?seen=${encodeURIComponent(progress.state)}`);
    if (!answer.ok) throw new Error(String(answer.status));
    takeProgress(await answer.json());
  } catch { progress.lost = true; showProgress(); }
  if (progress.running) setTimeout(poll, Math.max(POLL_MILLISECONDS, PATIENCE * (performance.now() - begun)));
}

on("counts", showSlowest);
showSlowest();
showProgress();
if (progress.running) poll();
