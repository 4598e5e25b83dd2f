// Tables of layers.
#include <fmt/format.h>

#include "base/quantity.hpp"
#include "cli/show/lines.hpp"
#include "cli/show/show_text.hpp"
#include "pipeline/layers/layer_table.hpp"

namespace penstock::cli {

namespace {

std::string choices(const Layer& layer) {
  std::string text;
  for (const RecomputeChoice& choice : layer.recompute) {
    text += fmt::format("{}{} (+{}, keeps {})", text.empty() ? "" : ", ", choice.name,
                        format_seconds(choice.time_s),
                        format_bytes(layer.saved_bytes - choice.freed_bytes));
  }
  return text.empty() ? "-" : text;
}

std::string row_table(const LayerCosts& costs, ReportStyle style) {
  Table table(
      {"<layers", "each", "forward", "backward", "static", "saved", "output", "<recompute"});
  for (const LayerRow& row : rows(costs.layers)) {
    const Layer& layer = *row.layer;
    table.row({row.name, fmt::to_string(row.count), format_seconds(layer.forward_s),
               format_seconds(layer.backward_s), format_bytes(layer.static_bytes),
               format_bytes(layer.saved_bytes), format_bytes(layer.output_bytes), choices(layer)});
  }
  return table.text(style);
}

}  // namespace

std::string layers_text(const std::string& path, ReportStyle style) {
  const LayerTable table = read_layers(path);
  const LayerCosts& largest = table.sizes.back();
  double pass_s = 0;
  int64_t held = 0;
  for (const Layer& layer : largest.layers) {
    pass_s += layer.forward_s + layer.backward_s;
    held += layer.static_bytes;
  }
  std::string sizes;
  for (const LayerCosts& size : table.sizes)
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size.microbatch);
  Lines lines(style.columns);
  lines.add("layers", fmt::format("{}, {} static", largest.layers.size(), format_bytes(held)));
  lines.add("batch", format_number(table.global_batch, "sample"));
  lines.add("costs", fmt::format("of microbatches of {}", sizes));
  lines.add("pass", fmt::format("{} forward and backward, microbatch {}", format_seconds(pass_s),
                                largest.microbatch));
  return fmt::format("{}\n\n{}\n{}", path, lines.text(), row_table(largest, style));
}

}  // namespace penstock::cli
