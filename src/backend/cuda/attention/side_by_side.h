// SPDX-License-Identifier: Apache-2.0
// Chunks of prompts, which wait for tensor cores, beside items of few queries, which wait for the memory: two launches
// at the same time, each on some of the multiprocessors.
#pragma once
#include <memory_resource>
#include <optional>
#include <vector>

#include "src/backend/contract.h"
#include "src/backend/cuda/attention/instances.h"
#include "src/backend/cuda/attention/span_split.h"

namespace stof::cuda {

// Of stream_attention, by spans; its lists are in the call's memory.
struct LeadingWork {
  const SpanForm& form;
  const StreamInstance& instance;
  std::pmr::vector<int> queries, keys;  // of each item
  int slices_of_item = 1, key_step = 8;

  LeadingWork(const SpanForm& of_mask, const StreamInstance& of_plan, std::pmr::memory_resource* memory)
      : form(of_mask), instance(of_plan), queries(memory), keys(memory) {}
};
std::optional<LeadingWork> leading_of_stream(const ArrangedMask& arranged, const stof::AttentionCall& call);

// Of decode_attention.
struct FollowingWork {
  double bytes;        // of keys and values
  double begin_bytes;  // that could be read while tasks begin
  // Those that a multiprocessor reads in a microsecond, if the memory gives them: with as many CTAs as it has places
  // for, as beside another launch, or with one.
  double core_bytes_us, alone_bytes_us;
};
std::optional<FollowingWork> following_of_decode(const ArrangedMask& arranged, const stof::AttentionCall& call,
                                                 const Device& device);

// Where that is predicted to be sooner than one behind the other, by so many multiprocessors.
std::optional<CoreShares> share_cores(const LeadingWork& leading, const FollowingWork& following, int cores);
extern const SideBySide side_by_side;

}  // namespace stof::cuda
