// The text for what is under the mouse.

const tooltip = byId("tooltip");

/** What the tooltip says of an event, a line each. */
function describe(event) {
  const {rank, run} = rows[event.row];
  const length = event.end - event.start;
  const moment = (time) => formatMoment(time, data.span_s, length / 100);
  const where = event.peer < 0 ? `rank ${rank}` :
      isSend(event) ? `rank ${rank} → ${event.peer}` :
                      `rank ${rank} ← ${event.peer}`;
  const bytes = event.peer < 0 ? "" : `, ${formatBytes(event.bytes)}`;
  const stage = stageOf(event.name);
  const modules = data.stages[stage]?.modules;
  const step = stepOfEvent.get(`${event.row} ${event.name}`);
  return [
    make("b", {}, comparison ? `${event.name}, ${run}` : event.name),
    make("div", {}, `${kinds[event.kind]}, ${where}${bytes}`),
    ...(modules ? [make("div", {class: "soft"}, `stage ${stage}: ${modules}`)] : []),
    make("div", {}, `${formatSeconds(length)}: ${moment(event.start)} – ${moment(event.end)}`),
    ...(step ?
            [make("div", {class: "path"}, `on the critical path; had to wait for ${step.cause}`)] :
            []),
    ...difference(event),
  ];
}

/** How the other run has the event. */
function difference(event) {
  const other = counterpart(event);
  if (!other) return [];
  const longer = event.end - event.start - (other.end - other.start);
  const later = event.start - other.start;
  const than = (seconds, more, less) =>
      `${formatSeconds(Math.abs(seconds))} ${seconds < 0 ? less : more}`;
  return [make(
      "div", {class: "soft"},
      `${than(longer, "longer", "shorter")} and ${than(later, "later", "earlier")} than ${
          rows[other.row].run}`)];
}

function describeMemory(row, time) {
  const sample = row.curve[sampleAt(row.curve, time)];
  const limit = row.limit_bytes === undefined ? "" : `, limit ${formatBytes(row.limit_bytes)}`;
  return [
    make("b", {}, formatBytes(sample ? sample[1] : 0)),
    make("div", {}, `rank ${row.rank} at ${formatMoment(time, view.to - view.from)}`),
    make("div", {class: "soft"}, `peak ${formatBytes(row.peak)}${limit}`)
  ];
}

function tell(lines, x, y) {
  tooltip.replaceChildren(...lines);
  tooltip.hidden = false;
  const room = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - room.width - 8))}px`;
  tooltip.style.top =
      `${y + 18 + room.height > window.innerHeight ? y - room.height - 10 : y + 18}px`;
}
