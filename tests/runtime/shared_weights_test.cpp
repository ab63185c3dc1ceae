// SPDX-License-Identifier: Apache-2.0
// Programs of one model whose schemes differ: each matrix is packed once for all that follows its product.
#include <gtest/gtest.h>

#include <cstring>

#include "src/backend/contract.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "tests/runtime/small_bert.h"
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
