// SPDX-License-Identifier: Apache-2.0
// Every unit of kernels/cuda/instances.cmake: known to the host by the same name, compiled, with its entry point.
#include "tests/backend/kernel_units.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "src/backend/cuda/attention/instances.h"
#include "src/backend/cuda/matmul/instances.h"
#include "src/codegen/compiler.h"
#include "src/codegen/cubin_values.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof::cuda {
namespace {

TEST(KernelUnits, AreThoseThatTheHostKnows) {
  std::set<std::string> known, embedded;
  for (const Unit& unit : units()) known.insert(unit.name);
  for (const EmbeddedFile& file : kernel_sources()) embedded.emplace(file.name);
  EXPECT_EQ(known, embedded);
  EXPECT_ERROR(unit_source("no_unit"), ErrorKind::internal, "no kernel unit is called no_unit");
}

TEST(KernelUnits, TargetsAreArchitecturesOfMachineCode) {
  EXPECT_EQ(target_of(90), "sm_90a");
  EXPECT_EQ(target_of(89), "sm_80");
  EXPECT_EQ(target_of(80), "sm_80");
  EXPECT_EQ(target_of(100), "sm_100");
}

// The kernel that has to run on all of them.
TEST(KernelUnits, EveryHeadDimensionHasAnInstanceThatFitsTheSmallestMultiprocessor) {
  std::set<int> fitting, all;
  for (const MmaInstance& i : mma_instances()) {
    all.insert(i.head_dim);
    if (i.parts == 1 && ctas_of(i, {.name = "", .cores = 1, .arch = 86}) > 0) fitting.insert(i.head_dim);
    EXPECT_EQ(ctas_of(i, {.name = "", .cores = 1, .arch = 90}), i.ctas) << name_of(i, DType::f16);
  }
  EXPECT_EQ(fitting, all);
  EXPECT_EQ(largest_head_dim(mma_instances()), 256);
}

class CompiledUnit : public testing::TestWithParam<Unit> {
 protected:
  static void expect_whole(std::string_view code) {
    for (const std::string& entry : GetParam().entries) EXPECT_NE(code.find(entry), std::string::npos) << entry;
    if (GetParam().threads == 0) return;
    const std::vector<int> facts = cubin_values(code, "kernel_facts");
    ASSERT_EQ(facts.size(), 2u);
    EXPECT_GT(facts[0], 16 * 1024);
    EXPECT_LE(facts[0], GetParam().most_kilobytes * 1024);
    EXPECT_EQ(facts[1], GetParam().threads);
    if (GetParam().shared_bytes != 0) {
      EXPECT_EQ(facts[0], GetParam().shared_bytes);
    }
  }
};

TEST_P(CompiledUnit, ComesWholeFromTheBuild) {
  if (kernel_binaries().empty()) GTEST_SKIP() << "this build holds no machine code; `make cuda` adds it";
  expect_whole(embedded_cubin(GetParam().name, GetParam().target));
}

// The same units where the library would compile them itself: machine code for sm_90 comes from the build only.
class RunTimeUnit : public CompiledUnit {};

TEST_P(RunTimeUnit, ComesWholeFromTheRunTimeCompiler) {
  if (find_nvrtc() == nullptr) GTEST_SKIP() << "no NVRTC on this machine; `make cuda` fetches one";
  const TemporaryFolder folder;
  expect_whole(Compiler({.cache = {.folder = folder.path(), .log = {}}, .nvrtc = find_nvrtc()})
                   .cubin(unit_source(GetParam().name), GetParam().target));
}

// NVRTC is not instrumented, and its requests differ in their source alone: under a sanitizer one stands for all.
template <class Case>
std::vector<Case> those_to_compile(std::vector<Case> cases) {
#ifdef STOF_SANITIZED
  cases.resize(1);
#endif
  return cases;
}

std::vector<Unit> run_time_units() {
  std::vector<Unit> all = units();
  std::erase_if(all, [](const Unit& unit) { return unit.target == "sm_90"; });
  return those_to_compile(std::move(all));
}

std::string name_of_case(const testing::TestParamInfo<Unit>& the) { return the.param.name + "_" + the.param.target; }

INSTANTIATE_TEST_SUITE_P(Every, CompiledUnit, testing::ValuesIn(units()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Every, RunTimeUnit, testing::ValuesIn(run_time_units()), name_of_case);

// The units of the build say what the library would have compiled.
TEST(GemmUnits, AreWhatTheRunTimeCompilerIsGiven) {
  for (const GemmInstance& i : gemm_built_ahead()) EXPECT_EQ(unit_source(name_of(i)), source_of(i));
}

// A line is what gemm_instances.cmake reads: settings that differ in any number must not print the same one.
TEST(GemmUnits, HaveLinesOfTheirOwn) {
  const MatmulProblem problem{.rows = 128, .columns = 768, .inner = 768, .dtype = DType::bf16, .bias = true};
  std::set<std::string> names, lines;
  for (const MatmulSetting& setting : wgmma_settings())
    for (const bool gate : {false, true}) {
      GemmInstance instance = instance_of(problem, setting);
      instance.gate = gate;
      names.insert(name_of(instance));
      lines.insert(line_of(instance));
    }
  EXPECT_EQ(names.size(), 2 * wgmma_settings().size());
  EXPECT_EQ(lines.size(), names.size());
  const GemmInstance shared{.setting = matmul_setting_of("wgmma 128x192 k64 s4 w2 t1 split1 share2"),
                            .activation = Activation::gelu,
                            .bias = true,
                            .x_norm = true,
                            .gate = true};
  EXPECT_EQ(line_of(shared), "stof_gemm(f16 128 192 4 2 1 1 gelu 1 0 1 0 0 1 0 2)");
  EXPECT_EQ(name_of(shared), "gemm_f16_128x192_s4_w2_t1_p1_gelu_b1_r0_x1_n0_m0_g1_c2");
}

// The define is all that tools/gpu_check.sh has other kernels by.
TEST(KernelUnits, OfTheFormForRacecheckAreOthersAndWhole) {
  if (find_nvrtc() == nullptr) GTEST_SKIP() << "no NVRTC on this machine; `make cuda` fetches one";
  const TemporaryFolder folder;
  const Compiler compiler({.cache = {.folder = folder.path(), .log = {}}, .nvrtc = find_nvrtc()});
  const std::string source(unit_source("stream_f16_d64_t1_p1_k1_s8_c1_g4"));
  const std::string code = compiler.cubin("#define STOF_RACECHECK\n" + source, "sm_90a");
  EXPECT_NE(code.find(kStreamEntry), std::string::npos);
  EXPECT_NE(code, compiler.cubin(source, "sm_90a"));
}

// What tests that take a GPU for an older one run on it.
TEST(KernelUnits, OfOlderGpusComeAsPtx) {
  if (find_nvrtc() == nullptr) GTEST_SKIP() << "no NVRTC on this machine; `make cuda` fetches one";
  const TemporaryFolder folder;
  const Compiler compiler({.cache = {.folder = folder.path(), .log = {}}, .nvrtc = find_nvrtc()});
  for (const char* unit : {"decode_f16_d64_c2", "decode_bf16_d64_c2"}) {
    const std::string text = compiler.cubin(unit_source(unit), "compute_80");
    EXPECT_NE(text.find(".target sm_80"), std::string::npos) << unit;
    for (const std::string_view entry : {kDecodeEntry, kDecodeTwoEntry, kDecodeFourEntry, kDecodeSumFourEntry})
      EXPECT_NE(text.find(entry), std::string::npos) << unit << " " << entry;
    EXPECT_EQ(text.find("setmaxnreg"), std::string::npos) << unit;  // of 9.0
  }
}

// Forms of the stream kernel for scores that are not only scaled differ from those of the build by a flag.
struct FormUnit {
  StreamInstance instance;
  DType dtype;
  StreamForm form;
};
std::string name_of(const FormUnit& unit) { return name_of(unit.instance, unit.dtype, unit.form); }
std::string source_of(const FormUnit& unit) { return source_of(unit.instance, unit.dtype, unit.form); }

std::vector<FormUnit> form_units() {
  std::vector<FormUnit> all;
  for (const StreamForm form : {StreamForm::capped, StreamForm::biased})
    for (const StreamInstance& i : stream_instances())
      all.push_back({i, all.size() % 2 == 0 ? DType::f16 : DType::bf16, form});
  return all;
}

class RunTimeForms : public testing::TestWithParam<FormUnit> {};
INSTANTIATE_TEST_SUITE_P(Every, RunTimeForms, testing::ValuesIn(those_to_compile(form_units())),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(RunTimeForms, ComesWholeFromTheRunTimeCompiler) {
  if (find_nvrtc() == nullptr) GTEST_SKIP() << "no NVRTC on this machine; `make cuda` fetches one";
  const StreamInstance& instance = GetParam().instance;
  const TemporaryFolder folder;
  const std::string code = Compiler({.cache = {.folder = folder.path(), .log = {}}, .nvrtc = find_nvrtc()})
                               .cubin(source_of(GetParam()), "sm_90a");
  EXPECT_NE(code.find(kStreamEntry), std::string::npos);
  const std::vector<int> facts = cubin_values(code, "kernel_facts");
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_LE(facts[0], 227 * 1024);
  EXPECT_EQ(facts[1], 128 * (instance.teams * instance.parts * instance.groups + 1));
}

// What the build compiles, but for the kernels of pages and of lists of row blocks: no such form takes either.
std::string source_of_plain_calls(const StreamInstance& instance, DType dtype) {
  std::string source(unit_source(name_of(instance, dtype)));
  const std::size_t begin = source.find("struct PagedInstance"), end = source.find("extern \"C\"");
  source.erase(begin, end - begin);
  constexpr std::string_view kSums = "#include \"kernels/cuda/stream_sum.cuh\"\n";
  return source.erase(source.find(kSums), kSums.size());
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(FormUnits, SayNoMoreThanTheOthersAndWhatTheyAre) {
  for (const FormUnit& unit : form_units()) {
    const bool capped = unit.form == StreamForm::capped;
    const std::string source = source_of(unit), plain = source_of_plain_calls(unit.instance, unit.dtype);
    EXPECT_NE(source, plain);
    EXPECT_EQ(capped ? replaced(source, ", true, ", ", false, ")
                     : replaced(replaced(source, ", false, false, true}", "}"), " BiasedStreamParams", " StreamParams"),
              plain);
    EXPECT_EQ(name_of(unit), name_of(unit.instance, unit.dtype) + (capped ? "_capped" : "_biased"));
  }
}

DType by_turns(const std::vector<GemmInstance>& before) { return before.size() % 2 == 0 ? DType::f16 : DType::bf16; }

// Every tile with the fullest epilogue that it takes, and every activation. Of f16 and of bf16 by turns: both are in
// each group, for as many compilations as one of them takes.
std::vector<GemmInstance> gemms_to_compile() {
  const DeviceCaps hopper{.name = "", .cores = 132, .arch = 90};
  std::vector<GemmInstance> all;
  for (const MatmulSetting& setting : wgmma_settings()) {
    MatmulProblem problem{
        .rows = 128, .columns = 768, .inner = 768, .dtype = by_turns(all), .bias = true, .residual = true};
    problem.x_norm = problem.residual_norm = problem.moments = true;
    if (refuses(problem, hopper, setting)) problem.moments = false;
    all.push_back(instance_of(problem, setting));
  }
  for (const char* text :
       {"wgmma 128x192 k64 s4 w1 t2 split1", "wgmma 64x48 k64 s7 w1 t1 split1", "mma 64x64 k32 s4 w2 t1 split1"})
    for (const Activation activation : {Activation::silu, Activation::gelu})
      all.push_back({.setting = matmul_setting_of(text),
                     .dtype = by_turns(all),
                     .activation = activation,
                     .bias = true,
                     .x_norm = true,
                     .gate = true});
  // Boxes of one head with most sums, heads cut by tiles, shared sums, and without anything that precedes the turn.
  for (const char* text : {"wgmma 128x192 k64 s4 w1 t2 split1 share2", "wgmma 128x72 k64 s7 w2 t1 split1",
                           "wgmma 64x64 k64 s4 w1 t1 split4", "mma 128x128 k32 s4 w8 t1 split1"})
    all.push_back(
        {.setting = matmul_setting_of(text), .dtype = by_turns(all), .bias = true, .x_norm = true, .turned = true});
  all.push_back({.setting = matmul_setting_of("wgmma 128x256 k64 s3 w2 t1 split1"), .turned = true});
  for (const bool deferred : {false, true})
    for (const MatmulSetting& setting : mma_settings())
      all.push_back({.setting = setting,
                     .dtype = by_turns(all),
                     .bias = true,
                     .residual = true,
                     .x_norm = deferred,
                     .residual_norm = deferred,
                     .moments = deferred});
  for (const MatmulSetting& setting : {wgmma_settings().front(), mma_settings().front()})
    for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu})
      all.push_back({.setting = setting, .dtype = by_turns(all), .activation = activation, .bias = true});
  return those_to_compile(std::move(all));
}

class RunTimeGemm : public testing::TestWithParam<GemmInstance> {};
INSTANTIATE_TEST_SUITE_P(Every, RunTimeGemm, testing::ValuesIn(gemms_to_compile()),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(RunTimeGemm, FitsAMultiprocessorAsTheSettingsSay) {
  if (find_nvrtc() == nullptr) GTEST_SKIP() << "no NVRTC on this machine; `make cuda` fetches one";
  const TemporaryFolder folder;
  const bool mma = GetParam().setting.kernel == MatmulSetting::Kernel::mma;
  const std::string code = Compiler({.cache = {.folder = folder.path(), .log = {}}, .nvrtc = find_nvrtc()})
                               .cubin(source_of(GetParam()), mma ? "sm_80" : "sm_90a");
  EXPECT_NE(code.find(mma ? kMmaGemmEntry : kGemmEntry), std::string::npos);
  const std::vector<int> facts = cubin_values(code, "kernel_facts");
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_LE(facts[0], 227 * 1024);
  EXPECT_LE(facts[0], shared_bytes_of(GetParam().setting));
  EXPECT_EQ(facts[1], threads_of(GetParam()));
}

TEST(CubinValues, SaysWhatIsWrong) {
  EXPECT_ERROR(cubin_values("", "x"), ErrorKind::device, "a compiled kernel is damaged: it is not a whole ELF file");
  EXPECT_ERROR(cubin_values(std::string(200, 'x'), "x"), ErrorKind::device,
               "a compiled kernel is damaged: it is not a whole ELF file");
}

}  // namespace
}  // namespace stof::cuda
