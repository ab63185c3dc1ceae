// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, or a vocab.txt with its tokenizer_config.json, and a text that goes through it.
#include <algorithm>

#include "src/model/tokenizer.h"
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  std::string_view text = fuzz::text_of(data, size);
  const std::string_view first = fuzz::next_part(text);
  const bool json = first.starts_with('{');
  if (!json) files.config.write(fuzz::next_part(text));
  (json ? files.tokenizer : files.vocabulary).write(first);
  try {
    encode(Tokenizer::load((json ? files.of_json : files.of_text).path()), text);
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
  return 0;
}
