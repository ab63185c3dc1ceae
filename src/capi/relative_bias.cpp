// SPDX-License-Identifier: Apache-2.0
// Relative biases in C.
#include "src/capi/boundary.h"
#include "src/capi/handles.h"

namespace {

// Numbers that there are at `values` if heads and reach are what a bias takes; else none are looked at.
std::span<const float> all_of(const float* values, std::int64_t heads, std::int64_t reach) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (heads < 1 || heads > kMost || reach < 0 || reach > kMost) return {};
  return {values, static_cast<std::size_t>(heads * (2 * reach + 1))};
}

}  // namespace

stof_status stof_relative_bias_create(const float* values, int64_t heads, int64_t reach, const char* device,
                                      stof_relative_bias** bias) {
  namespace capi = stof::capi;
  if (bias != nullptr) *bias = nullptr;
  return capi::guarded([&] {
    stof_relative_bias*& handle = capi::given(bias, "stof_relative_bias_create: bias");
    capi::given(values, "stof_relative_bias_create: values");
    capi::check_host_address("stof_relative_bias_create: ", "values", values);
    const stof::Device on = stof::open_device(&capi::given(device, "stof_relative_bias_create: device"));
    handle = new stof_relative_bias{stof::RelativeBias(all_of(values, heads, reach), heads, reach, on)};
  });
}

void stof_relative_bias_destroy(stof_relative_bias* bias) { delete bias; }
