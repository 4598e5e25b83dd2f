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

using Files = std::initializer_list<std::string_view>;

std::string joined(Files files) {
  std::string text;
  for (const std::string_view file : files) text += file;
  return text;
}

/// The frame that all pages share.
std::string framed(const std::string& title, Files sections, const nlohmann::ordered_json& data,
                   Files scripts) {
  return fill(page_files::page_html, {{"@title@", html_text(title)},
                                      {"@style@", page_files::page_css},
                                      {"@sections@", joined(sections)},
                                      {"@data@", script_text(data)},
                                      {"@script@", joined(scripts)}});
}

/// A timeline, and below it the report of its kind.
template <typename Page>
std::string with_timeline(const Page& page, std::string_view report,
                          std::string_view report_script) {
  using namespace page_files;  // NOLINT(google-build-using-namespace): a file each
  return framed(page.title, {timeline_html, report}, page_data(page),
                {format_js, model_js, view_js, density_js, memory_js, path_js, draw_js, tooltip_js,
                 report_js, report_script, main_js});
}

}  // namespace

std::string to_html(const Page& page) {
  return with_timeline(page, page_files::simulation_html, page_files::simulation_js);
}

std::string to_html(const ComparisonPage& page) {
  return with_timeline(page, page_files::comparison_html, page_files::comparison_js);
}

std::string to_html(const SweepPage& page) {
  using namespace page_files;  // NOLINT(google-build-using-namespace): a file each
  nlohmann::ordered_json data{{"title", page.title}, {"note", page.note}};
  data.update(page.rows);
  return framed(page.title, {sweep_html}, data, {format_js, report_js, sweep_js});
}

}  // namespace penstock
