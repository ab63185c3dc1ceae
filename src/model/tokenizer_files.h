// SPDX-License-Identifier: Apache-2.0
// What the files of a checkpoint say about its tokenizer, read from tokenizer.json or else from vocab.txt and
// tokenizer_config.json. What is not understood is refused by name, for it could change ids.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/model/added_tokens.h"
#include "src/model/byte_level.h"
#include "src/model/normalizer.h"
#include "src/model/piece_trie.h"
#include "src/model/wordpiece.h"

namespace stof {

struct TokenizerFiles {
  NormalizerOptions normalizer;
  WordPieceOptions wordpiece;
  std::vector<Piece> pieces;
  std::optional<ByteLevelOptions> byte_level;  // in place of the three above
  bool composes = false;                       // with byte_level: texts are brought to form NFC first
  std::vector<AddedToken> added;               // contents as in the file
  std::vector<std::int32_t> before, behind;    // ids put around every text: [CLS], [SEP]
  // "FILE: 'KEY' is VALUE", where it says that texts which are too long lose their beginning; else empty.
  std::string cuts_left = {};
};

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder);
TokenizerFiles read_tokenizer_json(const std::filesystem::path& file);
TokenizerFiles read_vocabulary(const std::filesystem::path& vocabulary, const std::filesystem::path& config);

}  // namespace stof
