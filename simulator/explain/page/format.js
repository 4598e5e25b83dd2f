// Numbers for people, and elements.

/** Three digits and the unit in which they read best: `1.23 ms`. */
function threeDigits(value, units, base) {
  let unit = 0;
  let scaled = Math.abs(value);
  while (unit + 1 < units.length && scaled >= 0.9995 * base) {
    scaled /= base;
    ++unit;
  }
  const decimals = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${scaled.toFixed(decimals)} ${units[unit]}`;
}

function formatSeconds(seconds) {
  if (seconds === 0) return "0 s";
  if (Math.abs(seconds) >= 0.9995) return threeDigits(seconds, ["s"], 1000);
  return threeDigits(seconds * 1e9, ["ns", "µs", "ms", "s"], 1000);
}

/** A moment in the unit for a range of `span` seconds, with digits that tell `resolution` apart. */
function formatMoment(seconds, span, resolution = span / 100) {
  const [scale, unit] = span >= 2 ? [1, "s"] :
      span >= 2e-3                ? [1e3, "ms"] :
      span >= 2e-6                ? [1e6, "µs"] :
                                    [1e9, "ns"];
  const decimals =
      Math.max(0, Math.min(9, Math.ceil(-Math.log10(Math.max(resolution * scale, 1e-9)))));
  return `${(seconds * scale).toFixed(decimals)} ${unit}`;
}

function formatBytes(bytes) {
  if (Math.abs(bytes) < 1000) return `${bytes} B`;
  return threeDigits(bytes / 1024, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], 1024);
}

/** `+1.23 ms`, `−4.5 %`; nothing before 0. */
function signed(value, text) {
  return value > 0 ? `+${text}` : text;
}

function formatShare(part, whole) {
  const percent = (whole > 0 ? (100 * part) / whole : 0).toFixed(1).replace(/^-0\.0$/, "0.0");
  return `${percent.replace("-", "−")} %`;
}

function plural(count, what) {
  return `${count} ${what}${count === 1 ? "" : what === "microbatch" ? "es" : "s"}`;
}

function byId(id) {
  return document.getElementById(id);
}

/** An element with attributes (`class`, `title`, `data-…`) and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A colour of the page: `colour("F")`. */
let colours = {};
function colour(name) {
  colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return colours[name];
}
function forgetColours() {
  colours = {};
}

/** A colour of the page with that share of white: `tinted("F", 0.5)`. */
function tinted(name, white) {
  if (!white) return colour(name);
  return (
      colours[`${name} ${white}`] ??= "#" +
          [1, 3, 5]
              .map((at) => {
                const part = parseInt(colour(name).slice(at, at + 2), 16);
                return Math.round(part + (255 - part) * white).toString(16).padStart(2, "0");
              })
              .join(""));
}

/** Coloured boxes with their names and, where given, values. */
function fillLegend(element, entries) {
  element.replaceChildren(...entries.map(([name, colourName, value]) => {
    const box = make("i", {style: `background: var(--${colourName})`});
    return make("span", {}, box, name, ...(value === undefined ? [] : [make("b", {}, value)]));
  }));
}

/** A bar whose parts are `whole` together. Parts below 0 are not drawn. */
function stackedBar(parts, whole) {
  return make(
      "div", {class: "stack"},
      ...parts.filter(([, value]) => value > 0)
          .map(([name, value, colourName]) => make("i", {
                 style: `background: var(--${colourName}); width: ${(100 * value) / whole}%`,
                 title: name
               })));
}
