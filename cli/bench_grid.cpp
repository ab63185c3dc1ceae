// SPDX-License-Identifier: Apache-2.0
// Whole encoders and decoders under masks, each tuned for its size of call first: what fusion and masked attention
// bring, together and alone. bench/peers/models.py measures the same models in torch, bench/peers/modernbert.py those
// beside the grid.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>

#include "cli/bench_model.h"
#include "cli/build_commit.h"
#include "cli/call_times.h"
#include "cli/kernels_ahead.h"
#include "cli/loading.h"
#include "cli/messages.h"
#include "cli/random_model.h"
#include "cli/tuning_words.h"
#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/stopwatch.h"
#include "src/codegen/compiler.h"
#include "src/fusion/plan_cache.h"
#include "src/runtime/tune.h"

namespace stof::cli {
namespace {

struct GridCase {
  std::string model, mask;
  std::array<std::int64_t, 2> shape;
  DType dtype = DType::f16;
  std::string ablation = "both";
  std::string id() const {
    return fmt::format("grid {} ({},{}) {} {} {}", model, shape[0], shape[1], name_of(dtype), mask, ablation);
  }
};

struct Place {
  const char *model, *mask;
  std::array<std::int64_t, 2> shape;
};
// bench/peers/models.py has the same.
constexpr std::array<Place, 7> kGrid{{{"bert-base", "all", {1, 128}},
                                      {"bert-base", "all", {8, 512}},
                                      {"bert-base", "bigbird(64,3,2,3,1)", {8, 2048}},
                                      {"bert-base", "bigbird(64,3,2,3,1)", {16, 2048}},
                                      {"gpt2", "causal & window(32)", {1, 1024}},
                                      {"gpt2", "causal & window(64)", {8, 2048}},
                                      {"bert-large", "longformer(32,32)", {1, 4096}}}};
// bench/peers/modernbert.py has the same: a window of 128 keys in two of three layers, by itself.
constexpr std::array<Place, 3> kMore{{{"modernbert-base", "all", {1, 512}},
                                      {"modernbert-base", "all", {8, 2048}},
                                      {"modernbert-base", "all", {1, 8192}}}};

// A folder with one mask and shape each, or the grid, or what is beside it.
std::vector<GridCase> cases_of(const ModelBench& bench) {
  std::vector<GridCase> cases;
  for (const DType dtype : bench.dtypes)
    for (const std::string& ablation : bench.ablations) {
      if (bench.encoder.empty()) {
        const std::span<const Place> places = bench.beside_grid ? std::span<const Place>(kMore) : kGrid;
        for (const Place& place : places) cases.push_back({place.model, place.mask, place.shape, dtype, ablation});
        continue;
      }
      for (const std::string& mask : bench.masks.empty() ? std::vector<std::string>{"all"} : bench.masks)
        for (const auto& shape : bench.shapes) cases.push_back({bench.encoder, mask, shape, dtype, ablation});
    }
  if (!bench.only.empty())
    std::erase_if(cases, [&](const GridCase& one) { return one.id().find(bench.only) == std::string::npos; });
  return cases;
}

TokenBatch tokens_of(const GridCase& one, std::int64_t vocabulary) {
  TokenBatch batch;
  std::uint64_t seed = 0;
  for (std::int64_t text = 0; text < one.shape[0]; ++text) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(one.shape[1]));
    for (std::int32_t& id : ids)
      id = static_cast<std::int32_t>(splitmix64(++seed) % static_cast<std::uint64_t>(vocabulary));
    batch.add(ids);
  }
  return batch;
}

std::int64_t weight_bytes(const Model& model, DType dtype) {
  std::int64_t values = 0;
  for (const auto& [name, tensor] : model.weights)
    values += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies());
  return values * static_cast<std::int64_t>(size_of(dtype));
}

struct Tuned {
  TuneResult result;
  double seconds = 0;  // with what was compiled for it
  int compiled = 0;
  std::vector<std::string> moves;
};

Tuned tuned(const Model& model, const GridCase& one, const ModelBench& bench) {
  Tuned made;
  const Ablation ablation = ablation_of(one.ablation);
  TuneOptions options{.device = open_device(bench.device),
                      .dtype = one.dtype,
                      .mask = parse(one.mask),
                      .texts = one.shape[0],
                      .longest = one.shape[1],
                      .ablation = ablation,
                      .budget_seconds = bench.budget_seconds,
                      .against_f32 = ablation.attention,  // without it another result is computed
                      .folder = plan_folder(),
                      .model_name = one.model,
                      .commit = std::string(build_commit()),
                      .explain = [&](const std::string& line) { made.moves.push_back(line); },
                      .log = [](std::string_view message) { say(fmt::format("stof: {}\n", message)); }};
  const int before = machine_compiler().compiled();
  const Stopwatch watch;
  {
    const std::unique_ptr<KernelsAhead> ahead = kernels_ahead(model, options, 0);
    made.result = tune(model, options);
  }
  made.seconds = watch.seconds() - made.result.f32_seconds;
  made.compiled = machine_compiler().compiled() - before;
  return made;
}

// Around a call of a session, results copied to the host: what a user waits for.
Json wall_of(const Model& model, const GridCase& one, const ModelBench& bench) {
  const Session session(model, {.device = bench.device, .dtype = one.dtype, .mask = parse(one.mask)});
  const TokenBatch batch = tokens_of(one, model.config.vocab_size);
  return json_of(time_calls([&] { session.embed(batch, Pooling::mean); }, bench.seconds));
}

double best_us(const FusionPlan& plan) {
  for (const ConfirmedTime& time : plan.confirmed)
    if (time.what == plan.origin) return time.us;
  return 0;
}

void check(const GridCase& one, const TuneResult& result) {
  if (!result.f32_error) return;
  const double bound = one.dtype == DType::f32 ? 1e-4 : one.dtype == DType::f16 ? 5e-3 : 5e-2, of_a_row = 10 * bound;
  const RowErrors& error = *result.f32_error;
  if (!(error.all <= bound) || !(error.worst_row <= of_a_row))
    fail(ErrorKind::internal, "bug in STOF: {}: off from f32 by {:.1e}, a row by {:.1e}; accepted: {:.0e}, {:.0e}",
         one.id(), error.all, error.worst_row, bound, of_a_row);
}

Json measured(const Model& model, const GridCase& one, const ModelBench& bench) {
  const Tuned made = tuned(model, one, bench);
  const TuneResult& result = made.result;
  check(one, result);
  Json row{{"id", one.id()},
           {"model", one.model},
           {"mask", one.mask},
           {"shape", one.shape},
           {"dtype", name_of(one.dtype)},
           {"ablation", one.ablation},
           {"median_us", best_us(result.plan)},
           {"tuning",
            {{"seconds", made.seconds},
             {"search_seconds", result.seconds},
             {"parts_seconds", result.parts_seconds},
             {"race_seconds", result.race_seconds},
             {"refining_seconds", result.refining_seconds},
             {"compiled", made.compiled},
             {"measured", result.measured},
             {"remembered", result.remembered},
             {"wrong", result.wrong},
             {"finished", result.search.finished}}},
           {"memory", {{"activations", result.arena_bytes}, {"weights", weight_bytes(model, one.dtype)}}},
           {"plan", to_json(result.plan)},
           {"moves", made.moves}};
  if (result.f32_error) {
    row["f32_error"] = result.f32_error->all;
    row["f32_worst_row"] = result.f32_error->worst_row;
  }
  if (result.kept) row["wall"] = wall_of(model, one, bench);
  return row;
}

}  // namespace

std::vector<std::string> grid_rows(const ModelBench& bench) {
  std::vector<std::string> ids;
  for (const GridCase& one : cases_of(bench)) ids.push_back(one.id());
  return ids;
}

void bench_grid(const ModelBench& bench, BenchResults& results, Progress& progress) {
  std::string held;
  Model model;
  for (const GridCase& one : cases_of(bench)) {
    if (results.find(one.id()) == nullptr) {
      const std::string wanted = bench.encoder.empty() ? fmt::format("{} {}", one.model, one.shape[1]) : one.model;
      if (held != wanted)
        model = bench.encoder.empty() ? random_model(one.model, one.shape[1], 1) : load_model(bench.encoder);
      held = wanted;
      results.add(measured(model, one, bench));
    }
    progress.advance(1);
  }
}

}  // namespace stof::cli
