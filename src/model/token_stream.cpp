// SPDX-License-Identifier: Apache-2.0
#include "src/model/token_stream.h"

#include <array>
#include <charconv>
#include <optional>

#include "src/base/error.h"
#include "src/model/byte_level.h"
#include "src/model/marked_spaces.h"
#include "src/model/unicode.h"

namespace stof {
namespace {

// Of <0xE4>. The definition reads two digits of either case, or one behind a plus.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return {};
  std::string_view digits = token.substr(3, 2);
  if (digits[0] == '+') digits.remove_prefix(1);
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return static_cast<char>(byte);
}

struct Replacement {
  std::string_view from, to;
};

// In this order, each in what the ones before left.
constexpr std::array<Replacement, 11> kCleanup{{{" .", "."},
                                                {" ?", "?"},
                                                {" !", "!"},
                                                {" ,", ","},
                                                {" ' ", "'"},
                                                {" n't", "n't"},
                                                {" 'm", "'m"},
                                                {" do not", " don't"},
                                                {" 's", "'s"},
                                                {" 've", "'ve"},
                                                {" 're", "'re"}}};

std::string replaced(std::string_view text, const Replacement& by) {
  std::string result;
  for (std::size_t at; (at = text.find(by.from)) != text.npos; text.remove_prefix(at + by.from.size()))
    result.append(text.substr(0, at)).append(by.to);
  return result.append(text);
}

}  // namespace

TokenStream::TokenStream(const Tokenizer& tokenizer, DecodeOptions options)
    : decoder_(&tokenizer.decoder()), special_(options.special) {
  if (!decoder_->refusal.empty()) throw Error(ErrorKind::unsupported, decoder_->refusal);
}

std::string TokenStream::add(std::int32_t id) {
  const std::optional<TokenTexts::Token> token = decoder_->texts->find(id);
  if (!token)
    fail(ErrorKind::invalid_argument, "id {} has no token; accepted: ids of the {} tokens of the vocabulary, up to {}",
         id, decoder_->texts->size(), decoder_->texts->last_id());
  std::string text;
  if (token->special && special_ == SpecialTokens::skipped) return text;
  std::visit([&](const auto& kind) { append(kind, token->text, text); }, decoder_->decoding);
  first_token_ = false;
  return text;
}

std::string TokenStream::finish() {
  std::string text;
  if (const auto* kind = std::get_if<decoding::ByteFallback>(&decoder_->decoding)) {
    append_pending_bytes(text);
    begin(*kind, text);
  } else if (!pending_.empty()) {
    text = unicode::kReplacement;
  }
  pending_.clear();
  first_token_ = true;
  begun_ = false;
  return text;
}

void TokenStream::append(const decoding::Spaced&, std::string_view token, std::string& text) {
  if (!first_token_) text += ' ';
  text += token;
}

void TokenStream::append(const decoding::Bytes&, std::string_view token, std::string& text) {
  if (!ByteLevel::append_bytes(token, pending_)) pending_ += token;
  pending_.erase(0, unicode::append_repaired(text, pending_));
}

void TokenStream::append(const decoding::ByteFallback& kind, std::string_view token, std::string& text) {
  if (const std::optional<char> byte = byte_of(token)) {
    pending_ += *byte;
    return;
  }
  append_pending_bytes(text);
  append_unmarked(token, " ", text);
  begin(kind, text);
}

void TokenStream::begin(const decoding::ByteFallback& kind, std::string& text) {
  if (begun_ || text.empty()) return;
  begun_ = true;
  if (kind.strips_space && text[0] == ' ') text.erase(0, 1);
}

// One invalid byte makes all of them invalid.
void TokenStream::append_pending_bytes(std::string& text) {
  if (unicode::find_invalid(pending_) == std::string::npos) text += pending_;
  else
    for (std::size_t i = 0; i < pending_.size(); ++i) text += unicode::kReplacement;
  pending_.clear();
}

void TokenStream::append(const decoding::Metaspace& kind, std::string_view token, std::string& text) {
  append_unmarked(token, first_token_ && kind.drops_first ? "" : " ", text);
}

void TokenStream::append(const decoding::Pieces& kind, std::string_view token, std::string& text) {
  if (!first_token_) {
    if (token.starts_with(kind.prefix)) token.remove_prefix(kind.prefix.size());
    else text += ' ';
  }
  text += token;
  if (kind.cleanup)
    for (const Replacement& by : kCleanup) text = replaced(text, by);
}

}  // namespace stof
