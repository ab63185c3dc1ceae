// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/base/out_of_memory.h"
#include "src/fusion/fuse.h"
#include "src/fusion/work.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/model_weights.h"

namespace stof {
namespace {

std::string text_of(const ChosenPlan& plan) {
  std::string text = plan.scheme.text();
  for (const auto& [work, setting] : plan.settings) text += fmt::format("\n{}: {}", work, setting);
  return text;
}

// A scheme of the model without scores, and their product by itself.
Scheme with_scores(Scheme scheme, const SchemeShape& shape) {
  if (scheme.bits.size() + 1 == shape.operators.size()) scheme.bits.emplace_back("0");
  else if (scheme.bits.size() > 1) scheme.bits.back() += scheme.bits.back().back() == '0' ? '1' : '0';
  return scheme;
}

}  // namespace

Programs::Programs(const Graph& simplified, const ProgramsOptions& options)
    : options_(options),
      asked_{.graph = simplified},
      restricted_(options.mask ? restrict_attention(simplified, *options.mask) : simplified) {
  const Device& device = options_.program.device;
  check_weights_fit(asked_.graph, options_.program.dtype, device);
  if (const auto wake = device.backend->matmul.wake) try {
      waking_ = std::async(std::launch::async, wake, device, options_.program.dtype);
    } catch (const std::system_error&) {  // no thread is to be had: the first call waits
    }
  blocks_.emplace(restricted_, FusionTarget{&device, options_.program.dtype});
  default_scheme_ = default_scheme(*blocks_);
  options_.program.weights = std::make_shared<WeightStore>();
  default_ = &made({.scheme = default_scheme_, .settings = {}, .origin = "default"});
}

// What work() gives, with making_ held. What there is to say is said when that is over: who is told may call the
// session.
template <class Work>
auto Programs::alone(const Work& work) const {
  std::optional<decltype(work())> result;
  std::vector<std::string> said;
  std::exception_ptr error;
  {
    const std::lock_guard one_at_a_time(making_);
    try {
      result = work();
    } catch (...) {
      error = std::current_exception();
    }
    said.swap(to_say_);
  }
  for (const std::string& message : said)
    if (options_.plans.log) options_.plans.log(message);
  if (error) std::rethrow_exception(error);
  return *std::move(result);
}

// The bucket's of these, which make() makes where it is not known.
template <class Make>
const Program& Programs::of(ByBucket& programs, const Bucket& bucket, const Make& make) const {
  if (const Program* program = known(programs, bucket)) return *program;
  return *alone([&] {
    if (const Program* program = known(programs, bucket)) return program;
    const Program* const program = &make();
    const std::lock_guard lock(mutex_);
    programs[bucket] = program;
    return program;
  });
}

const Program& Programs::of(const Bucket& bucket) const {
  return of(by_bucket_, bucket, [&]() -> const Program& { return made_for(bucket); });
}

const Program& Programs::of_prompts(const Bucket& bucket) const {
  if (options_.program.device.backend->matmul.settings == nullptr) return *default_;
  return of(prompts_by_bucket_, bucket, [&]() -> const Program& { return made_for_prompts(bucket); });
}

const Program& Programs::made_for_prompts(const Bucket& bucket) const {
  const ProgramOptions& options = options_.program;
  const CostContext call = call_of(bucket);
  if (const std::optional<ChosenPlan> kept = kept_plan_of_prompts(call))
    if (const Program* const program = made_if_possible(*kept)) return *program;
  if (!prompt_blocks_)
    prompt_blocks_.emplace(restricted_,
                           FusionTarget{.device = &options.device, .dtype = options.dtype, .keeps_keys = true});
  ChosenPlan plan = predicted_plan(*prompt_blocks_, call);
  leave_scores(plan, bucket);
  return made_or_default(plan, bucket.rows);
}

// Scores are of one row a text, whatever the size of the call: where it can, the backend chooses for those.
void Programs::leave_scores(ChosenPlan& plan, const Bucket& bucket) const {
  const Graph fused = fuse(*blocks_, plan.scheme);
  const Node& scores = *std::ranges::find(fused.nodes, fused.result, &Node::output);
  const auto chosen = plan.settings.find(work_text(fused, scores));
  if (chosen == plan.settings.end()) return;
  const ProgramOptions& options = options_.program;
  const auto refuses = options.device.backend->matmul.refuses;
  const LinearSpec spec = linear_spec(scores, options.dtype, &options.device);
  if (refuses == nullptr || !refuses(spec, bucket.texts, {})) plan.settings.erase(chosen);
}

const Program& Programs::of_few_rows() const {
  const auto known = [&]() -> const Program* {
    const std::lock_guard lock(mutex_);
    if (!asked_for_few_rows_) return nullptr;
    return few_rows_ ? few_rows_.get() : default_;
  };
  if (const Program* program = known()) return *program;
  return *alone([&] {
    if (const Program* program = known()) return program;
    make_few_rows();
    const std::lock_guard lock(mutex_);
    asked_for_few_rows_ = true;
    return few_rows_ ? static_cast<const Program*>(few_rows_.get()) : default_;
  });
}

void Programs::make_few_rows() const {
  ProgramOptions options = options_.program;
  if (options.device.backend->matmul.few_rows == 0) return;
  const Blocks blocks(restricted_, {.device = &options.device, .dtype = options.dtype, .few_rows = true});
  const Graph fused = fuse(blocks, few_rows_scheme(blocks));
  const bool gains = std::ranges::any_of(fused.nodes, [](const Node& node) {
    const auto* linear = std::get_if<op::Linear>(&node.op);
    return linear != nullptr && linear->few_rows;
  });
  if (!gains) return;
  // The default program has made sure that every text is taken, by planning attention for the longest.
  options.runs_prompts = default_ == nullptr;
  try {
    auto program = program_of(fused, options);
    const std::lock_guard lock(mutex_);
    few_rows_ = std::move(program);
  } catch (const Error& error) {
    if (!is_out_of_memory(error)) throw;
    say(fmt::format("steps of few texts run by the default plan: {}", error.what()));
  }
}

const Program* Programs::known(const ByBucket& programs, const Bucket& bucket) const {
  const std::lock_guard lock(mutex_);
  const auto found = programs.find(bucket);
  return found == programs.end() ? nullptr : found->second;
}

ChosenPlan Programs::plan_of(const Bucket& bucket) const {
  return alone([&]() -> ChosenPlan {
    const CostContext call = call_of(bucket);
    if (std::optional<ChosenPlan> kept = kept_plan(asked_, call)) return *std::move(kept);
    return predicted_plan(*blocks_, call);
  });
}

std::int64_t Programs::plans_made() const {
  std::vector<const Program*> programs;  // which stay: to be asked where no call waits for the answer
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [plan, program] : by_plan_) programs.push_back(program.get());
    if (few_rows_) programs.push_back(few_rows_.get());
  }
  std::int64_t sum = 0;
  for (const Program* const program : programs) sum += program->plans_made();
  return sum;
}

std::int64_t Programs::arena_bytes(std::int64_t rows, std::int64_t kept) const {
  const std::lock_guard lock(mutex_);
  std::int64_t most = 0;
  for (const auto& [plan, program] : by_plan_) most = std::max(most, program->arena_bytes(rows, kept));
  return most;
}

std::size_t Programs::count() const {
  const std::lock_guard lock(mutex_);
  return by_plan_.size();
}

void Programs::say(const std::string& message) const { to_say_.push_back("plans: " + message); }

CostContext Programs::call_of(const Bucket& bucket) const {
  return {&options_.program.device, options_.program.dtype, bucket.rows, bucket.texts, bucket.longest};
}

// What a plan needs may be there and not work: a kernel that does not compile or load, weights in an order of their own
// that no memory is left for. Null: that was said.
const Program* Programs::made_if_possible(const ChosenPlan& kept) const {
  try {
    return &made(kept);
  } catch (const Error& error) {
    say(fmt::format("the plan of this model is not used: {}", error.what()));
    return nullptr;
  }
}

// The default program is there in any case.
const Program& Programs::made_for(const Bucket& bucket) const {
  const CostContext call = call_of(bucket);
  if (const std::optional<ChosenPlan> kept = kept_plan(asked_, call))
    if (const Program* const program = made_if_possible(*kept)) return *program;
  return made_or_default(predicted_plan(*blocks_, call), call.rows);
}

const Program& Programs::made_or_default(const ChosenPlan& plan, std::int64_t rows) const {
  try {
    return made(plan);
  } catch (const Error& error) {
    if (!is_out_of_memory(error)) throw;
    say(fmt::format("calls of {} rows run by the default plan: {}", rows, error.what()));
    return *default_;
  }
}

ChosenPlan Programs::predicted_plan(const Blocks& blocks, const CostContext& call) const {
  if (options_.program.device.backend->matmul.settings == nullptr)
    return {.scheme = default_scheme_, .settings = {}, .origin = "default"};
  SearchResult found = analytical_search(blocks, at_once(call));
  return {.scheme = std::move(found.scheme), .settings = std::move(found.settings), .origin = "analytical"};
}

// Of the model without scores, which is what is measured.
std::optional<ChosenPlan> Programs::kept_plan_of_prompts(const CostContext& call) const {
  if (options_.plans.folder.empty()) return std::nullopt;
  if (!asked_of_prompts_) asked_of_prompts_ = {.graph = without_logits(asked_.graph), .keeps_keys = true};
  return kept_plan(*asked_of_prompts_, call);
}

// A plan may name what there is not here: it is then as if there were none.
std::optional<ChosenPlan> Programs::kept_plan(Question& asked, const CostContext& call) const {
  if (options_.plans.folder.empty()) return std::nullopt;
  PlanCacheOptions plans = options_.plans;
  plans.log = [this](std::string_view message) { to_say_.emplace_back(message); };
  const PlanCache cache(std::move(plans));
  PlanKey key = plan_key(asked.graph, options_.mask, call, asked.keeps_keys);
  if (!cache.has_answers(key)) return std::nullopt;
  if (asked.weights.empty()) asked.weights = weights_fingerprint(asked.graph);
  key.weights = asked.weights;
  const std::optional<FusionPlan> plan = cache.find(key);
  if (!plan) {
    if (asked.told_of_others) return std::nullopt;
    const std::optional<std::string> why_not = cache.near_miss(key);
    if (why_not) say(*why_not);
    asked.told_of_others = why_not.has_value();
    return std::nullopt;
  }
  ChosenPlan chosen{.scheme = {}, .settings = settings_of(*plan), .origin = plan->origin, .kept = true};
  try {
    const SchemeShape shape = blocks_->scheme_shape();
    const Scheme kept = asked.keeps_keys ? with_scores(plan->scheme, shape) : plan->scheme;
    chosen.scheme = parse_scheme(kept.text(), shape, default_scheme_);
    check_settings(fuse(*blocks_, chosen.scheme), chosen, call);
    return chosen;
  } catch (const Error& error) {
    say(fmt::format("the plan of this model is not used: {}", error.what()));
    return std::nullopt;
  }
}

void Programs::check_settings(const Graph& fused, const ChosenPlan& plan, const CostContext& call) const {
  std::map<std::string, const Node*> works;
  for (const Node& node : fused.nodes) works[work_text(fused, node)] = &node;
  const Backend& backend = *call.device->backend;
  const std::string no_compiler =
      backend.why_not_compiled != nullptr ? backend.why_not_compiled(*call.device) : std::string();
  for (const auto& [work, setting] : plan.settings) {
    const auto found = works.find(work);
    if (found == works.end() || backend.matmul.refuses == nullptr)
      fail(ErrorKind::invalid_argument, "its scheme has no '{}' with a setting", work);
    const LinearSpec spec = linear_spec(*found->second, call.dtype, call.device);
    const MatmulSetting named = matmul_setting_of(setting);
    if (const auto why_not = backend.matmul.refuses(spec, call.rows, named))
      fail(ErrorKind::unsupported, "'{}': {}", work, *why_not);
    if (!no_compiler.empty() && !backend.matmul.is_built_in(spec, call.rows, named))
      fail(ErrorKind::unsupported, "'{}': '{}' is not part of this build and cannot be compiled: {}", work, setting,
           no_compiler);
  }
}

// Weights that were packed for one that is not made go with it.
std::unique_ptr<Program> Programs::program_of(const Graph& fused, const ProgramOptions& options) const {
  const auto attempt = [&] {
    try {
      return std::make_unique<Program>(fused, options);
    } catch (...) {
      options_.program.weights->drop_unused();
      throw;
    }
  };
  try {
    return attempt();
  } catch (const Error& error) {
    const bool may_have_room = default_ != nullptr && options_.make_room;  // at first there is nobody else
    if (!is_out_of_memory(error) || !may_have_room || !options_.make_room()) throw;
  }
  return attempt();
}

const Program& Programs::made(const ChosenPlan& plan) const {
  const std::string text = text_of(plan);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_plan_.find(text); known != by_plan_.end()) return *known->second;
  }
  std::unique_ptr<Program> program;
  ProgramOptions options = options_.program;
  options.runs_prompts =
      default_ == nullptr;  // whose attention is planned for the longest text, at once: for all of them
  for (const auto& [work, setting] : plan.settings) options.settings[work] = matmul_setting_of(setting);
  try {
    program = program_of(fuse(*blocks_, plan.scheme), options);
  } catch (const Error& error) {
    if (!is_out_of_memory(error)) throw;
    fail(ErrorKind::device, "{}; the weights need {} bytes in {}{}", error.what(),
         weight_bytes(asked_.graph, options.dtype), name_of(options.dtype),
         options.dtype == DType::f32 ? ": 16-bit dtypes need half of it" : "");
  }
  const std::lock_guard lock(mutex_);
  return *by_plan_.emplace(text, std::move(program)).first->second;
}

}  // namespace stof
