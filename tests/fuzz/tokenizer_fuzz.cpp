// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, or a vocab.txt with its tokenizer_config.json, and a text that goes through it, to ids and back;
// its bytes, as ids, become text, too.
#include <algorithm>

#include "src/model/token_stream.h"
#include "src/model/unicode.h"
#include "stof/error.h"
#include "tests/fuzz/fuzzed_file.h"

namespace {

using namespace stof;

struct Files {
  fuzz::MemoryFile tokenizer, vocabulary, config;
  fuzz::Folder of_json, of_text;
  Files() {
    of_json.link("tokenizer.json", tokenizer);
    of_text.link("vocab.txt", vocabulary);
    of_text.link("tokenizer_config.json", config);
  }
};

void encode(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  fuzz::require(std::all_of(ids.begin(), ids.end(), [](std::int32_t id) { return id >= 0; }));
  for (const std::int64_t most : {std::int64_t{2}, static_cast<std::int64_t>(ids.size())}) {
    const Tokenizer::Truncated cut = tokenizer.encode(text, most);
    fuzz::require(static_cast<std::int64_t>(cut.ids.size()) <= most);
    fuzz::require(cut.truncated || cut.ids == ids);
  }
}

void decode(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  for (const SpecialTokens special : {SpecialTokens::skipped, SpecialTokens::kept}) {
    TokenStream stream(tokenizer, {.special = special});
    std::string text;
    for (const std::int32_t id : ids) {
      const std::string more = stream.add(id);
      fuzz::require(unicode::find_invalid(more) == std::string::npos);
      text += more;
    }
    text += stream.finish();
    fuzz::require(text == tokenizer.decode(ids, {.special = special}));
    fuzz::require(unicode::find_invalid(text) == std::string::npos);
  }
}

void encode_and_decode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> of_bytes;
  for (const char byte : text.substr(0, 1000)) {
    const auto id = static_cast<std::int32_t>(static_cast<unsigned char>(byte));
    if (tokenizer.decoder().texts->find(id)) of_bytes.push_back(id);
  }
  if (tokenizer.decoder().refusal.empty()) decode(tokenizer, of_bytes);
  encode(tokenizer, text);
  if (tokenizer.decoder().refusal.empty()) decode(tokenizer, tokenizer.encode(text.substr(0, 1000)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  std::string_view text = fuzz::text_of(data, size);
  const std::string_view first = fuzz::next_part(text);
  const bool json = first.starts_with('{');
  if (!json) files.config.write(fuzz::next_part(text));
  (json ? files.tokenizer : files.vocabulary).write(first);
  try {
    encode_and_decode(Tokenizer::load((json ? files.of_json : files.of_text).path()), text);
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
  return 0;
}
