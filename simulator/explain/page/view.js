// Which seconds the timeline shows, and where its rows lie.

const gutter = comparison ? 92 : 76;  // the ranks' names
const axisHeight = 24;
const crowded = rows.length > 16;  // all ranks at a glance first; the rest is a click away

const view = {
  from: 0,
  to: data.span_s,
  width: 800,  // of the canvas
  height: 300,
  top: 0,  // scrolled by so much
  show: {
    path: path.length > 0,
    transfers: !crowded,
    memory: hasMemory && !crowded && !comparison,
    labels: !crowded
  },

  x(time) {
    return gutter + ((time - this.from) / (this.to - this.from)) * (this.width - gutter);
  },
  time(x) {
    return this.from + ((x - gutter) / (this.width - gutter)) * (this.to - this.from);
  },
  /** Pixels of a second. */
  scale() {
    return (this.width - gutter) / (this.to - this.from);
  },
  /** Shows these seconds, within the step; at the least a millionth of it. */
  set(from, to) {
    const least = data.span_s * 1e-6;
    const span = Math.min(data.span_s, Math.max(to - from, least));
    this.from = Math.min(Math.max(0, from), data.span_s - span);
    this.to = this.from + span;
  },
  /** `factor` below 1 shows less, around `time`. */
  zoom(factor, time) {
    this.set(time - (time - this.from) * factor, time + (this.to - time) * factor);
  },
  pan(seconds) {
    this.set(this.from + seconds, this.to + seconds);
  },
};

/** Heights and tops of all rows, from 0 below the axis. Runs of a rank lie close together. */
function layOut() {
  const low = !view.show.labels;
  const compute = low ? 10 : 24;
  const send = low ? 3 : 6;
  const memory = low ? 16 : 34;
  let y = 0;
  const places = rows.map((row, index) => {
    const sends = view.show.transfers ? row.channels.length * send : 0;
    const withMemory = view.show.memory && row.curve.length > 0;
    const place = {y, compute, send, sends, memory: withMemory ? memory : 0};
    place.sendsAt = y + compute + (sends ? 2 : 0);
    place.memoryAt = place.sendsAt + sends + (withMemory ? 4 : 0);
    place.bottom = place.memoryAt + place.memory;
    const lastOfRank = (index + 1) % runsPerRank === 0;
    y = place.bottom + (!lastOfRank ? 2 : !low ? 10 : place.bottom - y > compute ? 6 : 2);
    place.height = y - place.y;
    return place;
  });
  return {rows: places, height: y};
}
let layout = layOut();

function rowUnder(y) {
  const at = y - axisHeight + view.top;
  return layout.rows.findIndex((row) => at >= row.y && at < row.y + row.height);
}

/** The event under a point of the canvas, or null. */
function eventUnder(x, y) {
  const index = x < gutter || y < axisHeight ? -1 : rowUnder(y);
  if (index < 0) return null;
  const at = y - axisHeight + view.top;
  const row = layout.rows[index];
  const time = view.time(x);
  if (at < row.y + row.compute) return eventAt(rows[index].compute, time);
  const lane = Math.floor((at - row.sendsAt) / row.send);
  return at >= row.sendsAt && at < row.sendsAt + row.sends ?
      eventAt(rows[index].channels[lane], time) :
      null;
}

/** The row whose memory is under a point of the canvas, or null. */
function memoryUnder(x, y) {
  const index = x < gutter || y < axisHeight ? -1 : rowUnder(y);
  if (index < 0) return null;
  const at = y - axisHeight + view.top;
  return at >= layout.rows[index].memoryAt && at < layout.rows[index].bottom ? rows[index] : null;
}

/** Top and height of the lane of an event or of a step of the path. */
function laneOf(event) {
  const place = layout.rows[event.row];
  const lane = event.receiver === undefined && isSend(event) ?
      rows[event.row].channels.findIndex((events) => events.includes(event)) :
      -1;
  if (lane < 0) return [place.y, place.compute];
  return [place.sendsAt + lane * place.send, place.send - 1];
}

/** The middle of an event on the canvas, as far as it is shown. */
function placeOf(event) {
  const [y, height] = laneOf(event);
  const x = (view.x(Math.max(event.start, view.from)) + view.x(Math.min(event.end, view.to))) / 2;
  return {x, y: axisHeight + y + height / 2 - view.top};
}
