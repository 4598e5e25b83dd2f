#include "simulator/explain/html.hpp"

#include <array>
#include <initializer_list>
#include <stdexcept>
#include <string_view>

#include "simulator/explain/page/page_files.hpp"
#include "simulator/explain/page_data.hpp"

namespace penstock {

namespace {

/// JSON may stand in a script element as long as nothing in it can end that element.
std::string script_text(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      default: safe += c;
    }
  }
  return safe;
}

struct Filling {
  std::string_view mark;
  std::string_view text;
};

/// The frame with each mark replaced, in the order in which they stand in it.
std::string fill(std::string_view frame, std::initializer_list<Filling> fillings) {
  std::string page;
  for (const Filling& filling : fillings) {
    const size_t at = frame.find(filling.mark);
    if (at == std::string_view::npos) throw std::logic_error("page.html lacks a mark");
    page += frame.substr(0, at);
    page += filling.text;
    frame.remove_prefix(at + filling.mark.size());
  }
  return page += frame;
}

/// The page that both share, and below its timeline the report that only one of them has.
template <typename Page>
std::string page_with(const Page& page, std::string_view report, std::string_view report_script) {
  using namespace page_files;  // NOLINT(google-build-using-namespace): a file each
  std::string script;
  for (const std::string_view file : {format_js, model_js, view_js, density_js, memory_js, path_js,
                                      draw_js, tooltip_js, report_js, report_script, main_js}) {
    script += file;
  }
  const std::string title = html_text(page.title), data = script_text(page_data(page));
  return fill(page_html, {{"@title@", title},
                          {"@style@", page_css},
                          {"@report@", report},
                          {"@data@", data},
                          {"@script@", script}});
}

}  // namespace

std::string to_html(const Page& page) {
  return page_with(page, page_files::simulation_html, page_files::simulation_js);
}

std::string to_html(const ComparisonPage& page) {
  return page_with(page, page_files::comparison_html, page_files::comparison_js);
}

}  // namespace penstock
