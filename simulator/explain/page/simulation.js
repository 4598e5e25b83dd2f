// Below the timeline of a simulation: the list of the critical path, where time and memory go.

const idleParts = [
  ["ramp", "ramp_s", "ramp"], ["imbalance", "imbalance_s", "imbalance"],
  ["transfers", "transfers_s", "send-f"], ["launch", "launch_s", "launch"],
  ["recompute", "recompute_s", "recompute"], ["all-reduce", "all_reduce_s", "REDUCE"]
];
const memoryParts = [
  ["parameters and optimizer", "fixed_bytes", "fixed"], ["snapshots", "snapshot_bytes", "launch"],
  ["messages", "message_bytes", "buffers"], ["activations saved", "saved_bytes", "saved"],
  ["kept for W", "saved_weight_bytes", "saved-weight"],
  ["recomputed", "recomputed_bytes", "recompute"], ["transient", "transient_bytes", "transient"]
];
const partColours = {
  compute: "F",
  "all-reduce": "REDUCE",
  transfer: "send-b",
  launch: "launch",
  wait: "wait"
};

/** Only parts that some rank has. */
function present(parts, member) {
  return parts.filter(([, key]) => simulation.ranks.some((rank) => rank[member][key] !== 0));
}

function fillFigures() {
  const step = data.span_s;
  const capacity = step * ranks;
  const causes = idleParts.filter(([, key]) => simulation.idle[key] > 0)
                     .map(([name, key]) => `${name} ${formatShare(simulation.idle[key], capacity)}`)
                     .join(", ");
  const limiting = simulation.ranks[simulation.limiting_rank];
  const largest = Math.max(...simulation.ranks.map((rank) => rank.peak_bytes));
  const fullest = simulation.ranks.findIndex((rank) => rank.peak_bytes === largest);
  const most = rows[fullest].limit_bytes;
  const limit = most !== undefined ? ` of ${formatBytes(most)}` : "";
  byId("figures").replaceChildren(
      figure(
          "step time", formatSeconds(step), `${plural(data.microbatches, "microbatch")} per step`),
      figure("bubble", formatShare(simulation.bubble, 1), causes),
      figure(
          "limiting rank", `rank ${simulation.limiting_rank}`,
          `${formatSeconds(limiting.path_s)} of the critical path are its work`),
      ...(hasMemory ? [figure("peak memory", formatBytes(largest), `on rank ${fullest}${limit}`)] :
                      []));
}

/** Where the seconds of the path went. */
function pathParts() {
  const ownCompute = sumOf(
      path.filter((step) => step.part === "compute" && step.row === simulation.limiting_rank),
      (step) => step.end - step.start);
  return [
    [`compute on rank ${simulation.limiting_rank}`, ownCompute, "F"],
    ["compute on other ranks", simulation.path.compute_s - ownCompute, "ramp"],
    ["transfers", simulation.path.transfer_s, "send-b"],
    ["all-reduce", simulation.path.reduce_s, "REDUCE"],
    ["launch", simulation.path.launch_s, "launch"],
    ["not explained", simulation.path.wait_s, "wait"]
  ].filter(([, value]) => value > data.span_s * 1e-12);
}

function fillPath() {
  byId("path-lead").textContent =
      "The chain of work and transfers that the step consists of: nothing on it could begin " +
      "earlier, and only what is on it makes the step shorter.";
  const parts = pathParts();
  byId("path-bar").replaceWith(Object.assign(stackedBar(parts, data.span_s), {id: "path-bar"}));
  fillLegend(
      byId("path-legend"),
      parts.map(
          ([name, value, colourName]) =>
              [name, colourName, `${formatSeconds(value)} (${formatShare(value, data.span_s)})`]));
  byId("path-total").textContent = formatSeconds(sumOf(path, (step) => step.end - step.start));
}

const rowHeight = 26;
// Starts in the list are told apart by a tenth of a step of mean length.
const finest = data.span_s / Math.max(1, path.length) / 10;

function pathRow(step) {
  const where = step.receiver < 0 ? `${step.row}` : `${step.row} → ${step.receiver}`;
  const row = make(
      "tr", {"data-step": step.index, "data-seconds": step.end - step.start},
      make("td", {class: "number"}, formatMoment(step.start, data.span_s, finest)),
      make("td", {class: "number"}, formatSeconds(step.end - step.start)),
      make("td", {}, step.name), make("td", {}, where),
      make("td", {}, make("i", {style: `background: var(--${partColours[step.part]})`}), step.part),
      make("td", {}, step.cause));
  if (step === chosen) row.className = "chosen";
  return row;
}

/** The blocks of rows in sight and one around them; the rest is two spacers. */
const blockOfRows = 50;
let rowsShown = "";
function fillPathRows() {
  const list = byId("path-list");
  const block = Math.floor(list.scrollTop / rowHeight / blockOfRows);
  const first = Math.max(0, (block - 1) * blockOfRows);
  const last = Math.min(path.length, (block + 3) * blockOfRows);
  if (rowsShown === `${first} ${last} ${chosen?.index}`) return;
  rowsShown = `${first} ${last} ${chosen?.index}`;
  const spacer = (rows) => make(
      "tr", {}, make("td", {class: "spacer", colspan: 6, style: `height: ${rows * rowHeight}px`}));
  byId("path-rows")
      .replaceChildren(
          spacer(first), ...path.slice(first, last).map(pathRow), spacer(path.length - last));
}

function fillIdle() {
  const parts = present(idleParts, "idle");
  fillLegend(
      byId("idle-legend"),
      [["busy", "F"], ...parts.map(([name, , colourName]) => [name, colourName])]);
  const body = make("tbody", {}, ...simulation.ranks.map((rank, index) => {
    const shares =
        [["busy", rank.busy_s, "F"], ...parts.map(([name, key, at]) => [name, rank.idle[key], at])];
    const whole = sumOf(shares, ([, value]) => Math.max(0, value));
    return make(
        "tr", index === simulation.limiting_rank ? {class: "limiting"} : {},
        make("td", {}, `rank ${index}`), make("td", {class: "wide"}, stackedBar(shares, whole)),
        ...[rank.busy_s, ...parts.map(([, key]) => rank.idle[key]), rank.path_s].map(
            (value) => make("td", {class: "number"}, formatSeconds(value))));
  }));
  byId("idle").replaceChildren(
      headings(["", "", "busy", ...parts.map(([name]) => name), "on the critical path"]), body);
}

function fillMemory() {
  byId("memory-card").hidden = !hasMemory;
  if (!hasMemory) return;
  const parts = present(memoryParts, "memory");
  fillLegend(byId("memory-legend"), parts.map(([name, , colourName]) => [name, colourName]));
  const body = make("tbody", {}, ...simulation.ranks.map((rank, index) => {
    const shares = parts.map(([name, key, at]) => [name, rank.memory[key], at]);
    return make(
        "tr", {}, make("td", {}, `rank ${index}`),
        make("td", {class: "wide"}, stackedBar(shares, mostBytes)),
        make("td", {class: "number"}, formatBytes(rank.peak_bytes)),
        ...parts.map(([, key]) => make("td", {class: "number"}, formatBytes(rank.memory[key]))));
  }));
  byId("memory").replaceChildren(headings(["", "", "peak", ...parts.map(([name]) => name)]), body);
}

/** A row of the list shows its step, with as much around it as it is long. */
function choose(step) {
  chosen = step;
  const margin = Math.max(step.end - step.start, data.span_s * 1e-3);
  view.set(step.start - 2 * margin, step.end + 2 * margin);
  showRow(step.row);
  fillPathRows();
  redraw();
}

function listenToList() {
  byId("path-list").addEventListener("scroll", fillPathRows);
  byId("path-rows").addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-step]");
    if (row) choose(path[Number(row.dataset.step)]);
  });
}

function fillReport() {
  fillFigures();
  fillPath();
  fillPathRows();
  fillIdle();
  fillMemory();
  listenToList();
}
