// One call: what it was given and gave back on both sides, and where it was made.

const drawer = byId("drawer");
const STATISTICS = ["min", "max", "mean", "norm", "NaN", "Inf", "zeros"];

function showDetails() {
  const i = state.selected;
  drawer.hidden = i < 0;
  if (i < 0) return;
  const detail = i === head.position ? head.origin.detail : data.details[i];
  const close = element("button", "ghost close", "close");
  close.type = "button";
  close.addEventListener("click", () => select(-1));
  const title = element("h2", "", nameOf(i));
  drawer.replaceChildren(close, element("span", `tag ${classOf(i)}`, KIND_WORD[kind[i]]), title, summaryOf(i, detail));
  if (detail) append(drawer, ...detailParts(detail));
  else drawer.append(askDetail(i, showDetails) ? loadingNote() : missingNote(i));
  drawer.scrollTop = 0;
}

function summaryOf(i, detail) {
  const list = element("dl");
  definition(list, "module", (moduleOf(i) || "outside any module") + (detail && detail.module_class ? ` (${detail.module_class})` : ""));
  definition(list, "source", (detail && detail.stack[0]) || sourceOf(i));
  definition(list, "where", `step ${step[i]}, rank ${rank[i]}` + (detail && detail.context ? `, in ${detail.context}` : ""));
  definition(list, "error", `inputs ${short(input[i])}, output ${short(output[i])}` + (limit[i] > 0 ? `, limit ${short(limit[i])} (${times(ratioOf(i))})` : ""));
  if (detail) definition(list, "why", detail.reason);
  return list;
}

function missingNote(i) {
  const note = element("div");
  const side = head.candidate.path;
  append(note, element("h3", "", "Details"), element("p", "muted", "This page keeps details of the calls that differ and of some others. To see this one:"), commandBox("", `trueline show ${quote(side)} ${quote(nameOf(i))} --step ${step[i]} --rank ${rank[i]}`));
  return note;
}

function detailParts(detail) {
  const parts = [];
  const one = detail.reference, other = detail.candidate;
  if (one && other && one.call === other.call && one.result === other.result) {
    parts.push(element("h3", "", "Call, the same on both sides"), element("pre", "", `${other.call}\n→ ${other.result}`));
  } else {
    for (const [label, side] of [["Reference", one], ["Candidate", other]]) {
      parts.push(element("h3", "", label), element("pre", "", side ? `${side.call}\n→ ${side.result}${side.raised ? `\nraised ${side.raised}` : ""}` : "has no such call"));
    }
  }
  if (detail.tensors.length) parts.push(element("h3", "", "Tensors"), ...detail.tensors.map((tensor, place) => tensorBox(tensor, place)));
  if (detail.stack.length) parts.push(element("h3", "", "Stack"), element("pre", "", detail.stack.join("\n")));
  return parts;
}

function tensorBox(tensor, place) {
  const box = element("div", "tensor"), title = element("div", "title");
  const which = tensor.verdict >= 3 ? "fail" : ["pass", "warn", "none"][tensor.verdict];
  const described = tensor.candidate || tensor.reference;
  append(title, element("b", "", `${tensor.role} ${tensor.path}`), element("span", "muted", `${described.dtype} [${described.shape.join(", ")}] ${described.device}`), element("span", `tag ${which}`, VERDICTS[tensor.verdict].toLowerCase()));
  box.append(title);
  if (tensor.distance !== null) {
    const bound = tensor.limit === null ? "" : `, limit ${short(tensor.limit)}`;
    box.append(element("div", "", `distance ${short(tensor.distance)}${tensor.estimated ? " (estimated from sketches)" : ""}${bound}`));
  }
  if (tensor.reason) box.append(element("div", "muted", tensor.reason));
  box.append(append(element("div", "scroll"), statisticsTable(tensor)));
  if (tensor.measurement) box.append(pairsOf(tensor.measurement));
  if (tensor.errors) box.append(append(element("div", "scroll"), errorsTable(tensor.errors)));
  append(box, errorPicture(tensor, state.selected, place));
  return box;
}

function errorsTable(errors) {
  const table = element("table", "stats errors"), top = element("tr");
  append(top, ...["error against the gold", "candidate", "baseline", "ratio"].map((name) => element("th", "", name)));
  table.append(top);
  for (const [metric, candidate, baseline, ratio] of errors) {
    const row = append(element("tr"), element("th", "", metric), element("td", "", short(candidate)), element("td", "", short(baseline)));
    table.append(append(row, element("td", toNumber(ratio) > 1 ? "differs" : "", exact(ratio))));
  }
  return table;
}

function statisticsTable(tensor) {
  const table = element("table", "stats"), top = element("tr");
  append(top, element("th"), ...STATISTICS.map((name) => element("th", "", name)));
  table.append(top);
  const sides = [["reference", tensor.reference], ["candidate", tensor.candidate]];
  if (tensor.baseline) sides.push(["baseline", tensor.baseline]);
  for (const [label, side] of sides) {
    const row = append(element("tr"), element("th", "", label));
    if (!side || !side.statistics) {
      const cell = element("td", "muted", side ? side.missing : "has no such tensor");
      cell.colSpan = STATISTICS.length;
      row.append(cell);
    } else {
      const other = label === "reference" ? tensor.candidate : tensor.reference;
      side.statistics.forEach((value, n) => {
        const differs = other && other.statistics && exact(other.statistics[n]) !== exact(value);
        row.append(element("td", differs ? "differs" : "", exact(value)));
      });
    }
    table.append(row);
  }
  return table;
}

on("selected", showDetails);
