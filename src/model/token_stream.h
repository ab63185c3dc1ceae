// SPDX-License-Identifier: Apache-2.0
// The text of ids that come one by one, as a model generates them. What add() and finish() give, joined, is what
// Tokenizer::decode gives of all ids.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "src/model/token_decoder.h"
#include "src/model/tokenizer.h"

namespace stof {

class TokenStream {
 public:
  // `tokenizer`, which may be moved, outlives it. Throws unsupported where its decoder is not understood.
  explicit TokenStream(const Tokenizer& tokenizer, DecodeOptions options = {});

  // The text that is certain by now, from where the last call ended: whole characters, or nothing while bytes of one
  // are missing. Byte tokens of Llama 2 (<0xE4>) wait for another token: one invalid byte makes U+FFFD of all that
  // stand together. Throws invalid_argument for an id that has no token, and is as before then.
  std::string add(std::int32_t id);

  // The rest: U+FFFD for what stayed incomplete. The next id begins another text.
  std::string finish();

 private:
  void append(const decoding::Spaced&, std::string_view token, std::string& text);
  void append(const decoding::Bytes&, std::string_view token, std::string& text);
  void append(const decoding::ByteFallback&, std::string_view token, std::string& text);
  void append(const decoding::Metaspace&, std::string_view token, std::string& text);
  void append(const decoding::Pieces&, std::string_view token, std::string& text);
  void append_pending_bytes(std::string& text);
  void begin(const decoding::ByteFallback& kind, std::string& text);  // `text` comes next

  const TokenDecoder* decoder_;
  SpecialTokens special_;
  std::string pending_;      // bytes that are not text yet
  bool first_token_ = true;  // none has come that is not skipped
  bool begun_ = false;       // text has come
};

}  // namespace stof
