// A page of plans side by side: what each gives and takes as columns, and the table of all.

const data = JSON.parse(byId("data").textContent);
const keys = Object.keys(data.sweep);
const seriesColours = ["F", "B", "W", "OVERLAP", "REDUCE", "I", "launch", "OPT", "path", "limit"];
const measures = [
  ["samples per second", "samples_per_s", rate, data.fastest],
  ["device time per sample", "device_seconds_per_sample", formatSeconds, data.cheapest],
];

/** `ranks=8, memory=16GiB`: of some keys. */
function named(row, some = keys) {
  return some.map((key) => `${key}=${row.values[key]}`).join(", ");
}

function rate(samplesPerSecond) {
  return samplesPerSecond < 9999.5 ? samplesPerSecond.toPrecision(4) : samplesPerSecond.toFixed(0);
}

/** Columns stand in groups by the key with the most values, and have their colour by the others. */
const groupKey =
    keys.reduce((most, key) => data.sweep[key].length > data.sweep[most].length ? key : most);
const seriesKeys = keys.filter((key) => key !== groupKey);
const series = [...new Set(data.rows.map((row) => named(row, seriesKeys)))];
function colourOf(row) {
  return seriesColours[series.indexOf(named(row, seriesKeys)) % seriesColours.length];
}

function column(row, [title, member, format, best], most) {
  if (row.problem)
    return make("div", {class: "column none", title: `${named(row)}: ${row.problem}`}, "no plan");
  const text = format(row[member]);
  const height = `calc((100% - 20px) * ${row[member] / most})`;
  return make(
      "div", {
        class: data.rows[best] === row ? "column best" : "column",
        title: `${named(row)}: ${text} ${title}`
      },
      text, make("i", {style: `background: var(--${colourOf(row)}); height: ${height}`}));
}

function chart(measure) {
  const most = Math.max(...data.rows.map((row) => row[measure[1]] ?? 0));
  const groups = data.sweep[groupKey].map((value) => {
    const rows = data.rows.filter((row) => row.values[groupKey] === value);
    return make(
        "div", {class: "group"},
        make("div", {class: "columns"}, ...rows.map((row) => column(row, measure, most))),
        make("div", {class: "label"}, String(value)));
  });
  return make(
      "figure", {}, make("figcaption", {}, `${measure[0]}, by ${groupKey}`),
      make("div", {class: "scroll groups"}, ...groups));
}

function planCells(row) {
  const memory = row.memory_bytes ?
      ` (${Math.round((100 * row.peak_memory_bytes) / row.memory_bytes)} %)` :
      "";
  return [
    formatSeconds(row.step_s), rate(row.samples_per_s), formatSeconds(row.device_seconds),
    formatSeconds(row.device_seconds_per_sample), formatBytes(row.peak_memory_bytes) + memory,
    row.schedule, `${row.data_parallel} × ${row.ranks} × ${row.stages_per_rank}`,
    `${row.microbatches} × ${row.microbatch}`, row.optimizer_state, formatSeconds(row.lower_bound_s)
  ];
}

const planHeadings = [
  "step", "samples/s", "device time", "per sample", "fullest rank", "schedule",
  "replicas × ranks × stages", "microbatches × samples", "optimizer state", "bound"
];

function planRow(row, index) {
  const marks = [[data.fastest, "fastest"], [data.cheapest, "cheapest"]]
                    .filter(([at]) => at === index)
                    .map(([, mark]) => mark);
  const cells = row.problem ?
      [make("td", {class: "problem", colspan: String(planHeadings.length)}, row.problem)] :
      planCells(row).map((text) => make("td", {class: "number"}, text));
  return make(
      "tr", marks.length ? {class: "marked"} : {}, make("td", {}, marks.join(", ")),
      ...keys.map((key) => make("td", {class: "number"}, String(row.values[key]))), ...cells);
}

function best(name, index, value, note) {
  const row = data.rows[index];
  return figure(name, value(row), `${named(row)}: ${note(row)}`);
}

byId("title").textContent = data.title;
byId("shape").textContent = `plans for ${keys.join(" and ")}`;
byId("facts").replaceChildren(
    ...[["costs", data.note]]
        .filter(([, text]) => text)
        .map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
byId("figures").replaceChildren(
    best(
        "fastest", data.fastest, (row) => `${rate(row.samples_per_s)} samples/s`,
        (row) => `a step of ${formatSeconds(row.step_s)}`),
    best(
        "cheapest", data.cheapest, (row) => formatSeconds(row.device_seconds_per_sample),
        () => "of devices per sample"));
fillLegend(
    byId("legend"),
    seriesKeys.length ? series.map((name, at) => [name, seriesColours[at % seriesColours.length]]) :
                        []);
byId("charts").classList.toggle("one-below-the-other", data.rows.length > 8);
byId("charts").replaceChildren(...measures.map(chart));
byId("plans").replaceChildren(
    headings(["", ...keys, ...planHeadings]), make("tbody", {}, ...data.rows.map(planRow)));
