// Puts the page together and answers mouse and keys.

const timeline = byId("timeline");
const tooltip = byId("tooltip");
let frame = 0;

/** Draws once per frame, however often it is asked. */
function redraw() {
  if (!frame) frame = requestAnimationFrame(drawNow);
}

function drawNow() {
  frame = 0;
  view.width = timeline.clientWidth;
  view.height = Math.min(layout.height + axisHeight, Math.round(window.innerHeight * 0.72));
  byId("rows").style.height = `${layout.height + axisHeight}px`;
  view.top = timeline.scrollTop;
  drawAll();
  const span = view.to - view.from;
  const range = byId("range");
  range.textContent = `${formatMoment(view.from, span)} – ${formatMoment(view.to, span)}`;
  range.dataset.from = view.from;
  range.dataset.to = view.to;
}

function tell(event, x, y) {
  const step = stepOfEvent.get(`${event.rank} ${event.name}`);
  const length = event.end - event.start;
  const moment = (time) => formatMoment(time, data.makespan_s, length / 100);
  const where = event.peer < 0 ? `rank ${event.rank}` :
      isSend(event) ? `rank ${event.rank} → ${event.peer}` :
                      `rank ${event.rank} ← ${event.peer}`;
  const bytes = event.peer < 0 ? "" : `, ${formatBytes(event.bytes)}`;
  tooltip.replaceChildren(
      make("b", {}, event.name), make("div", {}, `${kinds[event.kind]}, ${where}${bytes}`),
      make("div", {}, `${formatSeconds(length)}: ${moment(event.start)} – ${moment(event.end)}`),
      ...(step ?
              [make(
                  "div", {class: "path"}, `on the critical path; had to wait for ${step.cause}`)] :
              []));
  tooltip.hidden = false;
  const room = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - room.width - 8))}px`;
  tooltip.style.top =
      `${y + 18 + room.height > window.innerHeight ? y - room.height - 10 : y + 18}px`;
}

function hover(event) {
  const box = canvas.getBoundingClientRect();
  const found = eventUnder(event.clientX - box.left, event.clientY - box.top);
  if (found)
    tell(found, event.clientX, event.clientY);
  else
    tooltip.hidden = true;
  if (found !== hovered) redraw();
  hovered = found;
}

function unhover() {
  tooltip.hidden = true;
  hovered = null;
  redraw();
}

function listenToMouse() {
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = {x: event.clientX, y: event.clientY};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return hover(event);
    timeline.classList.add("dragging");
    view.pan(((drag.x - event.clientX) * (view.to - view.from)) / (view.width - gutter));
    timeline.scrollTop += drag.y - event.clientY;
    drag = {x: event.clientX, y: event.clientY};
    unhover();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => {
      drag = null;
      timeline.classList.remove("dragging");
    });
  }
  canvas.addEventListener("pointerleave", unhover);
  canvas.addEventListener("dblclick", (event) => {
    view.zoom(0.4, view.time(event.clientX - canvas.getBoundingClientRect().left));
    redraw();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.pan((event.deltaX * (view.to - view.from)) / view.width);
    } else {
      const time = view.time(Math.max(gutter, event.clientX - canvas.getBoundingClientRect().left));
      view.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.0025), time);
    }
    tooltip.hidden = true;
    redraw();
  }, {passive: false});
}

const keys = {
  "+": () => view.zoom(0.7, (view.from + view.to) / 2),
  "=": () => view.zoom(0.7, (view.from + view.to) / 2),
  "-": () => view.zoom(1 / 0.7, (view.from + view.to) / 2),
  "0": () => view.set(0, data.makespan_s),
  ArrowLeft: () => view.pan(-(view.to - view.from) / 8),
  ArrowRight: () => view.pan((view.to - view.from) / 8),
};

function listenToControls() {
  timeline.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    keys[event.key]();
    event.preventDefault();
    redraw();
  });
  for (const [id, key] of [["zoom-in", "+"], ["zoom-out", "-"], ["zoom-all", "0"]]) {
    byId(id).addEventListener("click", () => {
      keys[key]();
      redraw();
    });
  }
  for (const name of ["path", "transfers", "memory"]) {
    const box = byId(`show-${name}`);
    box.checked = view.show[name];
    box.addEventListener("change", () => {
      view.show[name] = box.checked;
      layout = layOut();
      redraw();
    });
  }
  byId("show-memory").disabled = !hasMemory;
}

/** A row of the list shows its step, with as much around it as it is long. */
function choose(step) {
  chosen = step;
  const margin = Math.max(step.end - step.start, data.makespan_s * 1e-3);
  view.set(step.start - 2 * margin, step.end + 2 * margin);
  const row = layout.rows[step.rank];
  if (row.y < timeline.scrollTop ||
      row.y + row.height > timeline.scrollTop + view.height - axisHeight) {
    timeline.scrollTop = row.y - view.height / 3;
  }
  fillPathRows();
  redraw();
}

function listenToList() {
  byId("path-list").addEventListener("scroll", fillPathRows);
  byId("path-rows").addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-step]");
    if (row) choose(path[Number(row.dataset.step)]);
  });
}

function start() {
  byId("title").textContent = data.title;
  byId("shape").textContent = [
    plural(ranks.length, "rank"), plural(data.stages, "stage"),
    plural(data.microbatches, "microbatch")
  ].join(", ");
  fillLegend(byId("legend"), kindLegend());
  fillFigures();
  fillPath();
  fillPathRows();
  fillIdle();
  fillMemory();
  listenToMouse();
  listenToControls();
  listenToList();
  timeline.addEventListener("scroll", redraw);
  new ResizeObserver(redraw).observe(timeline);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    forgetColours();
    redraw();
  });
  drawNow();
}

// Where an action is on the screen: for tests and for scripts in the browser's console.
window.penstockPage = {
  place(rank, name) {
    const events = [ranks[rank].compute, ...ranks[rank].channels].flat();
    const event = events.find((candidate) => candidate.name === name);
    if (!event) return null;
    const box = canvas.getBoundingClientRect();
    const at = placeOf(event);
    return {x: box.left + at.x, y: box.top + at.y, start: event.start, end: event.end};
  },
};

start();
