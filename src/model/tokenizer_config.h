// SPDX-License-Identifier: Apache-2.0
// What stands beside tokenizer.json or vocab.txt, and what transformers makes of it: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, and the class of the tokenizer, which may have options of its own.
#pragma once
#include <filesystem>

#include "src/model/tokenizer_files.h"

namespace stof {

// Throws unsupported where they contradict what was read, or name tokens that it has not: ids would be others.
void check_tokenizer_config(const std::filesystem::path& folder, const TokenizerFiles& files);

// Other classes read vocab.txt, too, and split texts otherwise. Throws unsupported.
void check_class_of_vocabulary(const std::filesystem::path& folder);

}  // namespace stof
