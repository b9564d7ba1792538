// The calls in view over the steps: how much room they have, how large they are, their gradients. Whatever the search,
// the module or the filter shows is summed up for each step; a selected call has a chart of its own.

// What can be drawn: the number of a call, which sum over those of one step is shown, and in words what that is.
const STEP_VALUES = {
  headroom: { of: (i) => headroom[i], shown: (sum) => sum.least, label: say("bits left"), floor: 0, even: true, reading: say("The least room of any of these calls: how many times its largest output can still double.") },
  largest: { of: (i) => 2 ** largest[i], shown: (sum) => sum.most, label: say("largest"), reading: say("The largest magnitude that any of these calls gives.") },
  norm: { of: (i) => norm[i], shown: (sum) => Math.sqrt(sum.squares), label: say("norm"), reading: say("The norm of everything that these calls give, taken as one vector; of backward calls these are gradients.") },
  mean: { of: (i) => mean[i], shown: (sum) => sum.weighted / sum.weight, label: say("mean"), even: true, reading: say("The mean of all elements that these calls give.") },
  gradient: { of: (i) => gradient[i], shown: (sum) => Math.sqrt(sum.squares), label: say("gradient norm"), backward: true, reading: say("The norm of the gradients that these calls give to parameters, taken as one vector.") },
};

// One point for each step, for forward and backward and for each rank. Calls come step by step, so the sum that the last
// one went into is nearly always the right one.
function overSteps(rows, value) {
  const told = STEP_VALUES[value], groups = new Map(), lately = [];
  for (const i of rows) {
    const key = told.backward ? rank[i] * 2 : rank[i] * 2 + backward[i];
    let sum = lately[key];
    if (!sum || sum.step !== step[i]) {
      if (!groups.has(key)) groups.set(key, new Map());
      const steps = groups.get(key);
      if (!steps.has(step[i])) steps.set(step[i], { step: step[i], any: false, bad: false, least: Infinity, most: -Infinity, squares: 0, weighted: 0, weight: 0 });
      sum = lately[key] = steps.get(step[i]);
    }
    const number = told.of(i);
    if (nan[i] || infinite[i]) sum.bad = true;
    if (!Number.isFinite(number)) continue;
    sum.any = true;
    if (number < sum.least) sum.least = number;
    if (number > sum.most) sum.most = number;
    sum.squares += number * number;
    sum.weighted += number * elements[i];
    sum.weight += elements[i];
  }
  const ranks = new Set([...groups.keys()].map((key) => key >> 1));
  return [...groups.entries()].sort((a, b) => a[0] - b[0]).map(([key, steps]) => lineOver(steps, told, nameOfLine(key, ranks.size, told))).filter((line) => line.ys.some((y) => y !== null));
}

function lineOver(steps, told, name) {
  const sums = [...steps.values()].sort((a, b) => a.step - b.step);
  return { name, xs: sums.map((sum) => sum.step), ys: sums.map((sum) => (sum.any ? told.shown(sum) : null)), crosses: sums.filter((sum) => sum.bad).map((sum) => sum.step) };
}

function nameOfLine(key, ranks, told) {
  const phase = told.backward ? say("gradients") : key & 1 ? say("backward") : say("forward");
  return ranks > 1 ? `${phase}, ${say("rank {n}", { n: key >> 1 })}` : phase;
}

function chartOf(rows, value, height) {
  const told = STEP_VALUES[value], lines = overSteps(rows, value).slice(0, 12);
  return lines.length ? { lines, label: told.label, across: say("step"), floor: told.floor, even: told.even, height } : null;
}

const stepsPlace = byId("steps-chart"), severalSteps = distinct(step).length > 1;
byId("steps").hidden = !severalSteps;
const statistic = segmented(byId("steps-values"), "over", Object.entries(STEP_VALUES).map(([key, told]) => [key, told.label]), () => drawSteps());
const redrawSteps = severalSteps ? liveChart(stepsPlace, () => chartOf(state.inOrder, statistic())) : () => {};
function drawSteps() {
  byId("steps-of").textContent = state.inOrder.length === count ? say("of all calls") : several(state.inOrder.length, "of the {n} call in view", "of the {n} calls in view");
  byId("steps-reading").textContent = STEP_VALUES[statistic()].reading;
  redrawSteps();
}
on("view", drawSteps);

// The same call in every step.
function sameCalls(i) {
  const rows = [], api = columns.api, module = columns.module;
  for (let n = 0; n < count; n++) if (api[n] === api[i] && index[n] === index[i] && backward[n] === backward[i] && rank[n] === rank[i] && module[n] === module[i]) rows.push(n);
  return rows;
}
