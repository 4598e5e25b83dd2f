// Which seconds the timeline shows, and where its rows lie.

const gutter = 76;  // the ranks' names
const axisHeight = 24;

const view = {
  from: 0,
  to: data.makespan_s,
  width: 800,  // of the canvas
  height: 300,
  top: 0,  // scrolled by so much
  show: {path: true, transfers: true, memory: hasMemory},

  x(time) {
    return gutter + ((time - this.from) / (this.to - this.from)) * (this.width - gutter);
  },
  time(x) {
    return this.from + ((x - gutter) / (this.width - gutter)) * (this.to - this.from);
  },
  /** Shows these seconds, within the step; at the least a millionth of it. */
  set(from, to) {
    const least = data.makespan_s * 1e-6;
    const span = Math.min(data.makespan_s, Math.max(to - from, least));
    this.from = Math.min(Math.max(0, from), data.makespan_s - span);
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

/** Heights and tops of all rows, from 0 below the axis. */
function layOut() {
  const compute = ranks.length > 32 ? 14 : 24;
  const send = ranks.length > 32 ? 3 : 6;
  const memory = ranks.length > 32 ? 16 : 30;
  let y = 0;
  const rows = ranks.map((rank) => {
    const sends = view.show.transfers ? rank.channels.length * send : 0;
    const row = {y, compute, send, sends, memory: view.show.memory ? memory : 0};
    row.sendsAt = y + compute + 2;
    row.memoryAt = row.sendsAt + sends + 2;
    row.height = compute + 4 + sends + row.memory + 8;
    y += row.height;
    return row;
  });
  return {rows, height: y};
}
let layout = layOut();

/** The event under a point of the canvas, or null. */
function eventUnder(x, y) {
  if (x < gutter || y < axisHeight) return null;
  const at = y - axisHeight + view.top;
  const index = layout.rows.findIndex((row) => at >= row.y && at < row.y + row.height);
  if (index < 0) return null;
  const row = layout.rows[index];
  const time = view.time(x);
  if (at < row.sendsAt) return eventAt(ranks[index].compute, time);
  if (at >= row.sendsAt + row.sends) return null;
  return eventAt(ranks[index].channels[Math.floor((at - row.sendsAt) / row.send)], time);
}

/** The middle of an event on the canvas, as far as it is shown. */
function placeOf(event) {
  const row = layout.rows[event.rank];
  const lane =
      isSend(event) ? ranks[event.rank].channels.findIndex((events) => events.includes(event)) : -1;
  const y = lane < 0 ? row.y + row.compute / 2 : row.sendsAt + (lane + 0.5) * row.send;
  const x = (view.x(Math.max(event.start, view.from)) + view.x(Math.min(event.end, view.to))) / 2;
  return {x, y: axisHeight + y - view.top};
}
