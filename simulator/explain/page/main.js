// Puts the page together and answers mouse and keys.

const timeline = byId("timeline");
let frame = 0;

/** Draws once per frame, however often it is asked. */
function redraw() {
  if (!frame) frame = requestAnimationFrame(drawNow);
}

/** The canvas is as high as the window at most, and stays in it while the page is scrolled. */
function drawNow() {
  frame = 0;
  const whole = layout.height + axisHeight;
  byId("rows").style.height = `${whole}px`;
  view.width = timeline.clientWidth;
  view.height = Math.min(whole, window.innerHeight);
  view.top = Math.max(0, Math.min(-byId("rows").getBoundingClientRect().top, whole - view.height));
  drawAll();
  const span = view.to - view.from;
  const range = byId("range");
  range.textContent = `${formatMoment(view.from, span)} – ${formatMoment(view.to, span)}`;
  range.dataset.from = view.from;
  range.dataset.to = view.to;
}

/** Scrolls the page as far as it takes to see that row of the timeline. */
function showRow(index) {
  const top = byId("rows").getBoundingClientRect().top + axisHeight + layout.rows[index].y;
  if (top < axisHeight || top + layout.rows[index].height > window.innerHeight)
    window.scrollBy(0, top - window.innerHeight / 3);
}

function hover(event) {
  const box = canvas.getBoundingClientRect();
  const x = event.clientX - box.left;
  const y = event.clientY - box.top;
  const found = eventUnder(x, y);
  const row = memoryUnder(x, y);
  if (found)
    tell(describe(found), event.clientX, event.clientY);
  else if (row)
    tell(describeMemory(row, view.time(x)), event.clientX, event.clientY);
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
    drag = event.clientX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag === null) return hover(event);
    timeline.classList.add("dragging");
    view.pan((drag - event.clientX) / view.scale());
    drag = event.clientX;
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
  canvas.addEventListener("wheel", turnWheel, {passive: false});
}

/** With a key it zooms (pinching a touchpad counts as one), sideways it pans; else the page
 * scrolls. */
function turnWheel(event) {
  if (event.ctrlKey || event.metaKey) {
    const time = view.time(Math.max(gutter, event.clientX - canvas.getBoundingClientRect().left));
    view.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.0025), time);
  } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    view.pan(event.deltaX / view.scale());
  } else {
    return;
  }
  event.preventDefault();
  tooltip.hidden = true;
  redraw();
}

const keys = {
  "+": () => view.zoom(0.7, (view.from + view.to) / 2),
  "=": () => view.zoom(0.7, (view.from + view.to) / 2),
  "-": () => view.zoom(1 / 0.7, (view.from + view.to) / 2),
  "0": () => view.set(0, data.span_s),
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
  const there =
      {path: path.length > 0, transfers: hasTransfers, memory: hasMemory, labels: crowded};
  for (const name of ["path", "transfers", "memory", "labels"]) {
    const box = byId(`show-${name}`);
    box.checked = view.show[name];
    box.parentElement.hidden = !there[name];
    box.addEventListener("change", () => {
      view.show[name] = box.checked;
      layout = layOut();
      redraw();
    });
  }
}

function limitLegend() {
  const limits = rows.map((row) => row.limit_bytes).filter((limit) => limit !== undefined);
  if (!limits.length) return [];
  const off = limits.some((limit) => limit > topBytes);
  return [[off ? "memory limit (dotted: above the chart)" : "memory limit", "limit"]];
}

/** Kinds that share a name and a colour are named once. */
function kindLegend() {
  const entries = new Map(usedKinds.map(
      (kind) => kind.startsWith("RECV") ? ["waits for a message", "wait"] :
                                          [kinds[kind], colourOfKind[kind]]));
  return [
    ...entries, ...(path.length ? [["critical path", "path"]] : []),
    ...(tints.some((tint) => tint > 0) ? [["later stages of a rank are lighter", "tints"]] : []),
    ...(comparison ?
            [["end of the predicted step", "predicted"], ["end of the measured step", "measured"]] :
            []),
    ...(hasMemory ? limitLegend() : [])
  ];
}

function fillHead() {
  byId("title").textContent = data.title;
  byId("shape").textContent = [
    plural(ranks, "rank"), plural(data.stages.length, "stage"),
    plural(data.microbatches, "microbatch")
  ].join(", ");
  byId("facts").replaceChildren(...data.facts.map(
      ([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
  fillLegend(byId("legend"), kindLegend());
}

function start() {
  fillHead();
  fillReport();
  listenToMouse();
  listenToControls();
  window.addEventListener("scroll", redraw, {passive: true});
  window.addEventListener("resize", redraw);
  new ResizeObserver(redraw).observe(timeline);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    forgetColours();
    redraw();
  });
  drawNow();
}

// Where an action is on the screen: for tests and for scripts in the browser's console.
window.penstockPage = {
  place(row, name) {
    const events = [rows[row].compute, ...rows[row].channels].flat();
    const event = events.find((candidate) => candidate.name === name);
    if (!event) return null;
    const box = canvas.getBoundingClientRect();
    const at = placeOf(event);
    return {x: box.left + at.x, y: box.top + at.y, start: event.start, end: event.end};
  },
};

start();
