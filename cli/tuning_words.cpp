// SPDX-License-Identifier: Apache-2.0
#include "cli/tuning_words.h"

#include <charconv>

#include "src/base/error.h"

namespace stof::cli {

double seconds_of(const std::string& text) {
  constexpr double kMost = 7 * 24 * 60 * 60;
  if (text.empty()) return 0;
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const double seconds = unit == "m" ? 60 * value : value;
  if (error == std::errc() && (unit == "s" || unit == "m") && seconds > 0 && seconds <= kMost) return seconds;
  fail(ErrorKind::invalid_argument, "--budget {}; accepted: a time as in 30s or 2m, at most {:.0f}m", text, kMost / 60);
}

Ablation ablation_of(const std::string& name) {
  if (name == "both") return {};
  if (name == "attention") return {.attention = true, .fusion = false};
  if (name == "fusion") return {.attention = false, .fusion = true};
  if (name == "none") return {.attention = false, .fusion = false};
  fail(ErrorKind::invalid_argument, "--ablation {}; accepted: both, attention, fusion, none", name);
}

}  // namespace stof::cli
