// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/backend/contract.h"
#include "src/base/hash.h"

namespace stof::cli {
namespace {

bool is_cpu(const Device& device) { return device.backend->memory == nullptr; }

}  // namespace

std::vector<std::array<std::int64_t, 4>> default_shapes(const Device& device) {
  if (is_cpu(device))
    return {{1, 12, 512, 64},  {1, 12, 2048, 64},  {1, 12, 8192, 64},
            {1, 12, 512, 128}, {1, 12, 2048, 128}, {1, 12, 8192, 128}};
  return {{1, 12, 128, 64},  {8, 12, 512, 64},   {1, 12, 1024, 64},  {16, 12, 1024, 64},
          {1, 12, 4096, 64}, {16, 12, 4096, 64}, {1, 32, 16384, 128}};
}

std::vector<DType> default_dtypes(const Device& device) {
  if (is_cpu(device)) return {DType::f32, DType::bf16};
  return {DType::f16};
}

std::vector<std::string> default_masks(const Device& device, std::int64_t length) {
  if (is_cpu(device))
    return {"all", "causal", "window(64)", "longformer(64,16)", "bigbird(64,3,2,3,1)", packed_documents(length)};
  const int w = length <= 1024 ? 16 : length <= 8192 ? 32 : 512;
  std::vector<std::string> masks = {"causal", fmt::format("window({})", w), fmt::format("dilated({},2)", w),
                                    fmt::format("longformer({0},{0})", w), "bigbird(64,3,2,3,1)"};
  if (length >= 1024) masks.push_back(packed_documents(length));
  return masks;
}

std::string packed_documents(std::int64_t length) {
  const std::int64_t unit = length < 2048 ? 8 : 1;
  std::vector<std::int64_t> starts;
  std::int64_t next = 0;
  for (std::uint64_t draw = 1; next < length; ++draw) {
    starts.push_back(next);
    next += (512 + static_cast<std::int64_t>(splitmix64(draw) % 989)) / unit;
  }
  return fmt::format("documents([{}]) & causal", fmt::join(starts, ","));
}

}  // namespace stof::cli
