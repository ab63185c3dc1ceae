// SPDX-License-Identifier: Apache-2.0
// Models with random weights have what graphs of their families look up, also where they are only described.
#include "cli/random_model.h"

#include <gtest/gtest.h>

#include "src/graph/build.h"
#include "src/model/relative_positions.h"

namespace stof {
namespace {

TEST(RandomModel, HasTheWeightsOfItsGraph) {
  for (const char* name : {"bert-base", "gpt2", "modernbert-base", "longformer-base", "mpnet-base", "nomic-base",
                           "eurobert-210m", "t5-base", "llama-3.2-1b", "qwen3-0.6b"}) {
    SCOPED_TRACE(name);
    const Graph graph = build_graph(cli::described_model(name, 16));
    EXPECT_GT(graph.nodes.size(), 12u);
  }
}

TEST(RandomModel, HasBiasesByDistanceWhereItIsOnlyDescribed) {
  for (const std::string name :
       {"encoder.relative_attention_bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"}) {
    const Model model = cli::described_model(name.starts_with("encoder.block") ? "t5-base" : "mpnet-base", 16);
    const RelativePositions& relative = model.config.relative;
    const std::int64_t heads = model.config.heads, reach = reach_of(relative), places = 2 * reach + 1;
    const float* table = model.weight(name + ".weight", {relative.buckets, heads}).as<float>();
    const float* made = model.weight(name + std::string(kByDistance), {heads, places}).as<float>();
    for (const std::int64_t distance : {-reach, std::int64_t{-3}, std::int64_t{0}, reach})
      EXPECT_EQ(made[5 * places + reach + distance], table[bucket_of(distance, relative) * heads + 5]) << distance;
  }
}

}  // namespace
}  // namespace stof
