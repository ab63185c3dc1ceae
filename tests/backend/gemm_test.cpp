// SPDX-License-Identifier: Apache-2.0
// The GEMM kernels, the one of compute capability 9.0 and the one of 8.0, on a GPU of 9.0: every setting and every
// epilogue against the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <tuple>

#include "src/backend/cuda/driver/stream.h"
#include "src/backend/cuda/matmul/settings.h"
#include "tests/backend/gemm_runs.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

class GemmTest : public testing::Test {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT_DEVICE(std::string("cuda"));
    device_ = open_device("cuda");
    if (device_.caps.arch != 90) GTEST_SKIP() << "the GEMM kernel is for compute capability 9.0";
  }
  // A setting may refuse some of a test's cases, and none all of them.
  void TearDown() override { EXPECT_EQ(ran_, asked_); }

  GemmResult run(const GemmCase& the, const GemmProblem& problem, const PackedLinear& packed,
                 const MatmulSetting& setting, bool backwards = false) const {
    return GemmRuns(device_).run(the, problem, packed, setting, backwards);
  }

  void expect_definition(const GemmCase& the, const std::vector<MatmulSetting>& settings, unsigned seed) {
    const GemmProblem problem(the, seed);
    const LinearSpec spec = problem.spec(device_);
    const PackedLinear packed = device_.backend->matmul.pack(spec);
    for (const MatmulSetting& setting : settings) {
      asked_.insert(text_of(setting));
      if (device_.backend->matmul.refuses(spec, the.rows, setting)) continue;
      ran_.insert(text_of(setting));
      SCOPED_TRACE(testing::Message() << text_of(setting) << ": " << the.rows << " rows, " << the.columns
                                      << " columns, inner " << the.inner << ", " << name_of(the.dtype) << ", "
                                      << name_of(the.activation) << ", bias " << the.bias << ", residual "
                                      << the.residual << the.residual_norm << ", norm of x " << the.x_norm
                                      << ", moments " << the.moments);
      expect_near_definition(the, problem, run(the, problem, packed, setting));
    }
  }

  GemmCase everything(std::int64_t rows, std::int64_t columns, std::int64_t inner) const {
    return {.rows = rows,
            .columns = columns,
            .inner = inner,
            .dtype = dtype_,
            .activation = Activation::gelu,
            .residual = true,
            .x_norm = true,
            .residual_norm = true,
            .moments = true};
  }

  // What tiles take that cut the pieces of moments.
  GemmCase without_moments(std::int64_t rows, std::int64_t columns, std::int64_t inner) const {
    GemmCase the = everything(rows, columns, inner);
    the.moments = false;
    return the;
  }

  GemmCase residual_only(std::int64_t rows, std::int64_t columns, std::int64_t inner) const {
    return {.rows = rows, .columns = columns, .inner = inner, .dtype = dtype_, .residual = true};
  }

  Device device_;
  DType dtype_ = DType::f16;
  std::set<std::string> asked_, ran_;  // settings of expect_definition
};

class Gemm : public GemmTest, public testing::WithParamInterface<DType> {
 protected:
  void SetUp() override {
    GemmTest::SetUp();
    dtype_ = GetParam();
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, Gemm, testing::Values(DType::f16, DType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// One setting a test, so that their kernels can be compiled beside each other.
using DTypeAndSetting = std::tuple<DType, MatmulSetting>;
class GemmSetting : public GemmTest, public testing::WithParamInterface<DTypeAndSetting> {
 protected:
  void SetUp() override {
    GemmTest::SetUp();
    std::tie(dtype_, setting_) = GetParam();
  }
  MatmulSetting setting_;
};
class GemmEpilogue : public GemmSetting {};
class GemmSameBits : public GemmSetting {};

std::string name_of_test(const testing::TestParamInfo<DTypeAndSetting>& test) {
  std::string name = text_of(std::get<1>(test.param)) + "_" + std::string(name_of(std::get<0>(test.param)));
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::vector<MatmulSetting> all_settings() {
  std::vector<MatmulSetting> settings = cuda::wgmma_settings();
  for (const MatmulSetting& setting : cuda::mma_settings()) settings.push_back(setting);
  return settings;
}

std::vector<MatmulSetting> settings_of(std::initializer_list<const char*> texts) {
  std::vector<MatmulSetting> settings;
  for (const char* text : texts) settings.push_back(matmul_setting_of(text));
  return settings;
}

const auto kDtypes = testing::Values(DType::f16, DType::bf16);
INSTANTIATE_TEST_SUITE_P(Every, GemmSetting, testing::Combine(kDtypes, testing::ValuesIn(all_settings())),
                         name_of_test);
// Whole boxes, narrow ones, shared sums, and the kernel of sm_80.
INSTANTIATE_TEST_SUITE_P(Every, GemmEpilogue,
                         testing::Combine(kDtypes, testing::ValuesIn(settings_of({"wgmma 128x128 k64 s5 w2 t1 split1",
                                                                                  "wgmma 64x64 k64 s4 w1 t1 split4",
                                                                                  "wgmma 128x144 k64 s5 w2 t1 split1",
                                                                                  "wgmma 64x96 k64 s8 w1 t1 split4",
                                                                                  "mma 128x64 k32 s4 w4 t1 split1"}))),
                         name_of_test);
INSTANTIATE_TEST_SUITE_P(
    Every, GemmSameBits,
    testing::Combine(kDtypes, testing::ValuesIn(settings_of(
                                  {"wgmma 64x64 k64 s4 w1 t1 split4", "wgmma 128x64 k64 s3 w2 t1 split8",
                                   "wgmma 128x128 k64 s5 w1 t2 split1", "wgmma 128x192 k64 s4 w1 t2 split1",
                                   "wgmma 128x192 k64 s4 w1 t2 split1 share2", "mma 64x64 k32 s4 w2 t1 split1"}))),
    name_of_test);

// Ragged in every direction, whole tiles, one row, and several waves of tiles.
TEST_P(GemmSetting, TakesEveryShape) {
  unsigned seed = 1;
  for (const auto& [rows, columns, inner] :
       {std::array<std::int64_t, 3>{1, 8, 8}, {5, 200, 72}, {128, 192, 64}, {130, 264, 520}, {257, 776, 768}})
    for (const GemmCase& the :
         {everything(rows, columns, inner), without_moments(rows, columns, inner), residual_only(rows, columns, inner)})
      expect_definition(the, {setting_}, seed++);
}

TEST_P(Gemm, TilesOfSeveralWavesFollowEachOther) {
  const std::vector<MatmulSetting> settings = settings_of(
      {"wgmma 128x192 k64 s4 w2 t1 split1", "wgmma 128x192 k64 s4 w1 t2 split1", "wgmma 128x128 k64 s5 w1 t2 split1",
       "wgmma 128x192 k64 s4 w1 t2 split1 share2", "wgmma 128x256 k64 s3 w2 t1 split1 share2",
       "wgmma 64x64 k64 s6 w1 t1 split1", "wgmma 128x144 k64 s5 w2 t1 split1", "wgmma 128x72 k64 s7 w2 t1 split1",
       "mma 64x64 k32 s4 w2 t1 split1", "mma 128x128 k32 s4 w8 t1 split1"});
  for (const GemmCase& the :
       {everything(2500, 2312, 136), without_moments(2500, 2312, 136), residual_only(2500, 2312, 136)})
    expect_definition(the, settings, 3);
}

TEST_P(GemmEpilogue, IsItsDefinition) {
  GemmCase the{.rows = 133, .columns = 200, .inner = 320, .dtype = dtype_};
  unsigned seed = 20;
  for (const Activation activation :
       {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu}) {
    the.activation = activation;
    expect_definition(the, {setting_}, seed++);
  }
  the.activation = Activation::none;
  for (int bits = 0; bits < 32; ++bits) {
    the.bias = (bits & 1) != 0, the.residual = (bits & 2) != 0, the.x_norm = (bits & 4) != 0;
    the.residual_norm = (bits & 8) != 0, the.moments = (bits & 16) != 0;
    if (the.residual_norm && !the.residual) continue;
    expect_definition(the, {setting_}, seed++);
  }
}

// Two halves of a weight, one of which says how much of the other is let through.
TEST_P(Gemm, GatesWhatItsOtherHalfIs) {
  const std::vector<MatmulSetting> settings = settings_of(
      {"wgmma 64x64 k64 s6 w1 t1 split1", "wgmma 128x192 k64 s4 w2 t1 split1", "wgmma 128x192 k64 s4 w1 t2 split1",
       "wgmma 64x48 k64 s7 w1 t1 split1", "wgmma 128x144 k64 s5 w2 t1 split1", "wgmma 128x96 k64 s6 w2 t1 split1",
       "wgmma 64x96 k64 s8 w1 t1 split1", "wgmma 128x192 k64 s4 w1 t2 split1 share2", "mma 64x64 k32 s4 w2 t1 split1",
       "mma 128x128 k32 s4 w8 t1 split1"});
  unsigned seed = 60;
  for (const bool norm : {false, true})
    for (const Activation activation : {Activation::silu, Activation::gelu}) {
      GemmCase the{.rows = 133, .columns = 200, .inner = 320, .dtype = dtype_, .activation = activation};
      the.x_norm = norm, the.gate = true;
      expect_definition(the, settings, seed++);
    }
}

TEST_P(Gemm, TheResidualMayBeOut) {
  const GemmCase the = residual_only(300, 520, 1544);
  const GemmProblem problem(the, 70);
  const PackedLinear packed = device_.backend->matmul.pack(problem.spec(device_));
  for (const char* text :
       {"wgmma 64x64 k64 s6 w1 t1 split1", "wgmma 128x192 k64 s4 w1 t2 split1", "wgmma 128x144 k64 s5 w2 t1 split1",
        "wgmma 64x64 k64 s4 w1 t1 split4", "wgmma 128x64 k64 s3 w2 t1 split8", "mma 128x64 k32 s4 w4 t1 split1"}) {
    SCOPED_TRACE(text);
    const MatmulSetting setting = matmul_setting_of(text);
    const GemmResult result{Tensor(the.dtype, problem.residual.shape()), Tensor()};
    std::memcpy(result.out.data(), problem.residual.data(), result.out.bytes());
    Operands there(device_);
    void* const out = there.result(result.out);
    device_.backend->matmul.run(packed, {.x = there.in(problem.x),
                                         .out = out,
                                         .residual = out,
                                         .rows = the.rows,
                                         .queue = there.queue(),
                                         .setting = &setting});
    there.finish();
    expect_near_definition(the, problem, result);
  }
}

TEST_P(Gemm, RefusesAddressesThatAreNotAligned) {
  const GemmCase the = residual_only(64, 64, 64);
  const GemmProblem problem(the, 71);
  const PackedLinear packed = device_.backend->matmul.pack(problem.spec(device_));
  Operands there(device_);
  auto* const memory = static_cast<std::byte*>(there.in(problem.x));
  for (const char* text : {"wgmma 64x64 k64 s6 w1 t1 split1", "mma 64x64 k32 s4 w2 t1 split1"}) {
    const MatmulSetting setting = matmul_setting_of(text);
    for (const auto& [name, bytes] : {std::pair("x", std::array{2, 0, 0}), std::pair("out", std::array{0, 2, 0}),
                                      std::pair("the residual", std::array{0, 0, 2})})
      EXPECT_ERROR(device_.backend->matmul.run(packed, {.x = memory + bytes[0],
                                                        .out = memory + bytes[1],
                                                        .residual = memory + bytes[2],
                                                        .rows = the.rows,
                                                        .queue = there.queue(),
                                                        .setting = &setting}),
                   ErrorKind::unsupported,
                   std::string(name) + " is 2 bytes past a multiple of 16, and the copy engine takes only multiples");
  }
}

// Heads of two sizes with positions in no order, and columns behind them that stay; cut by rows, by tiles in the middle
// of heads, and by CTAs that share the inner dimension.
TEST_P(GemmEpilogue, TurnsHeads) {
  unsigned seed = 80;
  for (const auto& [rows, columns, heads, head_dim] :
       {std::array<std::int64_t, 4>{1, 192, 2, 64}, {133, 576, 6, 64}, {257, 776, 5, 128}, {300, 520, 2, 256}})
    for (const auto& [bias, norm] : {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
      GemmCase the{.rows = rows, .columns = columns, .inner = 320, .dtype = dtype_, .bias = bias, .x_norm = norm};
      the.turned = {heads, head_dim};
      expect_definition(the, {setting_}, seed++);
    }
}

TEST_P(Gemm, TilesOfSeveralWavesTurnHeads) {
  const std::vector<MatmulSetting> settings =
      settings_of({"wgmma 128x192 k64 s4 w2 t1 split1", "wgmma 128x192 k64 s4 w1 t2 split1 share2",
                   "wgmma 128x256 k64 s3 w2 t1 split1 share2", "wgmma 128x72 k64 s7 w2 t1 split1",
                   "wgmma 64x48 k64 s7 w1 t1 split1", "mma 128x128 k32 s4 w8 t1 split1"});
  GemmCase the{.rows = 2500, .columns = 2312, .inner = 136, .dtype = dtype_, .x_norm = true};
  for (const TurnedHeads turned : {TurnedHeads{24, 64}, TurnedHeads{12, 128}}) {
    the.turned = turned;
    expect_definition(the, settings, 90);
  }
}

// What is no head's is not multiplied by anything: infinity stays what it is.
TEST_P(Gemm, ColumnsBehindTurnedHeadsMayOverflow) {
  if (dtype_ != DType::f16) GTEST_SKIP() << "bf16 overflows later";
  const GemmCase the{.rows = 70, .columns = 192, .inner = 64, .dtype = dtype_, .bias = false, .turned = {2, 64}};
  GemmProblem problem(the, 7);
  for (std::int64_t i = 128 * 64; i < 192 * 64; ++i) problem.weight.as<float>()[i] = 6e4f;
  for (std::int64_t i = 0; i < the.rows * 64; ++i) set_element(problem.x, i, 4.f);
  const PackedLinear packed = device_.backend->matmul.pack(problem.spec(device_));
  for (const char* text : {"wgmma 64x64 k64 s6 w1 t1 split1", "mma 64x64 k32 s4 w2 t1 split1"}) {
    const GemmResult result = run(the, problem, packed, matmul_setting_of(text));
    for (std::int64_t row = 0; row < the.rows; ++row)
      for (std::int64_t column = 128; column < 192; ++column)
        ASSERT_EQ(element(result.out, row * 192 + column), std::numeric_limits<double>::infinity()) << text;
  }
}

// What a layer norm takes away again is large: the mean of a row, next to its deviation.
TEST_P(Gemm, RowsWithALargeMeanStayAccurate) {
  for (const float mean : {3.f, 10.f, 30.f}) {
    GemmCase the = everything(64, 768, 768);
    the.activation = Activation::none, the.mean = mean;
    expect_definition(
        the,
        {matmul_setting_of("wgmma 128x128 k64 s5 w2 t1 split1"), matmul_setting_of("mma 128x128 k32 s4 w8 t1 split1")},
        5);
  }
}

// Also from the last row to the first; several rounds of tiles, the last of them not full.
TEST_P(GemmSameBits, EachTime) {
  const GemmCase the = everything(2300, 1544, 520);
  const GemmProblem problem(the, 9);
  const PackedLinear packed = device_.backend->matmul.pack(problem.spec(device_));
  const GemmResult first = run(the, problem, packed, setting_);
  for (int i = 0; i < 3; ++i) {
    const GemmResult again = run(the, problem, packed, setting_, i % 2 == 0);
    EXPECT_EQ(std::memcmp(first.out.data(), again.out.data(), first.out.bytes()), 0);
    EXPECT_EQ(std::memcmp(first.moments.data(), again.moments.data(), first.moments.bytes()), 0);
  }
}

// Calls that follow each other in a captured graph, each reading what the one before wrote.
TEST_P(Gemm, RunsInACapturedGraph) {
  const GemmCase the{.rows = 100, .columns = 256, .inner = 256, .dtype = dtype_};
  const GemmProblem problem(the, 4);
  const PackedLinear packed = device_.backend->matmul.pack(problem.spec(device_));
  const MatmulSetting setting = matmul_setting_of("wgmma 64x64 k64 s4 w1 t1 split2");
  device_.backend->matmul.prepare(packed, setting);
  const Tensor captured(the.dtype, {the.rows, the.columns}), eager(the.dtype, {the.rows, the.columns});
  Operands there(device_);
  void* const x = there.in(problem.x);
  void* const between = there.in(eager);
  void* const outs[] = {there.result(eager), there.result(captured)};
  const auto twice = [&](void* stream, void* out) {
    LinearCall call{.x = x, .out = between, .rows = the.rows, .queue = there.queue(), .setting = &setting};
    call.queue.stream = stream;
    device_.backend->matmul.run(packed, call);
    call.x = between, call.out = out;
    device_.backend->matmul.run(packed, call);
  };
  twice(nullptr, outs[0]);
  const cuda::Gpu& gpu = cuda::gpu(0);
  const cuda::CapturedGraph graph(gpu, [&](cuda::StreamHandle stream) { twice(stream, outs[1]); });
  const cuda::Stream stream(gpu);
  graph.launch(stream.handle());
  stream.synchronize();
  there.finish();
  EXPECT_EQ(std::memcmp(captured.data(), eager.data(), eager.bytes()), 0);
}

}  // namespace
}  // namespace stof
