// SPDX-License-Identifier: Apache-2.0
// Programs of one model whose schemes differ: each matrix is packed once for all that follows its product.
#include <gtest/gtest.h>

#include <cstring>

#include "src/backend/contract.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/random_prompts.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_decoder.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

// What the CPU has packed.
std::vector<std::weak_ptr<const void>>& matrices() {
  static std::vector<std::weak_ptr<const void>> packed;
  return packed;
}
std::ptrdiff_t held() {
  return std::count_if(matrices().begin(), matrices().end(), [](const auto& matrix) { return !matrix.expired(); });
}

const Backend& noting_backend() {
  static const Backend backend = [] {
    Backend made = cpu_backend;
    made.matmul.pack_matrix = [](const LinearSpec& spec) {
      PackedMatrix matrix = cpu_backend.matmul.pack_matrix(spec);
      matrices().push_back(matrix);
      return matrix;
    };
    return made;
  }();
  return backend;
}

class SharedWeights : public ::testing::Test {
 protected:
  explicit SharedWeights(Model model = small_bert()) : model_(std::move(model)) {
    device_.backend = &noting_backend();
    matrices().clear();
  }

  std::unique_ptr<Program> program(const Scheme& scheme, std::shared_ptr<WeightStore> weights) const {
    return std::make_unique<Program>(fuse(blocks_, scheme),
                                     ProgramOptions{.device = device_, .longest = 96, .weights = std::move(weights)});
  }
  // As it does with weights of its own.
  void expect_right(const Program& program, const Scheme& scheme) const {
    EXPECT_EQ(result_of(program), result_of(*this->program(scheme, nullptr)));
  }
  static std::vector<float> result_of(const Program& program) {
    const RowBatch rows = make_rows(texts_of({9, 30}), {.vocabulary = 50, .longest = 96}, false);
    Tensor arena(DType::boolean, {program.arena_bytes(rows.rows)});
    std::memset(arena.data(), 0, arena.bytes());
    const auto* const result = static_cast<const float*>(program.run(rows, arena.as<std::byte>()));
    return {result, result + rows.rows * program.result_columns()};
  }

  Device device_ = open_device("cpu");
  Model model_;
  Graph graph_ = simplify(build_graph(model_));
  Blocks blocks_{graph_, {&device_, DType::f32}};
  Scheme fused_ = default_scheme(blocks_), detached_ = detached_scheme(blocks_);
  std::shared_ptr<WeightStore> weights_ = std::make_shared<WeightStore>();
};

TEST_F(SharedWeights, AMatrixIsPackedOnceForEveryEpilogue) {
  const auto fused = program(fused_, weights_);
  EXPECT_EQ(matrices().size(), 2U * 4U);
  const auto detached = program(detached_, weights_);
  EXPECT_EQ(matrices().size(), 2U * 4U);
  expect_right(*fused, fused_);
  expect_right(*detached, detached_);
}

TEST_F(SharedWeights, WhatAnotherSchemeUsesIsNotDropped) {
  const auto fused = program(fused_, weights_);
  const std::size_t of_one = weights_->size();
  program(detached_, weights_).reset();
  EXPECT_GT(weights_->size(), of_one);
  weights_->drop_unused();
  EXPECT_EQ(weights_->size(), of_one);
  EXPECT_EQ(held(), 2 * 4);
  const auto detached = program(detached_, weights_);
  EXPECT_EQ(matrices().size(), 2U * 4U);
  expect_right(*detached, detached_);
}

// Matrices with the matmuls that hold them, whichever of the two the store sees first.
TEST_F(SharedWeights, WhatNobodyUsesIsDroppedAtOnce) {
  program(fused_, weights_).reset();
  program(detached_, weights_).reset();
  EXPECT_EQ(held(), 2 * 4);
  weights_->drop_unused();
  EXPECT_EQ(weights_->size(), 0U);
  EXPECT_EQ(held(), 0);
}

class SharedGates : public SharedWeights {
 protected:
  SharedGates() : SharedWeights(small_modernbert()) {}
};

// On a device whose gates are paired, wherever they are.
class PairedGates : public ::testing::Test {
 protected:
  PairedGates() {
    device_.backend = &pairing_backend();
    matrices().clear();
  }

  static const Backend& pairing_backend() {
    static const Backend backend = [] {
      Backend made = norming_backend();
      made.matmul.few_rows = 16;
      made.matmul.takes = [](const LinearSpec& spec) { return !spec.own_norm && norming_backend().matmul.takes(spec); };
      made.matmul.pack_matrix = [](const LinearSpec& spec) -> PackedMatrix {
        std::int64_t rows = 0;
        for (const TensorView& part : spec.weight) rows += part.dim(0);
        const auto matrix = std::make_shared<const std::int64_t>(rows);
        if (rows == kGateRows) matrices().push_back(matrix);
        return matrix;
      };
      return made;
    }();
    return backend;
  }

  std::vector<float> result_of(const Graph& fused) {
    programs_.push_back(
        std::make_unique<Program>(fused, ProgramOptions{.device = device_, .longest = kLongest, .weights = weights_}));
    const Program& program = *programs_.back();
    const RowBatch rows = make_rows(random_prompts({5, 9}, 1), {.vocabulary = kTokens, .longest = kLongest}, false);
    Tensor arena(DType::boolean, {program.arena_bytes(rows.rows)});
    std::memset(arena.data(), 0, arena.bytes());
    const auto* const result = static_cast<const float*>(program.run(rows, arena.as<std::byte>()));
    return {result, result + rows.rows * program.result_columns()};
  }

  static constexpr std::int64_t kGateRows = 320;  // of both halves; no other matrix has as many
  Device device_ = norming_device();
  Model model_ = small_decoder({4, 2, 64, false});
  Graph graph_ = simplify(build_graph(model_));
  std::shared_ptr<WeightStore> weights_ = std::make_shared<WeightStore>();
  std::vector<std::unique_ptr<Program>> programs_;
};

template <class Predicate>
std::ptrdiff_t count(const Graph& graph, Predicate&& wanted) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), wanted);
}

// The gate behind its product, inside it, and inside one for few rows.
TEST_F(PairedGates, OneMatrixServesEveryProgram) {
  const Blocks any(graph_, {&device_, DType::f32}),
      few(graph_, {.device = &device_, .dtype = DType::f32, .few_rows = true});
  const Graph behind = fuse(any, detached_scheme(any)), inside = fuse(any, few_rows_scheme(any)),
              inside_of_few = fuse(few, few_rows_scheme(few));
  const std::ptrdiff_t layers = model_.config.layers;
  EXPECT_EQ(count(behind, [](const Node& node) { return std::holds_alternative<op::Gate>(node.op); }), layers);
  for (const Graph* const graph : {&inside, &inside_of_few})
    EXPECT_EQ(count(*graph,
                    [&](const Node& node) {
                      const auto* linear = std::get_if<op::Linear>(&node.op);
                      return linear != nullptr && linear->gate && linear->few_rows == (graph == &inside_of_few);
                    }),
              layers);
  const std::vector<float> want = result_of(behind);
  for (const Graph* const graph : {&inside, &inside_of_few}) {
    const std::vector<float> got = result_of(*graph);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
  }
  EXPECT_EQ(std::ssize(matrices()), layers);
  EXPECT_EQ(held(), layers);
}

// Panels have both halves of a gate side by side.
TEST_F(SharedGates, AnotherOrderIsAnotherMatrix) {
  const auto detached = program(detached_, weights_);
  EXPECT_EQ(matrices().size(), 4U * 4U);
  const auto fused = program(fused_, weights_);
  EXPECT_EQ(matrices().size(), 4U * 4U + 4U);
  expect_right(*fused, fused_);
  expect_right(*detached, detached_);
}

}  // namespace
}  // namespace stof
