// SPDX-License-Identifier: Apache-2.0
// What a device beside the host gets of a checkpoint, played by the CPU with memory of its own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/backend/contract.h"
#include "src/base/memory.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "src/runtime/programs.h"
#include "src/tensor/convert.h"
#include "tests/expect_error.h"
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

// 70 billion parameters are 140 GB, of which 80 were read before a GPU was found to be full.
TEST_F(WeightsOnDevice, MoreThanIsLeftIsRefusedBeforeItIsRead) {
  static const MemoryOperations full{
      .copy_in = bring, .copy_out = nullptr, .left = [](const Device&) -> std::int64_t { return 1000; }};
  static const Backend backend = [] {
    Backend made = playing_backend();
    made.memory = &full;
    return made;
  }();
  device_.backend = &backend;
  device_.caps.name = "a small GPU";
  const Graph graph = simplify(build_graph(model_, GraphResult::logits));
  std::int64_t values = 0;
  for (const auto& [name, tensor] : model_.weights) values += element_count(tensor.shape);
  EXPECT_ERROR(Programs(graph, {.program = {.device = device_, .dtype = DType::bf16, .longest = kLongest}}),
               ErrorKind::device,
               fmt::format("out of memory on a small GPU: the weights need {} bytes in bf16; accepted: at most 1000, "
                           "which are left",
                           2 * values));
  EXPECT_TRUE(brought().empty());
}

TEST(WeightsOnHost, MoreThanTheMachineHasIsRefusedBeforeItIsRead) {
  constexpr std::int64_t kVocabulary = 2'000'000'000;
  Model model = small_decoder({});
  model.config.tied_head = true, model.config.vocab_size = kVocabulary;
  TensorView& table = model.weights.find("embed_tokens.weight")->second;
  table = view_of(table.data, DType::f32, {kVocabulary, model.config.hidden_size});  // of which a little is there
  const Graph graph = simplify(build_graph(model, GraphResult::logits));
  EXPECT_ERROR(
      Programs(graph, {.program = {.device = open_device("cpu"), .longest = kLongest}}), ErrorKind::device,
      fmt::format("the matrices of this model in f32: 7.68e+11 bytes; accepted: at most {}, the memory of this "
                  "machine",
                  memory_limit()));
}

}  // namespace
}  // namespace stof
