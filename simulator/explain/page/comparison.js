// Below the timelines of a comparison: by how much the prediction is off, by cause and rank.

const causes = [
  ["compute", "compute_s", "F"], ["waiting", "waiting_s", "waiting"],
  ["transfers", "transfers_s", "B"], ["reduction", "reduction_s", "REDUCE"],
  ["optimizer", "optimizer_s", "OPT"]
];

/** Predicted less measured, by cause. */
function errorsOf({predicted, measured}) {
  return causes.map(([name, key, at]) => [name, predicted[key] - measured[key], at]);
}

function meanOf(items) {
  return sumOf(items, (item) => item) / items.length;
}

const errorsByRank = comparison ? comparison.ranks.map(errorsOf) : [];
const meanErrors = causes.map(
    ([name, , at], cause) => [name, meanOf(errorsByRank.map((errors) => errors[cause][1])), at]);
const stepError = comparison ? comparison.predicted_s - comparison.measured_s : 0;

function formatError(seconds) {
  return signed(seconds, formatSeconds(seconds));
}
function errorShare(seconds) {
  return signed(seconds, formatShare(seconds, comparison.measured_s));
}

function largest(items, value) {
  return items.reduce((most, item) => Math.abs(value(item)) > Math.abs(value(most)) ? item : most);
}

function fillFigures() {
  const [cause, seconds] = largest(meanErrors, ([, value]) => value);
  const rank = largest([...errorsByRank.keys()], (index) => errorsByRank[index][0][1]);
  const ofRank = errorsByRank[rank][0][1];
  byId("figures").replaceChildren(
      figure("predicted step", formatSeconds(comparison.predicted_s), "above in each rank"),
      figure("measured step", formatSeconds(comparison.measured_s), "below in each rank"),
      figure("error", errorShare(stepError), `${formatError(stepError)}, predicted less measured`),
      figure("largest cause", cause, `${formatError(seconds)} on the mean of all ranks`),
      figure(
          "compute furthest off", `rank ${rank}`,
          `${formatError(ofRank)} (${errorShare(ofRank)} of the step)`));
}

/** Parts above 0 to the right of the middle, parts below 0 to its left. */
function divergingBar(parts, most) {
  const half = (sign) => make(
      "div", {},
      ...parts.filter(([, value]) => Math.sign(value) === sign)
          .map(([name, value, colourName]) => make("i", {
                 style:
                     `background: var(--${colourName}); width: ${(100 * Math.abs(value)) / most}%`,
                 title: `${name} ${formatError(value)}`
               })));
  return make("div", {class: "diverging"}, half(-1), half(1));
}

function errorCell(seconds) {
  return make(
      "td", {class: "number", "data-seconds": seconds}, formatError(seconds),
      make("small", {}, errorShare(seconds)));
}

function fillErrors() {
  byId("errors-lead").textContent =
      "Predicted less measured, and in per cent of the measured step. A rank waits where another " +
      "is late, so its causes together are the error of the step.";
  fillLegend(byId("errors-legend"), causes.map(([name, , at]) => [name, at]));
  const all = [
    ["all ranks, mean", meanErrors], ...errorsByRank.map((errors, rank) => [`rank ${rank}`, errors])
  ];
  // One side of a bar holds all parts of a sign.
  const side = ([, errors], sign) => sumOf(errors, ([, value]) => Math.max(0, sign * value));
  const most = Math.max(1e-15, ...all.flatMap((row) => [side(row, 1), side(row, -1)]));
  const body = make(
      "tbody", {},
      ...all.map(
          ([name, errors], index) => make(
              "tr", index === 0 ? {class: "mean"} : {}, make("td", {}, name),
              make("td", {class: "wide"}, divergingBar(errors, most)),
              ...errors.map(([, value]) => errorCell(value)), errorCell(stepError))));
  byId("errors").replaceChildren(headings(["", "", ...causes.map(([name]) => name), "step"]), body);
}

/** A bar of each run, on the axis of the longer. */
function fillTimes() {
  fillLegend(byId("times-legend"), causes.map(([name, , at]) => [name, at]));
  const body = make(
      "tbody", {},
      ...comparison.ranks.flatMap((rank, index) => ["predicted", "measured"].map((run) => {
        const parts = causes.map(([name, key, at]) => [name, rank[run][key], at]);
        return make(
            "tr", run === "predicted" ? {} : {class: "second"},
            make("td", {}, run === "predicted" ? `rank ${index}` : ""), make("td", {}, run),
            make("td", {class: "wide"}, stackedBar(parts, data.span_s)),
            ...parts.map(([, value]) => make("td", {class: "number"}, formatSeconds(value))));
      })));
  byId("times").replaceChildren(headings(["", "", "", ...causes.map(([name]) => name)]), body);
}

function fillReport() {
  fillFigures();
  fillErrors();
  fillTimes();
}
