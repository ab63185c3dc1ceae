// SPDX-License-Identifier: Apache-2.0
// Every legal segment leaves the model's result as it is; the default scheme is known node by node.
#include "src/fusion/fuse.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "src/graph/build.h"
#include "src/graph/print.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/small_bert.h"
#include "tests/worst.h"

namespace stof {
namespace {

Tensor run(const Graph& graph, const Model& model, const Device& device) {
  const Program program(graph, {.device = device, .longest = model.config.max_positions});
  const RowBatch batch = make_rows(
      texts_of({7, 12}), {.vocabulary = model.config.vocab_size, .longest = model.config.max_positions}, false);
  const Tensor arena(DType::boolean, {program.arena_bytes(batch.rows) + 64});
  std::memset(arena.data(), 0, arena.bytes());
  const void* result = program.run(batch, arena.as<std::byte>());
  Tensor values(DType::f32, {batch.rows, program.result_columns()});
  std::memcpy(values.data(), result, values.bytes());
  return values;
}

double worst_difference(const Tensor& a, const Tensor& b) {
  double worst = 0;
  for (std::int64_t i = 0; i < a.size(); ++i)
    keep_worst(worst, std::abs(double{a.as<float>()[i]} - double{b.as<float>()[i]}));
  return worst;
}

// The names of the templates that it met.
std::set<std::string_view> expect_every_legal_segment_keeps_the_result(const Model& model,
                                                                       const Device& device = open_device("cpu")) {
  const Graph graph = simplify(build_graph(model));
  const Blocks blocks(graph, {&device, DType::f32});
  const Tensor want = run(graph, model, open_device("cpu"));
  std::set<std::string_view> covered;
  for (std::size_t kind = 0; kind < blocks.kinds().size(); ++kind) {
    const Scheme detached = detached_scheme(blocks);
    const std::size_t count = blocks.operators(kind).size();
    for (std::size_t begin = 0; begin < count; ++begin)
      for (std::size_t end = begin + 2; end <= count; ++end) {
        const FusionSegment segment{begin, end};
        const Template* const known = blocks.legal_template(kind, segment);
        EXPECT_EQ(known == nullptr, broken_rule(blocks, kind, segment) != nullptr)
            << kind << ": " << begin << " " << end;
        if (known == nullptr) continue;
        std::vector<FusionSegment> segments;
        for (const FusionSegment& other : segments_of(detached.bits[kind])) {
          if (other.begin == begin) segments.push_back(segment);
          else if (other.end <= begin || other.begin >= end) segments.push_back(other);
        }
        Scheme scheme = detached;
        scheme.bits[kind] = bits_of(segments);
        EXPECT_LE(worst_difference(run(fuse(blocks, scheme), model, device), want), 1e-5) << scheme.text();
        covered.insert(known->name);
      }
  }
  return covered;
}

TEST(Fuse, EveryLegalSegmentKeepsTheResult) {
  const std::filesystem::path families = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families";
  std::set<std::string_view> covered = expect_every_legal_segment_keeps_the_result(small_bert(2, "relu")), all;
  // On the CPU, and on a device that turns heads in matmuls and applies norms to their operands.
  for (const char* family : {"longformer", "modernbert", "modernbert_with_biases", "llama", "llama_with_biases",
                             "qwen3", "phi3", "phi4", "gemma2", "gemma3", "mpnet", "t5", "eurobert", "nomic"})
    for (const Device& device : {open_device("cpu"), norming_device()})
      covered.merge(expect_every_legal_segment_keeps_the_result(read_model(families / family), device));
  for (const Template& known : templates())
    if (!known.needs_moments) all.insert(known.name);
  std::erase_if(covered, [&](std::string_view name) { return !all.contains(name); });
  EXPECT_EQ(covered, all);
}

TEST(Fuse, SchemesAreReadBackFromWhatTheyMake) {
  const Model model = small_bert(2);
  const Graph graph = simplify(build_bert(model));
  const Blocks blocks(graph);
  const Scheme scheme = default_scheme(blocks);
  EXPECT_EQ(parse_scheme(scheme.text(), blocks.scheme_shape(), detached_scheme(blocks)), scheme);
  EXPECT_EQ(to_text(fuse(blocks, detached_scheme(blocks))), to_text(graph));
  EXPECT_EQ(fuse(blocks, scheme).nodes.size(), 1 + 2 * 7U);
}

}  // namespace
}  // namespace stof
