// SPDX-License-Identifier: Apache-2.0
// stof run: texts to embeddings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/float_dtype.h"
#include "cli/json_output.h"
#include "cli/loading.h"
#include "cli/messages.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/text_lines.h"
#include "src/base/counted.h"
#include "src/base/error.h"
#include "src/base/stopwatch.h"
#include "src/codegen/compiler.h"
#include "src/model/tokenizer.h"
#include "src/runtime/timed_call.h"
#include "src/tensor/npy.h"
#include "stof/session.h"

namespace stof::cli {
namespace {

struct RunOptions {
  std::string model, text, input, mask, pooling = "auto", dtype = "f32", device = "auto", out, lengths_out, json;
  std::int64_t batch = 32, global_tokens = 0;
  int threads = 0;
  bool no_truncate = false, force = false, logits = false;
};

std::optional<Pooling> pooling_of(const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (name == "none") return Pooling::none;
  if (name == "cls") return Pooling::cls;
  if (name == "mean") return Pooling::mean;
  if (name == "max") return Pooling::max;
  if (name == "last") return Pooling::last;
  fail(ErrorKind::invalid_argument, "--pooling {}; accepted: auto, cls, mean, max, last, none", name);
}

SessionOptions session_options(const RunOptions& options) {
  if (options.threads < 0 || options.threads > kMostThreads)
    fail(ErrorKind::invalid_argument, "--threads {}; accepted: 0 (all) to {}", options.threads, kMostThreads);
  if (options.batch < 1) fail(ErrorKind::invalid_argument, "--batch {}; accepted: 1 or more", options.batch);
  SessionOptions result{.device = options.device,
                        .dtype = parse_float_dtype(options.dtype),
                        .threads = options.threads,
                        .logits = options.logits,
                        .global_tokens = options.global_tokens};
  if (!options.mask.empty()) result.mask = parse(options.mask);
  result.log = [](std::string_view message) { say(fmt::format("stof: {}\n", message)); };
  return result;
}

std::vector<std::string> texts_of(const RunOptions& options) {
  return options.input.empty() ? std::vector<std::string>{options.text} : read_input(options.input);
}

void print_rows(const Tensor& values) {
  const std::int64_t columns = values.shape()[1];
  for (std::int64_t r = 0; r < values.shape()[0]; ++r) {
    const std::span row(values.as<float>() + r * columns, static_cast<std::size_t>(columns));
    fmt::print("{}\n", fmt::join(row, " "));
  }
}

// Before anything is computed. Tokens are counted only where even the longest texts could pass the limit.
void check_room(const RunOptions& options, const Session& session, Pooling pooling,
                const std::vector<std::string>& texts) {
  if (options.out.empty() || options.force) return;
  std::int64_t rows = std::ssize(texts);
  if (pooling == Pooling::none) {
    const Shape longest{rows * session.max_tokens(), session.columns(pooling)};
    if (!is_large(longest, DType::f32)) return;
    const Tokenizer tokenizer = Tokenizer::load(options.model);
    rows = 0;
    for (const std::string& text : texts) rows += std::ssize(tokenizer.encode(text, session.max_tokens()).ids);
  }
  check_size(options.out, {rows, session.columns(pooling)}, DType::f32);
}

// Of texts, or of their tokens.
std::int64_t vectors_not_finite(const Tensor& values) {
  const std::int64_t columns = values.shape()[1];
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < values.shape()[0]; ++r) {
    const std::span row(values.as<float>() + r * columns, static_cast<std::size_t>(columns));
    count += !std::ranges::all_of(row, [](float value) { return std::isfinite(value); });
  }
  return count;
}

void write_results(const RunOptions& options, const Embeddings& embeddings) {
  if (options.out.empty() && options.json != "-") print_rows(embeddings.values);
  else if (!options.out.empty()) write_npy(options.out, embeddings.values.view());
  if (options.lengths_out.empty()) return;
  auto* lengths = const_cast<std::int32_t*>(embeddings.lengths.data());
  write_npy(options.lengths_out, view_of(lengths, DType::i32, {std::ssize(embeddings.lengths)}));
}

struct Took {
  double seconds = 0, first = 0;  // of embedding; until the first batch is done, loading included
};

void write_took(const RunOptions& options, const Session& session, const Embeddings& embeddings, const Took& took) {
  if (options.json.empty()) return;
  const SessionStatistics statistics = session.statistics();
  write_json({{"texts", embeddings.lengths.size()},
              {"truncated", embeddings.truncated},
              {"device", session.device().caps.name},
              {"seconds", took.seconds},
              {"first_seconds", took.first},
              {"calls", statistics.calls},
              {"attention_plans", statistics.plans},
              {"held_bytes", statistics.held_bytes},
              {"measured", times_taken()},
              {"compiled", machine_compiler().compiled()}},
             options.json);
}

void run(const RunOptions& options) {
  const Stopwatch since_start;
  const std::optional<Pooling> pooling = pooling_of(options.pooling);
  const SessionOptions chosen = session_options(options);
  std::vector<InputFile> inputs = files_of_model("--model", options.model);
  std::ranges::move(files_of_mask("--mask", options.mask), std::back_inserter(inputs));
  inputs.push_back({"--input", options.input});
  check_outputs({{"--out", options.out}, {"--lengths-out", options.lengths_out}, {"--json", options.json, true}},
                inputs);
  const std::vector<std::string> texts = texts_of(options);
  const Session session = load_session(options.model, chosen);
  check_room(options, session, pooling.value_or(session.pooling()), texts);
  const Stopwatch embedding;
  Took took;
  Embeddings embeddings;
  {
    Progress progress("embedding", std::ssize(texts));
    std::int64_t before = 0;
    embeddings =
        session.embed(texts, {.pooling = pooling,
                              .batch = options.batch,
                              .truncate = !options.no_truncate,
                              .text_name = options.input.empty() ? "text" : input_name(options.input) + ": line",
                              .progress = [&](std::int64_t done) {
                                if (before == 0) took.first = since_start.seconds();
                                progress.advance(done - std::exchange(before, done));
                              }});
  }
  took.seconds = embedding.seconds();
  const std::string all = counted(std::ssize(texts), "text", "texts");
  if (embeddings.truncated > 0)
    say(fmt::format("{} of {} cut to {} tokens\n", embeddings.truncated, all, session.max_tokens()));
  say(fmt::format("{} in {:.2f} s on {}\n", all, took.seconds, session.device().caps.name));
  if (const std::int64_t count = vectors_not_finite(embeddings.values); count > 0)
    say(fmt::format("{} of {} not finite: NaN or infinity is among their numbers\n", count,
                    counted(embeddings.values.shape()[0], "vector", "vectors")));
  if (!texts.empty()) say(fmt::format("the first vectors after {:.2f} s, loading included\n", took.first));
  write_results(options, embeddings);
  write_took(options, session, embeddings, took);
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "Turn texts into embeddings, under the model's own mask or a narrower one");
  const auto options = std::make_shared<RunOptions>();
  command->add_option("--model", options->model, "folder with config.json, model.safetensors and a tokenizer")
      ->required();
  auto* text = command->add_option("--text", options->text, "one text");
  auto* input = command->add_option("--input", options->input, "a file with one text a line; -: stdin");
  text->excludes(input);
  command->add_option("--mask", options->mask, "restrict attention further, e.g. 'longformer(32,4)'");
  command
      ->add_option("--pooling", options->pooling,
                   "auto (as the checkpoint says), cls, mean, max, last, or none: every token")
      ->capture_default_str();
  add_number(command, "--global-tokens", options->global_tokens,
             "of Longformer: so many first tokens of each text see all others")
      ->capture_default_str();
  command->add_flag("--logits", options->logits, "of decoders: scores of the vocabulary in place of hidden states");
  add_number(command, "--batch", options->batch, "texts run together")->capture_default_str();
  command->add_option("--dtype", options->dtype, "f32, bf16; on a GPU also f16")->capture_default_str();
  command->add_option("--device", options->device, "auto, cpu, cuda, cuda:N")->capture_default_str();
  add_number(command, "--threads", options->threads, "of the CPU; 0: all")->capture_default_str();
  command->add_flag("--no-truncate", options->no_truncate, "a text that is too long is an error");
  command->add_option("--out", options->out, "f4 [texts, hidden], or [all tokens, hidden] with --pooling none");
  command->add_flag("--force", options->force, "write a result above 4 GiB");
  command->add_option("--lengths-out", options->lengths_out, "i4 [texts]: tokens of each text");
  command->add_option("--json", options->json,
                      "what it took as JSON, into a file ('-': to stdout in place of the vectors)");
  command->callback([options, text, input] {
    if (text->empty() && input->empty()) throw CLI::RequiredError("--text or --input");
    run(*options);
  });
}

}  // namespace stof::cli
