// Building blocks of the reports below a timeline.

function sumOf(items, value) {
  return items.reduce((sum, item) => sum + value(item), 0);
}

function figure(name, value, note) {
  return make(
      "div", {class: "figure"}, make("div", {class: "name"}, name),
      make("div", {class: "value"}, value), make("div", {class: "note"}, note));
}

function headings(names) {
  return make(
      "thead", {},
      make(
          "tr", {},
          ...names.map(
              (name, at) => make("th", at > 0 && name !== "" ? {class: "number"} : {}, name))));
}
