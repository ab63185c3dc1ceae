// SPDX-License-Identifier: Apache-2.0
#include "stof/session.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <utility>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/base/memory.h"
#include "src/base/threads.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/model/model.h"
#include "src/model/token_decoder.h"
#include "src/model/tokenizer.h"
#include "src/runtime/accepted.h"
#include "src/runtime/arena_pool.h"
#include "src/runtime/batch.h"
#include "src/runtime/dense_head.h"
#include "src/runtime/device_calls.h"
#include "src/runtime/generate.h"
#include "src/runtime/logit_cap.h"
#include "src/runtime/pooling.h"
#include "src/runtime/program.h"
#include "src/runtime/programs.h"
#include "src/runtime/text_batches.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

Graph graph_of(const Model& model, const SessionOptions& options) {
  if (options.mask) same_for_every_text(*options.mask);
  return simplify(
      build_graph(model, options.logits ? GraphResult::logits : GraphResult::hidden, options.global_tokens));
}

}  // namespace

struct Session::State {
  State(const Model& the_model, const SessionOptions& the_options)
      : options(the_options),
        device(device_for_models(options.device)),
        config(the_model.config),
        pooling(the_model.pooling),
        mapping(the_model.mapping),
        programs(graph_of(the_model, options),
                 {.program = {.device = device, .dtype = options.dtype, .longest = config.max_positions},
                  .mask = options.mask,
                  .plans = {.folder = options.tuned ? plan_folder() : "", .log = options.log},
                  .make_room = [this] { return lanes.make_room(); }}),
        program(programs.by_default()),
        lanes(device, [this] { return on_device && on_device->drop_free(); }) {
    if (!pooling.dense.empty() && !options.logits) head = std::make_unique<DenseHead>(pooling.dense, device);
    if (device.backend->open_stream != nullptr)
      on_device = std::make_unique<DeviceCalls>(
          program, ProgramChoice{.of = [this](const Bucket& bucket) -> const Program& { return programs.of(bucket); },
                                 .arena_bytes = [this](std::int64_t rows,
                                                       std::int64_t kept) { return programs.arena_bytes(rows, kept); },
                                 .head = head.get()});
  }

  struct Result {
    RowBatch batch;
    Tensor values;  // f32 [rows, columns()], or [texts, columns(how)] when pooled
  };
  Result run(const TokenBatch& tokens, Pooling how) {
    const ThreadCount threads(options.threads);
    Result result{.batch = make_rows(tokens, limits(config.max_positions), options.padded), .values = {}};
    if (result.batch.texts == 0) {
      result.values = Tensor(DType::f32, {0, columns(how)});
      return result;
    }
    const Bucket bucket =
        bucket_of({.rows = result.batch.rows, .texts = result.batch.texts, .longest = result.batch.longest},
                  config.max_positions);
    const Program& chosen = programs.of(bucket);
    const std::int64_t bytes =
        activation_bytes(result.batch.rows, on_device ? rows_kept(bucket, how, *device.backend)
                                                      : std::ssize(rows_wanted(result.batch, how)));
    ++calls;
    for (std::int64_t most = planned_bytes; bytes > most && !planned_bytes.compare_exchange_weak(most, bytes);) {
    }
    result.values = on_device ? run_there(result.batch, how) : run_here(chosen, result.batch, how);
    if (options.logits && config.logit_cap)
      cap_scores({result.values.as<float>(), static_cast<std::size_t>(result.values.size())}, *config.logit_cap);
    return result;
  }

  TextLimits limits(std::int64_t longest) const {
    return {.vocabulary = config.vocab_size,
            .longest = longest,
            .first_position = config.first_position,
            .long_after = config.long_after()};
  }

  // What one call of so many rows holds, whose result is wanted of all of them, or of `kept`: enough for each of the
  // programs so far.
  std::int64_t activation_bytes(std::int64_t rows, std::int64_t kept = 0) const {
    return programs.arena_bytes(on_device ? bucket_rows(rows) : rows, kept);
  }
  std::int64_t bytes_held() const {
    return (on_device ? on_device->bytes_held() : arenas.bytes_held()) + lanes.bytes_held();
  }

  // Lanes that wait for a call give up their memory where it is wanted.
  Tensor run_there(const RowBatch& batch, Pooling how) {
    return lanes.with_room([&] { return on_device->run(batch, {how, normalizes(how)}); });
  }
  Tensor run_here(const Program& chosen, const RowBatch& batch, Pooling how) {
    const std::vector<std::int32_t> kept = rows_wanted(batch, how);
    const std::int64_t results = kept.empty() ? batch.rows : std::ssize(kept);
    const std::int64_t bytes = activation_bytes(batch.rows, std::ssize(kept));
    check_memory(fmt::format("a call of {} tokens, its hidden states included", batch.rows),
                 static_cast<double>(bytes) +
                     static_cast<double>(sizeof(float)) * static_cast<double>(results * program.result_columns()) +
                     static_cast<double>(head && how != Pooling::none ? head->arena_bytes(batch.texts) : 0));
    const ArenaPool::Lease arena = arenas.take(bytes);
    void* const values = const_cast<void*>(chosen.run(batch, arena.data(), kept));
    Tensor hidden = converted(view_of(values, program.dtype(), {results, program.result_columns()}), DType::f32);
    if (how == Pooling::none) return hidden;
    Tensor pooled = kept.empty() ? pool(batch, hidden.as<float>(), program.result_columns(), how) : std::move(hidden);
    if (head) pooled = head->run(pooled);
    if (normalizes(how)) normalize_rows(pooled);
    return pooled;
  }
  void check_generates(const GenerateOptions& wanted) {
    if (!options.logits)
      fail(ErrorKind::invalid_argument,
           "this session gives hidden states; accepted for generating: a decoder's, loaded with logits");
    if (!config.causal)
      fail(ErrorKind::unsupported,
           "'is_causal' is false in config.json of this model, whose tokens see what is behind them; accepted for "
           "generating: true");
    check(wanted);
    // No lock is held: who is told may call the session.
    if (options.log && !config.not_applied.empty() && !said_not_applied.exchange(true))
      options.log(config.not_applied + "; not applied");
  }
  std::vector<std::vector<std::int32_t>> generate(const TokenBatch& prompts, const std::vector<std::int64_t>& numbers,
                                                  const GenerateOptions& wanted) {
    const ThreadCount threads(options.threads);
    ++calls;
    // Programs may differ in the order of a key's columns: these do not.
    return generate_tokens(
        {.programs = {program, programs.of_few_rows(),
                      [this](const Bucket& bucket) -> const Program& { return programs.of_prompts(bucket); }},
         .lanes = lanes,
         .limits = limits(config.max_positions),
         .prompts = prompts,
         .numbers = numbers,
         .ends = wanted.ends ? *wanted.ends : config.ends,
         .logit_cap = config.logit_cap,
         .options = wanted});
  }
  std::int64_t columns(Pooling how) const {
    return how != Pooling::none && head ? head->columns() : program.result_columns();
  }
  bool normalizes(Pooling how) const { return how != Pooling::none && pooling.normalize && !options.logits; }

  SessionOptions options;
  Device device;
  ModelConfig config;
  PoolingConfig pooling;
  std::shared_ptr<const void> mapping;  // embedding tables are read where the file is mapped
  std::shared_ptr<const Tokenizer> tokenizer;
  Programs programs;
  const Program& program;                  // what all of them have in common
  std::unique_ptr<const DenseHead> head;   // of pooled vectors; null: they stay as they are
  ArenaPool arenas;                        // of a device that does its work at once
  std::unique_ptr<DeviceCalls> on_device;  // of one that works beside the host
  GenerationLanes lanes;
  std::atomic<std::int64_t> calls = 0, planned_bytes = 0;
  std::atomic<bool> said_not_applied = false;
};

Session Session::load(const std::filesystem::path& folder, const SessionOptions& options) {
  const Model model = read_model(folder);
  // A missing one is said before weights are packed, which takes seconds.
  Tokenizer tokenizer = Tokenizer::load(folder);
  Session session(model, options);
  session.state_->tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer));
  return session;
}

Session::Session(const Model& model, const SessionOptions& options) {
  if (options.threads < 0 || options.threads > kMostThreads)
    fail(ErrorKind::invalid_argument, "threads = {}; accepted: 0 (as many as OpenMP would take) to {}", options.threads,
         kMostThreads);
  const ThreadCount threads(options.threads);  // the device counts as its cores what it finds here
  state_ = std::make_unique<State>(model, options);
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::int64_t Session::hidden_size() const { return state_->config.hidden_size; }
std::int64_t Session::columns() const { return state_->program.result_columns(); }
std::int64_t Session::columns(Pooling pooling) const { return state_->columns(pooling); }
std::int64_t Session::max_tokens() const { return state_->pooling.max_tokens; }
std::int64_t Session::positions() const { return state_->config.max_positions; }
std::int64_t Session::vocabulary() const { return state_->config.vocab_size; }
Pooling Session::pooling() const { return state_->pooling.pooling; }
bool Session::normalizes() const { return state_->pooling.normalize; }
const Device& Session::device() const { return state_->device; }

MemoryPlan Session::memory_for(std::int64_t tokens) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // of rows that a call can have
  if (tokens < 0 || tokens > kMost)
    fail(ErrorKind::invalid_argument, "memory for {} tokens; accepted: 0..{}", tokens, kMost);
  return {.tokens = tokens, .bytes = state_->activation_bytes(tokens)};
}

SessionStatistics Session::statistics() const {
  return {.calls = state_->calls,
          .plans = state_->programs.plans_made(),
          .planned_bytes = state_->planned_bytes,
          .held_bytes = state_->bytes_held()};
}

Tensor Session::run(const TokenBatch& batch) const {
  State::Result hidden = state_->run(batch, Pooling::none);
  if (!hidden.batch.padded) return std::move(hidden.values);
  const std::int64_t columns = this->columns();
  Tensor packed(DType::f32, {static_cast<std::int64_t>(batch.ids.size()), columns});
  for (std::int64_t text = 0; text < batch.texts(); ++text) {
    const auto i = static_cast<std::size_t>(text);
    std::copy_n(hidden.values.as<float>() + hidden.batch.first_row(text) * columns, hidden.batch.lengths[i] * columns,
                packed.as<float>() + batch.offsets[i] * columns);
  }
  return packed;
}

Tensor Session::embed(const TokenBatch& batch, Pooling pooling) const {
  if (pooling == Pooling::none) return run(batch);
  if (state_->options.logits && pooling != Pooling::last)
    fail(ErrorKind::invalid_argument,
         "logits are not pooled; accepted: those of the last token (last), of every one (none), or a session without "
         "logits, for vectors");
  return state_->run(batch, pooling).values;
}

Embeddings Session::embed(std::span<const std::string> texts, const EmbedOptions& options) const {
  if (!state_->tokenizer) fail(ErrorKind::invalid_argument, "this session has no tokenizer: give it token ids");
  check_batch(options.batch);
  const TokenizedTexts tokens = tokenize(
      *state_->tokenizer, texts,
      {.limits = state_->limits(max_tokens()), .truncate = options.truncate, .name = options.text_name, .first = 1});
  Embeddings result = embed(tokens.ids, options);
  result.truncated = tokens.truncated;
  return result;
}

Embeddings Session::embed(std::span<const std::vector<std::int32_t>> texts, const EmbedOptions& options) const {
  check_batch(options.batch);
  check(texts, state_->limits(positions()));
  const Pooling how = options.pooling.value_or(pooling());
  Embeddings result{.values = Tensor(DType::f32, {rows_of_results(texts, how), columns(how)}), .lengths = {}};
  for (const auto& ids : texts) result.lengths.push_back(static_cast<std::int32_t>(ids.size()));
  embed_into(result.values.as<float>(), *this, texts, options);
  return result;
}

std::vector<std::vector<std::int32_t>> Session::generate(const TokenBatch& prompts,
                                                         const GenerateOptions& options) const {
  state_->check_generates(options);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::max<std::int64_t>(prompts.texts(), 0)));
  std::iota(numbers.begin(), numbers.end(), 0);
  return state_->generate(prompts, numbers, options);
}

std::vector<std::vector<std::int32_t>> Session::generate(std::span<const std::string> texts,
                                                         const GenerateOptions& options) const {
  if (!state_->tokenizer) fail(ErrorKind::invalid_argument, "this session has no tokenizer: give it token ids");
  state_->check_generates(options);
  const std::int64_t longest = longest_prompt(*this);
  return generate(
      tokenize(*state_->tokenizer, texts,
               {.limits = state_->limits(longest), .truncate = options.truncate, .name = "text", .first = 1})
          .ids,
      options);
}

std::vector<std::vector<std::int32_t>> Session::generate(std::span<const std::vector<std::int32_t>> texts,
                                                         const GenerateOptions& options) const {
  state_->check_generates(options);
  const TextLimits limits = state_->limits(positions());
  check(texts, limits);
  for (std::size_t i = 0; i < texts.size(); ++i) check_room(static_cast<std::int64_t>(i), std::ssize(texts[i]), limits);
  bool all_end = false;
  GenerateOptions watched = options;
  if (options.stop)
    watched.stop = [&](std::int64_t text, std::int32_t token) {
      const Stop stop = options.stop(text, token);
      all_end = stop == Stop::all;
      return stop;
    };
  std::vector<std::vector<std::int32_t>> result(texts.size());
  for (const std::vector<std::size_t>& together : batches_of_similar_length(texts, options.batch)) {
    std::vector<std::vector<std::int32_t>> made =
        state_->generate(batch_of(texts, together), {together.begin(), together.end()}, watched);
    for (std::size_t i = 0; i < together.size(); ++i) result[together[i]] = std::move(made[i]);
    if (all_end) break;
  }
  return result;
}

std::shared_ptr<const Tokenizer> Session::tokenizer() const { return state_->tokenizer; }

std::string Session::decode(std::span<const std::int32_t> ids) const {
  if (!state_->tokenizer) fail(ErrorKind::invalid_argument, "this session has no tokenizer: ids have no text");
  const TokenTexts& texts = *state_->tokenizer->decoder().texts;
  std::vector<std::int32_t> known;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (texts.find(ids[i])) known.push_back(ids[i]);
    else if (ids[i] < 0 || ids[i] >= vocabulary())
      fail(ErrorKind::invalid_argument, "token {} has id {}; accepted: 0 to {}", i, ids[i], vocabulary() - 1);
  }
  return state_->tokenizer->decode(known);
}

}  // namespace stof
