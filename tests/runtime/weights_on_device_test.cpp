// SPDX-License-Identifier: Apache-2.0
// What a device beside the host gets of a checkpoint, played by the CPU with memory of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/backend/contract.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/runtime/program.h"
#include "src/tensor/convert.h"
#include "tests/runtime/small_decoder.h"

namespace stof {
namespace {

// Where the host had what was brought.
std::vector<const std::byte*>& brought() {
  static std::vector<const std::byte*> from;
  return from;
}

std::shared_ptr<void> bring(const Device&, std::span<const std::byte> bytes, std::size_t offset) {
  brought().push_back(bytes.data());
  const auto memory =
      std::make_shared<Tensor>(DType::boolean, Shape{std::ssize(bytes) + static_cast<std::int64_t>(offset)});
  std::memcpy(memory->as<std::byte>() + offset, bytes.data(), bytes.size());
  return {memory, memory->as<std::byte>() + offset};
}

// A matmul and its matrix as rows, as a GPU has it.
struct Product {
  PackedLinear linear;
  Tensor rows;
};
const Product& product_of(const PackedLinear& packed) { return *static_cast<const Product*>(packed.get()); }

const Backend& playing_backend() {
  static const MemoryOperations memory{.copy_in = bring, .copy_out = nullptr};
  static const Backend backend = [] {
    Backend made = cpu_backend;
    made.memory = &memory;
    made.matmul.pack_matrix = nullptr;
    made.matmul.pack = [](const LinearSpec& spec) -> PackedLinear {
      return std::make_shared<const Product>(
          Product{cpu_backend.matmul.pack(spec), converted(spec.weight.front(), spec.dtype)});
    };
    made.matmul.run = [](const PackedLinear& packed, const LinearCall& call) {
      cpu_backend.matmul.run(product_of(packed).linear, call);
    };
    made.matmul.weight = [](const PackedLinear& packed) { return stored_bytes(product_of(packed).rows.view()); };
    return made;
  }();
  return backend;
}

class WeightsOnDevice : public ::testing::Test {
 protected:
  WeightsOnDevice() {
    device_.backend = &playing_backend();
    brought().clear();
    model_.config.tied_head = true;
  }
  std::vector<float> logits(const Device& device) const {
    const Program program(fused_by_default(build_graph(model_, GraphResult::logits)),
                          {.device = device, .longest = kLongest});
    const RowBatch rows = make_rows(random_prompts({9, 5}, 3), {.vocabulary = kTokens, .longest = kLongest}, false);
    Tensor arena(DType::boolean, {program.arena_bytes(rows.rows)});
    std::memset(arena.data(), 0, arena.bytes());
    const auto* const result = static_cast<const float*>(program.run(rows, arena.as<std::byte>()));
    return {result, result + rows.rows * program.result_columns()};
  }
  bool was_brought(const std::string& name) const {
    const auto* const data = static_cast<const std::byte*>(model_.weights.find(name)->second.data);
    return std::ranges::find(brought(), data) != brought().end();
  }

  Device device_ = open_device("cpu");
  Model model_ = small_decoder({});
};

TEST_F(WeightsOnDevice, TiedEmbeddingsAreThereOnce) {
  EXPECT_EQ(logits(device_), logits(open_device("cpu")));
  EXPECT_FALSE(was_brought("embed_tokens.weight"));  // the matmul has them
}

TEST_F(WeightsOnDevice, WhatIsToBeAsItLiesIsNotCopiedOnTheHost) {
  logits(device_);
  EXPECT_TRUE(was_brought("norm.weight"));
  model_.config.tied_head = false;
  const std::shared_ptr<const void> first_weights = model_.mapping;
  RandomWeights(model_).add("lm_head.weight", {kTokens, model_.config.hidden_size}, 0, 1);
  brought().clear();
  logits(device_);
  EXPECT_TRUE(was_brought("embed_tokens.weight"));
}

}  // namespace
}  // namespace stof
