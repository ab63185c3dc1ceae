// SPDX-License-Identifier: Apache-2.0
// Whole models on a GPU equal the same models on the CPU. Skipped where there is no GPU, or none that models run on.
#include "tests/runtime/cuda_session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/tune.h"
#include "tests/expect_error.h"
#include "tests/model/checkpoint.h"
#include "tests/runtime/large_sums.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_decoder.h"
#include "tests/runtime/small_modernbert.h"
#include "tests/source_folder.h"

namespace stof {
namespace {

TokenBatch texts_of(const std::vector<std::int64_t>& lengths, std::uint64_t seed = 0) {
  TokenBatch batch;
  for (std::size_t text = 0; text < lengths.size(); ++text) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < lengths[text]; ++i)
      ids.push_back(static_cast<std::int32_t>(splitmix64(seed + text * 1000 + static_cast<std::uint64_t>(i)) % 50));
    batch.add(ids);
  }
  return batch;
}

double worst_difference(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(got.shape(), want.shape());
  double worst = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(double{got.as<float>()[i]} - want.as<float>()[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

// Of vectors of length 1, or of hidden states with components up to 3 or so.
double bound_of(DType dtype, bool pooled) {
  if (dtype == DType::f32) return 2e-5;
  return (pooled ? 5e-3 : 2e-2) * (dtype == DType::bf16 ? 6 : 1);
}

struct Case {
  std::string mask;
  DType dtype;
  bool padded = false;
  std::string activation = "gelu";
};
std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const char* mask : {"all", "causal", "longformer(32,4)", "heads(0: causal, *: window(5))",
                             "documents([0,10,40])", "bigbird(16,3,2,1,5)"})
      cases.push_back({mask, dtype});
    cases.push_back({"all", dtype, true});
    cases.push_back({"bigbird(16,3,2,1,5)", dtype, true});
    cases.push_back({"all", dtype, false, "gelu_new"});
    cases.push_back({"all", dtype, false, "relu"});
  }
  return cases;
}

class CudaSessionOf : public CudaSession, public testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, CudaSessionOf, testing::ValuesIn(cases()));

TEST_P(CudaSessionOf, EqualsTheCpu) {
  const Case& the = GetParam();
  SCOPED_TRACE(the.mask + " " + std::string(name_of(the.dtype)) + " " + the.activation);
  const Model model = small_bert(2, the.activation);
  const Mask mask = parse(the.mask);
  const Session gpu(model, {.device = "cuda", .dtype = the.dtype, .mask = mask, .padded = the.padded});
  const Session cpu(model, {.device = "cpu", .mask = mask});
  double worst_hidden = 0, worst_pooled = 0;
  for (int repeat = 0; repeat < 3; ++repeat)  // as first used, recorded at the latest, launched as a whole
    for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{96, 7, 1, 33, 64, 2, 50},
                                                     {90, 9, 3, 30, 66, 1, 51},
                                                     {5, 80},
                                                     {1},
                                                     {96, 96, 96, 96}}) {
      const TokenBatch batch = texts_of(lengths, static_cast<std::uint64_t>(repeat));
      worst_hidden = std::max(worst_hidden, worst_difference(gpu.run(batch), cpu.run(batch)));
      for (const Pooling pooling : {Pooling::cls, Pooling::last, Pooling::mean, Pooling::max})
        worst_pooled = std::max(worst_pooled, worst_difference(gpu.embed(batch, pooling), cpu.embed(batch, pooling)));
    }
  EXPECT_LE(worst_hidden, bound_of(the.dtype, false));
  EXPECT_LE(worst_pooled, bound_of(the.dtype, true));
  RecordProperty("hidden", testing::PrintToString(worst_hidden));
  RecordProperty("pooled", testing::PrintToString(worst_pooled));
}

// Dense layers behind the pooling, first used, recorded and launched again.
TEST_F(CudaSession, HasDenseLayersAsTheCpuDoes) {
  const std::filesystem::path folder = families() / "gemma3_with_dense";
  const Session cpu = Session::load(folder, {.device = "cpu"});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Session gpu = Session::load(folder, {.device = "cuda", .dtype = dtype});
    EXPECT_EQ(gpu.columns(Pooling::mean), 40);
    double worst = 0;
    for (int repeat = 0; repeat < 3; ++repeat)
      for (const std::vector<std::int64_t>& lengths :
           {std::vector<std::int64_t>{96, 7, 1, 33, 64, 2, 50}, {5, 80}, {1}, std::vector<std::int64_t>(40, 9)}) {
        const TokenBatch batch = texts_of(lengths, static_cast<std::uint64_t>(repeat));
        for (const Pooling pooling : {Pooling::cls, Pooling::mean, Pooling::max, Pooling::last})
          worst = std::max(worst, worst_difference(gpu.embed(batch, pooling), cpu.embed(batch, pooling)));
        EXPECT_LE(worst_difference(gpu.run(batch), cpu.run(batch)), 2 * bound_of(dtype, false));
      }
    EXPECT_LE(worst, bound_of(dtype, true)) << name_of(dtype);
  }
}

TEST_F(CudaSession, HoldsTheMemoryThatThePlanSays) {
  const Session session(small_bert(), {.device = "cuda", .dtype = DType::f16});
  std::int64_t most = 0;
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{7}, {96, 50}, {33, 3}}) {
    const TokenBatch batch = texts_of(lengths);
    session.run(batch);
    most = std::max(most, session.memory_for(std::ssize(batch.ids)).bytes);
    EXPECT_EQ(session.statistics().planned_bytes, most);
    EXPECT_EQ(session.statistics().held_bytes, most);
  }
  for (const Pooling pooling : {Pooling::cls, Pooling::last, Pooling::mean}) {
    session.embed(texts_of({96, 96, 70}), pooling);
    EXPECT_EQ(session.statistics().held_bytes, session.statistics().planned_bytes);
  }
}

// Attention planned by length: what is recorded when lengths come again is of these lengths, and serves other tokens.
TEST_F(CudaSession, RepeatsLengthsThatArePlannedFor) {
  const Session session(small_bert(), {.device = "cuda", .dtype = DType::f16, .mask = parse("bigbird(16,3,2,1,5)")});
  const std::vector<std::vector<std::int64_t>> calls{{60, 61}, {61, 60}, {33, 96, 1, 33}};
  std::vector<std::vector<Tensor>> first;  // by tokens and call
  for (int repeat = 0; repeat < 5; ++repeat)
    for (std::uint64_t tokens = 0; tokens < 2; ++tokens)
      for (const std::vector<std::int64_t>& lengths : calls) {
        Tensor got = session.run(texts_of(lengths, tokens));
        first.resize(2);
        if (repeat == 0) {
          first[tokens].push_back(std::move(got));
          continue;
        }
        const Tensor& want = first[tokens][static_cast<std::size_t>(&lengths - calls.data())];
        EXPECT_EQ(std::memcmp(got.data(), want.data(), want.bytes()), 0) << repeat << " " << lengths.front();
      }
}

TEST_F(CudaSession, RunSeveralAtOnce) {
  const Model model = small_bert();
  const Session one(model, {.device = "cuda", .dtype = DType::f16});
  const Session other(model, {.device = "cuda", .dtype = DType::f32, .mask = parse("causal")});
  const TokenBatch batch = texts_of({50, 7, 31, 96});
  const Tensor want_one = one.embed(batch, Pooling::mean), want_other = other.embed(batch, Pooling::mean);
  std::vector<std::thread> threads;
  std::vector<double> worst(6, 0);
  for (std::size_t t = 0; t < worst.size(); ++t)
    threads.emplace_back([&, t] {
      for (int run = 0; run < 20; ++run) {
        const Tensor got = (t % 2 == 0 ? one : other).embed(batch, Pooling::mean);
        worst[t] = std::max(worst[t], worst_difference(got, t % 2 == 0 ? want_one : want_other));
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const double difference : worst) EXPECT_LE(difference, 1e-6);
}

// The checkpoint's own dtype does not matter: both sides read the same.
TEST_F(CudaSession, EmbedsRealSentencesAsTheCpuDoes) {
  std::ifstream file(source_folder() / "data/sentences.txt");
  std::vector<std::string> texts;
  for (std::string line; std::getline(file, line);) texts.push_back(line);
  ASSERT_FALSE(texts.empty());
  const Tensor want = Session::load(checkpoint(), {.device = "cpu"}).embed(texts, {}).values;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Session session = Session::load(checkpoint(), {.device = "cuda", .dtype = dtype});
    for (const std::int64_t batch : {32, 7, 1000}) {
      const double worst = worst_difference(session.embed(texts, {.batch = batch}).values, want);
      EXPECT_LE(worst, dtype == DType::f32 ? 2e-5 : 5e-3) << name_of(dtype) << ", batches of " << batch;
      RecordProperty(std::string(name_of(dtype)) + "_" + std::to_string(batch), testing::PrintToString(worst));
    }
  }
}

// In every dtype.
void expect_as_on_the_cpu(const std::filesystem::path& folder, SessionOptions options) {
  const std::vector<std::string> texts{"a", "the mask decides who may attend", "rows, keys and blocks: 1, 2, 3"};
  options.device = "cpu";
  const Session cpu = Session::load(folder, options);
  options.device = "cuda";
  for (const Pooling pooling : {Pooling::none, options.global_tokens > 0 ? Pooling::cls : Pooling::last}) {
    const Tensor want = cpu.embed(texts, {.pooling = pooling}).values;
    double scale = 1;
    for (std::int64_t i = 0; i < want.size(); ++i) scale = std::max(scale, std::abs(double{want.as<float>()[i]}));
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      options.dtype = dtype;
      const Session gpu = Session::load(folder, options);
      for (const char* how : {"done at once", "recorded"})
        EXPECT_LE(worst_difference(gpu.embed(texts, {.pooling = pooling}).values, want) / scale, bound_of(dtype, false))
            << name_of(dtype) << ", " << how;
    }
  }
}

// Checkpoints of a few layers.
TEST_F(CudaSession, RunsEveryFamilyAsTheCpuDoes) {
  for (const char* family : {"roberta",
                             "xlm_roberta",
                             "distilbert",
                             "longformer",
                             "gpt2",
                             "modernbert",
                             "modernbert_with_biases",
                             "llama",
                             "llama_with_biases",
                             "mistral",
                             "qwen2",
                             "qwen3",
                             "phi3",
                             "phi4",
                             "gemma2",
                             "gemma3",
                             "mpnet",
                             "t5",
                             "t5_gated",
                             "eurobert",
                             "nomic"})
    for (const bool logits : {false, true}) {
      if (logits && !std::filesystem::exists(families() / family / "logits.npy")) continue;
      SCOPED_TRACE(std::string(family) + (logits ? ", logits" : ""));
      expect_as_on_the_cpu(families() / family, {.logits = logits});
    }
  expect_as_on_the_cpu(families() / "longformer", {.global_tokens = 3});
}

// Which would be infinite in f16 as a checkpoint has them.
TEST_F(CudaSession, RunsT5OfLargeSumsAsTheCpuDoes) {
  const Model model = t5_with_large_sums();
  const TokenBatch batch = texts_of({70, 3, 20, 1});
  const Tensor want = Session(model, {.device = "cpu"}).run(batch);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Session gpu(model, {.device = "cuda", .dtype = dtype});
    EXPECT_LE(worst_difference(gpu.run(batch), want), bound_of(dtype, false)) << name_of(dtype);
  }
}

// Windows of 64 and layers that see everything, positions that are turned, a gate.
TEST_F(CudaSession, RunsModernBertOfLongTextsAsTheCpuDoes) {
  const Model model = small_modernbert();
  const TokenBatch batch = texts_of({512, 3, 200, 77, 1});
  for (const char* mask : {"all", "longformer(40,4)"}) {
    const Session cpu(model, {.device = "cpu", .mask = parse(mask)});
    const Tensor hidden = cpu.run(batch), pooled = cpu.embed(batch, Pooling::mean);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Session gpu(model, {.device = "cuda", .dtype = dtype, .mask = parse(mask)});
      for (int repeat = 0; repeat < 2; ++repeat) {
        EXPECT_LE(worst_difference(gpu.run(batch), hidden), bound_of(dtype, false)) << mask << ", " << name_of(dtype);
        EXPECT_LE(worst_difference(gpu.embed(batch, Pooling::mean), pooled), bound_of(dtype, true))
            << mask << ", " << name_of(dtype);
      }
    }
  }
}

// Whatever is predicted to be faster: every matmul that turns heads, by itself and in the model.
TEST_F(CudaSession, TurnsHeadsInTheMatmul) {
  const Model model = small_modernbert();
  const Graph graph = simplify(build_graph(model));
  const Device device = open_device("cuda");
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Blocks blocks(graph, {&device, dtype});
    const Scheme scheme = scheme_of_templates(
        blocks, std::vector<std::string_view>{"embedding_norm", "product_rope", "product_residual", "product_gate"});
    const TuneResult result = tune(model, {.device = device,
                                           .dtype = dtype,
                                           .texts = 3,
                                           .longest = 300,
                                           .scheme = scheme.text(),
                                           .seconds_a_time = 0.001,
                                           .confirming_seconds = 0.01});
    EXPECT_EQ(result.wrong, 0) << name_of(dtype);
    const auto turned = std::count_if(result.plan.works.begin(), result.plan.works.end(), [](const PlannedWork& work) {
      return work.work.find("rope=(") != std::string::npos;
    });
    EXPECT_EQ(turned, 2) << name_of(dtype);  // layers of two kinds of positions
    EXPECT_LE(result.plan.confirmed.back().error, dtype == DType::f16 ? 1e-2 : 5e-2) << name_of(dtype);
  }
}

TEST(SessionOnCuda, SaysWhatIsMissing) {
  EXPECT_ERROR(Session(small_bert(), {.device = "cuda:h200"}), ErrorKind::device,
               "NVIDIA H200 (described) is a description to plan with; accepted for running: cuda, cuda:N");
  const std::string driver = cuda::missing_driver(), blas = cuda::missing_blas();
  if (!driver.empty())
    EXPECT_ERROR(Session(small_bert(), {.device = "cuda"}), ErrorKind::device,
                 "device 'cuda' cannot be used: " + driver + "; accepted here: cpu, auto");
  else if (!blas.empty()) EXPECT_ERROR(Session(small_bert(), {.device = "cuda"}), ErrorKind::device, blas);
  const bool whole_models = driver.empty() && blas.empty();
  EXPECT_EQ(Session(small_bert(), {}).device().caps.arch > 0, whole_models);
}

}  // namespace
}  // namespace stof
