// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/scheme.h"

#include <gtest/gtest.h>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "tests/expect_error.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

TEST(Scheme, ARunOfEqualBitsIsASegment) {
  EXPECT_EQ(segments_of("0011100"), (std::vector<FusionSegment>{{0, 2}, {2, 5}, {5, 7}}));
  EXPECT_EQ(segments_of("0"), (std::vector<FusionSegment>{{0, 1}}));
  EXPECT_EQ(segments_of("0101"), (std::vector<FusionSegment>{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
}

TEST(Scheme, BitsAreReadBackAsTheyWereWritten) {
  for (unsigned pattern = 0; pattern < 256; ++pattern) {
    std::string bits = "0";
    for (unsigned bit = 0; bit < 8; ++bit) bits += (pattern >> bit & 1) != 0 ? '1' : '0';
    EXPECT_EQ(bits_of(segments_of(bits)), bits);
  }
}

TEST(Scheme, IsParsedForTheLayersOrForEveryKind) {
  const SchemeShape shape{.operators = {2, 4, 1}, .layer = 1};
  const Scheme otherwise{{"00", "0000", "0"}};
  EXPECT_EQ(parse_scheme("0110", shape, otherwise).text(), "00,0110,0");
  EXPECT_EQ(parse_scheme("01,0011,0", shape, otherwise).text(), "01,0011,0");
  EXPECT_ERROR(parse_scheme("01,0011", shape, otherwise), ErrorKind::invalid_argument,
               "scheme of 2 strings; accepted: 1, for the layers, or 3, for each kind of block");
  EXPECT_ERROR(parse_scheme("0,0,0", {.operators = {4}, .layer = 0}, {{"0000"}}), ErrorKind::invalid_argument,
               "scheme of 3 strings; accepted: 1, for the layers");
  EXPECT_ERROR(parse_scheme("01x0", shape, otherwise), ErrorKind::invalid_argument,
               "scheme '01x0'; accepted: 0 and 1, as in 0011");
  EXPECT_ERROR(parse_scheme("01100", shape, otherwise), ErrorKind::invalid_argument,
               "scheme 01100 has 5 bits; accepted: 4, one an operator");
  EXPECT_ERROR(parse_scheme(",,", shape, otherwise), ErrorKind::invalid_argument,
               "scheme of an empty string; accepted: 2 bits, one an operator");
  EXPECT_ERROR(parse_scheme("1000", shape, otherwise), ErrorKind::invalid_argument,
               "scheme 1000 begins with 1; accepted: 0 first");
}

TEST(Blocks, LayersAreOneKind) {
  const Model model = small_bert(3);
  const Graph graph = simplify(build_bert(model));
  const std::vector<FusionBlock> kinds = find_blocks(graph);
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(kinds[0].name, "embeddings");
  EXPECT_EQ(kinds[0].size, 6U);
  EXPECT_EQ(kinds[1].name, "encoder.layer.*");
  EXPECT_EQ(kinds[1].size, 14U);
  EXPECT_EQ(kinds[1].starts, (std::vector<std::size_t>{6, 20, 34}));
  EXPECT_EQ(layer_kind(kinds), 1U);
}

TEST(Blocks, ASingleLayerIsPartOfTheOnlyBlock) {
  const Model model = small_bert(1);
  const Graph graph = simplify(build_bert(model));
  const std::vector<FusionBlock> kinds = find_blocks(graph);
  ASSERT_EQ(kinds.size(), 1U);
  EXPECT_EQ(kinds[0].size, graph.nodes.size());
}

TEST(Blocks, LayersThatDifferAreNoKind) {
  const Model model = small_bert(3);
  const Graph graph = restrict_attention(simplify(build_bert(model)), parse("window(2)"));
  Graph changed = graph;
  std::get<op::AttendPacked>(changed.nodes[22].op).mask = causal();  // of the layer in the middle
  EXPECT_EQ(find_blocks(graph).size(), 2U);
  EXPECT_EQ(find_blocks(changed).size(), 1U);
}

}  // namespace
}  // namespace stof
