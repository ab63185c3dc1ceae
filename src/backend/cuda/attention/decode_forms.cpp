// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/decode_forms.h"

#include <array>

#include "src/backend/cuda/attention/kernel_store.h"

namespace stof::cuda {
namespace {

constexpr DecodeForm kSixteen{16, false, kDecodeEntry, kDecodeSumEntry, kDecodeEntry};
constexpr DecodeForm kTwoWarps{32, false, kDecodeTwoEntry, kDecodeSumTwoEntry, kDecodeTwoEntry};
constexpr DecodeForm kFourWarps{64, false, kDecodeFourEntry, kDecodeSumFourEntry, kDecodeFourEntry};
constexpr DecodeForm kWarpgroups{64, true, kDecodeEntry, kDecodeSumEntry, kDecodeTreeEntry};

constexpr std::array kForms = {kSixteen, kTwoWarps, kFourWarps};
constexpr std::array kHopperForms = {kSixteen, kTwoWarps, kWarpgroups};
// 20 rows of 1,024 keys: 26.3 us by warpgroups, 33.8 by two row warps (bench/results/h200-decode-whole-or-cut.txt).
constexpr std::array kWideHopperForms = {kSixteen, kWarpgroups};

}  // namespace

std::span<const DecodeForm> decode_forms(const DecodeInstance& instance, int arch) {
  if (arch != 90) return kForms;
  return instance.head_dim > 128 ? std::span<const DecodeForm>(kWideHopperForms) : kHopperForms;
}

std::string unit_of(const DecodeForm& form, const DecodeInstance& instance, DType dtype) {
  return form.of_warpgroups ? wide_name_of(instance, dtype) : name_of(instance, dtype);
}

int readers_of(const DecodeForm& form, const DecodeInstance& instance) {
  if (form.of_warpgroups) return 128 * instance.warpgroups;
  return instance.head_dim > 128 ? 256 : 128;  // two warps have the halves of wide heads
}

std::size_t form_for(std::span<const DecodeForm> forms, std::int64_t rows) {
  std::size_t form = 0;
  while (form + 1 < forms.size() && forms[form].rows < rows) ++form;
  return form;
}

}  // namespace stof::cuda
