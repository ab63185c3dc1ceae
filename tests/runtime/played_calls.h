// SPDX-License-Identifier: Apache-2.0
// Calls that let texts go on, on a device beside the host that the CPU plays, with lanes of their own; and what a plain
// session says to the same prompts.
#pragma once
#include <gtest/gtest.h>

#include <numeric>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/runtime/generate.h"
#include "tests/runtime/random_prompts.h"
#include "tests/runtime/recording_device.h"
#include "tests/source_folder.h"

namespace stof {

// A model on the played device, and in a plain session.
struct PlayedCalls {
  using Ids = std::vector<std::int32_t>;

  explicit PlayedCalls(const Device& on = recording_device())
      : model(read_model(source_folder() / "tests/data/families/llama")),
        program(fused_by_default(build_graph(model, GraphResult::logits)), {.device = on, .longest = kLongest}),
        host(model, {.device = "cpu", .logits = true}) {}

  std::vector<Ids> generate(const std::vector<std::int64_t>& lengths, const GenerateOptions& options) {
    const TokenBatch prompts = random_prompts(lengths, 3);
    std::vector<std::int64_t> numbers(lengths.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    return generate_tokens({.programs = GenerationPrograms(program),
                            .lanes = lanes,
                            .limits = {.vocabulary = kTokens, .longest = kLongest},
                            .prompts = prompts,
                            .numbers = numbers,
                            .ends = {},
                            .options = options});
  }
  void expect_right(const std::vector<std::int64_t>& lengths, GenerateOptions options = {.tokens = 9}) {
    options.ends = Ids{};
    EXPECT_EQ(generate(lengths, options), host.generate(random_prompts(lengths, 3), options));
  }

  Model model;
  Program program;
  Session host;
  GenerationLanes lanes{program.options().device};
};

}  // namespace stof
