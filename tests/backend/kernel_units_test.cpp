// SPDX-License-Identifier: Apache-2.0
// Every unit of kernels/cuda/instances.cmake: known to the host by the same name, compiled, with its entry point.
#include <gtest/gtest.h>

#include <set>

#include "src/backend/cuda/attention/instances.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/codegen/compiler.h"
#include "src/codegen/cubin_values.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof::cuda {
namespace {

struct Unit {
  std::string name;
  std::string_view entry;
  int threads;
};

std::vector<Unit> instance_units() {
  std::vector<Unit> units;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const StreamInstance& i : stream_instances())
      units.push_back({name_of(i, dtype), kStreamEntry, 128 * (i.teams * i.parts * i.groups + 1)});
    for (const BandInstance& i : band_instances()) {
      units.push_back({name_of(i, dtype), kBandEntry, 128 * i.parts});
      units.push_back({name_of(i, dtype), kRaggedBandEntry, 128 * i.parts});
    }
  }
  return units;
}

TEST(KernelUnits, AreThoseThatTheHostKnows) {
  std::set<std::string> known = {"row_attention", "call_memory"}, embedded;
  for (const Unit& unit : instance_units()) known.insert(unit.name);
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

// From the build where it has them, from NVRTC where that is there.
class CompiledUnits : public testing::Test {
 protected:
  std::string cubin(std::string_view name, std::string_view target) {
    if (const std::string_view built = embedded_cubin(name, target); !built.empty()) return std::string(built);
    return Compiler({.cache = {.folder = folder_.path(), .log = {}}, .nvrtc = find_nvrtc()})
        .cubin(unit_source(name), target);
  }
  void SetUp() override {
    if (find_nvrtc() == nullptr && kernel_binaries().empty())
      GTEST_SKIP() << "neither nvcc nor NVRTC on this machine; `make cuda` fetches them";
  }
  TemporaryFolder folder_;
};

TEST_F(CompiledUnits, HaveTheirEntriesAndFacts) {
  constexpr int kSharedBytes = 227 * 1024;
  for (const Unit& unit : instance_units()) {
    const std::string code = cubin(unit.name, "sm_90a");
    EXPECT_NE(code.find(unit.entry), std::string::npos) << unit.name;
    const std::vector<int> facts = cubin_values(code, "kernel_facts");
    ASSERT_EQ(facts.size(), 2u) << unit.name;
    EXPECT_GT(facts[0], 16 * 1024) << unit.name;
    EXPECT_LE(facts[0], kSharedBytes) << unit.name;
    EXPECT_EQ(facts[1], unit.threads) << unit.name;
  }
}

TEST_F(CompiledUnits, TheRestCompilesForEveryArchitecture) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const std::string rows = cubin("row_attention", target), memory = cubin("call_memory", target);
    for (const char* storage : {"6Single", "10StoredHalf", "12StoredBfloat"})
      EXPECT_NE(rows.find(std::string("_ZN4stof4cuda20row_attention_kernelINS0_") + storage +
                          "EEEvNS0_18RowAttentionParamsE"),
                std::string::npos);
    EXPECT_NE(memory.find("write_numbers_kernel"), std::string::npos);
    EXPECT_NE(memory.find("place_lse_kernel"), std::string::npos);
  }
}

TEST(CubinValues, SaysWhatIsWrong) {
  EXPECT_ERROR(cubin_values("", "x"), ErrorKind::device, "a compiled kernel is damaged: it is not a whole ELF file");
  EXPECT_ERROR(cubin_values(std::string(200, 'x'), "x"), ErrorKind::device,
               "a compiled kernel is damaged: it is not a whole ELF file");
}

}  // namespace
}  // namespace stof::cuda
