// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json with byte-level BPE and a text that goes through it. The 256 tokens of a byte each, which every such
// vocabulary has, stand in the input as @bytes: so inputs stay short, and most of them have a vocabulary.
#include <algorithm>

#include "src/model/byte_level.h"
#include "src/model/token_decoder.h"
#include "src/model/tokenizer.h"
#include "src/model/unicode.h"
#include "stof/error.h"
#include "tests/fuzz/fuzzed_file.h"

namespace {

using namespace stof;

struct Files {
  fuzz::MemoryFile tokenizer;
  fuzz::Folder folder;
  std::string bytes;
  Files() {
    folder.link("tokenizer.json", tokenizer);
    for (int byte = 0; byte < 256; ++byte) {
      std::string token = ByteLevel::token_of(static_cast<unsigned char>(byte));
      if (token == "\"" || token == "\\") token.insert(0, "\\");
      bytes += (byte == 0 ? "\"" : ",\"") + token + "\":" + std::to_string(byte);
    }
  }
};

std::string with_bytes(std::string_view json, const std::string& bytes) {
  std::string result(json);
  if (const std::size_t at = result.find("@bytes"); at != std::string::npos) result.replace(at, 6, bytes);
  return result;
}

void split(std::string_view text, WordSplit by) {
  if (unicode::find_invalid(text) != std::string_view::npos) return;
  while (!text.empty()) {
    const std::size_t bytes = first_word(text, by);
    fuzz::require(bytes > 0 && bytes <= text.size());
    fuzz::require(unicode::find_invalid(text.substr(0, bytes)) == std::string_view::npos);
    text.remove_prefix(bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  std::string_view text = fuzz::text_of(data, size);
  files.tokenizer.write(with_bytes(fuzz::next_part(text), files.bytes));
  for (const WordSplit by : {WordSplit::gpt2, WordSplit::llama3, WordSplit::qwen2, WordSplit::gpt4o}) split(text, by);
  try {
    const Tokenizer tokenizer = Tokenizer::load(files.folder.path());
    const std::vector<std::int32_t> ids = tokenizer.encode(text);
    fuzz::require(std::all_of(ids.begin(), ids.end(), [](std::int32_t id) { return id >= 0; }));
    if (tokenizer.decoder().refusal.empty())
      fuzz::require(unicode::find_invalid(tokenizer.decode(ids)) == std::string::npos);
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
  return 0;
}
