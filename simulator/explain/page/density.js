// Events too narrow to be told apart are drawn as the share of time that each kind of them takes,
// smoothed over several columns, so that no pattern of pixels and events shows that is not there.

/** Mean pixels from one event to the next below which they are drawn as shares. */
const narrow = 3;
const wide = 2 * narrow;  // an event of its own, whatever is around it
const around = 8;         // events on each side that have a say

/**
 * Calls `draw(first, last, spacing)` for each run of events [first, last) of a lane: `spacing` is
 * the mean of a run of narrow events, 0 of others. A long gap counts as a wide event.
 */
function forEachRun(events, first, last, draw) {
  const scale = view.scale();
  const spacing = (i) => Math.min(wide, (events[i + 1].start - events[i].start) * scale);
  let low = Math.max(0, first - around);
  let high = low;
  let sum = 0;
  let begin = first;
  let sums = 0;
  let dense = false;
  const end = (i) => {
    // So few are drawn one by one.
    if (i > begin) draw(begin, i, dense && i - begin >= around ? sums / (i - begin) : 0);
    begin = i;
    sums = 0;
  };
  for (let i = first; i < last; ++i) {
    for (; high < Math.min(events.length - 1, i + around); ++high) sum += spacing(high);
    for (; low < i - around; ++low) sum -= spacing(low);
    const mean = high > low ? sum / (high - low) : wide;
    const isDense = mean < narrow && (events[i].end - events[i].start) * scale < wide;
    if (isDense !== dense) end(i);
    dense = isDense;
    sums += mean;
  }
  end(last);
}

/** The mean of `reach` values on each side of each and itself, twice: peaks become low hills. */
function smooth(values, reach) {
  let result = values;
  for (let pass = 0; pass < 2; ++pass) {
    const sums = new Float64Array(result.length + 1);
    for (let i = 0; i < result.length; ++i) sums[i + 1] = sums[i] + result[i];
    result = result.map((_, i) => {
      const low = Math.max(0, i - reach);
      const high = Math.min(values.length, i + reach + 1);
      return (sums[high] - sums[low]) / (2 * reach + 1);
    });
  }
  return result;
}

/** Adds to `columns` how much of each lies in [x0, x1). */
function addSpan(columns, x0, x1) {
  const low = Math.max(0, x0);
  const high = Math.min(columns.length, x1);
  for (let i = Math.floor(low); i < high; ++i)
    columns[i] += Math.min(high, i + 1) - Math.max(low, i);
}

/**
 * The columns of pixels of events [begin, end): `x0`, the first of them, and as `layers`
 * [key, share of each column] for each `keyOf` of an event, keys ascending.
 */
function columnShares(events, begin, end, spacing, keyOf) {
  const reach = Math.ceil(2 * spacing);
  const margin = 2 * reach;
  const from = Math.max(gutter - margin, view.x(events[begin].start));
  const to = Math.min(view.width + margin, view.x(events[end - 1].end));
  const x0 = Math.floor(from);
  const empty = () => new Float64Array(Math.ceil(to) - x0);
  const whole = empty();
  addSpan(whole, from - x0, to - x0);
  const inside = smooth(whole, reach);  // less than 1 next to the ends
  const shares = new Map();
  for (let i = begin; i < end; ++i) {
    const key = keyOf(events[i]);
    if (!shares.has(key)) shares.set(key, empty());
    addSpan(shares.get(key), view.x(events[i].start) - x0, view.x(events[i].end) - x0);
  }
  const layers =
      [...shares]
          .sort(([a], [b]) => a - b)
          .map(([key,
                 columns]) => [key, smooth(columns, reach).map((share, i) => share / inside[i])]);
  return {x0, from, to, layers};
}

/** Shares on top of one another, the first kind at the bottom; what is left is idle. */
function drawShares(events, begin, end, spacing, y, height) {
  const {x0, from, to, layers} =
      columnShares(events, begin, end, spacing, (event) => event.number + event.tint);
  const busy = layers.filter(([key]) => !isWait({kind: data.kinds[Math.floor(key)]}));
  context.save();
  context.beginPath();
  context.rect(from, y, to - from, height);
  context.clip();
  const tops = new Float64Array(Math.ceil(to) - x0);
  for (const [, shares] of busy) shares.forEach((share, i) => (tops[i] += share));
  // From the last to the first, each down to the foot, so that no seam shows between them.
  for (const [key, shares] of busy.reverse()) {
    context.beginPath();
    context.moveTo(x0, y + height);
    tops.forEach((top, i) => {
      const at = y + height * (1 - Math.min(1, top));
      if (i === 0) context.lineTo(x0, at);
      context.lineTo(x0 + i + 0.5, at);
      if (i === tops.length - 1) context.lineTo(x0 + i + 1, at);
    });
    context.lineTo(x0 + tops.length, y + height);
    context.fillStyle = tinted(colourOfKind[data.kinds[Math.floor(key)]], key % 1);
    context.fill();
    shares.forEach((share, i) => (tops[i] -= share));
  }
  context.restore();
}
