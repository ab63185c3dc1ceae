// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/cache_use.h"

#include <gtest/gtest.h>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

TEST(CacheUses, OnlyTheMiddleOfAFeedForwardBlockIsReadOnce) {
  const Device device = norming_device();
  const Model model = small_bert(2);
  const Graph simplified = simplify(build_bert(model));
  const Graph graph = fuse(Blocks(simplified, {&device, DType::f32}), {{"000000", "001111100010001110"}});
  const std::vector<CacheUse> uses = cache_uses(graph);
  std::vector<CacheUse> in_order;
  for (const Node& node : graph.nodes) in_order.push_back(uses[static_cast<std::size_t>(node.output)]);
  in_order.resize(8);  // up to the end of the first layer
  using enum CacheUse;
  EXPECT_EQ(in_order, (std::vector{unknown,         // embeddings
                                   unknown,         // q, k and v
                                   unknown,         // attention, which says it by itself
                                   again, unknown,  // with the residual; its norm
                                   once, again, unknown}));
}

// However heads are turned: by the matmul, or by a pass of its own.
TEST(CacheUses, NothingThatAttentionReadsIsReadOnce) {
  const Model model = small_modernbert();
  int turned = 0;
  for (const Graph& graph : {simplify(build_modernbert(model)), fused_by_default(build_modernbert(model))}) {
    const std::vector<CacheUse> uses = cache_uses(graph);
    for (const Node& node : graph.nodes) {
      const bool turns = std::holds_alternative<op::Rotate>(node.op);
      turned += turns;
      if (!turns && !std::holds_alternative<op::Attend>(node.op) && !std::holds_alternative<op::AttendPacked>(node.op))
        continue;
      for (const ValueId input : node.inputs) EXPECT_EQ(uses[static_cast<std::size_t>(input)], CacheUse::unknown);
    }
  }
  EXPECT_GT(turned, 0);
}

}  // namespace
}  // namespace stof
