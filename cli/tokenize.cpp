// SPDX-License-Identifier: Apache-2.0
// stof tokenize: the token ids of each line of a file, special tokens included, not truncated.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/text_lines.h"
#include "src/model/tokenizer.h"

namespace stof::cli {
namespace {

struct TokenizeOptions {
  std::string model, input;
};

void tokenize(const TokenizeOptions& options) {
  const Tokenizer tokenizer = Tokenizer::load(options.model);
  for (const std::string& line : read_input(options.input)) fmt::print("{}\n", fmt::join(tokenizer.encode(line), " "));
}

}  // namespace

void add_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Print the token ids of each line of a file, a line per text");
  command->add_option("--model", options->model, "folder with tokenizer.json or vocab.txt")->required();
  command->add_option("--input", options->input, "text file, UTF-8, a text per line; -: stdin")->required();
  command->callback([options] { tokenize(*options); });
}

}  // namespace stof::cli
