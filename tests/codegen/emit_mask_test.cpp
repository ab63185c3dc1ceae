// SPDX-License-Identifier: Apache-2.0
// Emitted predicates, compiled by the host's compiler and asked beside the masks that they came from.
#include "src/codegen/emit_mask.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "src/mask/bind.h"
#include "tests/codegen/predicate_unit.h"
#include "tests/expect_error.h"
#include "tests/mask/random_mask.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

const MaskExtent kExtents[] = {{.queries = 64, .keys = 64, .batch = 2, .heads = 3},
                               {.queries = 37, .keys = 200, .batch = 2, .heads = 1},
                               {.queries = 90, .keys = 41, .batch = 1, .heads = 2}};

std::string source_of(std::string_view text) {
  return emit_mask(parse(text), {.queries = 64, .keys = 64, .batch = 2, .heads = 8}).source;
}

using Predicate = bool(const int*, int, int, int, int);

struct Sample {
  Mask mask;
  MaskExtent extent;
  EmittedMask emitted;
};

std::vector<Sample> samples(int count) {
  std::vector<Sample> found;
  for (unsigned seed = 0; std::cmp_less(found.size(), count); ++seed) {
    const MaskExtent& extent = kExtents[seed % std::size(kExtents)];
    const Mask mask = RandomMask(seed, extent, false).expression(static_cast<int>(seed % 4));
    if (!refuses_to_emit(mask, extent)) found.push_back({mask, extent, emit_mask(mask, extent)});
  }
  const MaskExtent grid{.queries = 48, .keys = 48, .batch = 1, .heads = 1};
  for (const char* text : {"natten(6,8,3,5)", "natten(6,8,5,1) & causal"})
    found.push_back({parse(text), grid, emit_mask(parse(text), grid)});
  return found;
}

TEST(EmitMask, PredicatesAgreeWithTheirMasks) {
  const std::vector<Sample> cases = samples(300);
  const TemporaryFolder folder;
  std::vector<EmittedMask> emitted;
  for (const Sample& sample : cases) emitted.push_back(sample.emitted);
  write_bytes(folder / "predicates.cpp", host_unit(emitted));
  const std::string library = (folder / "predicates.so").string();
  // Terms are joined without branches.
  const std::string command = fmt::format(
      "{} -std=c++20 -O1 -Wall -Wextra -Werror -Wno-bitwise-instead-of-logical -Wno-bitwise-conditional-parentheses "
      "-shared -fPIC -I{} -o {} {}",
      STOF_CXX, STOF_SOURCE_DIR, library, (folder / "predicates.cpp").string());
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(opened, nullptr) << dlerror();
  std::int64_t allowed = 0, asked = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [mask, extent, made] = cases[i];
    auto* const allows = reinterpret_cast<Predicate*>(dlsym(opened, fmt::format("allows_{}", i).c_str()));
    ASSERT_NE(allows, nullptr);
    const BoundMask bound(mask, extent);
    for (std::int64_t b = 0; b < extent.batch; ++b)
      for (std::int64_t h = 0; h < extent.heads; ++h)
        for (std::int64_t row = 0; row < extent.queries; ++row)
          for (std::int64_t key = 0; key < extent.keys; ++key) {
            const bool expected = bound.allows(bound.group_of(b, h), row, key);
            const std::int64_t q = row + extent.offset();
            ASSERT_EQ(allows(made.parameters.data(), static_cast<int>(b), static_cast<int>(h), static_cast<int>(q),
                             static_cast<int>(key)),
                      expected)
                << mask.text() << " b=" << b << " h=" << h << " q=" << q << " k=" << key << "\n"
                << made.source;
            allowed += expected ? 1 : 0;
            ++asked;
          }
  }
  EXPECT_GT(allowed, asked / 10);
  EXPECT_LT(allowed, asked - asked / 10);
  dlclose(opened);
}

TEST(EmitMask, SourceDependsOnStructureAlone) {
  EXPECT_EQ(source_of("window(256)"), source_of("window(512)"));
  EXPECT_EQ(source_of("dilated(3,2) & causal"), source_of("dilated(7,5) & causal"));
  EXPECT_EQ(source_of("sink(4) | window(9,1)"), source_of("sink(40) | window(100,0)"));
  EXPECT_EQ(source_of("where((q - k) % 4 == 0)"), source_of("where((q - k) % 8 == 3)"));
  EXPECT_EQ(source_of("heads(0-1: causal, 2-7: window(5))"), source_of("heads(0-4: causal, 5-7: window(2))"));
  // Equal terms are ordered by their numbers as text: "(sink(12) | ...)" comes before "(sink(3) | ...)".
  EXPECT_EQ(source_of("(sink(3) | causal) & (sink(12) | window(4))"),
            source_of("(sink(12) | causal) & (sink(3) | window(4))"));
  EXPECT_NE(source_of("window(256)"), source_of("window(256) & causal"));
}

TEST(EmitMask, ParametersAreTheNumbersInOrder) {
  const EmittedMask emitted = emit_mask(parse("window(7,2) | sink(4)"), {.queries = 9, .keys = 9});
  EXPECT_EQ(emitted.parameters, (std::vector<std::int32_t>{4, 7, 2}));
  EXPECT_NE(emitted.source.find("return (sink(a[0], k) | window(a[1], a[2], q, k));"), std::string::npos)
      << emitted.source;
}

TEST(EmitMask, NumbersPastEveryPositionAreClipped) {
  const EmittedMask emitted = emit_mask(window(kMaxParameter / 2), {.queries = 9, .keys = 9});
  EXPECT_EQ(emitted.parameters, (std::vector<std::int32_t>{2147483647, 2147483647}));
}

TEST(EmitMask, SaysWhatCannotBeEmitted) {
  const MaskExtent extent{.queries = 64, .keys = 64, .batch = 1, .heads = 1};
  const std::pair<const char*, const char*> refusals[] = {
      {"documents([0,9])", "documents holds an array"},
      {"segments([[0,4,0,9,\"full\"]])", "segments holds an array"},
      {"causal & global([3,9])", "global holds an array"},
      {"tree([-1,0,1])", "tree holds an array"},
      {"random_blocks(16,2,1)", "random_blocks draws an array"},
      {"!bigbird(16,3,1,1,0)", "bigbird draws an array"},
      {"where(q / k == 1)", "where() may divide by zero or overflow"},
      {"where(q * k * 1000000 > 3)", "where() computes numbers beyond 32 bits"},
      {"where(q * (1000000 * 1000000) / 1000000 > k)", "where() computes numbers beyond 32 bits"}};
  for (const auto& [text, why] : refusals) {
    EXPECT_EQ(refuses_to_emit(parse(text), extent), why) << text;
    EXPECT_ERROR(emit_mask(parse(text), extent), ErrorKind::unsupported,
                 std::string("no predicate for this mask: ") + why);
  }
  EXPECT_EQ(refuses_to_emit(causal(), {.queries = 1, .keys = std::int64_t{1} << 30}),
            "1 queries and 1073741824 keys do not fit a predicate of 32-bit numbers");
}

}  // namespace
}  // namespace stof
