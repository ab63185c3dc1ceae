// SPDX-License-Identifier: Apache-2.0
// What the files of a checkpoint say about its tokenizer, read from tokenizer.json or else from vocab.txt and
// tokenizer_config.json. What is not understood is refused by name, for it could change ids.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/model/added_tokens.h"
#include "src/model/byte_level.h"
#include "src/model/character_level.h"
#include "src/model/character_map.h"
#include "src/model/marked_spaces.h"
#include "src/model/normalizer.h"
#include "src/model/piece_trie.h"
#include "src/model/token_decoder.h"
#include "src/model/unigram.h"
#include "src/model/wordpiece.h"

namespace stof {

// What the normalizer of a tokenizer with BPE does: nothing, compose (form NFC), mark each space and the beginning, or
// each space alone.
enum class TextForm : std::uint8_t { as_is, composed, marked, marked_spaces };

// What is done to a text in front of Unigram.
struct SentenceForm {
  std::shared_ptr<const CharacterMap> map = {};  // null: none
  bool strips_end = false;                       // of white space
  std::string run = {};                          // what two spaces and more become; empty: they stay
};

struct TokenizerFiles {
  NormalizerOptions normalizer;
  WordPieceOptions wordpiece;
  std::vector<Piece> pieces;
  std::optional<ByteLevelOptions> byte_level = {};            // in place of the three above
  std::optional<CharacterLevelOptions> character_level = {};  // in place of the same
  std::optional<UnigramOptions> unigram = {};                 // in place of the same
  TextForm form = TextForm::as_is;                            // with one of the first two: what texts are brought to
  std::optional<SentenceForm> sentence_form = {};             // with unigram
  bool splits_at_white_space = false;                         // with unigram: words are what stands between
  std::optional<Prepend> metaspace = {};     // with character_level and unigram: spaces are marked behind that
  bool splits_at_marks = false;              // then: a word begins at each mark
  std::vector<AddedToken> added;             // contents as in the file
  std::vector<std::int32_t> before, behind;  // ids put around every text: [CLS], [SEP]
  // "FILE: 'KEY' is VALUE", where it says that texts which are too long lose their beginning; else empty.
  std::string cuts_left = {};
  TokenDecoder decoder = {};

  bool has_word_pieces() const { return !byte_level && !character_level && !unigram; }
};

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder);
TokenizerFiles read_tokenizer_json(const std::filesystem::path& file);
TokenizerFiles read_vocabulary(const std::filesystem::path& vocabulary, const std::filesystem::path& config);

}  // namespace stof
