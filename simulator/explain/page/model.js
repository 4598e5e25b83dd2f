// The data of the page, arranged for drawing: each rank has lanes of events that do not overlap.

const data = JSON.parse(byId("data").textContent);

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

/** What takes no time is not drawn. A lane per channel, so that no lane overlaps itself. */
function makeRank(rank, index) {
  const compute = [];
  const channels = new Map();
  for (const [kind, name, start, end, bytes, peer] of rank.events) {
    if (end <= start) continue;
    const event =
        {kind: data.kinds[kind], number: kind, name, start, end, bytes, peer, rank: index};
    if (!isSend(event)) {
      compute.push(event);
      continue;
    }
    const key = `${peer} ${event.kind}`;
    if (!channels.has(key)) channels.set(key, []);
    channels.get(key).push(event);
  }
  return {...rank, index, compute, channels: [...channels.values()]};
}

const ranks = data.ranks.map(makeRank);
const path = data.path.steps.map(([part, cause, rank, receiver, name, start, end], index) => ({
                                   part: data.path.parts[part],
                                   cause: data.path.causes[cause],
                                   rank,
                                   receiver,
                                   name,
                                   start,
                                   end,
                                   index
                                 }));
const stepOfEvent = new Map(path.map((step) => [`${step.rank} ${step.name}`, step]));
const usedKinds = Object.keys(kinds).filter(
    (kind) => ranks.some(
        (rank) => rank.compute.some((event) => event.kind === kind) ||
            rank.channels.some((lane) => lane.some((event) => event.kind === kind))));
const mostBytes = Math.max(1, ...data.ranks.map((rank) => rank.peak_bytes));
const hasMemory = data.ranks.some((rank) => rank.peak_bytes > 0);

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
