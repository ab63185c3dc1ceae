// SPDX-License-Identifier: Apache-2.0
// What sentence-transformers says of the Transformer itself: how long its texts are, and what else changes results.
#pragma once
#include <cstdint>
#include <filesystem>

namespace stof {

// sentence_bert_config.json, or the first of its older names that says anything; else what tokenizer_config.json has.
// At most max_positions. What else of the file changes results is refused by name.
std::int64_t read_max_tokens(const std::filesystem::path& folder, std::int64_t max_positions);

// sentence-transformers lowercases texts first where the file has `do_lower_case` and the tokenizer does not do so by
// itself. Throws unsupported there.
void check_lower_case(const std::filesystem::path& folder, bool tokenizer_lowercases);

}  // namespace stof
