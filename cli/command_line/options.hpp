// Kinds of options that several commands have.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>

#include "base/error.hpp"
#include "cli/workers/worker_options.hpp"

namespace penstock::cli {

/// `auto` leaves the value absent.
template <class Number>
void add_auto_number(CLI::App& app, const std::string& flag, std::optional<Number>& value,
                     const std::string& help) {
  app.add_option_function<std::string>(
         flag,
         [flag, &value](const std::string& text) {
           if (text == "auto") return value.reset();
           Number number{};
           const char* end = text.data() + text.size();
           const auto [read, error] = std::from_chars(text.data(), end, number);
           if (read != end || error != std::errc() || number < 1) {
             throw InputError(flag, fmt::format("`{}` is not a number of 1 or more", text),
                              "Give a number, or `auto`.");
           }
           value = number;
         },
         help)
      ->type_name("N");
}

/// The range is told when it is left, not on the help page.
template <class Number>
CLI::Option* in_range(CLI::Option* option, Number least, Number most) {
  const auto problem = [least, most](const std::string& text) -> std::string {
    Number number{};
    if (!CLI::detail::lexical_cast(text, number))
      return fmt::format("{} is not {}", text,
                         std::is_integral_v<Number> ? "an integer" : "a number");
    if (number >= least && number <= most) return "";
    return fmt::format("{} is not in {}..{}", text, least, most);
  };
  return option->type_name("N")->check(problem, "");
}

template <class Number>
void add_count(CLI::App& app, const std::string& flag, std::optional<Number>& value,
               const std::string& help) {
  in_range(app.add_option(flag, value, help), Number{1}, Number{1} << 24);
}

/// An option whose text the command itself parses; `type` says what it is.
inline CLI::Option* add_text(CLI::App& app, const std::string& flag, std::string& value,
                             const std::string& type, const std::string& help) {
  return app.add_option(flag, value, help)->type_name(type);
}

inline void add_transport(CLI::App& app, WorkerOptions& options) {
  add_text(app, "--transport", options.transport, "NAME",
           "how ranks exchange tensors on CPUs: auto (through memory on one machine, else gloo), "
           "gloo")
      ->capture_default_str();
}

}  // namespace penstock::cli
