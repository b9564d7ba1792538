// The modules of both sides as one tree. A branch is a module of the candidate with the module of the reference that did
// the same work, found from the calls that were compared: names may differ. What only the reference has hangs where its
// parent is. Everything is counted for each pair of modules, of which there are few, never call by call up the tree.

const OUTSIDE = "."; // the key of what is outside any module
const referenceModules = data.names.reference_module;

// The number of the pair of modules that each call belongs to, and what is known of those pairs.
const pairOf = new Uint32Array(count);
const modulePairs = [];
(() => {
  const numbers = new Map(), width = referenceModules.length;
  for (let i = 0; i < count; i++) {
    const key = (columns.module[i] * width + columns.reference_module[i]) * 3 + alone[i];
    let number = numbers.get(key);
    if (number === undefined) {
      number = modulePairs.length;
      numbers.set(key, number);
      const reference = alone[i] === ALONE.CANDIDATE ? null : referenceModules[columns.reference_module[i]];
      modulePairs.push({ reference, candidate: alone[i] === ALONE.REFERENCE ? null : moduleOf(i), first: i, kinds: new Uint32Array(6), bad: 0, worst: 0, ratio: 0, nodes: [] });
    }
    const pair = modulePairs[number], ratio = ratioOf(i);
    pairOf[i] = number;
    pair.kinds[kind[i]]++;
    if (isBad(i)) pair.bad++;
    if (output[i] > pair.worst) pair.worst = output[i];
    if (ratio > pair.ratio) pair.ratio = ratio;
  }
})();

// How many parts of the reference's path lie at or above each part of the candidate's; 0 where there is none for it. Parts
// of the same name belong together; what is left between them is laid side by side from below.
function alignPaths(reference, candidate) {
  const rows = candidate.length, width = reference.length, same = Array.from({ length: rows + 1 }, () => new Uint16Array(width + 1));
  for (let a = rows - 1; a >= 0; a--) for (let b = width - 1; b >= 0; b--) {
    same[a][b] = candidate[a] === reference[b] ? same[a + 1][b + 1] + 1 : Math.max(same[a + 1][b], same[a][b + 1]);
  }
  const upTo = new Array(rows).fill(0);
  let a = 0, b = 0, fromA = 0, fromB = 0;
  const pairUp = () => { for (let x = a - 1, y = b - 1; x >= fromA && y >= fromB; x--, y--) upTo[x] = y + 1; };
  while (a < rows && b < width) {
    if (candidate[a] === reference[b]) { pairUp(); upTo[a] = b + 1; a++; b++; fromA = a; fromB = b; }
    else if (same[a + 1][b] >= same[a][b + 1]) a++;
    else b++;
  }
  a = rows; b = width;
  pairUp();
  return upTo;
}

function makeNode(key, path, parent) {
  return { key, path, parent, children: new Map(), counterparts: new Map(), reference: null, first: Infinity, calls: 0, referenceCalls: 0, extra: 0, missing: 0, kinds: new Uint32Array(6), bad: 0, worst: 0, ratio: 0 };
}

function tally(node, pair) {
  const calls = pair.kinds.reduce((sum, n) => sum + n, 0);
  if (pair.candidate !== null) node.calls += calls;
  if (pair.reference !== null) node.referenceCalls += calls;
  if (pair.reference === null) node.extra += calls;
  if (pair.candidate === null) node.missing += calls;
  pair.kinds.forEach((n, which) => { node.kinds[which] += n; });
  node.bad += pair.bad;
  node.first = Math.min(node.first, pair.first);
  node.worst = Math.max(node.worst, pair.worst);
  node.ratio = Math.max(node.ratio, pair.ratio);
  pair.nodes.push(node);
  return calls;
}

function childOf(node, key, path) {
  if (!node.children.has(key)) node.children.set(key, makeNode(key, path, node));
  return node.children.get(key);
}

function addCandidate(root, pair) {
  const parts = pair.candidate.split("."), reference = pair.reference ? pair.reference.split(".") : [];
  const upTo = alignPaths(reference, parts);
  let node = root;
  parts.forEach((_, depth) => {
    const path = parts.slice(0, depth + 1).join(".");
    node = childOf(node, path || OUTSIDE, path);
    const calls = tally(node, pair), other = upTo[depth] ? reference.slice(0, upTo[depth]).join(".") : pair.reference === "" && path === "" ? "" : null;
    if (other !== null) node.counterparts.set(other, (node.counterparts.get(other) || 0) + calls);
  });
}

function settleCounterparts(node, known) {
  for (const [path, calls] of node.counterparts) {
    if (node.reference === null || calls > node.counterparts.get(node.reference)) node.reference = path;
  }
  if (node.reference !== null && !known.has(node.reference)) known.set(node.reference, node);
  for (const child of node.children.values()) settleCounterparts(child, known);
}

function addMissing(root, pair, known) {
  const parts = pair.reference.split(".");
  let depth = parts.length;
  while (depth && !known.has(parts.slice(0, depth).join("."))) depth--;
  let node = depth ? known.get(parts.slice(0, depth).join(".")) : root;
  for (let above = node; above !== root && above; above = above.parent) tally(above, pair);
  for (; depth < parts.length; depth++) {
    const path = parts.slice(0, depth + 1).join(".");
    node = childOf(node, `-${path}`, null);
    node.reference = path;
    known.set(path, node);
    tally(node, pair);
  }
}

const moduleNodes = new Map(); // by key
const moduleRoot = (() => {
  const root = makeNode("", "", null), known = new Map();
  for (const pair of modulePairs) if (pair.candidate !== null) addCandidate(root, pair);
  for (const child of root.children.values()) settleCounterparts(child, known);
  for (const pair of modulePairs) if (pair.candidate === null) addMissing(root, pair, known);
  const order = (node) => {
    moduleNodes.set(node.key, node);
    node.children = [...node.children.values()].sort((a, b) => a.first - b.first);
    node.children.forEach(order);
  };
  root.children = [...root.children.values()].sort((a, b) => a.first - b.first);
  root.children.forEach(order);
  return root;
})();

// Whether a call belongs to a branch: known for each pair of modules.
function branchTest(key) {
  const node = moduleNodes.get(key);
  const inside = modulePairs.map((pair) => pair.nodes.includes(node));
  return (i) => inside[pairOf[i]];
}

// The path from the top to the branch that a call belongs to.
function branchesOf(i) { return modulePairs[pairOf[i]].nodes; }

// What the worst of a branch is, in the order of KIND.
function kindOf(node) {
  if (node.bad) return KIND.FAIL;
  if (node.kinds[KIND.WARN] || node.kinds[KIND.ORIGIN]) return KIND.WARN;
  if (node.kinds[KIND.VICTIM]) return KIND.VICTIM;
  return node.kinds[KIND.PASS] ? KIND.PASS : KIND.NONE;
}
