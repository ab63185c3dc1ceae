// SPDX-License-Identifier: Apache-2.0
// stof bench model: sentences to vectors with a checkpoint, and whole encoders on long input, each checked first.
#include "cli/bench_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/float_dtype.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "cli/reference_encoder.h"
#include "cli/table.h"
#include "cli/tuning_words.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/error.h"
#include "src/base/threads.h"
#include "src/model/config.h"
#include "src/runtime/accepted.h"

namespace stof::cli {
namespace {

struct ModelOptions {
  ModelBench bench;
  std::vector<std::string> dtypes, shapes;
  std::string part = "all", budget, json;
  int threads = 0;
  bool resume = false;
};

constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;  // of a call

std::array<std::int64_t, 2> parse_texts(const std::string& text) {
  std::array<std::int64_t, 2> shape{};
  const char* const end = text.data() + text.size();
  const auto [comma, first] = std::from_chars(text.data(), end, shape[0]);
  if (first == std::errc() && comma != end && *comma == ',') {
    const auto [rest, second] = std::from_chars(comma + 1, end, shape[1]);
    if (second == std::errc() && rest == end && shape[0] >= 1 && shape[1] >= 1 && shape[0] <= kMostTokens / shape[1])
      return shape;
  }
  fail(ErrorKind::invalid_argument, "--shape {}; accepted: B,S, as in 8,128, both at least 1, at most {} tokens", text,
       kMostTokens);
}

// What would be ignored: options for parts that do not run.
void check_part_has(const ModelOptions& options) {
  const ModelBench& bench = options.bench;
  const std::string& part = options.part;
  const bool grid = part == "grid" || part == "more";
  for (const auto& [is_there, name] :
       {std::pair(!bench.ablations.empty(), "--ablation"), std::pair(!bench.only.empty(), "--only"),
        std::pair(!options.budget.empty(), "--budget")})
    if (is_there && !grid)
      fail(ErrorKind::invalid_argument, "{} is of the grid's rows, which --part {} has not; accepted: grid, more", name,
           part);
  if (bench.batches.empty() || part == "sentences" || (part == "all" && !bench.model.empty())) return;
  fail(ErrorKind::invalid_argument,
       "--batch is of the sentences' rows, which --part {} has not{}; accepted: sentences, or all with --model", part,
       part == "all" ? " without --model" : "");
}

ModelBench checked(const ModelOptions& options) {
  ModelBench bench = options.bench;
  // For all parts alike, what a session would choose.
  if (bench.device == "auto") bench.device = device_for_models("auto").backend->name;
  constexpr std::array kParts{"all", "sentences", "encoder", "start", "grid", "more"};
  if (std::find(kParts.begin(), kParts.end(), options.part) == kParts.end())
    fail(ErrorKind::invalid_argument, "--part {}; accepted: {}", options.part, fmt::join(kParts, ", "));
  if (options.threads < 0 || options.threads > kMostThreads)
    fail(ErrorKind::invalid_argument, "--threads {}; accepted: 0 (all) to {}", options.threads, kMostThreads);
  if (!(bench.seconds > 0 && bench.seconds <= 60))
    fail(ErrorKind::invalid_argument, "--seconds {}; accepted: above 0, to 60", bench.seconds);
  if (bench.split && bench.device != "cpu")
    fail(ErrorKind::invalid_argument, "--split with --device {}; accepted: cpu", bench.device);
  if (bench.split || !bench.hidden_out.empty())
    if (options.part != "all" && options.part != "encoder")
      fail(ErrorKind::invalid_argument, "{} is of the encoder's rows, which --part {} has not; accepted: all, encoder",
           bench.split ? "--split" : "--hidden-out", options.part);
  check_part_has(options);
  if (bench.split && options.json.empty())
    fail(ErrorKind::invalid_argument, "--split goes into the JSON alone; accepted with it: --json");
  if ((options.part == "sentences" || options.part == "start") && bench.model.empty())
    fail(ErrorKind::invalid_argument, "sentences need a checkpoint: --model DIR");
  bench.beside_grid = options.part == "more";
  if (bench.beside_grid && !bench.encoder.empty())
    fail(ErrorKind::invalid_argument, "--part more has models of its own; --encoder goes with --part grid");
  for (const std::string& ablation : bench.ablations) ablation_of(ablation);
  if (bench.ablations.empty()) bench.ablations = {"both"};
  bench.budget_seconds = seconds_of(options.budget);
  for (const std::string& text : options.dtypes) bench.dtypes.push_back(parse_float_dtype(text));
  if (bench.dtypes.empty() && bench.device.starts_with("cuda")) bench.dtypes = {DType::f16};
  if (bench.dtypes.empty()) bench.dtypes = {DType::f32, DType::bf16};
  for (const std::string& text : options.shapes) bench.shapes.push_back(parse_texts(text));
  if (bench.shapes.empty()) bench.shapes = {{1, 128}, {8, 128}, {1, 512}, {1, 4096}};
  if (bench.batches.empty()) bench.batches = {1, 8, 32};
  for (const std::int64_t batch : bench.batches)
    if (batch < 1) fail(ErrorKind::invalid_argument, "--batch {}; accepted: 1 or more", batch);
  return bench;
}

std::string milliseconds(const Json& row) {
  return row.contains("median_us") ? fmt::format("{:.2f} ms", 1e-3 * row.at("median_us").get<double>()) : "-";
}

std::string result_of(const Json& row) {
  if (row.contains("sentences_per_s"))
    return fmt::format("{:.0f} sentences/s", row.at("sentences_per_s").get<double>());
  if (row.contains("seconds"))
    return fmt::format("{:.3f} s, {:.0f} MB, {} measured, {} compiled", row.at("seconds").get<double>(),
                       row.at("megabytes").get<double>(), row.at("measured").get<int>(), row.at("compiled").get<int>());
  if (row.contains("tuning"))
    return fmt::format("tuned in {:.1f} s, {}", row.at("tuning").at("seconds").get<double>(),
                       row.at("plan").at("scheme").get<std::string>());
  if (row.contains("share_of_matmul_beside"))
    return fmt::format("{:.0f} GFLOP/s, {:.2f} of the matmul beside it", row.at("gflops").get<double>(),
                       row.at("share_of_matmul_beside").get<double>());
  if (row.contains("share_of_matmul_peak"))
    return fmt::format("{:.0f} GFLOP/s, {:.2f} of the best matmul", row.at("gflops").get<double>(),
                       row.at("share_of_matmul_peak").get<double>());
  return "-";
}

std::vector<std::string> cells_of(const Json& row) {
  return {row.at("id").get<std::string>(), milliseconds(row), result_of(row)};
}

std::vector<InputFile> inputs_of(const ModelBench& bench) {
  std::vector<InputFile> inputs = files_of_model("--model", bench.model);
  std::ranges::move(files_of_model("--encoder", bench.encoder), std::back_inserter(inputs));
  std::ranges::move(files_of_masks(bench.masks), std::back_inserter(inputs));
  inputs.push_back({"--input", bench.input});
  return inputs;
}

void bench(const ModelOptions& options) {
  check_outputs({{"--json", options.json, true}, {"--hidden-out", options.bench.hidden_out}}, inputs_of(options.bench));
  const ModelBench bench = checked(options);
  const ThreadCount threads(options.threads);
  const Device device = open_device(bench.device);
  if (device.backend == &cuda_backend) cuda::gpu_of(device);  // not a description of one
  for (const DType dtype : bench.dtypes) check_matmuls_in(dtype, device);
  BenchResults results(describe_run("bench model", device), options.json, options.resume);
  const bool all = options.part == "all", sentences = (all && !bench.model.empty()) || options.part == "sentences",
             encoder = all || options.part == "encoder", start = options.part == "start",
             grid = options.part == "grid" || bench.beside_grid;
  std::vector<std::string> ids;
  if (start) ids = start_rows(bench);
  if (grid) ids = grid_rows(bench);
  if (grid && ids.empty()) fail(ErrorKind::invalid_argument, "--only '{}': no row of the grid has that", bench.only);
  if (sentences) {
    check_is_bert("--model", bench.model);
    if (!read_pooling(bench.model, read_config(bench.model)).dense.empty())
      fail(ErrorKind::unsupported, "--model {}: dense layers behind the pooling; accepted: a BERT without them",
           bench.model);
    ids = sentence_rows(bench);
  }
  if (encoder) {
    check_encoder(bench);
    for (std::string& id : encoder_rows(bench)) ids.push_back(std::move(id));
  }
  for (const std::string& id : ids) results.check(id, cells_of);
  {
    Progress progress("measuring", std::ssize(ids));
    if (start) bench_start(bench, results, progress);
    if (grid) bench_grid(bench, results, progress);
    if (sentences) bench_sentences(bench, results, progress);
    if (encoder) {
      const Roofline roofline = measure_roofline(device);
      results.set("roofline", json_of(roofline));
      bench_encoder(bench, roofline, results, progress);
    }
  }
  results.finish();
  if (options.json == "-") return;
  Table table({"what", "time", "result"});
  for (const std::string& id : ids)
    if (const Json* row = results.find(id)) table.add(cells_of(*row));
  fmt::print("{}", table.text());
}

}  // namespace

void add_bench_model(CLI::App& bench_app) {
  const auto options = std::make_shared<ModelOptions>();
  ModelBench& to = options->bench;
  to.input = "data/sentences.txt";
  to.device = "auto";
  to.seconds = 2;
  CLI::App* command = bench_app.add_subcommand(
      "model", "Time sentences with a checkpoint, and an encoder on long input, each output checked first");
  command->add_option("--model", to.model,
                      "folder of a BERT, for the sentences (--part start: of any model); without it the encoder alone");
  command->add_option("--input", to.input, "a file with one sentence a line")->capture_default_str();
  command->add_option("--encoder", to.encoder,
                      "folder of a BERT, for long input (--part grid: of any model; default: random BERT-base)");
  command
      ->add_option("--part", options->part,
                   "sentences, encoder, or all of these; start: a new process's first sentence; grid: models tuned for "
                   "calls of one size; more: such models beside the grid")
      ->capture_default_str();
  command->add_option("--ablation", to.ablations, "of the grid, as in stof tune; repeatable (default: both)");
  command->add_option("--only", to.only, "of the grid: the rows whose name has this in it, as in 'gpt2 (1,1024)'");
  command->add_option("--budget", options->budget, "of tuning a row of the grid, as in 30s");
  add_number(command, "--batch", to.batches, "sentences run together; repeatable (default: 1, 8, 32)");
  command->add_option("--shape", options->shapes,
                      "B,S: texts and their tokens; repeatable (default: 1,128 8,128 1,512 1,4096)");
  command->add_option("--mask", to.masks,
                      "of the encoder; repeatable (default: all, and longformer(256,1) on the longest)");
  command->add_option("--dtype", options->dtypes,
                      "f32, bf16, on a GPU also f16; repeatable (default: f32 and bf16, on a GPU f16)");
  command->add_option("--device", to.device, "auto, cpu, cuda, cuda:N")->capture_default_str();
  add_number(command, "--threads", options->threads, "of the CPU; 0: all")->capture_default_str();
  add_number(command, "--seconds", to.seconds, "that a row is timed for, at least five calls")->capture_default_str();
  command->add_flag("--split", to.split, "of the encoder's rows on the CPU: where their time goes, into --json");
  command->add_option("--hidden-out", to.hidden_out, "write the last encoder row's hidden states, f4 [tokens, hidden]");
  command->add_option("--json", options->json, "write the results as JSON into FILE, row by row ('-': to stdout)");
  command->add_flag("--resume", options->resume, "go on with the rows that --json FILE has");
  command->callback([options] { bench(*options); });
}

}  // namespace stof::cli
