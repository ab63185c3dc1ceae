// SPDX-License-Identifier: Apache-2.0
// What a program tells the matmuls of a device beside their operands: how long the cache should keep what they write,
// the weight of the next one, and from which end to begin.
#include <gtest/gtest.h>

#include <cstring>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/cache_use.h"
#include "src/runtime/program.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

struct Told {
  const void* weight;
  const std::byte* next_weight;
  CacheUse out_use;
  bool backwards;
};
std::vector<Told>& told() {
  static std::vector<Told> calls;
  return calls;
}

// Matmuls that compute nothing.
Device noting_device() {
  static const Backend backend = [] {
    Backend made = norming_backend();
    made.matmul.run = [](const PackedLinear& linear, const LinearCall& call) {
      told().push_back({linear.get(), call.next_weight.data(), call.out_use, call.queue.backwards});
    };
    made.matmul.weight = [](const PackedLinear& linear) {
      return std::span(static_cast<const std::byte*>(linear.get()), 1);
    };
    return made;
  }();
  Device device = norming_device();
  device.backend = &backend;
  return device;
}

class ProgramCalls : public testing::Test {
 protected:
  // Texts of 96 tokens. Without the result there are 24 + 3 * 24 columns in fp32.
  void run(std::int64_t texts) {
    TokenBatch batch;
    for (std::int64_t text = 0; text < texts; ++text) batch.add(std::vector<std::int32_t>(96, 7));
    const Program program(graph_, {.device = device_, .longest = 96});
    const RowBatch rows = make_rows(batch, {.vocabulary = 50, .longest = 96}, false);
    Tensor arena(DType::boolean, {program.arena_bytes(rows.rows)});
    std::memset(arena.data(), 0, arena.bytes());
    told().clear();
    program.run(rows, arena.as<std::byte>());
  }

  Device device_ = noting_device();
  Model model_ = small_bert(2);
  Graph graph_ = fuse(Blocks(simplify(build_bert(model_)), {&device_, DType::f32}), {{"000000", "001111100010001110"}});
};

TEST_F(ProgramCalls, EachMatmulIsToldTheWeightOfTheNext) {
  run(1);
  ASSERT_EQ(told().size(), 2u * 4u);
  for (std::size_t i = 0; i + 1 < told().size(); ++i) {
    EXPECT_EQ(told()[i].next_weight, told()[i + 1].weight) << i;
    EXPECT_NE(told()[i].weight, told()[i + 1].weight) << i;
  }
  EXPECT_EQ(told().back().next_weight, nullptr);
}

TEST_F(ProgramCalls, WhatACacheKeepsNeedsNoWishes) {
  run(300);  // 10.5 MiB
  for (const Told& call : told()) {
    EXPECT_EQ(call.out_use, CacheUse::unknown);
    EXPECT_FALSE(call.backwards);
  }
}

TEST_F(ProgramCalls, WhatOutgrowsACacheIsKeptInPartAndReadFromTheEndWrittenLast) {
  run(400);  // 14 MiB
  const std::vector<CacheUse> uses = cache_uses(graph_);
  std::size_t call = 0;
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
    if (std::holds_alternative<op::Linear>(graph_.nodes[n].op) ||
        std::holds_alternative<op::MatMul>(graph_.nodes[n].op)) {
      ASSERT_LT(call, told().size());
      EXPECT_EQ(told()[call].out_use, uses[static_cast<std::size_t>(graph_.nodes[n].output)]) << call;
      EXPECT_EQ(told()[call].backwards, n % 2 != 0) << call;
      ++call;
    }
  EXPECT_EQ(call, told().size());
}

}  // namespace
}  // namespace stof
