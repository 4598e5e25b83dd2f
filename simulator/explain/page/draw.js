// Draws the timeline: what is visible only, and what is narrower than a pixel one column at a time,
// so that a frame takes milliseconds with any number of events.

const canvas = byId("canvas");
const context = canvas.getContext("2d");
let hovered = null;
let chosen = null;  // a step of the critical path

function drawAll() {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(view.width * ratio) ||
      canvas.height !== Math.round(view.height * ratio)) {
    canvas.width = Math.round(view.width * ratio);
    canvas.height = Math.round(view.height * ratio);
    canvas.style.height = `${view.height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  context.font = "12px system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  context.save();
  context.beginPath();
  context.rect(0, axisHeight, view.width, view.height - axisHeight);
  context.clip();
  context.translate(0, axisHeight - view.top);
  drawGrid();
  layout.rows.forEach((row, index) => {
    if (row.y + row.height < view.top || row.y > view.top + view.height) return;
    drawRow(ranks[index], row);
  });
  context.beginPath();
  context.rect(gutter, 0, view.width - gutter, layout.height);
  context.clip();
  if (view.show.path) drawPath();
  drawMarks();
  context.restore();
  drawAxis();
}

function drawRow(rank, row) {
  context.fillStyle = colour("lane");
  context.fillRect(gutter, row.y, view.width - gutter, row.compute);
  context.fillStyle = rank.index === data.limiting_rank ? colour("path") : colour("soft");
  context.textAlign = "left";
  context.fillText(`rank ${rank.index}`, 2, row.y + row.compute / 2);
  context.save();
  context.beginPath();
  context.rect(gutter, row.y, view.width - gutter, row.height);
  context.clip();
  drawLane(rank.compute, row.y, row.compute, true);
  if (view.show.transfers) {
    rank.channels.forEach(
        (lane, at) => drawLane(lane, row.sendsAt + at * row.send, row.send - 1, false));
  }
  if (row.memory) drawMemory(rank, row);
  context.restore();
  if (row.memory && row.memory > 20) {
    context.fillStyle = colour("soft");
    context.textAlign = "left";
    context.fillText(formatBytes(rank.peak_bytes), 2, row.memoryAt + row.memory / 2);
  }
}

/** Events narrower than this many pixels share a column, in the colour of which it has most. */
const narrow = 1.5;

function drawLane(events, y, height, labels) {
  const scale = (view.width - gutter) / (view.to - view.from);
  const shares = new Float64Array(data.kinds.length);  // of the column, by kind
  let column = -1;
  const flush = () => {
    if (column < 0) return;
    let most = 0;
    let sum = 0;
    for (let kind = 0; kind < shares.length; ++kind) {
      sum += shares[kind];
      if (shares[kind] > shares[most]) most = kind;
    }
    context.globalAlpha = Math.max(0.25, Math.min(1, sum));
    fillEvent(data.kinds[most], column, y, 1, height);
    context.globalAlpha = 1;
    column = -1;
    shares.fill(0);
  };
  for (let i = firstAfter(events, view.from); i < events.length && events[i].start < view.to; ++i) {
    const event = events[i];
    const x0 = Math.max(gutter + (event.start - view.from) * scale, gutter - 2);
    const x1 = Math.min(gutter + (event.end - view.from) * scale, view.width + 2);
    if (x1 - x0 < narrow) {
      const at = Math.floor(x0);
      if (at !== column) flush();
      column = at;
      shares[event.number] += x1 - x0;
      continue;
    }
    flush();
    const gap = x1 - x0 > 4 ? 1 : 0;
    fillEvent(event.kind, x0, y, x1 - x0 - gap, height);
    if (labels && x1 - x0 > 16) drawLabel(event, x0, x1 - gap, y + height / 2);
  }
  flush();
}

/** A wait is a thin line: the rank does nothing. */
function fillEvent(kind, x, y, width, height) {
  context.fillStyle = colour(colourOfKind[kind]);
  if (kind === "RECV_F" || kind === "RECV_B")
    context.fillRect(x, y + height / 2 - 1, width, 2);
  else
    context.fillRect(x, y, width, height);
}

function drawLabel(event, x0, x1, y) {
  if (event.kind.startsWith("RECV")) return;
  const short = event.name.replace(/^\d+/, "");
  const text = [event.name, short].find((name) => context.measureText(name).width < x1 - x0 - 4);
  if (!text) return;
  context.fillStyle = colour("on-kind");
  context.textAlign = "center";
  context.fillText(text, (x0 + x1) / 2, y + 0.5);
}

/** Steps: what a sample says holds until the next one. */
function drawMemory(rank, row) {
  const curve = rank.curve;
  const y = (bytes) => row.memoryAt + row.memory - (bytes / mostBytes) * (row.memory - 2);
  let low = 0;
  let high = curve.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve[middle][0] > view.from)
      high = middle;
    else
      low = middle + 1;
  }
  const bottom = row.memoryAt + row.memory;
  let i = Math.max(0, low - 1);
  if (i >= curve.length) return;
  context.beginPath();
  context.moveTo(gutter, bottom);
  context.lineTo(gutter, y(curve[i][1]));
  while (i < curve.length && curve[i][0] <= view.to) {
    // All samples of a column: from what came before to the largest, and on with the last.
    const x = Math.max(gutter, view.x(curve[i][0]));
    let largest = curve[i][1];
    while (i + 1 < curve.length && view.x(curve[i + 1][0]) < x + 0.5)
      largest = Math.max(largest, curve[++i][1]);
    context.lineTo(x, y(largest));
    context.lineTo(x, y(curve[i][1]));
    const next = i + 1 < curve.length ? Math.min(view.x(curve[i + 1][0]), view.width) : view.width;
    context.lineTo(next, y(curve[i][1]));
    ++i;
  }
  context.lineTo(view.width, bottom);
  context.fillStyle = colour("curve-fill");
  context.fill();
  context.strokeStyle = colour("curve");
  context.lineWidth = 1;
  context.stroke();
}

/** Along the foot of each action, and from lane to lane with each message. */
function drawPath() {
  const foot = (rank) => layout.rows[rank].y + layout.rows[rank].compute - 2;
  context.beginPath();
  let lastX = NaN;
  let lastY = NaN;
  const to = (x, y) => {
    if (Math.abs(x - lastX) < 0.5 && y === lastY) return;
    if (Number.isNaN(lastX))
      context.moveTo(x, y);
    else
      context.lineTo(x, y);
    lastX = x;
    lastY = y;
  };
  for (let i = Math.max(0, firstAfter(path, view.from) - 1);
       i < path.length && path[i].start <= view.to; ++i) {
    const step = path[i];
    to(view.x(step.start), foot(step.rank));
    to(view.x(step.end), foot(step.receiver < 0 ? step.rank : step.receiver));
  }
  context.lineJoin = "round";
  context.strokeStyle = colour("card");
  context.lineWidth = 5;
  context.stroke();
  context.strokeStyle = colour("path");
  context.lineWidth = 2.5;
  context.stroke();
}

/** The event under the mouse and the step chosen in the list. */
function drawMarks() {
  for (const [event, name] of [[hovered, "ink"], [chosen, "path"]]) {
    if (!event) continue;
    const row = layout.rows[event.rank];
    const send = event.receiver === undefined && isSend(event);
    const lane =
        send ? ranks[event.rank].channels.findIndex((events) => events.includes(event)) : -1;
    const [y, height] =
        lane < 0 ? [row.y, row.compute] : [row.sendsAt + lane * row.send, row.send - 1];
    context.strokeStyle = colour(name);
    context.lineWidth = 2;
    const x = view.x(event.start);
    context.strokeRect(x, y, Math.max(2, view.x(event.end) - x), height);
  }
}

/** Times about 120 pixels apart, at 1, 2 or 5 times a power of ten. */
function ticks() {
  const wanted = ((view.to - view.from) * 120) / Math.max(120, view.width - gutter);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= wanted);
  const times = [];
  for (let n = Math.ceil(view.from / step); n * step <= view.to && times.length < 100; ++n)
    times.push(n * step);
  return {times, step};
}

function drawGrid() {
  context.strokeStyle = colour("grid");
  context.lineWidth = 1;
  context.beginPath();
  for (const time of ticks().times) {
    const x = Math.round(view.x(time)) + 0.5;
    context.moveTo(x, view.top);
    context.lineTo(x, view.top + view.height);
  }
  context.stroke();
}

function drawAxis() {
  const {times, step} = ticks();
  context.fillStyle = colour("soft");
  for (const time of times) {
    const x = view.x(time);
    context.textAlign = x < gutter + 20 ? "left" : x > view.width - 30 ? "right" : "center";
    context.fillText(time === 0 ? "0" : formatMoment(time, step * 10), x, axisHeight / 2);
  }
}
