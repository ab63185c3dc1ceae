// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/program.h"

#include <algorithm>
#include <set>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/mask/bind.h"
#include "src/runtime/step_attention.h"

namespace stof {
namespace {

// Bytes of activations from which on it matters in which order they are read again. Of the 50 MB that an H200 keeps:
// BERT-base (8, 512) gains, with 25 MB; (1, 128) and GPT-2 (1, 1024) do not, with 1 and 6; nothing between them was
// measured (bench/results/h200-cache-use.txt).
constexpr std::int64_t kCachedBytes = std::int64_t{12} << 20;

// Of a step that the host launches by itself: it takes 6 to 9 us (first tokens behind 64, 2.3 ms for some 250 steps,
// bench/results/20dbe8c-h200-generate.json), in which an H200 multiplies by so many weights.
constexpr std::int64_t kWeightsOfLaunch = std::int64_t{2} << 30;

}  // namespace

Program::Program(const Graph& graph, const ProgramOptions& options)
    : options_(options),
      arena_(plan_arena(graph)),
      split_(split_arena(graph)),
      result_(graph.result),
      result_columns_(graph.value(graph.result).columns) {
  if (!options_.weights) options_.weights = std::make_shared<WeightStore>();
  for (const ValueId value : split_.live) {
    const Value& live = graph.value(value);
    live_rows_.push_back({.columns = live.columns, .moments_bytes = live.moments ? moments_bytes(1, live.columns) : 0});
  }
  add_steps(graph);
  for (const auto& [work, setting] : options.settings) use(work, setting);
  if (options_.runs_prompts) plans(1, options_.longest);  // what no kernel takes is refused here
}

void Program::use(const std::string& work, const std::optional<MatmulSetting>& setting) {
  const auto tunable = tunables_.find(work);
  if (tunable == tunables_.end()) fail(ErrorKind::invalid_argument, "no matmul '{}' in this program", work);
  const auto prepare = options_.device.backend->matmul.prepare;
  if (setting && prepare != nullptr)
    for (const PackedLinear& packed : tunable->second.packed) prepare(packed, *setting);
  *tunable->second.setting = setting;
}

namespace {

// Arenas begin at multiples of it.
constexpr std::int64_t kAlignment = 256;
std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

std::int64_t Program::arena_bytes(std::int64_t rows, std::int64_t kept) const {
  const auto element = static_cast<std::int64_t>(size_of(options_.dtype));
  if (kept == 0) return arena_.elements(row_capacity(rows)) * element;
  return aligned(split_.body.elements(row_capacity(rows)) * element) +
         split_.tail.elements(row_capacity(kept)) * element;
}

bool Program::runs_sooner_than_launched(std::int64_t rows) const {
  return weights_of_rows_ * rows < kWeightsOfLaunch * std::ssize(steps_);
}

bool Program::keeps_keys() const { return std::ssize(cache_widths_) == attention_steps_; }

std::string Program::mask_by_length() const {
  const auto found = std::find_if(sites_.begin(), sites_.end(),
                                  [](const AttentionSite& site) { return depends_on_length(site.mask); });
  return found == sites_.end() ? std::string() : found->mask.text();
}

std::int64_t Program::cache_bytes(std::int64_t slots, std::int64_t capacity) const {
  std::int64_t bytes = 0;
  for_each_cached_layer(slots, capacity, [&](std::int64_t begin, std::int64_t row_bytes) {
    bytes = begin + slots * capacity * row_bytes;
  });
  return bytes;
}

void Program::for_each_cached_layer(std::int64_t slots, std::int64_t capacity,
                                    const std::function<void(std::int64_t, std::int64_t)>& body) const {
  std::int64_t begin = 0;
  for (const std::int64_t width : cache_widths_) {
    const std::int64_t row_bytes = width * static_cast<std::int64_t>(size_of(options_.dtype));
    body(begin, row_bytes);
    begin += slots * capacity * row_bytes;
  }
}

std::int64_t Program::place_of(ValueId value, std::int64_t row_capacity) const {
  return arena_.offset[static_cast<std::size_t>(value)] * row_capacity *
         static_cast<std::int64_t>(size_of(options_.dtype));
}

bool Program::AttentionSite::serves(const op::AttendPacked& op, std::int64_t columns) const {
  return mask.fingerprint() == op.mask.fingerprint() && heads == op.heads && kv_heads == op.kv_heads &&
         head_dim == columns && capped == op.scores.softcap.has_value() && biased == op.scores.biased;
}

AttentionShape Program::shape_of(const AttentionSite& site, std::int64_t texts, std::int64_t positions) const {
  return {.batch = texts,
          .heads = site.heads,
          .kv_heads = site.kv_heads,
          .queries = positions,
          .keys = positions,
          .head_dim = site.head_dim,
          .dtype = options_.dtype,
          .capped = site.capped,
          .biased = site.biased};
}

namespace {

const AttentionPlans& attention_of(const AttentionPlans& plans) { return plans; }
const AttentionPlans& attention_of(const StepPlans& plans) { return plans.attention; }

}  // namespace

// Those of sites that are planned for the longest text whatever comes: other sizes have asked for them. Others null.
template <class Plans>
AttentionPlans Program::for_longest_text(KeptPlans<Plans>& kept, std::int64_t texts) const {
  AttentionPlans known(sites_.size());
  kept.for_each([&](const auto& sizes, const Plans& plans) {
    for (std::size_t i = 0; i < sites_.size(); ++i)
      if (sizes.first == texts && !sites_[i].any_length) known[i] = attention_of(plans)[i];
  });
  return known;
}

const AttentionPlans& Program::plans(std::int64_t texts, std::int64_t longest) const {
  return plans_.of({texts, longest}, [&] {
    AttentionPlans plans = for_longest_text(plans_, texts);
    for (std::size_t i = 0; i < sites_.size(); ++i)
      if (const AttentionSite& site = sites_[i]; !plans[i])
        plans[i] = std::make_shared<const Attention>(
            site.mask, shape_of(site, texts, site.any_length ? longest : options_.longest), options_.device);
    return plans;
  });
}

const StepPlans& Program::step_plans(std::int64_t texts, std::int64_t keys) const {
  return step_plans_.of({texts, keys}, [&] {
    StepPlans plans{.attention = for_longest_text(step_plans_, texts), .joined = JoinedSteps(sites_.size())};
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      const AttentionSite& site = sites_[i];
      if (plans.attention[i]) continue;
      // Arrays over positions are of the longest text, and what is planned for all its rows serves any one of them.
      AttentionShape shape = shape_of(site, texts, site.any_length ? keys : options_.longest);
      if (site.any_length) shape.queries = 1;
      auto& joined = plans.joined[i];
      if (site.any_length) joined = join_step(site.mask, shape, options_.device);
      if (joined) options_.device.backend->token_attention->prepare(*joined, options_.device);
      if (!joined || !site.all_join) plans.attention[i] = step_apart(site, shape);
    }
    return plans;
  });
}

std::shared_ptr<const Attention> Program::step_apart(const AttentionSite& site, const AttentionShape& shape) const {
  auto apart = std::make_shared<const Attention>(plan_step(site.mask, shape, options_.device));
  if (site.any_length) apart->prepare(1, 1);  // where the device alone knows how many there are
  return apart;
}

std::int64_t Program::plans_made() const {
  std::set<std::shared_ptr<const Attention>> all;  // some are of several sizes
  const auto add = [&](const auto&, const auto& plans) {
    all.insert(attention_of(plans).begin(), attention_of(plans).end());
  };
  plans_.for_each(add);
  step_plans_.for_each(add);
  std::int64_t made = 0;
  for (const auto& attention : all) made += attention ? attention->plans_made() : 0;
  return made;
}

const void* Program::run(const RowBatch& batch, std::byte* arena, std::span<const std::int32_t> kept) const {
  return run({.rows = batch.rows,
              .row_capacity = row_capacity(batch.rows),
              .arena = arena,
              .indices = {batch.tokens, batch.positions, batch.segments},
              .batch = &batch,
              .attention = &plans(1, options_.longest),
              .kept = kept});
}

void Program::run_steps(const Frame& frame, std::size_t first, std::size_t last) const {
  Frame step = frame;
  // But for the result, which nothing here reads again: logits have as many columns as all of it together.
  const std::int64_t columns = arena_.columns - result_columns_;
  step.outgrows_cache = columns * frame.rows * static_cast<std::int64_t>(size_of(options_.dtype)) > kCachedBytes;
  for (std::size_t i = first; i < last; ++i) {
    // Begins where the step in front ended, while the cache has what that wrote last.
    step.queue.backwards = step.outgrows_cache && i % 2 != 0;
    steps_[i](step);
  }
}

// From the arena of all rows to that of those that are kept.
void Program::keep_rows(const Frame& frame) const {
  const auto copy = options_.device.backend->rows.copy;
  STOF_CHECK(copy != nullptr);
  const auto element = static_cast<std::int64_t>(size_of(options_.dtype));
  const auto keep = [&](std::int64_t from_column, std::int64_t to_column, std::int64_t bytes) {
    if (bytes == 0) return;
    copy({.rows = std::ssize(frame.kept),
          .bytes = bytes,
          .x = frame.arena + from_column * frame.row_capacity * element,
          .out = frame.tail + to_column * frame.tail_capacity * element,
          .x_stride = bytes,
          .out_stride = bytes,
          .from = frame.kept,
          .queue = frame.queue});
  };
  for (std::size_t i = 0; i < split_.live.size(); ++i) {
    const auto value = static_cast<std::size_t>(split_.live[i]);
    const std::int64_t from = split_.body.offset[value], to = split_.tail.offset[value];
    const auto& [columns, moments_bytes] = live_rows_[i];
    keep(from, to, columns * element);
    keep(from + columns, to + columns, moments_bytes);
  }
}

const void* Program::run(const Frame& frame) const {
  const auto result = static_cast<std::size_t>(result_);
  const std::size_t element = size_of(options_.dtype);
  if (frame.kept.empty()) {
    run_steps(frame, 0, steps_.size());
    return frame.arena + static_cast<std::size_t>(arena_.offset[result] * frame.row_capacity) * element;
  }
  Frame split = frame;
  split.tail = frame.arena + aligned(split_.body.elements(frame.row_capacity) * static_cast<std::int64_t>(element));
  split.tail_capacity = row_capacity(std::ssize(frame.kept));
  run_steps(split, 0, split_.cut);
  keep_rows(split);
  split.rows = std::ssize(frame.kept);
  run_steps(split, split_.cut, steps_.size());
  return split.tail + static_cast<std::size_t>(split_.tail.offset[result] * split.tail_capacity) * element;
}

}  // namespace stof
