// SPDX-License-Identifier: Apache-2.0
// What makes a text of tokens: their texts, and what is done with them, by the `decoder` of tokenizer.json. The Python
// package `tokenizers` defines each kind.
#pragma once
#include <memory>
#include <string>
#include <variant>

#include "src/model/token_texts.h"

namespace stof {

namespace decoding {

struct Spaced {};  // without a decoder: a space between tokens

struct Bytes {};  // ByteLevel: characters are bytes; a token with a character that is none stands for itself

struct ByteFallback {  // <0xE4> is a byte, and U+2581 a space
  bool strips_space;   // one, where the text begins with it
};

struct Metaspace {   // U+2581 is a space
  bool drops_first;  // all of them in the first token
};

struct Pieces {               // WordPiece: a space before a token without the prefix, but for the first
  std::string prefix = "##";  // which the first one keeps
  bool cleanup = true;        // no space before punctuation and endings like 's
};

}  // namespace decoding

using Decoding =
    std::variant<decoding::Spaced, decoding::Bytes, decoding::ByteFallback, decoding::Metaspace, decoding::Pieces>;

struct TokenDecoder {
  std::shared_ptr<const TokenTexts> texts = {};
  Decoding decoding = {};
  std::string refusal = {};  // why it is not understood; else empty
};

}  // namespace stof
