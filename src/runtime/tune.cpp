// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/tune.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/backend/contract.h"
#include "src/base/counted.h"
#include "src/base/error.h"
#include "src/base/memory.h"
#include "src/base/stopwatch.h"
#include "src/codegen/compiler.h"
#include "src/fusion/fuse.h"
#include "src/fusion/plan_cache.h"
#include "src/fusion/plan_model.h"
#include "src/fusion/work.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/accepted.h"
#include "src/runtime/contest.h"
#include "src/runtime/measured_times.h"
#include "src/runtime/memory_plan.h"
#include "src/runtime/model_weights.h"

namespace stof {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;  // of a call: devices count them in 32 bits, rounded up

// Of a call of so many rows on the host, done operator by operator: no scheme needs more.
std::int64_t most_arena_bytes(const Blocks& blocks, DType dtype, std::int64_t rows) {
  return plan_arena(fuse(blocks, detached_scheme(blocks))).elements(row_capacity(rows)) *
         static_cast<std::int64_t>(size_of(dtype));
}

// Besides activations, what the host holds: token, position and segment of each row, offset and length of each text,
// and the weights once. A scheme that fuses gates holds their matrices again, in another order.
double other_bytes(const Graph& simplified, const TuneOptions& options) {
  const double tokens = 3.0 * static_cast<double>(options.texts * options.longest),
               texts = 2.0 * static_cast<double>(options.texts);
  return 4 * (tokens + texts) + static_cast<double>(weight_bytes(simplified, options.dtype));
}

// The dtypes of what is looked up in, in the order of the graph.
std::string tables_of(const Graph& simplified) {
  std::string dtypes;
  for (const Node& node : simplified.nodes)
    if (std::holds_alternative<op::Lookup>(node.op))
      for (const Weight& table : node.weights) dtypes += fmt::format("{} ", name_of(table.tensor.dtype));
  return dtypes;
}

class Tuning {
 public:
  Tuning(const Model& model, const TuneOptions& options)
      : options_(options),
        vocabulary_(model.config.vocab_size),
        simplified_(simplify(build_graph(model, GraphResult::hidden, options.global_tokens))),
        restricted_(options.mask && options.ablation.attention ? restrict_attention(simplified_, *options.mask)
                                                               : simplified_),
        blocks_(restricted_, {.device = &options.device, .dtype = options.dtype, .keeps_keys = options.prompts}),
        program_{.device = options.device, .dtype = options.dtype, .longest = model.config.max_positions} {
    program_.weights = std::make_shared<WeightStore>();
    timed_ = even_call(options.texts, options.longest, model.config.max_positions);
    const Bucket& bucket = timed_.bucket;
    call_ = {&options_.device, options.dtype, bucket.rows, bucket.texts, bucket.longest};
  }

  TuneResult run() {
    const Stopwatch watch;
    TuneResult result;
    result.bucket = timed_.bucket;
    PlanKey key = plan_key(simplified_, options_.mask, call_, options_.prompts);
    key.weights = weights_fingerprint(simplified_);
    TimeLog log({.folder = options_.folder,
                 .scope = scope_of(key),
                 .weights = key.weights,
                 .again = options_.again,
                 .log = options_.log});
    MeasuredTimes times({.program = program_,
                         .call = timed_,
                         .seconds_a_time = options_.seconds_a_time,
                         .most_bytes = bytes_for_activations(),
                         .budget_seconds = options_.budget_seconds},
                        log);
    const SearchResult analytical = analytical_search(blocks_, call_);
    result.search = searched(times, analytical);
    result.parts_seconds = watch.seconds();
    times.release();
    result.plan = {.key = key,
                   .model = options_.model_name,
                   .mask = options_.mask.value_or(all()).text(),
                   .scheme = result.search.scheme,
                   .origin = options_.scheme ? "forced" : "tuned",
                   .works = {},
                   .confirmed = {},
                   .commit = options_.commit,
                   .when = now_utc()};
    confirm(result, analytical, log, times);
    result.measured = times.measured();
    result.remembered = times.remembered();
    result.compared = times.compared();
    result.wrong = times.wrong();
    result.seconds = watch.seconds() - result.f32_seconds;
    if (options_.ablation.is_whole())
      result.kept = PlanCache({.folder = options_.folder, .log = options_.log}).publish(result.plan);
    return result;
  }

  using See = std::function<void(const LinearSpec&, std::int64_t, const MatmulSetting&)>;
  void for_each_setting(const See& see) {
    const std::vector<Scheme> schemes = starts(analytical_search(blocks_, call_));
    const auto first = static_cast<std::size_t>(SearchOptions{}.samples);
    // A scheme is judged by the first settings of its works; the others are for the winner alone.
    for (const bool later : {false, true})
      for (const Scheme& scheme : schemes) {
        const Graph fused = fuse(blocks_, scheme);
        for (const Node& node : fused.nodes) {
          if (!std::holds_alternative<op::Linear>(node.op) && !std::holds_alternative<op::MatMul>(node.op)) continue;
          const std::vector<Candidate> all = promising({work_text(fused, node), fused, node}, call_);
          for (std::size_t i = later ? first : 0; i < (later ? all.size() : std::min(first, all.size())); ++i)
            if (!all[i].setting.empty())
              see(linear_spec(node, options_.dtype, &options_.device), call_.rows, matmul_setting_of(all[i].setting));
        }
      }
  }

 private:
  std::vector<Scheme> starts(const SearchResult& analytical) const {
    if (options_.scheme) return {parse_scheme(*options_.scheme, blocks_.scheme_shape(), default_scheme(blocks_))};
    if (!options_.ablation.fusion) return {detached_scheme(blocks_)};
    std::vector<Scheme> schemes = known_schemes(blocks_);
    schemes.push_back(analytical.scheme);
    return schemes;
  }

  // Of parts that are timed: as many as fit easily, or what the whole takes anyway. 0: the device says itself when it
  // has no more.
  double bytes_for_activations() const {
    if (options_.device.backend->open_stream != nullptr) return 0;
    const auto whole = static_cast<double>(most_arena_bytes(blocks_, options_.dtype, call_.rows));
    return std::max(whole, (static_cast<double>(memory_limit()) - other_bytes(simplified_, options_)) / 2);
  }

  // All that the time of a work depends on, besides the work. On the host attention is planned for the longest text
  // that the model takes, and tables are read as the checkpoint has them; kernels there are the library's version's.
  // Those of a GPU may change within a version, and are compiled by whatever NVRTC there is.
  std::string scope_of(const PlanKey& key) const {
    std::string kernels;
    if (!key.cuda.empty())
      kernels = fmt::format(", compiler {}, kernels {}", machine_compiler().version(), kernels_fingerprint());
    return fmt::format(
        "{} x{}, driver {}, cuda {}, blas {}, library {}, {}, {} rows, {} texts of {}, asked {} of {}, {} positions, "
        "tables {}{}",
        key.device, key.cores, key.driver, key.cuda, key.blas, key.library, key.dtype, key.rows, key.texts, key.longest,
        timed_.texts, timed_.length, program_.longest, tables_of(simplified_), kernels);
  }

  SearchResult searched(MeasuredTimes& times, const SearchResult& analytical) {
    SearchOptions search_options{.seed = options_.seed, .explain = options_.explain, .progress = options_.progress};
    const std::vector<Scheme> schemes = starts(analytical);
    check_scheme(blocks_, schemes.front());
    search_options.change_scheme = !options_.scheme && options_.ablation.fusion;
    return search(blocks_, schemes, times, search_options);
  }

  // Measured where the log has it, else predicted.
  std::vector<PlannedWork> works_of(const Contender& decided, const TimeLog& log) const {
    const Graph fused = fuse(blocks_, decided.scheme);
    std::map<std::string, PlannedWork> works;
    for (const Node& node : fused.nodes) {
      const std::string text = work_text(fused, node);
      PlannedWork& planned = works[text];
      if (planned.count++ > 0) continue;
      const auto setting = decided.settings.find(text);
      planned.work = text;
      planned.setting = setting == decided.settings.end() ? "" : setting->second;
      for (const Candidate& candidate : candidates_of({text, fused, node}, call_))
        if (candidate.setting == planned.setting) planned.us = candidate.predicted_us;
      if (const LoggedTime* time = log.find(text, planned.setting)) {
        planned.us = time->us;
        planned.spread = time->spread;
        planned.runs = time->runs;
        planned.when = time->when;
      }
    }
    std::vector<PlannedWork> list;
    for (auto& [text, work] : works) list.push_back(std::move(work));
    return list;
  }

  // What a search that may end too early would write over.
  std::optional<Contender> kept_before(const PlanKey& key) const {
    if (options_.budget_seconds <= 0 || options_.scheme || !options_.ablation.is_whole()) return std::nullopt;
    const std::optional<FusionPlan> plan = PlanCache({.folder = options_.folder, .log = options_.log}).find(key);
    if (!plan) return std::nullopt;
    return Contender{"kept", plan->scheme, settings_of(*plan)};
  }

  void enter_kept(Contest& contest, const Contender& kept) const {
    try {
      Contender whole = kept;
      whole.scheme = parse_scheme(kept.scheme.text(), blocks_.scheme_shape(), default_scheme(blocks_));
      contest.enter(whole);
    } catch (const Error& error) {
      if (options_.log) options_.log(fmt::format("plans: the plan of before is not compared: {}", error.what()));
    }
  }

  // The best of the parts, and while there is time what else may be the best of the whole.
  void enter_all(Contest& contest, TuneResult& result, const SearchResult& analytical, MeasuredTimes& times) const {
    const bool free = !options_.scheme;
    const Contender by_default{"default", default_scheme(blocks_), {}, free};
    const auto enter_in_time = [&](const Contender& contender) {
      if (times.has_time()) contest.enter(contender);
      else result.search.finished = false;
    };
    if (options_.ablation.fusion) {
      enter_in_time(by_default);
      enter_in_time({"analytical", analytical.scheme, analytical.settings, free});
    }
    contest.enter({result.plan.origin, result.search.scheme, result.search.settings});
    if (free && options_.ablation.is_whole() && options_.device.backend->matmul.settings != nullptr) {
      const SearchResult found = analytical_search(blocks_, at_once(call_));
      enter_in_time({"untuned", found.scheme, found.settings});
    }
    for (std::size_t i = 0; free && i < result.search.rivals.size(); ++i)
      enter_in_time({fmt::format("tuned {}", i + 2), result.search.rivals[i].scheme, result.search.rivals[i].settings});
    if (free && options_.ablation.fusion && !contest.has_right()) contest.enter(by_default);
  }

  // End to end, in the same command: what wins is what was measured to be fastest as a whole, and computes the same.
  void confirm(TuneResult& result, const SearchResult& analytical, const TimeLog& log, MeasuredTimes& times) {
    const Stopwatch watch;
    const std::optional<Contender> kept = kept_before(result.plan.key);
    Contest contest(blocks_, {.program = program_,
                              .call = timed_,
                              .vocabulary = vocabulary_,
                              .seconds = options_.confirming_seconds,
                              .seconds_a_change = options_.confirming_seconds / 4,
                              .has_time = [&] { return kept || times.has_time(); },
                              .explain = options_.explain});
    enter_all(contest, result, analytical, times);
    if (kept) enter_kept(contest, *kept);
    contest.race();
    result.race_seconds = watch.seconds();
    result.search.finished = result.search.finished && times.has_time();
    if (!options_.scheme && result.search.finished) contest.refine("refined", changes_of(contest.winner(), result));
    result.refining_seconds = watch.seconds() - result.race_seconds;
    result.plan.confirmed = contest.times();
    result.arena_bytes = contest.arena_bytes();
    if (options_.against_f32) {
      const Stopwatch asked;
      result.f32_error = contest.error_against_f32();
      result.f32_seconds = asked.seconds();
    }
    // The parts may have been faster and the whole not.
    result.plan.origin = contest.winner().what;
    result.plan.scheme = contest.winner().scheme;
    result.plan.works = works_of(contest.winner(), log);
  }

  std::vector<Change> changes_of(const Contender& winner, const TuneResult& result) const {
    const Graph fused = fuse(blocks_, winner.scheme);
    std::map<std::string, int> counts;
    for (const Node& node : fused.nodes) ++counts[work_text(fused, node)];
    return worth_trying(result.search, {winner.scheme, winner.settings, result.search.us}, counts);
  }

  const TuneOptions& options_;
  std::int64_t vocabulary_;
  Graph simplified_, restricted_;
  Blocks blocks_;
  ProgramOptions program_;
  EvenCall timed_;
  CostContext call_;
};

void check_prompts(const ModelConfig& config, const Device& device) {
  if (!is_decoder(config.family) || !config.causal)
    fail(ErrorKind::unsupported, "prompts of {}, which does not generate; accepted: a decoder that is causal",
         config.architecture);
  if (device.backend->matmul.settings == nullptr)
    fail(ErrorKind::invalid_argument, "prompts on {} run by the default plan; accepted to tune them for: a GPU",
         device.backend->name);
}

}  // namespace

void check_call(const Model& model, const TuneOptions& options) {
  if (options.texts < 1 || options.longest < 1 || options.longest > model.config.max_positions)
    fail(ErrorKind::invalid_argument, "{} of {} tokens; accepted: 1 or more, of 1 to {} tokens",
         counted(options.texts, "text", "texts"), options.longest, model.config.max_positions);
  if (options.texts > kMostTokens / options.longest)
    fail(ErrorKind::invalid_argument, "{} of {} tokens; accepted: at most {} tokens together",
         counted(options.texts, "text", "texts"), options.longest, kMostTokens);
  if (options.mask) same_for_every_text(*options.mask);
  if (options.prompts) check_prompts(model.config, options.device);
  if (options.device.backend->open_stream != nullptr) return;  // a device says itself what it has no room for
  const Graph simplified = simplify(build_graph(model, GraphResult::hidden, options.global_tokens));
  const std::int64_t arena = most_arena_bytes(Blocks(simplified, {&options.device, options.dtype}), options.dtype,
                                              bucket_rows(options.texts * options.longest));
  check_memory(fmt::format("{} of {} tokens, with activations and weights", counted(options.texts, "text", "texts"),
                           options.longest),
               static_cast<double>(arena) + other_bytes(simplified, options));
}

void for_each_setting(const Model& model, const TuneOptions& options,
                      const std::function<void(const LinearSpec&, std::int64_t rows, const MatmulSetting&)>& see) {
  check_call(model, options);
  Tuning(model, options).for_each_setting(see);
}

TuneResult tune(const Model& model, const TuneOptions& options) {
  check_call(model, options);
  return Tuning(model, options).run();
}

}  // namespace stof
