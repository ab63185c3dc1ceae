// SPDX-License-Identifier: Apache-2.0
// What a whole encoder costs a GPU: device time of a recorded call, by replaying it, and wall time of the call around
// it; as JSON on stdout. The output is checked first, against fp32 on the same device.
//   bench_model COMMIT [base|MODEL_DIR]... > bench/results/COMMIT-h200-model.json
#include "src/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/replay.h"
#include "cli/random_model.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/hash.h"
#include "src/base/median.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/bucket.h"
#include "src/runtime/program.h"
#include "stof/error.h"

namespace stof {
namespace {

using Json = nlohmann::json;

constexpr int kReplays = 15, kLaunches = 10;

struct Shape2 {
  std::int64_t texts, longest;
  bool ragged;
};

struct Case {
  std::string model;
  DType dtype;
  std::string mask;
  Shape2 shape;
};

TokenBatch texts_of(const Shape2& shape, std::int64_t vocabulary) {
  TokenBatch batch;
  for (std::int64_t text = 0; text < shape.texts; ++text) {
    // Ragged: from a quarter of the longest to the longest, as sentences sorted by length are.
    const std::int64_t length =
        shape.ragged ? shape.longest - text * (shape.longest * 3 / 4) / shape.texts : shape.longest;
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>(splitmix64(static_cast<std::uint64_t>(text * 4096 + i)) %
                                              static_cast<std::uint64_t>(vocabulary)));
    batch.add(ids);
  }
  return batch;
}

// One bucket of a program with its memory: what a lane of a session holds.
class Recorded {
 public:
  Recorded(const Program& program, const RowBatch& batch)
      : program_(program),
        stream_(program.options().device.backend->open_stream(program.options().device)),
        bucket_(bucket_of({batch.rows, batch.texts, batch.longest}, program.options().longest)),
        arena_(stream_->device_memory(static_cast<std::size_t>(program.arena_bytes(bucket_.rows)))),
        workspace_(stream_->device_memory(program.options().device.backend->matmul.workspace_bytes)) {
    const auto bring = [&](std::vector<std::int32_t> values, std::int64_t count) {
      values.resize(static_cast<std::size_t>(count), 0);
      const std::size_t bytes = values.size() * sizeof(std::int32_t);
      inputs_.push_back(stream_->device_memory(bytes));
      stream_->copy_in(inputs_.back().get(), values.data(), bytes);
      stream_->synchronize();
      return std::span(static_cast<const std::int32_t*>(inputs_.back().get()), values.size());
    };
    std::vector<std::int32_t> starts(batch.offsets.begin(), batch.offsets.end() - 1);
    frame_ = {.rows = bucket_.rows,
              .row_capacity = row_capacity(bucket_.rows),
              .arena = static_cast<std::byte*>(arena_.get()),
              .indices = {bring(batch.tokens, bucket_.rows), bring(batch.positions, bucket_.rows),
                          bring(batch.segments, bucket_.rows)},
              .texts = AttentionRows{.items = bucket_.texts,
                                     .starts = bring(starts, bucket_.texts).data(),
                                     .lengths = bring(batch.lengths, bucket_.texts).data()},
              .attention = &program.plans(bucket_.texts, bucket_.longest),
              .queue = {.device = &program.options().device,
                        .stream = stream_->handle(),
                        .workspace = workspace_.get(),
                        .workspace_bytes = program.options().device.backend->matmul.workspace_bytes}};
    program.run(frame_);
    work_ = stream_->record([this] { program_.run(frame_); });
  }

  double device_us() const {
    const std::vector<double> times =
        cuda::replay_us(cuda::gpu_of(program_.options().device), static_cast<cuda::StreamHandle>(stream_->handle()),
                        {.count = kReplays, .warm = 0}, [this] {
                          for (int launch = 0; launch < kLaunches; ++launch) work_->launch();
                        });
    return median_of(times) / kLaunches;
  }
  const Bucket& bucket() const { return bucket_; }

 private:
  const Program& program_;
  std::unique_ptr<DeviceStream> stream_;
  Bucket bucket_;
  std::shared_ptr<void> arena_, workspace_;
  std::vector<std::shared_ptr<void>> inputs_;
  Frame frame_;
  std::unique_ptr<RecordedWork> work_;
};

double worst_difference(const Tensor& got, const Tensor& want) {
  double worst = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(double{got.as<float>()[i]} - want.as<float>()[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

double wall_us(const Session& session, const TokenBatch& batch) {
  std::vector<double> times;
  for (int run = 0; run < kReplays; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    session.embed(batch, Pooling::mean);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  return median_of(std::move(times));
}

Json measure(const Model& model, const Case& the) {
  const Device device = open_device("cuda");
  const Mask mask = parse(the.mask);
  const TokenBatch batch = texts_of(the.shape, model.config.vocab_size);
  const Session session(model, {.device = "cuda", .dtype = the.dtype, .mask = mask});
  const Tensor want = Session(model, {.device = "cuda", .mask = mask}).embed(batch, Pooling::mean);
  session.embed(batch, Pooling::mean);                     // recorded by this call
  const Tensor got = session.embed(batch, Pooling::mean);  // and launched by this one
  const Program program(restrict_attention(fused_by_default(build_bert(model)), mask),
                        {.device = device, .dtype = the.dtype, .longest = model.config.max_positions});
  const RowBatch rows =
      make_rows(batch, {.vocabulary = model.config.vocab_size, .longest = model.config.max_positions}, false);
  const Recorded recorded(program, rows);
  double scale = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) scale = std::max(scale, std::abs(double{want.as<float>()[i]}));
  return {
      {"model", the.model},
      {"dtype", std::string(name_of(the.dtype))},
      {"mask", the.mask},
      {"texts", the.shape.texts},
      {"longest", the.shape.longest},
      {"tokens", rows.rows},
      {"bucket", {recorded.bucket().rows, recorded.bucket().texts, recorded.bucket().longest}},
      {"attention", std::string(program.plans(recorded.bucket().texts, recorded.bucket().longest)[0]->plan().kernel)},
      {"device_us", recorded.device_us()},
      {"wall_us", wall_us(session, batch)},
      {"error", worst_difference(got, want) / scale}};
}

Json measure_model(const std::string& name) {
  const bool base = name == "base";
  const std::vector<Shape2> shapes =
      base ? std::vector<Shape2>{{1, 128, false}, {8, 512, false}, {8, 512, true}}
           : std::vector<Shape2>{{1, 16, false}, {32, 64, true}, {32, 256, true}, {128, 128, true}};
  const Model model = base ? cli::random_bert_base(512, 1) : read_model(name);
  Json rows = Json::array();
  for (const Shape2& shape : shapes)
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const std::string label = base ? "BERT-base" : std::filesystem::path(name).filename().string();
      rows.push_back(measure(model, {label, dtype, "all", shape}));
      fmt::print(stderr, "{}\n", rows.back().dump());
    }
  return rows;
}

int run(std::span<char*> arguments) {
  Json rows = Json::array();
  for (std::size_t i = 2; i < arguments.size(); ++i)
    for (Json& row : measure_model(arguments[i])) rows.push_back(std::move(row));
  const Json report = {{"commit", arguments.size() > 1 ? arguments[1] : ""},
                       {"device", open_device("cuda").caps.name},
                       {"method",
                        "median of 15 replays of 10 launches of the recorded call, copies left out; wall: "
                        "median of 15 calls of Session::embed"},
                       {"rows", rows}};
  fmt::print("{}\n", report.dump(1));
  return 0;
}

}  // namespace
}  // namespace stof

int main(int count, char** arguments) {
  try {
    return stof::run(std::span(arguments, static_cast<std::size_t>(count)));
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_model: {}\n", error.what());
    return 1;
  }
}
