// SPDX-License-Identifier: Apache-2.0
#include "src/model/tokenizer.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <variant>

#include "src/base/error.h"
#include "src/model/added_tokens.h"
#include "src/model/byte_level.h"
#include "src/model/character_level.h"
#include "src/model/marked_spaces.h"
#include "src/model/normalizer.h"
#include "src/model/token_decoder.h"
#include "src/model/token_stream.h"
#include "src/model/tokenizer_files.h"
#include "src/model/unicode.h"
#include "src/model/unigram.h"
#include "src/model/wordpiece.h"

namespace stof {
namespace {

// Appends the normalised text; empty: texts stay as they are.
using Normalize = std::function<void(std::string_view text, std::string& out)>;

// Runs of spaces are found in what is appended alone, as in the definition: in a part of a text.
void append_formed(const SentenceForm& form, std::string_view text, std::string& out) {
  std::string mapped;
  if (form.map) form.map->append(text, mapped), text = mapped;
  if (form.strips_end)
    while (!text.empty()) {
      const auto [last, bytes] = unicode::decode_last(text);
      if (!unicode::is_white_space(last)) break;
      text.remove_suffix(bytes);
    }
  while (!text.empty()) {
    const std::size_t run = form.run.empty() ? text.npos : text.find("  ");
    out += text.substr(0, run);
    if (run == text.npos) break;
    out += form.run;
    text.remove_prefix(std::min(text.find_first_not_of(' ', run), text.size()));
  }
}

Normalize normalize_of(const TokenizerFiles& files) {
  if (files.sentence_form)
    return [form = *files.sentence_form](std::string_view text, std::string& out) { append_formed(form, text, out); };
  if (files.has_word_pieces())
    return [normalizer = Normalizer(files.normalizer)](std::string_view text, std::string& out) {
      normalizer.append(text, out);
    };
  switch (files.form) {
    case TextForm::as_is: return {};
    case TextForm::composed:
      return [](std::string_view text, std::string& out) { unicode::append_composed(out, text); };
    case TextForm::marked: return [](std::string_view text, std::string& out) { append_marked(text, true, out); };
    case TextForm::marked_spaces:
      return [](std::string_view text, std::string& out) { append_marked(text, false, out); };
  }
  STOF_CHECK(false);
}

using Model = std::variant<WordPiece, ByteLevel, CharacterLevel, Unigram>;

Model model_of(TokenizerFiles& files) {
  if (files.byte_level) return ByteLevel(*std::move(files.byte_level));
  if (files.character_level) return CharacterLevel(*std::move(files.character_level));
  if (files.unigram) return Unigram(*std::move(files.unigram));
  return WordPiece(files.pieces, files.wordpiece);
}

}  // namespace

// Added tokens are found twice, as in the definition: in the text as it is, and in the normalised text.
struct Tokenizer::State {
  Normalize normalize;
  std::optional<Prepend> metaspace;
  bool splits_at_white_space, splits_at_marks;
  Model model;
  AddedTokens in_text, in_normalized;
  std::vector<std::int32_t> before, behind;
  std::string cuts_left;
  TokenDecoder decoder;

  void append_ids(std::string_view text, std::vector<std::int32_t>& ids) const {
    const auto push = [&](std::int32_t id) { ids.push_back(id); };
    std::string normalized, marked;
    const auto append_words = [&](std::string_view words) {
      if (metaspace) {
        marked.clear();
        append_marked(words, needs_mark(words, *metaspace, words.data() == text.data()), marked);
        words = marked;
      }
      for (std::size_t end = 0; !words.empty(); words.remove_prefix(end)) {
        end = splits_at_marks ? std::min(words.find(kSpaceMark, 1), words.size()) : words.size();
        std::visit([&](const auto& pieces) { pieces.append_ids(words.substr(0, end), ids); }, model);
      }
    };
    const auto append = [&](std::string_view part) {
      if (splits_at_white_space) unicode::for_each_word(part, append_words);
      else append_words(part);
    };
    in_text.split(
        text,
        [&](std::string_view part) {
          if (normalize) {
            normalized.clear();
            normalize(part, normalized);
            part = normalized;
          }
          in_normalized.split(part, append, push);
        },
        push);
  }
};

namespace {

// What to look for; `normalized` chooses which of the tokens.
std::vector<AddedToken> patterns(const std::vector<AddedToken>& tokens, const Normalize& normalize, bool normalized) {
  std::vector<AddedToken> result;
  std::set<std::string> seen;
  for (AddedToken token : tokens) {
    if (token.normalized != normalized) continue;
    const std::string content = std::move(token.content);
    token.content.clear();
    if (normalized && normalize) normalize(content, token.content);
    else token.content = content;
    if (token.content.empty())
      fail(ErrorKind::bad_file, "the added token '{}' is empty{}", content, normalized ? " when normalised" : "");
    if (!seen.insert(token.content).second)
      fail(ErrorKind::bad_file, "the added token '{}' is looked for twice, as '{}'", content, token.content);
    result.push_back(std::move(token));
  }
  return result;
}

// A trie takes up to 80 bytes for each byte of its pieces.
void check_bytes(const TokenizerFiles& files, const std::filesystem::path& folder) {
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  std::size_t bytes = 0;
  for (const Piece& piece : files.unigram ? files.unigram->pieces : files.pieces) bytes += piece.text.size();
  for (const AddedToken& token : files.added) bytes += token.content.size();
  if (bytes > kMostBytes)
    fail(ErrorKind::bad_file, "{}: the tokens of the vocabulary have {} bytes; accepted: at most {} together",
         folder.string(), bytes, kMostBytes);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  TokenizerFiles files = read_tokenizer_files(folder);
  check_bytes(files, folder);
  const Normalize normalize = normalize_of(files);
  return Tokenizer(std::make_unique<State>(State{.normalize = normalize,
                                                 .metaspace = files.metaspace,
                                                 .splits_at_white_space = files.splits_at_white_space,
                                                 .splits_at_marks = files.splits_at_marks,
                                                 .model = model_of(files),
                                                 .in_text = AddedTokens(patterns(files.added, normalize, false)),
                                                 .in_normalized = AddedTokens(patterns(files.added, normalize, true)),
                                                 .before = std::move(files.before),
                                                 .behind = std::move(files.behind),
                                                 .cuts_left = std::move(files.cuts_left),
                                                 .decoder = std::move(files.decoder)}));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  // Normalised it may be three times as long, and every byte an id.
  constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  if (text.size() > kMostBytes)
    fail(ErrorKind::invalid_argument, "a text of {} bytes; accepted: at most {}, so split it", text.size(), kMostBytes);
  if (const std::size_t invalid = unicode::find_invalid(text); invalid != std::string_view::npos)
    fail(ErrorKind::invalid_argument, "the text is not UTF-8 at byte {}: 0x{:02X}", invalid,
         static_cast<unsigned char>(text[invalid]));
  std::vector<std::int32_t> ids = state_->before;
  state_->append_ids(text, ids);
  ids.insert(ids.end(), state_->behind.begin(), state_->behind.end());
  return ids;
}

Tokenizer::Truncated Tokenizer::encode(std::string_view text, std::int64_t max_tokens) const {
  const std::size_t special = state_->before.size() + state_->behind.size();
  if (max_tokens < 0 || static_cast<std::size_t>(max_tokens) < special)
    fail(ErrorKind::invalid_argument, "max_tokens = {}; accepted: at least {}, the special tokens", max_tokens,
         special);
  const auto most = static_cast<std::size_t>(max_tokens);
  Truncated result{.ids = encode(text), .truncated = false};
  if (result.ids.size() <= most) return result;
  if (!state_->cuts_left.empty())
    fail(ErrorKind::unsupported, "{}; accepted for a text of more than {} tokens: right", state_->cuts_left,
         max_tokens);
  result.truncated = true;
  result.ids.resize(most);
  std::copy(state_->behind.begin(), state_->behind.end(),
            result.ids.end() - static_cast<std::ptrdiff_t>(state_->behind.size()));
  return result;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, DecodeOptions options) const {
  TokenStream stream(*this, options);
  std::string text;
  for (const std::int32_t id : ids) text += stream.add(id);
  return text += stream.finish();
}

const TokenDecoder& Tokenizer::decoder() const { return state_->decoder; }

}  // namespace stof
