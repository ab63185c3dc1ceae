// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/base/error.h"
#include "src/runtime/bucket.h"
#include "src/runtime/logit_cap.h"
#include "src/runtime/sampling.h"

namespace stof {
namespace {

class Texts {
 public:
  explicit Texts(const GenerateCall& call)
      : call_(call),
        prompts_(make_rows(call.prompts, call.limits, false)),
        made_(static_cast<std::size_t>(prompts_.texts)) {
    who_.resize(made_.size());
    std::iota(who_.begin(), who_.end(), std::size_t{0});
    for (const std::int32_t length : prompts_.lengths) {
      check_room(std::ssize(room_), length, call.limits);
      room_.push_back(std::min(call.options.tokens, call.limits.longest - length));
    }
  }

  std::vector<std::vector<std::int32_t>> run(GenerationLane& lane) {
    const Asked asked = call_.options.temperature == 0 ? Asked::likeliest : Asked::scores;
    Generation generation(call_.programs, lane, prompts_.texts, capacity(), asked);
    Tensor found = generation.begin(prompts_);
    while (true) {
      std::vector<std::int32_t> tokens = next(found);
      if (all_end_) return std::move(made_);
      // From the last one on: what takes the place of one that is dropped has been looked at.
      for (std::size_t i = who_.size(); i-- > 0;) {
        if (!has_ended(who_[i])) continue;
        generation.drop(static_cast<std::int64_t>(i));
        who_[i] = who_.back(), tokens[i] = tokens.back();
        who_.pop_back(), tokens.pop_back();
      }
      if (who_.empty()) return std::move(made_);
      found = generation.go_on(tokens, call_.limits);
    }
  }

 private:
  // Rounded up, so that plans serve other calls.
  std::int64_t capacity() const {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < room_.size(); ++i) most = std::max(most, prompts_.lengths[i] + room_[i]);
    return bucket_rows(most);
  }

  // By what the generation has found of each text: all scores, or the likeliest token. Those after one that ends all
  // are not heeded.
  std::vector<std::int32_t> next(Tensor& found) {
    std::vector<std::int32_t> tokens =
        found.dtype() == DType::i32 ? std::vector(found.as<std::int32_t>(), found.as<std::int32_t>() + found.size())
                                    : chosen(found);
    for (std::size_t i = 0; i < who_.size() && !all_end_; ++i) {
      const std::int64_t number = call_.numbers[who_[i]];
      if (tokens[i] < 0) fail(ErrorKind::invalid_argument, "a score of text {} is NaN", number);
      made_[who_[i]].push_back(tokens[i]);
      if (call_.options.token) call_.options.token(number, tokens[i]);
      if (call_.options.stop) heed(call_.options.stop(number, tokens[i]), who_[i]);
    }
    return tokens;
  }
  void heed(Stop stop, std::size_t text) {
    switch (stop) {
      case Stop::nothing: return;
      case Stop::text: room_[text] = std::ssize(made_[text]); return;
      case Stop::all: all_end_ = true; return;
    }
  }
  // A token takes 2 ms of a processor where it is chosen among 150,000 by chance, longer than a step of one text takes.
  std::vector<std::int32_t> chosen(Tensor& found) const {
    const GenerateOptions& options = call_.options;
    const std::span scores(found.as<float>(), static_cast<std::size_t>(found.size()));
    if (call_.logit_cap && options.temperature > 0) cap_scores(scores, *call_.logit_cap);
    std::vector<double> chances;
    for (const std::size_t text : who_)
      chances.push_back(chance_of(options.seed, call_.numbers[text], std::ssize(made_[text])));
    return next_tokens(scores, {options.temperature, options.top_k, options.top_p}, chances);
  }

  bool has_ended(std::size_t text) const {
    const std::vector<std::int32_t>& made = made_[text];
    return std::ssize(made) >= room_[text] ||
           std::find(call_.ends.begin(), call_.ends.end(), made.back()) != call_.ends.end();
  }

  const GenerateCall& call_;
  RowBatch prompts_;
  std::vector<std::vector<std::int32_t>> made_;
  std::vector<std::int64_t> room_;
  std::vector<std::size_t> who_;  // texts that have not ended, as the generation numbers them
  bool all_end_ = false;
};

}  // namespace

void check(const GenerateOptions& options) {
  if (options.tokens < 1) fail(ErrorKind::invalid_argument, "tokens = {}; accepted: 1 or more", options.tokens);
  if (options.batch < 1) fail(ErrorKind::invalid_argument, "batch = {}; accepted: 1 or more", options.batch);
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    fail(ErrorKind::invalid_argument, "temperature = {}; accepted: 0 or more", options.temperature);
  if (options.top_k < 0) fail(ErrorKind::invalid_argument, "top_k = {}; accepted: 0 (all) or more", options.top_k);
  if (!(options.top_p > 0) || options.top_p > 1)
    fail(ErrorKind::invalid_argument, "top_p = {}; accepted: above 0, up to 1", options.top_p);
}

void check_room(std::int64_t text, std::int64_t length, const TextLimits& limits) {
  if (length >= limits.longest)
    fail(ErrorKind::invalid_argument, "text {} has {} tokens, and no room for one more; accepted: at most {}", text,
         length, limits.longest - 1);
}

std::vector<std::vector<std::int32_t>> generate_tokens(const GenerateCall& call) {
  for (const std::int32_t end : call.ends)
    if (end < 0 || end >= call.limits.vocabulary)
      fail(ErrorKind::invalid_argument, "a text is to end behind token {}; accepted: 0 to {}", end,
           call.limits.vocabulary - 1);
  if (call.prompts.texts() == 0) return {};
  Texts texts(call);
  GenerationLanes::Lease lane = call.lanes.take();
  std::vector<std::vector<std::int32_t>> made = texts.run(*lane);
  lane.keep();
  return made;
}

}  // namespace stof
