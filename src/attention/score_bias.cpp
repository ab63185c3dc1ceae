// SPDX-License-Identifier: Apache-2.0
#include "src/attention/score_bias.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "src/base/error.h"

namespace stof {
namespace {

constexpr std::int64_t kMostHeads = 65535, kMostReach = std::int64_t{1} << 24;
constexpr std::int64_t kMostPlaces = std::int64_t{1} << 30;  // kernels count them in 32 bits
constexpr float kMostBias = 1 << 20;

// Places of a head, without those that stand there once more.
std::int64_t places_of(std::int64_t reach) { return 2 * (reach + ScoreBias::kMargin) + 2; }
std::int64_t stride_of(std::int64_t reach) { return 2 * places_of(reach); }

void check_sizes(std::size_t values, std::int64_t heads, std::int64_t reach) {
  if (heads < 1 || heads > kMostHeads)
    fail(ErrorKind::invalid_argument, "relative bias: heads = {}; accepted: 1..{}", heads, kMostHeads);
  if (reach < 0 || reach > kMostReach)
    fail(ErrorKind::invalid_argument, "relative bias: reach = {}; accepted: 0..{}", reach, kMostReach);
  if (reach > 0 && heads > kMostPlaces / stride_of(reach))
    fail(ErrorKind::invalid_argument, "relative bias: {} heads with a reach of {}; accepted: at most {} heads then",
         heads, reach, kMostPlaces / stride_of(reach));
  if (std::cmp_not_equal(values, heads * (2 * reach + 1)))
    fail(ErrorKind::invalid_argument, "relative bias: {} values for {} heads with a reach of {}; accepted: {}", values,
         heads, reach, heads * (2 * reach + 1));
}

void check_values(std::span<const float> values, std::int64_t reach) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!(std::abs(values[i]) <= kMostBias))
      fail(ErrorKind::invalid_argument, "relative bias: {} of head {} at distance {}; accepted: {}..{}", values[i],
           static_cast<std::int64_t>(i) / (2 * reach + 1), static_cast<std::int64_t>(i) % (2 * reach + 1) - reach,
           -kMostBias, kMostBias);
}

// As ScoreBias has them, the keys furthest in front of their query last.
std::vector<float> turned(std::span<const float> values, std::int64_t heads, std::int64_t reach) {
  constexpr double kLog2E = 1.4426950408889634;
  const std::int64_t places = places_of(reach);
  std::vector<float> all(static_cast<std::size_t>(heads * stride_of(reach)));
  for (std::int64_t h = 0; h < heads; ++h) {
    const float* const zero = values.data() + h * (2 * reach + 1) + reach;
    float* const to = all.data() + h * stride_of(reach);
    for (std::int64_t i = 0; i < places; ++i) {
      const double value = zero[std::clamp(reach + ScoreBias::kMargin - i, -reach, reach)];
      to[i] = static_cast<float>(value * kLog2E);
    }
    to[places] = to[0];
    std::copy_n(to, places - 1, to + places + 1);
  }
  return all;
}

std::shared_ptr<const void> kept(std::vector<float> values) {
  auto all = std::make_shared<const std::vector<float>>(std::move(values));
  return {all, all->data()};
}

std::shared_ptr<const void> brought(std::span<const float> values, const Device& device) {
  return device.backend->memory->copy_in(device, std::as_bytes(values), 0);
}

bool is_of_host(const Device& device) { return device.backend->memory == nullptr; }

std::vector<float> linear(std::span<const float> slopes, std::int64_t reach) {
  if (reach < 0 || reach > kMostReach) check_sizes(0, std::ssize(slopes), reach);  // says so
  const auto places = static_cast<std::size_t>(2 * reach + 1);
  check_sizes(slopes.size() * places, std::ssize(slopes), reach);
  std::vector<float> values;
  values.reserve(slopes.size() * places);
  for (const float slope : slopes)
    for (std::int64_t d = -reach; d <= reach; ++d) values.push_back(-slope * static_cast<float>(std::abs(d)));
  return values;
}

}  // namespace

RelativeBias::RelativeBias(std::span<const float> values, std::int64_t heads, std::int64_t reach, const Device& device)
    : heads_(heads), reach_(reach), device_(device) {
  check_sizes(values.size(), heads, reach);
  check_values(values, reach);
  std::vector<float> all = turned(values, heads, reach);
  memory_ = is_of_host(device) ? kept(std::move(all)) : brought(all, device);
}

RelativeBias RelativeBias::on(const Device& device) const {
  if (!is_of_host(device_))
    fail(ErrorKind::invalid_argument, "relative bias: one of {} {} cannot be brought elsewhere; accepted: of the host",
         device_.backend->name, device_.ordinal);
  RelativeBias there = *this;
  if (is_of_host(device)) return there;
  const std::span values(static_cast<const float*>(memory_.get()),
                         static_cast<std::size_t>(heads_ * stride_of(reach_)));
  there.device_ = device;
  there.memory_ = brought(values, device);
  return there;
}

RelativeBias RelativeBias::alibi(std::span<const float> slopes, std::int64_t reach, const Device& device) {
  return {linear(slopes, reach), std::ssize(slopes), reach, device};
}

ScoreBias score_bias(const AttentionArguments& arguments, const AttentionShape& shape, const Device& device) {
  if (arguments.relative_bias == nullptr) return {};
  const RelativeBias& bias = *arguments.relative_bias;
  if (!shape.biased)
    fail(ErrorKind::invalid_argument,
         "attention: a relative bias with a plan for none; accepted where the plan's shape is biased");
  if (bias.heads() != shape.heads)
    fail(ErrorKind::invalid_argument, "attention: the relative bias has {} heads; this plan takes {}", bias.heads(),
         shape.heads);
  if (bias.device().backend != device.backend || bias.device().ordinal != device.ordinal)
    fail(ErrorKind::invalid_argument, "attention: the relative bias is of {} {}; this plan is of {} {}",
         bias.device().backend->name, bias.device().ordinal, device.backend->name, device.ordinal);
  return {.values = static_cast<const float*>(bias.memory().get()),
          .head_stride = stride_of(bias.reach()),
          .reach = bias.reach()};
}

}  // namespace stof
