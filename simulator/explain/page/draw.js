// Draws the timeline: what is visible only, so that a frame takes milliseconds with any number of
// events.

const canvas = byId("canvas");
const context = canvas.getContext("2d");
const font = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
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
  context.textBaseline = "middle";
  context.save();
  context.beginPath();
  context.rect(0, axisHeight, view.width, view.height - axisHeight);
  context.clip();
  context.translate(0, axisHeight - view.top);
  drawGrid();
  layout.rows.forEach((place, index) => {
    if (place.y + place.height < view.top || place.y > view.top + view.height) return;
    drawNames(rows[index], place);
    drawRow(rows[index], place);
  });
  context.beginPath();
  context.rect(gutter, 0, view.width - gutter, layout.height);
  context.clip();
  if (view.show.path) drawPath();
  if (comparison) drawEnds();
  drawMarks();
  context.restore();
  drawAxis();
}

function write(text, x, y, colourName, size = 12, align = "left") {
  context.font = `${size}px ${font}`;
  context.fillStyle = colour(colourName);
  context.textAlign = align;
  context.fillText(text, x, y);
}

/** Left of the row. Where rows are lower than a name, every fourth has one, and who limits. */
function drawNames(row, place) {
  const middle = place.y + place.compute / 2;
  const limits = simulation?.limiting_rank === row.rank;
  const low = runsPerRank * place.height < 15;
  if (row.index % runsPerRank === 0 && (!low || row.rank % 4 === 0 || limits)) {
    const near = simulation?.limiting_rank - row.rank;
    if (!low || limits || Math.abs(near) > 1)
      write(`rank ${row.rank}`, 2, middle, limits ? "path" : "soft", view.show.labels ? 12 : 11);
  }
  if (comparison && view.show.labels)
    write(row.run === "predicted" ? "pred." : "meas.", gutter - 6, middle, "soft", 11, "right");
  if (place.memory > 20) drawMemoryNames(row, place);
}

function drawRow(row, place) {
  context.save();
  context.beginPath();
  context.rect(gutter, place.y, view.width - gutter, place.height);
  context.clip();
  context.fillStyle = colour("lane");
  context.fillRect(gutter, place.y, view.width - gutter, place.compute);
  drawLane(row.compute, place.y, place.compute, view.show.labels);
  if (view.show.transfers) {
    row.channels.forEach(
        (lane, at) => drawLane(lane, place.sendsAt + at * place.send, place.send - 1, false));
  }
  if (place.memory) drawMemory(row, place);
  context.restore();
}

function drawLane(events, y, height, labels) {
  const first = firstAfter(events, view.from);
  let last = first;
  while (last < events.length && events[last].start < view.to) ++last;
  forEachRun(events, first, last, (begin, end, spacing) => {
    if (spacing > 0) return drawShares(events, begin, end, spacing, y, height);
    for (let i = begin; i < end; ++i) drawEvent(events[i], y, height, labels);
  });
}

/** A wait is a thin line: the rank does nothing. */
function drawEvent(event, y, height, labels) {
  const x0 = Math.max(view.x(event.start), gutter - 2);
  const x1 = Math.min(view.x(event.end), view.width + 2);
  const gap = x1 - x0 > 4 ? 1 : 0;
  context.fillStyle = tinted(colourOfKind[event.kind], event.tint);
  if (isWait(event))
    context.fillRect(x0, y + height / 2 - 1, x1 - x0, 2);
  else
    context.fillRect(x0, y, x1 - x0 - gap, height);
  if (labels && x1 - x0 > 14 && !isWait(event)) drawLabel(event, x0, x1 - gap, y + height / 2);
}

const labelWidths = new Map();  // by their letters as B and digits as 0: all kinds alike

function labelWidth(text) {
  const shape = text.replace(/[A-Z]/g, "B").replace(/\d/g, "0");
  if (!labelWidths.has(shape)) labelWidths.set(shape, context.measureText(shape).width);
  return labelWidths.get(shape);
}

/** `3F12`, or as much of it as fits: without the stage, then the microbatch alone. */
function drawLabel(event, x0, x1, y) {
  context.font = `11px ${font}`;
  const short = event.name.replace(/^\d+/, "");
  const text = [event.name, short, short.replace(/^[A-Z](?=\d)/, "")].find(
      (name) => labelWidth(name) < x1 - x0 - 3);
  if (text) write(text, (x0 + x1) / 2, y + 0.5, "on-kind", 11, "center");
}

/** Where each run's step ends. */
function drawEnds() {
  context.setLineDash([4, 3]);
  context.lineWidth = 2;
  for (const run of ["predicted", "measured"]) {
    const x = Math.round(Math.min(view.x(comparison[`${run}_s`]), view.width - 1));
    context.strokeStyle = colour(run);
    context.beginPath();
    context.moveTo(x, view.top);
    context.lineTo(x, view.top + view.height);
    context.stroke();
  }
  context.setLineDash([]);
}

/** The event under the mouse, the same of the other run, and the step chosen in the list. */
function drawMarks() {
  const marks = [[hovered, "ink"], [hovered && counterpart(hovered), "ink"], [chosen, "path"]];
  for (const [event, name] of marks) {
    if (!event) continue;
    const [y, height] = laneOf(event);
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
  for (const time of times) {
    const x = view.x(time);
    const align = x < gutter + 20 ? "left" : x > view.width - 30 ? "right" : "center";
    write(time === 0 ? "0" : formatMoment(time, step * 10), x, axisHeight / 2, "soft", 12, align);
  }
}
