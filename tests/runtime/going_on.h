// SPDX-License-Identifier: Apache-2.0
// A small decoder with texts that go on, on a device and in a plain session that scores each text as a whole.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/generation.h"
#include "src/runtime/logit_cap.h"
#include "src/runtime/programs.h"
#include "stof/session.h"
#include "tests/runtime/random_prompts.h"
#include "tests/source_folder.h"

namespace stof {

// Scores may be away from the session's by `bound` of the largest one.
struct GoingOn {
  GoingOn(const std::string& family, const std::string& mask, const Device& device, DType dtype, double allowed)
      : GoingOn(read_model(source_folder() / "tests/data/families" / family), mask, device, dtype, allowed) {}
  GoingOn(Model decoder, const std::string& mask, const Device& device, DType dtype, double allowed)
      : bound(allowed),
        model(std::move(decoder)),
        programs(simplify(build_graph(model, GraphResult::logits)),
                 {.program = {.device = device, .dtype = dtype, .longest = kLongest}, .mask = parse(mask)}),
        host(model, {.device = "cpu", .mask = parse(mask), .logits = true}) {}

  void begin(const std::vector<std::int64_t>& lengths, std::int64_t capacity = 96, Asked asked = Asked::scores) {
    const TokenBatch prompts = random_prompts(lengths, 1);
    texts.clear();
    for (std::size_t text = 0; text < lengths.size(); ++text)
      texts.emplace_back(prompts.ids.begin() + prompts.offsets[text], prompts.ids.begin() + prompts.offsets[text + 1]);
    const GenerationPrograms all(program, programs.of_few_rows(), [this](const Bucket& bucket) -> const Program& {
      return programs.of_prompts(bucket);
    });
    generation.emplace(all, *lane, std::ssize(lengths), capacity, asked);
    expect_scores(generation->begin(make_rows(prompts, limits(), false)));
  }
  TextLimits limits() const {
    return {.vocabulary = kTokens, .longest = kLongest, .long_after = model.config.long_after()};
  }
  void go_on(std::int32_t first_token) {
    std::vector<std::int32_t> tokens;
    for (auto& text : texts) {
      tokens.push_back(first_token++ % kTokens);
      text.push_back(tokens.back());
    }
    expect_scores(generation->go_on(tokens, limits()));
  }
  void drop(std::size_t text) {
    generation->drop(static_cast<std::int64_t>(text));
    texts[text] = texts.back();
    texts.pop_back();
  }
  // As a program gives them: a session caps them behind it.
  void expect_scores(Tensor got) const {
    TokenBatch whole;
    for (const auto& text : texts) whole.add(text);
    const Tensor want = host.embed(whole, Pooling::last);
    if (got.dtype() == DType::i32) return expect_likeliest(got, want);
    ASSERT_EQ(got.shape(), want.shape());
    if (const auto& cap = model.config.logit_cap)
      cap_scores({got.as<float>(), static_cast<std::size_t>(got.size())}, *cap);
    double largest = 0;
    for (std::int64_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(double{want.as<float>()[i]}));
    for (std::int64_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], bound * largest) << "component " << i;
  }

  static void expect_likeliest(const Tensor& got, const Tensor& scores) {
    const std::int64_t columns = scores.shape()[1];
    ASSERT_EQ(got.shape(), Shape{scores.shape()[0]});
    for (std::int64_t text = 0; text < got.size(); ++text) {
      const float* const row = scores.as<float>() + text * columns;
      EXPECT_EQ(got.as<std::int32_t>()[text], std::max_element(row, row + columns) - row) << "text " << text;
    }
  }

  double bound;
  Model model;
  Programs programs;
  const Program& program = programs.by_default();
  Session host;
  GenerationLanes lanes{program.options().device};
  GenerationLanes::Lease lane = lanes.take();
  std::vector<std::vector<std::int32_t>> texts;
  std::optional<Generation> generation;
};

}  // namespace stof
