// Draws the critical path over the timeline.

/** The path as far as it goes up or down through the ranks: steps [first, last). */
const sweeps = [];
let heading = 0;
for (const step of path) {
  const turn = step.receiver < 0 ? 0 : Math.sign(step.receiver - step.row);
  if (!sweeps.length || (turn && heading && turn !== heading))
    sweeps.push({start: step.start, first: step.index});
  heading = turn || heading;
  Object.assign(sweeps.at(-1), {end: step.end, last: step.index + 1});
}

/** Along the foot of each action, and from lane to lane with each message. */
function drawPath() {
  const first = firstAfter(sweeps, view.from);
  let last = first;
  while (last < sweeps.length && sweeps[last].start < view.to) ++last;
  forEachRun(sweeps, first, last, (begin, end, spacing) => {
    const [from, to] = [sweeps[begin].first, sweeps[end - 1].last];
    if (spacing > 0)
      drawPathShares(from, to, spacing);
    else
      drawPathLine(from, to);
  });
}

function drawPathLine(from, to) {
  const foot = (rank) => layout.rows[rank].y + layout.rows[rank].compute - 2;
  context.beginPath();
  for (const step of path.slice(from, to)) {
    context.lineTo(view.x(step.start), foot(step.row));
    context.lineTo(view.x(step.end), foot(step.receiver < 0 ? step.row : step.receiver));
  }
  context.lineJoin = "round";
  context.strokeStyle = colour("card");
  context.lineWidth = view.show.labels ? 5 : 4;
  context.stroke();
  context.strokeStyle = colour("path");
  context.lineWidth = view.show.labels ? 2.5 : 2;
  context.stroke();
}

/** To and fro too fast for a line: at the foot of each rank the stronger, the more is on it. */
function drawPathShares(from, to, spacing) {
  const {x0, layers} = columnShares(path, from, to, spacing, (step) => step.row);
  context.fillStyle = colour("path");
  for (const [rank, shares] of layers) {
    const {y, compute} = layout.rows[rank];
    shares.forEach((share, i) => {
      context.globalAlpha = Math.min(1, share);
      context.fillRect(x0 + i, y + compute - 3, 1, 3);
    });
  }
  context.globalAlpha = 1;
}
