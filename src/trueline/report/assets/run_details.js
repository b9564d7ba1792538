// One call: what it was given and gave back, and where it was made.

const drawer = byId("drawer");
const STATISTICS = ["min", "max", "mean", "norm", "NaN", "Inf", "zeros"];

function showDetails() {
  const i = state.selected;
  drawer.hidden = i < 0;
  if (i < 0) return;
  const detail = data.details[i], close = element("button", "ghost close", "close");
  close.type = "button";
  close.addEventListener("click", () => select(-1));
  drawer.replaceChildren(close, element("span", `tag ${classOf(i)}`, wordOf(i)), element("h2", "", nameOf(i)), summaryOf(i, detail));
  const course = courseChart(i);
  if (course) append(drawer, element("h3", "", "Bits left, over the steps"), course);
  if (detail) append(drawer, ...detailParts(detail));
  else if (askDetail(i, showDetails)) drawer.append(loadingNote());
  append(drawer, element("h3", "", "Go on"), commandBox("this call on the terminal", `trueline show ${quote(head.path)} ${quote(nameOf(i))} --step ${step[i]} --rank ${rank[i]}`), commandBox("execute it alone against float64", `trueline check ${quote(head.path)} --target ${head.run.framework.split(/[ ,+]/)[0]}:cpu`));
  drawer.scrollTop = 0;
}

function summaryOf(i, detail) {
  const list = element("dl");
  definition(list, "module", (moduleOf(i) || "outside any module") + (detail && detail.module_class ? ` (${detail.module_class})` : ""));
  definition(list, "source", (detail && detail.stack[0]) || sourceOf(i));
  definition(list, "where", `step ${step[i]}, rank ${rank[i]}` + (detail && detail.context ? `, in ${detail.context}` : ""));
  definition(list, "outputs", `largest ${largestText(i)}, ${bitsText(headroom[i])} bits left, ${elements[i].toLocaleString("en")} elements`);
  if (nan[i] || infinite[i]) definition(list, "bad", `${nan[i].toLocaleString("en")} NaN, ${infinite[i].toLocaleString("en")} infinite`);
  if (detail && detail.raised) definition(list, "raised", detail.raised);
  return list;
}

function detailParts(detail) {
  const parts = [element("h3", "", "Call"), element("pre", "", `${detail.call}\n→ ${detail.result}`)];
  if (detail.tensors.length) parts.push(element("h3", "", "Tensors"), ...detail.tensors.map(tensorBox));
  if (detail.stack.length) parts.push(element("h3", "", "Stack"), element("pre", "", detail.stack.join("\n")));
  return parts;
}

function tensorBox(tensor) {
  const box = element("div", "tensor"), title = element("div", "title"), record = tensor.record;
  append(title, element("b", "", `${tensor.role} ${tensor.path}`), element("span", "muted", `${record.dtype} [${record.shape.join(", ")}] ${record.device}`));
  box.append(title);
  if (!record.statistics) { box.append(element("div", "muted", record.missing)); return box; }
  const pairs = {};
  record.statistics.forEach((value, n) => { pairs[STATISTICS[n]] = value; });
  box.append(pairsOf(pairs));
  return box;
}

on("selected", showDetails);
