// SPDX-License-Identifier: Apache-2.0
// What stands between two products of a decoder's step, in one launch and in several: norms and turns of heads, their
// way into a cache, attention. Device time by replaying a graph of many; a result that differs from the other's has no
// time.
//   bench_token_attention COMMIT >bench/results/COMMIT-h200-token-attention.json
#include "src/backend/cuda/attention/token_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/agreement.h"
#include "bench/replay.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/base/error.h"
#include "src/mask/bind.h"
#include "src/runtime/step_attention.h"
#include "src/tensor/convert.h"
#include "src/tensor/half.h"

namespace stof::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr DType kDType = DType::bf16;
constexpr std::int64_t kPositions = 4096;
constexpr std::int64_t kColdBytes = std::int64_t{400} << 20;
constexpr double kBound = 1e-2;

struct Heads {
  const char* model;
  std::int64_t heads, kv_heads, head_dim;
  bool norms;
};
constexpr Heads kHeads[] = {
    {"Qwen3-0.6B", 16, 8, 128, true}, {"Llama-3.1-8B", 32, 8, 128, false}, {"Llama-3.2-1B", 32, 8, 64, false}};
constexpr std::int64_t kTexts[] = {1, 8, 16};
constexpr std::int64_t kKeys[] = {64, 256, 1024, 2048, 4096};

struct Case {
  Heads of;
  std::int64_t texts, keys;
  const char* mask;
  std::int64_t columns() const { return (of.heads + 2 * of.kv_heads) * of.head_dim; }
  std::int64_t width() const { return 2 * of.kv_heads * of.head_dim; }
  std::int64_t cache_bytes() const { return texts * keys * width() * 2; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Heads& of : kHeads)
    for (const std::int64_t texts : kTexts)
      for (const std::int64_t keys : kKeys) all.push_back({of, texts, keys, "causal"});
  for (const std::int64_t texts : kTexts) all.push_back({kHeads[0], texts, 4096, "causal & (window(511) | sink(4))"});
  return all;
}

// Again and again the same some.
Tensor random_values(std::int64_t count, std::mt19937& random, DType dtype = kDType) {
  constexpr std::int64_t kSome = 1 << 20;
  std::normal_distribution<float> values(0.f, 1.f);
  Tensor some(DType::f32, {std::min(count, kSome)});
  for (std::int64_t i = 0; i < some.size(); ++i) some.as<float>()[i] = values(random);
  const Tensor stored = converted(some.view(), dtype);
  Tensor all(dtype, {count});
  for (std::int64_t i = 0; i < count; i += kSome)
    std::memcpy(all.as<std::byte>() + static_cast<std::size_t>(i) * size_of(dtype), stored.data(),
                static_cast<std::size_t>(std::min(kSome, count - i)) * size_of(dtype));
  return all;
}
DeviceMemory there(const Gpu& gpu, const Tensor& tensor) {
  return to_device<std::byte>(gpu, {tensor.as<std::byte>(), tensor.bytes()});
}

AttentionShape shape_of(const Case& the) {
  return {.batch = the.texts,
          .heads = the.of.heads,
          .kv_heads = the.of.kv_heads,
          .queries = 1,
          .keys = the.keys,
          .head_dim = the.of.head_dim,
          .dtype = kDType};
}
// Nothing where one launch does not take it.
std::optional<TokenAttentionShape> joined_of(const Case& the, const Device& device) {
  return one_launch_of_step(parse(the.mask), shape_of(the), device);
}

// All items alike, as many keys as planned.
class Steps {
 public:
  Steps(const Device& device, const Case& the, const TokenAttentionShape& joined, std::mt19937& random)
      : device_(device),
        gpu_(gpu_of(device)),
        the_(the),
        apart_(plan_step(parse(the.mask), shape_of(the), device)),
        joined_(joined),
        angles_(there(gpu_, random_values(kPositions * the.of.head_dim, random, DType::f32))),
        scale_(there(gpu_, random_values(the.of.head_dim, random, DType::f32))),
        x_(there(gpu_, random_values(the.texts * the.columns(), random))) {
    apart_.prepare(1, 1);
    token_attention.prepare(joined_, device);
    const std::int64_t count = std::clamp(kColdBytes / the.cache_bytes(), std::int64_t{2}, std::int64_t{kLaunches});
    const Tensor cache = random_values(the.texts * the.keys * the.width(), random);
    for (std::int64_t i = 0; i < count; ++i) {
      caches_.push_back(there(gpu_, cache));
      outs_.emplace_back(gpu_, static_cast<std::size_t>(the.texts * the.of.heads * the.of.head_dim * 2));
    }
    q_ = DeviceMemory(gpu_, x_.bytes());
    other_ = DeviceMemory(gpu_, static_cast<std::size_t>(kColdBytes / 4));
    std::vector<std::int32_t> numbers;
    for (std::int64_t i = 0; i < the.texts; ++i) numbers.push_back(static_cast<std::int32_t>(the.keys - 1));
    for (std::int64_t i = 0; i < the.texts; ++i) numbers.push_back(static_cast<std::int32_t>((i + 1) * the.keys - 1));
    for (std::int64_t i = 0; i < the.texts; ++i) numbers.push_back(static_cast<std::int32_t>(the.keys));
    numbers_ = to_device<std::int32_t>(gpu_, numbers);
  }

  // Why times do not count; empty where they do.
  std::string wrong() {
    const Stream stream(gpu_);
    std::vector<std::vector<float>> results;
    for (const bool joined : {true, false}) {
      outs_[0].fill(0xFF);
      launch(stream.handle(), {.buffers = 0, .back = false}, joined);
      stream.synchronize();
      std::vector<std::uint16_t> got(outs_[0].bytes() / 2);
      copy_out(gpu_, std::as_writable_bytes(std::span(got)), outs_[0].address());
      auto& values = results.emplace_back();
      for (const std::uint16_t value : got) values.push_back(float_of_bf16(value));
    }
    return agreement_of(results[0], results[1], the_.of.head_dim, kBound).wrong;
  }

  Json times(bool joined) {
    Json times;
    for (const Reuse& reuse : kReuses) {
      if (reuse.to_and_fro) continue;
      Replays replays{.count = 9};
      if (reuse.rotates) replays.in_front = [this] { other_.fill(0); };
      times[reuse.name] = launch_us(gpu_, replays, reuse, caches_.size(),
                                    [&](StreamHandle stream, Turn turn) { launch(stream, turn, joined); });
    }
    return times;
  }
  Json predicted() const {
    return {{"joined_us", token_attention.predicted_us(joined_, device_.caps)},
            {"attention_us", apart_.plan().predicted_us},
            {"attention", apart_.plan().kernel}};
  }

 private:
  std::span<const std::int32_t> numbers(std::int64_t which) const {
    return {numbers_.as<std::int32_t>() + which * the_.texts, static_cast<std::size_t>(the_.texts)};
  }
  void launch(StreamHandle stream, Turn turn, bool joined) const {
    const Heads& of = the_.of;
    const WorkQueue queue{.device = &device_, .stream = stream};
    void *const cache = caches_[turn.buffers].as<void>(), *const out = outs_[turn.buffers].as<void>();
    RotaryHeads heads{.angles = angles_.as<float>(),
                      .positions = numbers(0),
                      .heads = of.heads + of.kv_heads,
                      .head_dim = of.head_dim,
                      .kept = {.rows = cache, .places = numbers(1), .first_head = of.heads}};
    if (of.norms) heads.norms = {.q_scale = scale_.as<float>(), .k_scale = scale_.as<float>(), .q_heads = of.heads};
    if (joined)
      return token_attention.run(joined_, {.x = x_.as<void>(),
                                           .out = out,
                                           .heads = heads,
                                           .capacity = the_.keys,
                                           .lengths = numbers(2),
                                           .queue = queue});
    device_.backend->rows.rotate({the_.texts, the_.columns(), kDType, queue}, heads, x_.as<void>(), q_.as<void>());
    const auto rows = [&](void* data, std::int64_t count, std::int64_t row, std::int64_t item, std::int64_t keys) {
      return TensorView{.data = data,
                        .dtype = kDType,
                        .shape = {the_.texts, count, keys, of.head_dim},
                        .strides = {item, of.head_dim, row, 1}};
    };
    auto* const values = static_cast<std::byte*>(cache) + of.kv_heads * of.head_dim * 2;
    AttentionArguments arguments{.q = rows(q_.as<void>(), of.heads, the_.columns(), the_.columns(), 1),
                                 .k = rows(cache, of.kv_heads, the_.width(), the_.keys * the_.width(), the_.keys),
                                 .v = rows(values, of.kv_heads, the_.width(), the_.keys * the_.width(), the_.keys),
                                 .out = rows(out, of.heads, of.heads * of.head_dim, of.heads * of.head_dim, 1)};
    arguments.device_kv_lengths = view_of(const_cast<std::int32_t*>(numbers(2).data()), DType::i32, {the_.texts});
    arguments.stream = stream;
    apart_.run(arguments);
  }

  const Device& device_;
  const Gpu& gpu_;
  const Case the_;
  Attention apart_;
  const TokenAttentionShape joined_;
  DeviceMemory angles_, scale_, x_, q_, numbers_, other_;  // positions, places, lengths
  std::vector<DeviceMemory> caches_, outs_;
};

Json measured(const Device& device, const Case& the, const TokenAttentionShape& joined, std::mt19937& random) {
  Steps steps(device, the, joined, random);
  Json row{{"model", the.of.model},
           {"heads", the.of.heads},
           {"kv_heads", the.of.kv_heads},
           {"head_dim", the.of.head_dim},
           {"norms", the.of.norms},
           {"texts", the.texts},
           {"keys", the.keys},
           {"mask", the.mask},
           {"predicted", steps.predicted()}};
  if (const std::string wrong = steps.wrong(); !wrong.empty()) {
    row["wrong"] = wrong;
    return row;
  }
  row["joined"] = steps.times(true);
  row["apart"] = steps.times(false);
  return row;
}

void run(std::span<char*> arguments) {
  if (arguments.size() != 1) fail(ErrorKind::invalid_argument, "accepted: COMMIT");
  const Device device = open_device("cuda");
  Json report{{"commit", arguments[0]},
              {"device", device.caps.name},
              {"driver", device.backend->versions().driver},
              {"dtype", name_of(kDType)},
              {"launches", kLaunches}};
  std::mt19937 random(1);
  for (const Case& the : cases()) {
    const auto joined = joined_of(the, device);
    if (!joined) continue;
    const Json& row = report["rows"].emplace_back(measured(device, the, *joined, random));
    fmt::print(stderr, "{}\n", row.dump());
  }
  fmt::print("{}\n", report.dump(1));
}

}  // namespace
}  // namespace stof::cuda

int main(int count, char** arguments) {
  try {
    stof::cuda::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
    return 0;
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_token_attention: {}\n", error.what());
    return 1;
  }
}
