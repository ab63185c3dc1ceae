// SPDX-License-Identifier: Apache-2.0
// Programs that are made from several threads, of schemes that share matrices, while what is unused is dropped.
#include <gtest/gtest.h>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "tests/runtime/small_bert.h"
#include "tests/threads/at_once.h"

namespace stof {
namespace {

constexpr int kThreads = 4;

TEST(SharedWeights, AreTakenAndDroppedAtOnce) {
  const Device device = open_device("cpu");
  const Model model = small_bert();
  const Graph graph = simplify(build_graph(model));
  const Blocks blocks(graph, {&device, DType::f32});
  const Graph fused = fuse(blocks, default_scheme(blocks)), detached = fuse(blocks, detached_scheme(blocks));
  const auto weights = std::make_shared<WeightStore>();
  const auto result_of = [&](const Graph& of, const std::shared_ptr<WeightStore>& store) {
    const Program program(of, {.device = device, .longest = 96, .weights = store});
    const RowBatch rows = make_rows(texts_of({20}), {.vocabulary = 50, .longest = 96}, false);
    std::vector<std::byte> memory(static_cast<std::size_t>(program.arena_bytes(rows.rows)) + 64);
    auto* const arena = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
    const auto* const result = static_cast<const float*>(program.run(rows, arena));
    return std::vector<float>(result, result + rows.rows * program.result_columns());
  };
  const std::vector<float> want[2]{result_of(fused, nullptr), result_of(detached, nullptr)};
  std::vector<int> wrong(kThreads, 0);
  at_once(kThreads, [&](int t) {
    for (int run = 0; run < 10; ++run) {
      const bool unfused = (t + run) % 2 != 0;
      wrong[static_cast<std::size_t>(t)] += result_of(unfused ? detached : fused, weights) == want[unfused] ? 0 : 1;
      weights->drop_unused();
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
  weights->drop_unused();
  EXPECT_EQ(weights->size(), 0U);
}

}  // namespace
}  // namespace stof
