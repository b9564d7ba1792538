// The module tree as it is seen: the reference on the left, the candidate on the right, the error between them.

const tree = byId("modules");
const opened = new Set(), usuallyOpen = new Set();
const NODES_SHOWN = 600;
const MARKS = { [KIND.PASS]: "✓", [KIND.NONE]: "–", [KIND.VICTIM]: "~", [KIND.WARN]: "!", [KIND.FAIL]: "✕" };
let focused = null; // the key of the row that has the focus among the rows

// At first the path to the origin is open, or that to the largest error where there is no origin.
function openUsefulBranches() {
  if (moduleRoot.children.length < 4) for (const child of moduleRoot.children) usuallyOpen.add(child.key);
  if (head.position !== null && head.position !== undefined) for (const node of branchesOf(head.position)) usuallyOpen.add(node.key);
  else for (let node = worstChild(moduleRoot); node; node = worstChild(node)) usuallyOpen.add(node.key);
  for (const key of usuallyOpen) opened.add(key);
}
function worstChild(node) { return node.children.reduce((worst, child) => (child.ratio > (worst ? worst.ratio : 0) ? child : worst), null); }

function holdsOrigin(node) { return node.kinds[KIND.ORIGIN] > 0; }
function isDull(node) { return kindOf(node) <= KIND.NONE && !node.extra && !node.missing; }

function fold(node, open) {
  if (!node.children.length) return;
  if (open) opened.add(node.key); else opened.delete(node.key);
  renderTree();
  saveAddress();
}
function chooseBranch(node) {
  setFilter({ module: filter.module === node.key ? "" : node.key });
  byId("calls").scrollIntoView();
}

// The name of a module beside that of its parent; where the parent has no counterpart, the whole path.
function labelOf(path, parentPath) {
  if (path === "") return say("(outside any module)");
  return parentPath && path.startsWith(parentPath + ".") ? path.slice(parentPath.length + 1) : path;
}

function sideCell(node, depth, side) {
  const path = side === "reference" ? node.reference : node.path, calls = side === "reference" ? node.referenceCalls : node.calls;
  const only = side === "reference" ? node.missing : node.extra, cell = element("div", `side ${side}`);
  cell.setAttribute("role", "gridcell");
  const label = element("div", "label");
  label.style.paddingLeft = `${depth * 14}px`;
  if (side === "reference") label.append(foldButton(node));
  if (path === null) label.append(element("span", "absent", say("not there")));
  else {
    const above = node.parent && (side === "reference" ? node.parent.reference : node.parent.path);
    const name = element("button", "name", labelOf(path, above));
    name.type = "button";
    name.tabIndex = -1;
    name.title = path;
    name.addEventListener("click", () => chooseBranch(node));
    label.append(name);
  }
  const amount = element("span", "amount", path === null ? "" : grouped(calls));
  append(cell, label, only ? element("span", "only", say("{n} only here", { n: grouped(only) })) : null, amount);
  return cell;
}

function foldButton(node) {
  const open = opened.has(node.key), button = element("button", "fold", node.children.length ? (open ? "▾" : "▸") : "");
  button.type = "button";
  button.tabIndex = -1;
  button.disabled = !node.children.length;
  button.setAttribute("aria-label", open ? say("Close {name}", { name: node.path ?? node.reference }) : say("Open {name}", { name: node.path ?? node.reference }));
  button.addEventListener("click", () => fold(node, !open));
  return button;
}

function errorCell(node) {
  const which = kindOf(node), cell = element("div", `between ${KIND_CLASS[which]}`), heat = element("div", "heat"), fill = element("i");
  // A thousandth of the limit is an empty bar, a thousand times the limit a full one.
  fill.style.width = `${Math.min(100, Math.max(0, ((Math.log10(node.ratio || 1e-9) + 3) / 6) * 100))}%`;
  heat.append(fill);
  cell.setAttribute("role", "gridcell");
  cell.title = node.bad ? say("{n} failed; worst: {times} the limit", { n: grouped(node.bad), times: times(node.ratio) }) : say("{word}; worst: {times} the limit", { word: KIND_WORD[which], times: times(node.ratio) });
  const mark = element("span", "mark", MARKS[which]);
  mark.setAttribute("aria-label", KIND_WORD[which]);
  return append(cell, mark, element("span", "amount", which === KIND.NONE ? "–" : short(node.worst)), heat);
}

function moduleRow(node, depth) {
  const row = element("div", `branch ${KIND_CLASS[kindOf(node)]}` + (node.path === node.reference && !node.extra && !node.missing ? " same" : "") + (filter.module === node.key ? " chosen" : "") + (holdsOrigin(node) ? " to-origin" : ""));
  row.setAttribute("role", "row");
  row.setAttribute("aria-level", String(depth + 1));
  if (node.children.length) row.setAttribute("aria-expanded", String(opened.has(node.key)));
  row.dataset.key = node.key;
  row.tabIndex = node.key === focused ? 0 : -1;
  return append(row, sideCell(node, depth, "reference"), errorCell(node), sideCell(node, depth, "candidate"));
}

function treeHead() {
  const top = element("div", "branch head"), words = element("div", "between");
  top.setAttribute("role", "row");
  append(words, element("span", "mark", ""), element("span", "amount", say("worst error")), element("span", "", say("against its limit")));
  const side = (label, path) => append(element("div", "side"), append(element("div", "label"), element("b", "", label), element("span", "muted", path)), element("span", "amount", say("calls")));
  append(top, side(head.baseline ? say("Gold") : say("Reference"), head.reference.path), words, side(say("Candidate"), head.candidate.path));
  for (const cell of top.children) cell.setAttribute("role", "columnheader");
  return top;
}

const onlyDiffering = byId("only-differing");
function renderTree() {
  const hadFocus = tree.contains(document.activeElement), rows = [treeHead()];
  let left = 0;
  const walk = (node, depth) => {
    for (const child of node.children) {
      if (onlyDiffering.checked && isDull(child)) { left++; continue; }
      if (rows.length > NODES_SHOWN) return;
      rows.push(moduleRow(child, depth));
      if (opened.has(child.key)) walk(child, depth + 1);
    }
  };
  walk(moduleRoot, 0);
  if (rows.length > NODES_SHOWN) rows.push(element("div", "empty", say("Only {n} modules are shown; close branches to see others.", { n: NODES_SHOWN })));
  if (rows.length === 1) rows.push(element("div", "empty", left ? say("All branches agree.") : say("No modules were recorded.")));
  tree.replaceChildren(...rows);
  focusRow(focused, hadFocus);
}

// One row can be reached by Tab, the others by the arrows.
function focusRow(key, really) {
  const rows = [...tree.querySelectorAll(".branch[data-key]")], row = rows.find((one) => one.dataset.key === key) || rows[0];
  for (const one of rows) one.tabIndex = one === row ? 0 : -1;
  if (row) focused = row.dataset.key;
  if (row && really) row.focus();
}

tree.addEventListener("keydown", (event) => {
  const rows = [...tree.querySelectorAll(".branch[data-key]")], at = rows.findIndex((row) => row.dataset.key === focused), node = moduleNodes.get(focused);
  if (!node) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") focusRow((rows[at + (event.key === "ArrowDown" ? 1 : -1)] || rows[at]).dataset.key, true);
  else if (event.key === "ArrowRight") { if (opened.has(focused) && node.children.length) focusRow(node.children[0].key, true); else fold(node, true); }
  else if (event.key === "ArrowLeft") { if (opened.has(focused) && node.children.length) fold(node, false); else if (node.parent && node.parent !== moduleRoot) focusRow(node.parent.key, true); }
  else if (event.key === "Enter" && event.target.tagName !== "BUTTON") chooseBranch(node);
  else return;
  event.preventDefault();
});
on("view", () => { for (const row of tree.querySelectorAll(".branch[data-key]")) row.classList.toggle("chosen", row.dataset.key === filter.module); });
onlyDiffering.addEventListener("change", () => { renderTree(); saveAddress(); });

// The address holds what was opened or closed by hand.
hold((words) => {
  for (const key of opened) if (!usuallyOpen.has(key)) words.append("open", key);
  for (const key of usuallyOpen) if (!opened.has(key)) words.append("shut", key);
  if (onlyDiffering.checked) words.set("tree", "differ");
}, (words) => {
  opened.clear();
  for (const key of [...usuallyOpen, ...words.getAll("open")]) opened.add(key);
  for (const key of words.getAll("shut")) opened.delete(key);
  onlyDiffering.checked = words.get("tree") === "differ";
  renderTree();
});
