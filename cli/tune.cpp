// SPDX-License-Identifier: Apache-2.0
// stof tune: finds by measuring how a model's operators are fused and run, for one size of call, and keeps it.
#include "src/runtime/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "cli/build_commit.h"
#include "cli/commands.h"
#include "cli/compile_kernels.h"
#include "cli/demo.h"
#include "cli/float_dtype.h"
#include "cli/json_output.h"
#include "cli/kernels_ahead.h"
#include "cli/loading.h"
#include "cli/messages.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/random_model.h"
#include "cli/table.h"
#include "cli/tuning_words.h"
#include "cli/waiting.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/error.h"
#include "src/base/threads.h"
#include "src/codegen/compiler.h"
#include "src/fusion/plan_cache.h"
#include "src/runtime/accepted.h"
#include "stof/session.h"

namespace stof::cli {
namespace {

struct TuneCommand {
  std::string model, random, mask, dtype = "f32", device = "auto", scheme, budget, ablation = "both", json;
  std::int64_t batch = 1, seq = 128, global_tokens = 0;
  std::int64_t seed = 1;
  int threads = 0, compilers = 0;
  bool prompts = false, compile = false, explain = false, forget = false, again = false;
};

// Of "models/bert/" as of "models/bert".
std::string folder_name(const std::string& folder) {
  std::error_code unknown;
  const std::filesystem::path path = std::filesystem::absolute(folder, unknown).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

TuneOptions options_of(const TuneCommand& command) {
  TuneOptions options{.device = device_for_models(command.device),
                      .dtype = parse_float_dtype(command.dtype),
                      .texts = command.batch,
                      .longest = command.seq,
                      .global_tokens = command.global_tokens,
                      .prompts = command.prompts,
                      .ablation = ablation_of(command.ablation),
                      .seed = static_cast<std::uint64_t>(command.seed),
                      .again = command.again,
                      .budget_seconds = seconds_of(command.budget)};
  if (!command.mask.empty()) options.mask = parse(command.mask);
  if (!command.scheme.empty()) options.scheme = command.scheme;
  if (!command.forget) options.folder = plan_folder();
  options.model_name = command.random.empty() ? folder_name(command.model) : "random " + command.random;
  if (command.prompts) options.model_name += ", prompts";
  options.commit = build_commit();
  const bool is_json = command.json == "-";  // nothing else is written there then
  if (command.explain)
    options.explain = [is_json](const std::string& line) {
      if (is_json) say(line + "\n");
      else fmt::print("{}\n", line);
    };
  options.log = [](std::string_view message) { say(fmt::format("stof: {}\n", message)); };
  return options;
}

Json json_of(const TuneResult& result) {
  Json json = to_json(result.plan);
  json["search"] = {{"bucket", {result.bucket.rows, result.bucket.texts, result.bucket.longest}},
                    {"us", result.search.us},
                    {"moves_tried", result.search.moves_tried},
                    {"moves_kept", result.search.moves_kept},
                    {"rounds", result.search.rounds},
                    {"measured", result.measured},
                    {"remembered", result.remembered},
                    {"compared", result.compared},
                    {"wrong", result.wrong},
                    {"compiled", machine_compiler().compiled()},
                    {"seconds", result.seconds},
                    {"finished", result.search.finished},
                    {"kept", result.kept}};
  return json;
}

void print_text(const TuneResult& result) {
  Table works({"work", "times", "us", "setting"});
  for (const PlannedWork& work : result.plan.works)
    works.add({work.work, std::to_string(work.count), fmt::format("{:.2f}", work.us), work.setting});
  fmt::print("{}\n", works.text());
  Table whole({"whole model", "us", "spread", "error"});
  for (const ConfirmedTime& time : result.plan.confirmed)
    whole.add({time.what, fmt::format("{:.1f}", time.us), fmt::format("{:.1f} %", 100 * time.spread),
               fmt::format("{:.1e}", time.error)});
  fmt::print("{}\n", whole.text());
  fmt::print("scheme    {} ({})\n", result.plan.scheme.text(), result.plan.origin);
  fmt::print(
      "searched  {} moves, {} kept; {} rounds; {} times measured, {} remembered, {} wrong; {} kernels compiled; "
      "{:.1f} s{}\n",
      result.search.moves_tried, result.search.moves_kept, result.search.rounds, result.measured, result.remembered,
      result.wrong, machine_compiler().compiled(), result.seconds, result.search.finished ? "" : ", out of time");
  if (result.kept) fmt::print("kept as   {}\n", result.plan.key.fingerprint().hex().substr(0, 8));
}

void run(const TuneCommand& command) {
  std::vector<InputFile> inputs = files_of_model("--model", command.model);
  std::ranges::move(files_of_mask("--mask", command.mask), std::back_inserter(inputs));
  check_outputs({{"--json", command.json, true}}, inputs);
  if (command.threads < 0 || command.threads > kMostThreads)
    fail(ErrorKind::invalid_argument, "--threads {}; accepted: 0 (all) to {}", command.threads, kMostThreads);
  if (command.seq < 1) fail(ErrorKind::invalid_argument, "--seq {}; accepted: 1 or more", command.seq);
  if (command.seed < 0) fail(ErrorKind::invalid_argument, "--seed {}; accepted: 0 or more", command.seed);
  if (command.compilers < 0 || command.compilers > kMostThreads)
    fail(ErrorKind::invalid_argument, "--compilers {}; accepted: 0 (all cores but one) to {}", command.compilers,
         kMostThreads);
  if (!command.scheme.empty() && !ablation_of(command.ablation).fusion)
    fail(ErrorKind::invalid_argument,
         "--scheme with --ablation {}, where nothing is fused; accepted with it: both, fusion", command.ablation);
  const ThreadCount threads(command.threads);
  TuneOptions options = options_of(command);
  const bool keeps = !command.forget && options.ablation.is_whole();
  if (command.compile) {
    check_compiles(options);
    const Model model =
        command.random.empty() ? load_model(command.model) : described_model(command.random, command.seq);
    return compile_kernels(model, options, command.compilers, command.json);
  }
  if (options.device.ordinal == cuda::kDescribed)
    fail(ErrorKind::device, "{} is a description; accepted with it: --compile", options.device.caps.name);
  check_matmuls_in(options.dtype, options.device);
  if (!command.random.empty()) check_call(described_model(command.random, command.seq), options);
  std::optional<Waiting> waiting(std::in_place, kLoading);
  const Model model = command.random.empty() ? read_model(command.model) : random_model(command.random, command.seq, 1);
  if (keeps) check_keeps("plans", options.folder);
  waiting->next("beginning the search");  // which reads all weights first
  const std::unique_ptr<KernelsAhead> ahead = kernels_ahead(model, options, command.compilers);
  TuneResult result;
  {
    Progress progress("tuning", Progress::kUnknown);
    options.progress = [&](int done, int total) {
      waiting.reset();
      progress.set(done, total);
    };
    result = tune(model, options);
  }
  waiting.reset();  // of a search without a step
  if (!command.json.empty()) write_json(json_of(result), command.json);
  if (command.json != "-") print_text(result);
  if (keeps && !result.kept)
    fail(ErrorKind::bad_file, "the plan could not be kept in '{}', so no session will use it", options.folder.string());
}

}  // namespace

void add_tune(CLI::App& app) {
  const auto command = std::make_shared<TuneCommand>();
  CLI::App* tuned =
      app.add_subcommand("tune", "Measure how a model runs best for calls of one size, and keep that plan");
  auto* model = tuned->add_option("--model", command->model, "folder with config.json and model.safetensors");
  auto* random = tuned->add_option(
      "--random", command->random,
      "a model with random weights in its place: bert-base, bert-large, gpt2, modernbert-base, "
      "modernbert-large, longformer-base, mpnet-base, nomic-base, eurobert-210m, t5-base, llama-3.2-1b, qwen3-0.6b");
  model->excludes(random);
  add_number(tuned, "--batch", command->batch, "texts of a call")->capture_default_str();
  add_number(tuned, "--seq", command->seq, "tokens of each")->capture_default_str();
  tuned->add_flag("--prompts", command->prompts, "for the prompts of stof generate, on a GPU, in place of stof run");
  tuned->add_option("--mask", command->mask, "restrict attention further, as in stof run");
  add_number(tuned, "--global-tokens", command->global_tokens, "of Longformer, as in stof run")->capture_default_str();
  tuned->add_option("--dtype", command->dtype, "f32, bf16; on a GPU also f16")->capture_default_str();
  tuned->add_option("--device", command->device, "auto, cpu, cuda, cuda:N")->capture_default_str();
  add_number(tuned, "--threads", command->threads, "of the CPU; 0: all")->capture_default_str();
  tuned->add_option("--scheme", command->scheme, "fuse by these bits (stof graph) and search their settings alone");
  add_number(tuned, "--seed", command->seed, "of what is drawn at random")->capture_default_str();
  auto* budget =
      tuned->add_option("--budget", command->budget, "time after which the best so far is taken, as in 30s or 2m");
  tuned
      ->add_option("--ablation", command->ablation,
                   "both, or with attention or fusion alone, or none: to see what each brings; nothing is kept then")
      ->capture_default_str();
  auto* compiled = tuned->add_flag(
      "--compile", command->compile,
      "only compile the kernels that the search would begin with; needs no GPU with --device cuda:h200 --dtype f16");
  add_number(tuned, "--compilers", command->compilers, "processes that compile; 0: all cores but one")
      ->capture_default_str();
  auto* explained = tuned->add_flag("--explain", command->explain, "print every move");
  auto* forgotten = tuned->add_flag("--no-cache", command->forget, "neither read nor keep times and plans");
  auto* again =
      tuned->add_flag("--again", command->again, "measure again what was measured before, and keep that in its place");
  again->excludes(forgotten);
  for (CLI::Option* option : {budget, explained, forgotten, again}) compiled->excludes(option);
  tuned->add_option("--json", command->json, "the plan and the search as JSON, into a file, or - for stdout");
  tuned->callback([command, model, random] {
    if (model->empty() && random->empty()) throw CLI::RequiredError("--model or --random");
    run(*command);
  });
}

}  // namespace stof::cli
