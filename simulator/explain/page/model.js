// The data of the page, arranged for drawing: each row has lanes of events that do not overlap.

const data = JSON.parse(byId("data").textContent);
const {simulation, comparison} = data;  // the page has one of them

const kinds = {
  F: "forward",
  B: "backward",
  I: "backward for the input",
  W: "backward for the weight",
  OVERLAP_F_B: "forward and backward overlapped",
  OPT: "optimizer",
  REDUCE_GRAD: "all-reduce of gradients",
  SEND_F: "activations",
  SEND_B: "gradients",
  RECV_F: "waits for activations",
  RECV_B: "waits for gradients",
};
const colourOfKind = {
  F: "F",
  B: "B",
  I: "I",
  W: "W",
  OVERLAP_F_B: "OVERLAP",
  OPT: "OPT",
  REDUCE_GRAD: "REDUCE",
  SEND_F: "send-f",
  SEND_B: "send-b",
  RECV_F: "wait",
  RECV_B: "wait",
};

function isSend(event) {
  return event.kind === "SEND_F" || event.kind === "SEND_B";
}

function isWait(event) {
  return event.kind === "RECV_F" || event.kind === "RECV_B";
}

/** By stage how light it is drawn: 0 the first of its rank, 0.5 the last. */
const stagesOfRank = Map.groupBy(data.stages.keys(), (stage) => data.stages[stage].rank);
const tints = data.stages.map(({rank}, stage) => {
  const all = stagesOfRank.get(rank);
  return all.length < 2 ? 0 : (0.5 * all.indexOf(stage)) / (all.length - 1);
});

function stageOf(name) {
  return Number(name.match(/\d+/)[0]);
}

/** What takes no time is not drawn. A lane per channel, so that no lane overlaps itself. */
function makeRow(row, index) {
  const compute = [];
  const channels = new Map();
  for (const [kind, name, start, end, bytes, peer] of row.events) {
    if (end <= start) continue;
    const tint = tints[stageOf(name)] ?? 0;
    const event =
        {kind: data.kinds[kind], number: kind, name, start, end, bytes, peer, tint, row: index};
    if (!isSend(event)) {
      compute.push(event);
      continue;
    }
    const key = `${peer} ${event.kind}`;
    if (!channels.has(key)) channels.set(key, []);
    channels.get(key).push(event);
  }
  const peak = row.curve.reduce((most, [, bytes]) => Math.max(most, bytes), 0);
  return {...row, index, peak, compute, channels: [...channels.values()]};
}

const rows = data.rows.map(makeRow);
const runsPerRank = comparison ? 2 : 1;
const ranks = rows.length / runsPerRank;

/** The same action of the other run, or undefined. */
function counterpart(event) {
  const other = comparison && rows[event.row ^ 1];
  return other && [other.compute, ...other.channels].flat().find(({name}) => name === event.name);
}

const pathData = simulation ? simulation.path : {steps: []};
const path = pathData.steps.map(([part, cause, rank, receiver, name, start, end], index) => ({
                                  part: pathData.parts[part],
                                  cause: pathData.causes[cause],
                                  row: rank,
                                  receiver,
                                  name,
                                  start,
                                  end,
                                  index
                                }));
const stepOfEvent = new Map(path.map((step) => [`${step.row} ${step.name}`, step]));
const usedKinds = Object.keys(kinds).filter(
    (kind) => rows.some(
        (row) => row.compute.some((event) => event.kind === kind) ||
            row.channels.some((lane) => lane.some((event) => event.kind === kind))));
const mostBytes = Math.max(1, ...rows.map((row) => row.peak));
const hasTransfers = rows.some((row) => row.channels.length > 0);
const hasMemory = rows.some((row) => row.peak > 0);

/** The first of `items` whose `end` is above `time`; ends ascend. */
function firstAfter(items, time) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].end > time)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

function eventAt(lane, time) {
  const event = lane[firstAfter(lane, time)];
  return event && event.start <= time ? event : null;
}

/** The index of the sample that holds at `time`, or -1 before the first. */
function sampleAt(curve, time) {
  let low = 0;
  let high = curve.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve[middle][0] > time)
      high = middle;
    else
      low = middle + 1;
  }
  return low - 1;
}
