// SPDX-License-Identifier: Apache-2.0
// What the readers of the parts of tokenizer.json share.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "src/model/json.h"
#include "src/model/tokenizer_files.h"

namespace stof {

// Throws unsupported for another "type".
void check_type(const JsonObject& object, std::string_view accepted);
bool is_id(const nlohmann::json& value);
// Throws bad_file naming `where`.
std::int32_t read_id(const nlohmann::json& value, std::string_view where);

// Of a tokenizer whose model is Unigram: ids by piece, as other models have their vocabulary; checked. Then the rest.
nlohmann::json ids_of_pieces(const JsonObject& model);
void read_unigram(const JsonObject& root, TokenizerFiles& files);
// Of a tokenizer whose model is BPE.
void read_bpe(const JsonObject& root, TokenizerFiles& files);
// normalizer and pre_tokenizer, by which it is byte_level or character_level.
void read_bpe_text(const JsonObject& root, TokenizerFiles& files);
// Of a Metaspace with U+2581: always, first, never.
std::string read_prepend_scheme(const JsonObject& metaspace);
void read_post_processor(const JsonObject& root, TokenizerFiles& files);
// Of a vocabulary whose ids have been checked; views of it.
std::vector<TokenTexts::Token> tokens_of(const nlohmann::json& vocabulary);
// Of a decoder that is not understood only the reason: texts become ids all the same.
void read_decoder(const JsonObject& root, const nlohmann::json& vocabulary, TokenizerFiles& files);
// All tokens of byte_level, also those that no merge makes, if words that are tokens are not merged.
void read_words(const JsonObject& root, TokenizerFiles& files);

}  // namespace stof
