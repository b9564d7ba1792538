// The module tree with the worst error of each branch.

const tree = byId("modules");
const open = new Set();
const NODES_SHOWN = 600;

function buildTree() {
  const root = { path: "", label: "", children: new Map(), calls: 0, bad: 0, worst: 0, ratio: 0 };
  for (let i = 0; i < count; i++) {
    const path = moduleOf(i);
    const parts = path ? path.split(".") : [""];
    let node = root, full = "";
    for (const part of parts) {
      full = full ? `${full}.${part}` : part;
      let child = node.children.get(part);
      if (!child) { child = { path: full, label: part || "(outside any module)", children: new Map(), calls: 0, bad: 0, worst: 0, ratio: 0 }; node.children.set(part, child); }
      node = child;
      tally(node, i);
    }
  }
  return root;
}

function tally(node, i) {
  node.calls++;
  if (isBad(i)) node.bad++;
  if (output[i] > node.worst) node.worst = output[i];
  const ratio = ratioOf(i);
  if (ratio > node.ratio) node.ratio = ratio;
}

const moduleRoot = buildTree();

function openUsefulBranches() {
  for (const child of moduleRoot.children.values()) if (moduleRoot.children.size < 4) open.add(child.path);
  const parts = head.position === null || head.position === undefined ? [] : moduleOf(head.position).split(".");
  for (let depth = 1; depth <= parts.length; depth++) open.add(parts.slice(0, depth).join("."));
}

function moduleRow(node, depth) {
  const row = element("div", "node"), label = element("div", "label");
  const fold = element("button", "fold", node.children.size ? (open.has(node.path) ? "▾" : "▸") : "");
  fold.type = "button";
  fold.disabled = !node.children.size;
  fold.setAttribute("aria-label", `${open.has(node.path) ? "Close" : "Open"} ${node.label}`);
  fold.setAttribute("aria-expanded", String(open.has(node.path)));
  fold.addEventListener("click", () => { if (open.has(node.path)) open.delete(node.path); else open.add(node.path); renderTree(); });
  const name = element("button", node.bad ? "bad" : "", node.label);
  name.type = "button";
  name.title = node.path;
  name.disabled = !node.path;
  name.addEventListener("click", () => { setFilter({ module: filter.module === node.path ? "" : node.path }); byId("calls").scrollIntoView(); });
  label.style.paddingLeft = `${depth * 16}px`;
  append(label, fold, name);
  const heat = element("div", "heat" + (node.bad ? " bad" : node.ratio <= 1 ? " good" : "")), fill = element("i");
  // A thousandth of the limit is an empty bar, a thousand times the limit a full one.
  fill.style.width = `${Math.min(100, Math.max(0, ((Math.log10(node.ratio || 1e-9) + 3) / 6) * 100))}%`;
  heat.append(fill);
  heat.title = `worst: ${times(node.ratio)} the limit`;
  return append(row, label, element("span", "number", node.calls.toLocaleString("en")), element("span", "number" + (node.bad ? " bad" : ""), node.bad ? `${node.bad.toLocaleString("en")} failed` : ""),
    element("span", "number", short(node.worst)), heat);
}

function renderTree() {
  const header = element("div", "node head");
  append(header, element("span", "", "module"), element("span", "number", "calls"), element("span", "number", ""), element("span", "number", "worst error"), element("span", "", "against its limit"));
  const rows = [header];
  const walk = (node, depth) => {
    for (const child of node.children.values()) {
      if (rows.length > NODES_SHOWN) return;
      rows.push(moduleRow(child, depth));
      if (open.has(child.path)) walk(child, depth + 1);
    }
  };
  walk(moduleRoot, 0);
  if (rows.length > NODES_SHOWN) rows.push(element("div", "empty", `Only ${NODES_SHOWN} modules are shown; close branches to see others.`));
  tree.replaceChildren(...rows);
}
