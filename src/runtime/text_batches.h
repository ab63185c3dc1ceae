// SPDX-License-Identifier: Apache-2.0
// Texts, their tokens, and which of them run together.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/tokenizer.h"
#include "src/runtime/batch.h"
#include "stof/session.h"

namespace stof {

using TokensOfTexts = std::span<const std::vector<std::int32_t>>;

struct TokenizedTexts {
  std::vector<std::vector<std::int32_t>> ids;
  std::int64_t truncated = 0;  // texts that were cut
};

struct Tokenizing {
  TextLimits limits;
  bool truncate = true;    // false: a text that is too long is an error
  std::string_view name;   // what errors call a text, before its number
  std::int64_t first = 0;  // the number of the first one
};

// Refuses what a call would, too: here texts have their names and their order.
TokenizedTexts tokenize(const Tokenizer& tokenizer, std::span<const std::string> texts, const Tokenizing& how);

// Throws invalid_argument for a text, numbered from 0, without tokens, with too many, or with one that there is not.
void check(TokensOfTexts texts, const TextLimits& limits);
void check_batch(std::int64_t batch);

// Of what a decoder is to go on behind: a place for one more token is left. Throws unsupported where there is none.
std::int64_t longest_prompt(const Session& session);

// Indices of texts, at most `most` together, from the longest texts to the shortest.
std::vector<std::vector<std::size_t>> batches_of_similar_length(TokensOfTexts texts, std::int64_t most);
TokenBatch batch_of(TokensOfTexts texts, std::span<const std::size_t> which);

// Of what embed_into writes: a text, or with Pooling::none a token, each.
std::int64_t rows_of_results(TokensOfTexts texts, Pooling pooling);
// What Session::embed gives of texts that have been checked, in their order.
void embed_into(float* out, const Session& session, TokensOfTexts texts, const EmbedOptions& options);

}  // namespace stof
