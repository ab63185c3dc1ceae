// SPDX-License-Identifier: Apache-2.0
#include "src/attention/host_lists.h"

namespace stof {

ListNames names_of_lists(const AttentionArguments& arguments) {
  if (!arguments.device_lengths) return {.kv_lengths = "device_kv_lengths"};
  return {.q_lengths = "device_q_lengths",
          .kv_lengths = "device_kv_lengths",
          .cu_q = "device_cu_q",
          .cu_kv = "device_cu_kv",
          .length_of_cu_q = "the length of device_cu_q",
          .length_of_cu_kv = "the length of device_cu_kv"};
}

std::optional<AttentionArguments> with_host_lengths(const AttentionArguments& arguments) {
  if (!arguments.device_kv_lengths && !arguments.device_lengths) return std::nullopt;
  AttentionArguments same = arguments;
  if (arguments.device_kv_lengths) {
    const std::int64_t items = arguments.device_kv_lengths->dim(0);
    same.kv_lengths = {arguments.device_kv_lengths->as<std::int32_t>(), static_cast<std::size_t>(items)};
    same.device_kv_lengths.reset();
    return same;
  }
  const DeviceLengths& lists = *arguments.device_lengths;
  const auto list = [&](const std::int32_t* first, std::int64_t count) {
    return std::span(first, first == nullptr ? 0 : static_cast<std::size_t>(count));
  };
  same.q_lengths = list(lists.q_lengths, lists.items), same.kv_lengths = list(lists.kv_lengths, lists.items);
  same.cu_q = list(lists.cu_q, lists.items + 1), same.cu_kv = list(lists.cu_kv, lists.items + 1);
  same.device_lengths.reset();
  return same;
}

}  // namespace stof
