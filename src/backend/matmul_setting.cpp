// SPDX-License-Identifier: Apache-2.0
#include "src/backend/matmul_setting.h"

#include <array>
#include <charconv>

#include "src/base/error.h"

namespace stof {
namespace {

constexpr std::string_view kShare = " share";  // where more than one do
constexpr std::string_view kCublaslt = "cublaslt", kGemv = "gemv", kWgmma = "wgmma", kMma = "mma";

struct Field {
  std::string_view before;  // what stands in front of the number
  int MatmulSetting::*value;
};
constexpr std::array<Field, 7> kFields{{{" ", &MatmulSetting::rows},
                                        {"x", &MatmulSetting::columns},
                                        {" k", &MatmulSetting::depth},
                                        {" s", &MatmulSetting::stages},
                                        {" w", &MatmulSetting::warpgroups},
                                        {" t", &MatmulSetting::teams},
                                        {" split", &MatmulSetting::split}}};

// Takes `before` and a positive number off the front.
bool take(std::string_view& rest, std::string_view before, int& value) {
  if (!rest.starts_with(before)) return false;
  const char* const begin = rest.data() + before.size();
  const auto [end, error] = std::from_chars(begin, rest.data() + rest.size(), value);
  if (error != std::errc() || value < 1) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return true;
}

}  // namespace

std::string text_of(const MatmulSetting& setting) {
  if (setting.kernel == MatmulSetting::Kernel::cublaslt) return std::string(kCublaslt);
  if (setting.kernel == MatmulSetting::Kernel::gemv) return fmt::format("{} {}", kGemv, setting.columns);
  std::string text(setting.kernel == MatmulSetting::Kernel::mma ? kMma : kWgmma);
  for (const Field& field : kFields) text += fmt::format("{}{}", field.before, setting.*field.value);
  if (setting.share > 1) text += fmt::format("{}{}", kShare, setting.share);
  return text;
}

MatmulSetting matmul_setting_of(std::string_view text) {
  if (text == kCublaslt) return {};
  if (MatmulSetting gemv{.kernel = MatmulSetting::Kernel::gemv}; text.starts_with(kGemv)) {
    std::string_view rest = text.substr(kGemv.size());
    if (take(rest, " ", gemv.columns) && rest.empty()) return gemv;
  }
  const bool is_mma = text.starts_with(kMma);
  MatmulSetting setting{.kernel = is_mma ? MatmulSetting::Kernel::mma : MatmulSetting::Kernel::wgmma};
  std::string_view rest = text;
  bool good = is_mma || rest.starts_with(kWgmma);
  if (good) rest.remove_prefix(is_mma ? kMma.size() : kWgmma.size());
  for (const Field& field : kFields) good = good && take(rest, field.before, setting.*field.value);
  if (good && !rest.empty()) good = take(rest, kShare, setting.share) && setting.share > 1;
  if (!good || !rest.empty())
    fail(ErrorKind::invalid_argument,
         "matmul setting '{}'; accepted: cublaslt, or one like 'wgmma 128x192 k64 s4 w2 t1 split1', with ' share2' "
         "behind "
         "it or not, 'mma 128x128 k32 s4 w8 t1 split1', or 'gemv 16'",
         text);
  return setting;
}

}  // namespace stof
