// SPDX-License-Identifier: Apache-2.0
// Options that are numbers, in decimal. CLI11 by itself reads 010 as 8, and what does not fit as what fits nearest.
#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "src/base/error.h"

namespace stof::cli {

// All of `text`, at most `most` in size. Throws invalid_argument that names the option.
template <class Number>
Number parse_number(const std::string& option, const std::string& text,
                    Number most = std::numeric_limits<Number>::max()) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  using Limits = std::numeric_limits<Number>;
  bool too_large = error == std::errc::result_out_of_range && rest == end;
  if constexpr (std::floating_point<Number>)
    too_large = too_large || (std::isfinite(number) && std::abs(number) > most);
  if (error == std::errc() && rest == end && !too_large) return number;
  if constexpr (std::integral<Number>) {
    if (too_large)
      fail(ErrorKind::invalid_argument, "{} {}; accepted: a whole number of at most {} in size", option, text,
           Limits::max());
    fail(ErrorKind::invalid_argument, "{} '{}'; accepted: a whole number, as in 12", option, text);
  } else {
    if (too_large)
      fail(ErrorKind::invalid_argument, "{} {}; accepted: 0, or a number of {:.2g} to {:.2g} in size", option, text,
           Limits::min(), most);
    fail(ErrorKind::invalid_argument, "{} '{}'; accepted: a number, as in 12 or 0.5", option, text);
  }
}

template <class Number>
CLI::Option* add_number(CLI::App* command, const std::string& name, Number& number, const std::string& what) {
  const auto set = [&number, name](const CLI::results_t& texts) {
    number = parse_number<Number>(name, texts.back());
    return true;
  };
  return command->add_option(name, set, what, false, [&number] { return fmt::to_string(number); })
      ->type_name(std::integral<Number> ? "INT" : "FLOAT");
}

template <class Number>
CLI::Option* add_number(CLI::App* command, const std::string& name, std::optional<Number>& number,
                        const std::string& what, Number most = std::numeric_limits<Number>::max()) {
  const auto set = [&number, name, most](const CLI::results_t& texts) {
    number = parse_number<Number>(name, texts.back(), most);
    return true;
  };
  return command->add_option(name, set, what)->type_name(std::integral<Number> ? "INT" : "FLOAT");
}

// Any number of them.
template <class Number>
CLI::Option* add_number(CLI::App* command, const std::string& name, std::vector<Number>& numbers,
                        const std::string& what) {
  const auto set = [&numbers, name](const CLI::results_t& texts) {
    numbers.clear();
    for (const std::string& text : texts) numbers.push_back(parse_number<Number>(name, text));
    return true;
  };
  return command->add_option(name, set, what)->type_name("INT")->expected(1, -1)->allow_extra_args();
}

}  // namespace stof::cli
