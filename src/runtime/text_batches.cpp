// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/text_batches.h"

#include <algorithm>
#include <numeric>

#include "src/base/error.h"

namespace stof {

TokenizedTexts tokenize(const Tokenizer& tokenizer, std::span<const std::string> texts, const Tokenizing& how) {
  TokenizedTexts result;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::int64_t number = how.first + static_cast<std::int64_t>(i);
    Tokenizer::Truncated tokens = tokenizer.encode(texts[i], how.limits.longest);
    if (tokens.truncated && !how.truncate)
      fail(ErrorKind::invalid_argument, "{} {} has {} tokens; accepted without truncation: at most {}", how.name,
           number, tokenizer.encode(texts[i]).size(), how.limits.longest);
    if (tokens.ids.empty())
      fail(ErrorKind::invalid_argument, "{} {} has no tokens; accepted: 1 or more", how.name, number);
    const auto outside = std::ranges::find_if(tokens.ids, [&](std::int32_t id) { return id >= how.limits.vocabulary; });
    if (outside != tokens.ids.end())
      fail(ErrorKind::invalid_argument, "{} {}: its token {} has id {}; accepted: 0 to {}, by the model's vocab_size",
           how.name, number, outside - tokens.ids.begin() + how.first, *outside, how.limits.vocabulary - 1);
    result.truncated += tokens.truncated;
    result.ids.push_back(std::move(tokens.ids));
  }
  return result;
}

void check(TokensOfTexts texts, const TextLimits& limits) {
  for (std::size_t text = 0; text < texts.size(); ++text) {
    const std::vector<std::int32_t>& ids = texts[text];
    if (ids.empty() || std::ssize(ids) > limits.longest)
      fail(ErrorKind::invalid_argument, "text {} has {} tokens; accepted: 1 to {}", text, ids.size(), limits.longest);
    const auto outside = std::ranges::find_if(ids, [&](std::int32_t id) { return id < 0 || id >= limits.vocabulary; });
    if (outside != ids.end())
      fail(ErrorKind::invalid_argument, "text {}: its token {} has id {}; accepted: 0 to {}", text,
           outside - ids.begin(), *outside, limits.vocabulary - 1);
  }
}

void check_batch(std::int64_t batch) {
  if (batch < 1) fail(ErrorKind::invalid_argument, "batch = {}; accepted: 1 or more", batch);
}

std::int64_t longest_prompt(const Session& session) {
  const std::int64_t longest = std::min(session.max_tokens(), session.positions() - 1);
  if (longest < 1)
    fail(ErrorKind::unsupported, "a model of {} positions; accepted for going on: 2 or more", session.positions());
  return longest;
}

std::vector<std::vector<std::size_t>> batches_of_similar_length(TokensOfTexts texts, std::int64_t most) {
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return texts[i].size(); });
  std::vector<std::vector<std::size_t>> batches;
  for (auto next = order.begin(); next != order.end();) {
    const auto end = next + std::min<std::int64_t>(most, order.end() - next);
    batches.emplace_back(next, end);
    next = end;
  }
  return batches;
}

TokenBatch batch_of(TokensOfTexts texts, std::span<const std::size_t> which) {
  TokenBatch batch;
  for (const std::size_t text : which) batch.add(texts[text]);
  return batch;
}

std::int64_t rows_of_results(TokensOfTexts texts, Pooling pooling) {
  if (pooling != Pooling::none) return std::ssize(texts);
  std::int64_t rows = 0;
  for (const auto& ids : texts) rows += std::ssize(ids);
  return rows;
}

void embed_into(float* out, const Session& session, TokensOfTexts texts, const EmbedOptions& options) {
  const Pooling pooling = options.pooling.value_or(session.pooling());
  const std::int64_t columns = session.columns(pooling);
  const auto rows_of = [&](std::size_t text) { return pooling == Pooling::none ? std::ssize(texts[text]) : 1; };
  std::vector<std::int64_t> first_row(texts.size());
  std::int64_t rows = 0, done = 0;
  for (std::size_t text = 0; text < texts.size(); ++text) {
    first_row[text] = rows;
    rows += rows_of(text);
  }
  for (const std::vector<std::size_t>& together : batches_of_similar_length(texts, options.batch)) {
    const Tensor values = session.embed(batch_of(texts, together), pooling);
    const float* next = values.as<float>();
    for (const std::size_t text : together) {
      const std::int64_t count = rows_of(text) * columns;
      std::copy_n(next, count, out + first_row[text] * columns);
      next += count;
    }
    if (options.progress) options.progress(done += std::ssize(together));
  }
}

}  // namespace stof
