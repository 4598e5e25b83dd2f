// Draws the memory of a row: what a sample says holds until the next one.

/** The bytes at the top of all charts. A limit far above every peak would flatten the curves. */
const topBytes = Math.max(
    mostBytes, ...rows.map((row) => row.limit_bytes ?? 0).filter((limit) => limit < 4 * mostBytes));

/** The largest of the row, and its limit, left of the chart. */
function drawMemoryNames(row, place) {
  const middle = place.memoryAt + place.memory / 2;
  const limited = row.limit_bytes !== undefined;
  const over = limited && row.peak > row.limit_bytes;
  write(formatBytes(row.peak), 2, middle - (limited ? 7 : 0), over ? "path" : "soft", 11);
  if (limited) write(`of ${formatBytes(row.limit_bytes)}`, 2, middle + 7, "limit", 11);
}

function drawMemory(row, place) {
  const bottom = place.memoryAt + place.memory;
  const y = (bytes) => bottom - (bytes / topBytes) * (place.memory - 2);
  const i = Math.max(0, sampleAt(row.curve, view.from));
  if (i >= row.curve.length) return;
  context.beginPath();
  context.moveTo(gutter, bottom);
  traceCurve(row.curve, i, y);
  context.lineTo(view.width, bottom);
  context.fillStyle = colour("curve-fill");
  context.fill();
  context.strokeStyle = colour("curve");
  context.lineWidth = 1;
  context.stroke();
  if (row.limit_bytes !== undefined) drawLimit(row, place, y);
}

/** From sample `i` on; all samples of a column are one, from the largest on with the last. */
function traceCurve(curve, i, y) {
  context.lineTo(gutter, y(curve[i][1]));
  for (; i < curve.length && curve[i][0] <= view.to; ++i) {
    const x = Math.max(gutter, view.x(curve[i][0]));
    let largest = curve[i][1];
    while (i + 1 < curve.length && view.x(curve[i + 1][0]) < x + 0.5)
      largest = Math.max(largest, curve[++i][1]);
    context.lineTo(x, y(largest));
    context.lineTo(x, y(curve[i][1]));
    const next = i + 1 < curve.length ? Math.min(view.x(curve[i + 1][0]), view.width) : view.width;
    context.lineTo(next, y(curve[i][1]));
  }
}

/** Dashed, and in red what is above it; dotted along the top where it is above the chart. */
function drawLimit(row, place, y) {
  const off = row.limit_bytes > topBytes;
  const at = Math.round(off ? place.memoryAt : y(row.limit_bytes)) + 0.5;  // one whole pixel
  if (row.peak > row.limit_bytes) {
    context.save();
    context.clip();  // below the curve
    context.globalAlpha = 0.35;
    context.fillStyle = colour("path");
    context.fillRect(gutter, place.memoryAt, view.width - gutter, at - place.memoryAt);
    context.restore();
  }
  context.beginPath();
  context.moveTo(gutter, at);
  context.lineTo(view.width, at);
  context.setLineDash(off ? [1, 4] : [5, 3]);
  context.strokeStyle = colour("limit");
  context.lineWidth = 1;
  context.stroke();
  context.setLineDash([]);
}
