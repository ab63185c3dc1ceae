// SPDX-License-Identifier: Apache-2.0
// stof tokenize: the token ids of each line of a file, special tokens included, not truncated; or the texts of such
// ids.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/text_lines.h"
#include "src/base/error.h"
#include "src/model/tokenizer.h"

namespace stof::cli {
namespace {

struct TokenizeOptions {
  std::string model, input;
  bool decode = false, special = false;
};

std::vector<std::int32_t> ids_of(std::string_view line) {
  std::vector<std::int32_t> ids;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    if (word.empty()) continue;
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      fail(ErrorKind::invalid_argument, "'{}' is no id; accepted: integers with spaces between them", word);
    ids.push_back(id);
  }
  return ids;
}

// Nothing is printed where a line is refused.
void decode(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const DecodeOptions how{.special = options.special ? SpecialTokens::kept : SpecialTokens::skipped};
  std::vector<std::string> texts;
  for (const std::string& line : read_input(options.input)) {
    try {
      texts.push_back(tokenizer.decode(ids_of(line), how));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) throw;
      fail(error.kind(), "{}: line {}: {}", input_name(options.input), texts.size() + 1, error.what());
    }
  }
  for (const std::string& text : texts) fmt::print("{}\n", text);
}

void tokenize(const TokenizeOptions& options) {
  const Tokenizer tokenizer = Tokenizer::load(options.model);
  if (options.decode) return decode(tokenizer, options);
  for (const std::string& line : read_input(options.input)) fmt::print("{}\n", fmt::join(tokenizer.encode(line), " "));
}

}  // namespace

void add_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Print the token ids of each line of a file, a line per text");
  command->add_option("--model", options->model, "folder with tokenizer.json or vocab.txt")->required();
  command->add_option("--input", options->input, "text file, UTF-8, a text per line; -: stdin")->required();
  CLI::Option* decode = command->add_flag("--decode", options->decode, "lines of ids to texts");
  command->add_flag("--special", options->special, "keep special tokens in texts")->needs(decode);
  command->callback([options] { tokenize(*options); });
}

}  // namespace stof::cli
