// SPDX-License-Identifier: Apache-2.0
// Compiling for a GPU that need not be there. The tests that compile need NVRTC: a build with STOF_CUDA has it, and
// fails them where it is not found.
#include "src/codegen/compiler.h"

#include <gtest/gtest.h>

#include "src/codegen/emit_mask.h"
#include "src/codegen/source_closure.h"
#include "tests/codegen/predicate_unit.h"
#include "tests/expect_error.h"
#include "tests/mask/random_mask.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

constexpr EmbeddedFile kHeaders[] = {{"a.h", "#include \"b.h\"\nint a;\n"}, {"b.h", "#pragma once\nint b;\n"}};
constexpr const char* kKernel = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2.f; }\n";

class CompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_nvrtc() != nullptr) return;
    ASSERT_FALSE(STOF_CUDA_BUILD) << "NVRTC is in none of the places where it is looked for";
    GTEST_SKIP() << "no NVRTC on this machine; `make cuda` fetches one";
  }
  CompilerOptions options() {
    return {.cache = {.folder = folder_.path(), .log = [this](std::string_view text) { heard_.emplace_back(text); }},
            .nvrtc = find_nvrtc()};
  }
  TemporaryFolder folder_;
  std::vector<std::string> heard_;
};

TEST_F(CompilerTest, MakesACubinOnceAndFindsItAgain) {
  const std::string first = Compiler(options()).cubin(kKernel, "sm_90a");
  EXPECT_EQ(first.substr(0, 4), "\177ELF");
  EXPECT_NE(first.find("twice"), std::string::npos);
  std::size_t entries = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
    entries += file.is_regular_file() ? 1 : 0;
    if (file.path().extension() != ".cu") continue;
    const std::string about = read_bytes(file.path());
    EXPECT_NE(about.find(" --std=c++20, STOF "), std::string::npos) << about.substr(0, about.find('\n'));
  }
  EXPECT_EQ(entries, 2u);  // binary and source
  EXPECT_EQ(Compiler(options()).cubin(kKernel, "sm_90a"), first);
  EXPECT_NE(Compiler(options()).cubin(kKernel, "sm_80"), first);
  EXPECT_TRUE(heard_.empty());
}

// What drivers translate for a GPU that is newer.
TEST_F(CompilerTest, MakesPtx) {
  const std::string text = Compiler(options()).cubin(kKernel, "compute_80");
  EXPECT_NE(text.find(".target sm_80"), std::string::npos);
  EXPECT_NE(text.find(".entry twice("), std::string::npos);
  EXPECT_EQ(text.find('\0'), text.size() - 1);
  EXPECT_EQ(Compiler(options()).cubin(kKernel, "compute_80"), text);
}

// Its entries are those of one compiler, by version: without it nothing says which to take.
TEST_F(CompilerTest, TakesNothingOutOfTheCacheWithoutACompiler) {
  Compiler compiler(options());
  compiler.cubin(kKernel, "sm_90a");
  CompilerOptions without = options();
  without.nvrtc = nullptr;
  EXPECT_ERROR(Compiler(without).cubin(kKernel, "sm_90a"), ErrorKind::unsupported,
               "a kernel for sm_90a is not part of this build and cannot be compiled: NVRTC (libnvrtc.so.13 or .12) is "
               "missing");
  compiler.switch_jit(Jit::off);
  EXPECT_ERROR(compiler.cubin(kKernel, "sm_90a"), ErrorKind::unsupported,
               "a kernel for sm_90a is not part of this build and cannot be compiled: run-time compilation is off");
}

TEST_F(CompilerTest, ShowsTheWholeLogOfAnError) {
  const std::string source = "__global__ void f() { first_mistake(); }\n__global__ void g() { second_mistake(); }\n";
  try {
    Compiler(options()).cubin(source, "sm_90a");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    const std::string text = error.what();
    EXPECT_EQ(text.find("the kernel does not compile for sm_90a (NVRTC "), 0u) << text;
    EXPECT_NE(text.find("kernel.cu(1): error: identifier \"first_mistake\" is undefined"), std::string::npos) << text;
    EXPECT_NE(text.find("kernel.cu(2): error: identifier \"second_mistake\" is undefined"), std::string::npos) << text;
  }
}

TEST_F(CompilerTest, CompilesEmittedPredicates) {
  const MaskExtent extent{.queries = 64, .keys = 64, .batch = 2, .heads = 3};
  std::vector<EmittedMask> emitted;
  for (unsigned seed = 0; emitted.size() < 100; ++seed) {
    const Mask mask = RandomMask(seed, extent, false).expression(static_cast<int>(seed % 4));
    if (!refuses_to_emit(mask, extent)) emitted.push_back(emit_mask(mask, extent));
  }
  const std::string cubin = Compiler(options()).cubin(device_unit(emitted), "sm_90a");
  EXPECT_NE(cubin.find("allows_99"), std::string::npos);
}

TEST_F(CompilerTest, EveryKernelHeaderCompilesByItself) {
  const Compiler compiler(options());
  for (const EmbeddedFile& header : kernel_headers())
    EXPECT_NO_THROW(compiler.cubin(fmt::format("#include \"{}\"\n", header.name), "sm_90a")) << header.name;
}

TEST(CompilerWithoutNvrtc, SaysWhatIsMissing) {
  EXPECT_ERROR(Compiler({.nvrtc = nullptr}).cubin(kKernel, "sm_90a"), ErrorKind::unsupported,
               "a kernel for sm_90a is not part of this build and cannot be compiled: NVRTC (libnvrtc.so.13 or .12) is "
               "missing");
  EXPECT_ERROR(Compiler({.jit = Jit::off, .nvrtc = find_nvrtc()}).cubin(kKernel, "sm_90a"), ErrorKind::unsupported,
               "a kernel for sm_90a is not part of this build and cannot be compiled: run-time compilation is off");
}

TEST(Nvrtc, SaysWhyALibraryCannotBeUsed) {
  EXPECT_THROW(Nvrtc("/no/such/libnvrtc.so"), Error);
  EXPECT_ERROR(Nvrtc("libm.so.6"), ErrorKind::device, "this NVRTC lacks nvrtcVersion; accepted: NVRTC 12 or later");
}

TEST(SourceClosure, HoldsEveryHeaderOnce) {
  EXPECT_EQ(source_closure("#include \"a.h\"\n#include \"b.h\"\nint c;\n", kHeaders),
            "#include \"a.h\"\n#include \"b.h\"\nint c;\n\n// a.h\n#include \"b.h\"\nint a;\n\n// b.h\n#pragma once\n"
            "int b;\n");
  EXPECT_EQ(source_closure("int c;", kHeaders), "int c;");
  EXPECT_ERROR(source_closure("#include \"c.h\"\n", kHeaders), ErrorKind::invalid_argument,
               "kernel source includes \"c.h\", which is not one of the library's 2 headers");
}

TEST(Embedded, HeadersAreTheFilesOfTheTree) {
  ASSERT_FALSE(kernel_headers().empty());
  for (const EmbeddedFile& header : kernel_headers())
    EXPECT_EQ(header.bytes, read_bytes(std::filesystem::path(STOF_SOURCE_DIR) / header.name)) << header.name;
}

}  // namespace
}  // namespace stof
