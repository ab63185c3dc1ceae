// SPDX-License-Identifier: Apache-2.0
// Programs of which some rows alone are wanted: these are what they are without that, in as much memory as was said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

constexpr std::int64_t kGuard = 4096;

// Rows of the result, from memory that has no number in it before and nothing written behind it.
std::vector<float> run(const Program& program, const RowBatch& batch, std::span<const std::int32_t> kept = {}) {
  const std::int64_t bytes = program.arena_bytes(batch.rows, std::ssize(kept));
  const Tensor memory(DType::boolean, {bytes + kGuard});
  std::memset(memory.data(), 0xFF, memory.bytes());
  const auto* result = static_cast<const float*>(program.run(batch, memory.as<std::byte>(), kept));
  const std::int64_t rows = kept.empty() ? batch.rows : std::ssize(kept);
  EXPECT_TRUE(std::all_of(memory.as<std::uint8_t>() + bytes, memory.as<std::uint8_t>() + bytes + kGuard,
                          [](std::uint8_t byte) { return byte == 0xFF; }));
  return {result, result + rows * program.result_columns()};
}

void expect_kept(const Graph& graph, const Model& model, const Device& device) {
  const TextLimits limits{.vocabulary = model.config.vocab_size, .longest = model.config.max_positions};
  const Program program(graph, {.device = device, .longest = limits.longest});
  for (const bool padded : {false, true}) {
    const RowBatch batch = make_rows(texts_of({9, 1, 14, 33, 2}), limits, padded);
    const std::vector<float> all = run(program, batch);
    std::vector<std::int32_t> tokens, first, last;  // rows past a padded text have no result
    for (std::int64_t text = 0; text < batch.texts; ++text) {
      const auto begin = static_cast<std::int32_t>(batch.first_row(text));
      const std::int32_t length = batch.lengths[static_cast<std::size_t>(text)];
      for (std::int32_t p = 0; p < length; ++p) tokens.push_back(begin + p);
      first.push_back(begin);
      last.push_back(begin + length - 1);
    }
    for (const std::vector<std::int32_t>& kept : {std::vector<std::int32_t>{0},
                                                  {last.back()},
                                                  {0, 0, 0},  // as a bucket of more texts has them
                                                  first,
                                                  last,
                                                  tokens}) {
      const std::vector<float> got = run(program, batch, kept);
      const auto columns = static_cast<std::size_t>(program.result_columns());
      ASSERT_EQ(got.size(), kept.size() * columns);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], all[static_cast<std::size_t>(kept[i / columns]) * columns + i % columns], 2e-6)
            << "row " << i / columns << " of " << kept.size() << ", column " << i % columns;
    }
  }
}

TEST(KeptRows, OfEncodersAreThoseOfAll) {
  const Model model = small_bert(2);
  const Device device = open_device("cpu");
  Graph unfused = build_bert(model);
  infer(unfused);
  expect_kept(unfused, model, device);
  expect_kept(simplify(build_bert(model)), model, device);
  expect_kept(fused_by_default(build_bert(model)), model, device);
  const Model rotary = small_modernbert();
  expect_kept(fused_by_default(build_graph(rotary)), rotary, device);
}

TEST(KeptRows, OfAModelWithoutLayersAreThoseOfAll) {
  const Model model = small_bert(0);
  expect_kept(fused_by_default(build_bert(model)), model, open_device("cpu"));
  Model decoder = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/gpt2");
  decoder.config.layers = 0;
  expect_kept(fused_by_default(build_graph(decoder, GraphResult::logits)), decoder, open_device("cpu"));
}

TEST(KeptRows, OfDecodersAreThoseOfAll) {
  for (const char* family : {"gpt2", "qwen3"}) {
    SCOPED_TRACE(family);
    const Model model = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families" / family);
    for (const GraphResult result : {GraphResult::hidden, GraphResult::logits})
      expect_kept(fused_by_default(build_graph(model, result)), model, open_device("cpu"));
  }
}

// Moments of a residual go with its rows: they are in fp32 behind values that may be of another size.
TEST(KeptRows, OfDeferredNormsAreThoseOfAll) {
  const Device device = norming_device();
  const Model model = small_bert(2);
  const Graph simplified = simplify(build_bert(model));
  expect_kept(fuse(Blocks(simplified, {&device, DType::f32}), {{"000000", "001111100001110000"}}), model, device);
  const Model rotary = small_modernbert();
  const Graph of_rotary = simplify(build_graph(rotary));
  const Blocks blocks(of_rotary, {&device, DType::f32});
  const std::vector<std::string_view> names{"embedding_norm", "product_residual_norm", "product_residual",
                                            "product_gate", "product_rope"};
  expect_kept(fuse(blocks, scheme_of_templates(blocks, names)), rotary, device);
}

// The rows of each matmul: of a layer behind the last attention those that are kept.
std::vector<std::int64_t>& rows_multiplied() {
  static std::vector<std::int64_t> rows;
  return rows;
}

TEST(KeptRows, AreAllThatIsMultipliedBehindTheLastAttention) {
  static const Backend backend = [] {
    Backend made = norming_backend();
    made.matmul.run = [](const PackedLinear&, const LinearCall& call) { rows_multiplied().push_back(call.rows); };
    return made;
  }();
  Device device = norming_device();
  device.backend = &backend;
  const Model model = small_bert(2);
  const Program program(fused_by_default(build_bert(model)), {.device = device, .longest = 96});
  const RowBatch batch = make_rows(texts_of({9, 14}), {.vocabulary = 50, .longest = 96}, false);
  const Tensor arena(DType::boolean, {program.arena_bytes(batch.rows, 2)});
  std::memset(arena.data(), 0, arena.bytes());
  rows_multiplied().clear();
  program.run(batch, arena.as<std::byte>(), std::vector<std::int32_t>{0, 9});
  EXPECT_EQ(rows_multiplied(), (std::vector<std::int64_t>{23, 23, 23, 23, 23, 2, 2, 2}));
}

}  // namespace
}  // namespace stof
