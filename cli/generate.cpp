// SPDX-License-Identifier: Apache-2.0
// stof generate: what a decoder says behind texts.
#include "src/runtime/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/float_dtype.h"
#include "cli/json_output.h"
#include "cli/loading.h"
#include "cli/messages.h"
#include "cli/number_option.h"
#include "cli/one_line.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/text_lines.h"
#include "src/base/counted.h"
#include "src/base/error.h"
#include "src/base/stopwatch.h"
#include "src/model/token_stream.h"
#include "stof/session.h"

namespace stof::cli {
namespace {

struct GenerateCommand {
  std::string model, text, input, mask, dtype = "f32", device = "auto", json;
  std::int64_t tokens = 128, batch = 32, top_k = 0, seed = 0, passes = 1;
  double temperature = 0, top_p = 1;
  int threads = 0;
  bool escaped = false, special = false, go_on = false, truncate = false;
};

SessionOptions session_options(const GenerateCommand& command) {
  if (command.threads < 0 || command.threads > kMostThreads)
    fail(ErrorKind::invalid_argument, "--threads {}; accepted: 0 (all) to {}", command.threads, kMostThreads);
  SessionOptions result{
      .device = command.device, .dtype = parse_float_dtype(command.dtype), .threads = command.threads, .logits = true};
  if (!command.mask.empty()) result.mask = parse(command.mask);
  result.log = [](std::string_view message) { say(fmt::format("stof: {}\n", message)); };
  return result;
}

GenerateOptions generate_options(const GenerateCommand& command) {
  if (command.seed < 0) fail(ErrorKind::invalid_argument, "--seed {}; accepted: 0 or more", command.seed);
  if (command.passes < 1) fail(ErrorKind::invalid_argument, "--passes {}; accepted: 1 or more", command.passes);
  GenerateOptions options{.tokens = command.tokens,
                          .temperature = command.temperature,
                          .top_k = command.top_k,
                          .top_p = command.top_p,
                          .seed = static_cast<std::uint64_t>(command.seed),
                          .batch = command.batch,
                          .truncate = command.truncate};
  if (command.go_on) options.ends.emplace();
  check(options);
  return options;
}

std::vector<std::string> read_prompts(const GenerateCommand& command) {
  if (command.input.empty()) return {command.text};
  std::vector<std::string> prompts = read_input(command.input);
  for (std::size_t i = 0; command.escaped && i < prompts.size(); ++i) {
    try {
      prompts[i] = of_one_line(prompts[i]);
    } catch (const Error& error) {
      fail(error.kind(), "{}: line {}: {}", input_name(command.input), i + 1, error.what());
    }
  }
  return prompts;
}

void flush_stdout() {
  if (std::fflush(stdout) != 0) fail(ErrorKind::bad_file, "cannot write to stdout: {}", std::strerror(errno));
}

// What comes behind a text, which it goes on from: of tokens that stand for a space and a word the space is there. Ids
// of the model that the tokenizer has nothing for are left out.
class Continuation {
 public:
  Continuation(const Tokenizer& tokenizer, const std::string& text, const DecodeOptions& options)
      : tokenizer_(tokenizer), stream_(tokenizer, options) {
    for (const std::int32_t id : tokenizer.encode(text)) stream_.add(id);
  }
  std::string add(std::int32_t id) { return tokenizer_.decoder().texts->find(id) ? stream_.add(id) : std::string(); }
  std::string finish() { return stream_.finish(); }

 private:
  const Tokenizer& tokenizer_;
  TokenStream stream_;
};

// One text is printed as it grows; of several each has a line, once all are there.
class Output {
 public:
  // At most `most` tokens behind each.
  Output(const GenerateCommand& command, const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
         std::int64_t most)
      : prints_(command.json != "-"), grows_(prints_ && command.input.empty()), texts_(prompts.size()) {
    const DecodeOptions options{.special = command.special ? SpecialTokens::kept : SpecialTokens::skipped};
    for (const std::string& prompt : prompts) continuations_.emplace_back(tokenizer, prompt, options);
    if (!grows_) progress_.emplace("generating", command.passes * std::ssize(prompts) * most);
  }

  // Of a pass that is not the last one: not printed.
  void count() {
    if (progress_) progress_->advance(1);
  }
  void add(std::int64_t text, std::int32_t token) {
    const auto i = static_cast<std::size_t>(text);
    append(i, continuations_[i].add(token));
    count();
  }
  const std::vector<std::string>& finish() {
    progress_.reset();
    for (std::size_t i = 0; i < texts_.size(); ++i) append(i, continuations_[i].finish());
    if (grows_) fmt::print("\n");
    else if (prints_)
      for (const std::string& text : texts_) fmt::print("{}\n", on_one_line(text));
    flush_stdout();  // what is said on stderr comes behind it
    return texts_;
  }

 private:
  void append(std::size_t text, const std::string& more) {
    texts_[text] += more;
    if (!grows_) return;
    fmt::print("{}", more);
    flush_stdout();
  }

  bool prints_, grows_;
  std::vector<Continuation> continuations_;
  std::vector<std::string> texts_;
  std::optional<Progress> progress_;
};

// Of one pass.
struct Took {
  double seconds = 0, first = 0;  // until the first token, loading not included
  std::int64_t tokens = 0;
};

Json json_of(const Took& took) {
  return {{"seconds", took.seconds}, {"first_seconds", took.first}, {"tokens", took.tokens}};
}

void write_took(const GenerateCommand& command, const Session& session, const std::vector<Took>& passes,
                const std::vector<std::vector<std::int32_t>>& made, const std::vector<std::string>& texts) {
  if (command.json.empty()) return;
  Json list = Json::array(), times = Json::array(), result{{"device", session.device().caps.name}};
  for (std::size_t i = 0; i < made.size(); ++i) list.push_back({{"text", texts[i]}, {"ids", made[i]}});
  for (const Took& took : passes) times.push_back(json_of(took));
  result.update(json_of(passes.back()));
  result["passes"] = times;
  result["texts"] = list;
  write_json(result, command.json);
}

void generate(const GenerateCommand& command) {
  const SessionOptions chosen = session_options(command);
  GenerateOptions options = generate_options(command);
  std::vector<InputFile> inputs = files_of_model("--model", command.model);
  std::ranges::move(files_of_mask("--mask", command.mask), std::back_inserter(inputs));
  inputs.push_back({"--input", command.input});
  check_outputs({{"--json", command.json, true}}, inputs);
  const std::vector<std::string> texts = read_prompts(command);
  const Session session = load_session(command.model, chosen);
  Output output(command, *session.tokenizer(), texts, std::min(command.tokens, session.max_tokens()));
  std::vector<Took> passes;
  std::vector<std::vector<std::int32_t>> made;
  for (std::int64_t pass = 1; pass <= command.passes; ++pass) {
    Took& took = passes.emplace_back();
    const Stopwatch since_start;
    options.token = [&](std::int64_t text, std::int32_t token) {
      if (took.tokens++ == 0) took.first = since_start.seconds();
      if (pass == command.passes) output.add(text, token);
      else output.count();
    };
    made = session.generate(texts, options);
    took.seconds = since_start.seconds();
  }
  const std::vector<std::string>& said = output.finish();
  const Took& took = passes.back();
  say(fmt::format("{} in {:.2f} s on {}, the first after {:.2f} s\n", counted(took.tokens, "token", "tokens"),
                  took.seconds, session.device().caps.name, took.first));
  write_took(command, session, passes, made, said);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto* command =
      app.add_subcommand("generate", "Let a decoder go on behind texts, under its own mask or a narrower one");
  const auto options = std::make_shared<GenerateCommand>();
  command->add_option("--model", options->model, "folder with config.json, model.safetensors and tokenizer.json")
      ->required();
  auto* text = command->add_option("--text", options->text, "one text, which is printed as it grows");
  auto* input = command->add_option("--input", options->input, "a file with one text a line; -: stdin");
  text->excludes(input);
  command->add_flag("--escaped", options->escaped, "in the input \\n, \\r and \\\\ are what they are in the output")
      ->needs(input);
  add_number(command, "--tokens", options->tokens, "at most, behind each text")->capture_default_str();
  command->add_option("--mask", options->mask, "restrict attention further, e.g. 'sink(4) | window(1024)'");
  add_number(command, "--temperature", options->temperature, "0: always the likeliest token; else by chance")
      ->capture_default_str();
  add_number(command, "--top-k", options->top_k, "by chance among so many of the likeliest; 0: all")
      ->capture_default_str();
  add_number(command, "--top-p", options->top_p, "among the likeliest that have so much of the probability")
      ->capture_default_str();
  add_number(command, "--seed", options->seed, "of the chances")->capture_default_str();
  add_number(command, "--batch", options->batch, "texts run together")->capture_default_str();
  add_number(command, "--passes", options->passes, "go over the texts so often; the last one is printed")
      ->capture_default_str();
  command->add_flag("--go-on", options->go_on, "past tokens that end a text");
  command->add_flag("--special", options->special, "print special tokens, too");
  command->add_flag("--truncate", options->truncate, "of a text that is too long leave the end out");
  command->add_option("--dtype", options->dtype, "f32, bf16; on a GPU also f16")->capture_default_str();
  command->add_option("--device", options->device, "auto, cpu, cuda, cuda:N")->capture_default_str();
  add_number(command, "--threads", options->threads, "of the CPU; 0: all")->capture_default_str();
  command->add_option("--json", options->json,
                      "texts, ids and what it took as JSON, into a file ('-': to stdout alone)");
  command->callback([options, text, input] {
    if (text->empty() && input->empty()) throw CLI::RequiredError("--text or --input");
    generate(*options);
  });
}

}  // namespace stof::cli
