// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_grid.h"

#include <fmt/format.h>

#include <array>

namespace stof::cli {
namespace {

using Size = std::array<std::int64_t, 4>;  // batch, heads, length, head dimension

void cross(std::vector<GpuCase>& cases, const std::vector<Size>& sizes, const std::vector<std::string>& masks,
           DType dtype) {
  for (const auto& [batch, heads, length, d] : sizes)
    for (const std::string& mask : masks)
      cases.push_back({mask,
                       {.batch = batch,
                        .heads = heads,
                        .kv_heads = heads,
                        .queries = length,
                        .keys = length,
                        .head_dim = d,
                        .dtype = dtype}});
}

GpuCase decoding(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t d, std::string mask) {
  return {std::move(mask),
          {.batch = batch,
           .heads = 32,
           .kv_heads = 8,
           .queries = queries,
           .keys = keys,
           .head_dim = d,
           .dtype = DType::f16}};
}

// Query heads that share keys: heads and heads of keys, queries and keys.
GpuCase sharing(std::string mask, std::int64_t batch, std::array<std::int64_t, 2> heads,
                std::array<std::int64_t, 2> lengths, std::int64_t d) {
  return {std::move(mask),
          {.batch = batch,
           .heads = heads[0],
           .kv_heads = heads[1],
           .queries = lengths[0],
           .keys = lengths[1],
           .head_dim = d,
           .dtype = DType::f16}};
}

GpuCase in_bf16(GpuCase one) {
  one.shape.dtype = DType::bf16;
  return one;
}

// Few queries on many keys, beside those of gpu_grouped_grid.
void few_queries(std::vector<GpuCase>& cases) {
  for (const auto& [queries, keys] : {std::array{24, 16384}, {64, 4096}, {96, 8192}, {40, 65536}})
    cases.push_back(sharing("causal", 1, {32, 8}, {queries, keys}, 128));
  for (const auto& [queries, keys] : {std::array{48, 16384}, {128, 4096}})
    cases.push_back(sharing("causal", 1, {32, 8}, {queries, keys}, 64));
  cases.push_back(sharing("causal", 2, {16, 4}, {32, 8192}, 64));
  cases.push_back(sharing("causal", 1, {64, 8}, {32, 16384}, 64));
  cases.push_back(sharing("causal", 4, {32, 8}, {20, 4096}, 64));
  cases.push_back(sharing("causal & window(1024)", 4, {32, 8}, {64, 8192}, 64));
  cases.push_back(sharing("causal & window(2048)", 2, {32, 8}, {100, 16384}, 128));
  cases.push_back(sharing("causal", 4, {16, 4}, {32, 4096}, 96));
  cases.push_back(sharing("causal", 1, {32, 8}, {64, 8192}, 96));
  cases.push_back(sharing("causal", 8, {32, 8}, {32, 2048}, 128));
  cases.push_back(sharing("causal", 8, {32, 4}, {17, 4096}, 64));
  cases.push_back(in_bf16(sharing("causal", 1, {16, 2}, {200, 8192}, 128)));
  cases.push_back(sharing("causal", 2, {8, 1}, {64, 16384}, 64));
  cases.push_back(in_bf16(sharing("all", 1, {32, 8}, {64, 32768}, 64)));
}

// Chunks of prompts that begin anywhere: where row blocks begin is part of the choice.
void chunks(std::vector<GpuCase>& cases) {
  cases.push_back(sharing("causal", 1, {32, 8}, {128, 5000}, 128));
  cases.push_back(sharing("causal", 2, {32, 8}, {256, 3001}, 128));
  cases.push_back(sharing("causal", 1, {16, 16}, {512, 6100}, 64));
  cases.push_back(sharing("causal & window(1024)", 4, {32, 8}, {512, 4140}, 128));
  cases.push_back(sharing("causal & window(256)", 8, {12, 12}, {200, 2045}, 64));
  cases.push_back(sharing("longformer(64,16)", 4, {12, 12}, {300, 1570}, 64));
  cases.push_back(sharing("bigbird(64,3,2,3,1)", 4, {12, 12}, {256, 2024}, 64));
  cases.push_back(in_bf16(sharing("window(64)", 8, {16, 16}, {512, 3333}, 96)));
  cases.push_back(in_bf16(sharing("documents([0,700,1500,2600]) & causal", 4, {16, 16}, {384, 3010}, 128)));
}

// Of the problems that docs/benchmarks.md compares with other libraries: those that are not held out below; and longer
// ones of their head dimensions.
void compared_with_others(std::vector<GpuCase>& cases) {
  constexpr const char* kDocuments = "documents([0,1428,2427,3541]) & causal";
  constexpr const char* kBigbird = "bigbird(64,3,2,3,1)";
  constexpr const char* kOneDocument = "documents([0]) & causal";
  cross(cases, {{1, 12, 1024, 64}, {16, 12, 1024, 64}},
        {"longformer(16,16)", "window(16)", "dilated(16,2)", kOneDocument}, DType::f16);
  cross(cases, {{1, 12, 128, 64}}, {"causal", "window(16)", "dilated(16,2)", "longformer(16,16)", kBigbird},
        DType::f16);
  cross(cases, {{8, 12, 512, 64}}, {"longformer(16,16)", "causal", "dilated(16,2)", "window(16)", kBigbird},
        DType::f16);
  cross(cases, {{1, 12, 4096, 64}}, {kDocuments}, DType::f16);
  cross(cases, {{4, 12, 4096, 64}},
        {"causal & (window(64) | strided(64))", "prefix(512)",
         "segments([[0,1024,0,1024,causal],[1024,2560,256,2560,causal],[2560,4096,2560,4096,full]])",
         "natten(64,64,13,13)", "causal & (window(256) | sink(4))",
         "heads(0-5: window(32), 6-8: causal, *: longformer(32,32))"},
        DType::f16);
  cross(cases, {{16, 12, 4096, 64}},
        {"longformer(32,32)", kDocuments, kBigbird, "causal", "window(32)", "dilated(32,2)"}, DType::f16);
  cross(cases, {{1, 32, 16384, 128}},
        {kBigbird, "dilated(512,2)", "longformer(512,512)", "window(512)", "causal",
         "documents([0,1428,2427,3541,4477,5025,6068,7131,8447,9487,10385,11426,12752,13606,14771,16246]) & causal"},
        DType::f16);
  cross(cases, {{8, 12, 512, 128}, {16, 12, 1024, 128}, {1, 12, 4096, 128}},
        {"causal", "window(16)", "longformer(16,16)", kBigbird}, DType::f16);
  for (const char* mask : {"causal", "causal & window(1024)", kDocuments})
    cases.push_back(sharing(mask, 4, {32, 8}, {4096, 4096}, 128));
  cross(cases, {{4, 16, 2048, 96}}, {"causal", "causal & window(64)", "documents([0,1428]) & causal"}, DType::f16);
  cross(cases, {{2, 8, 2048, 256}}, {"causal", "causal & window(128)", "documents([0,1428]) & causal"}, DType::f16);
  cross(cases, {{1, 16, 8192, 96}, {1, 16, 8192, 192}, {1, 16, 8192, 256}}, {"causal", "window(512)"}, DType::f16);
}

// Rows whose keys fit one step or a few: short launches, and longer ones that bands take.
void short_rows(std::vector<GpuCase>& cases) {
  cross(cases, {{1, 12, 384, 128}, {1, 8, 384, 192}, {2, 8, 384, 256}, {32, 12, 128, 96}, {3, 16, 300, 96}},
        {"causal", "window(8)", "causal & window(90)"}, DType::f16);
  cross(cases, {{1, 20, 200, 80}, {8, 12, 200, 80}}, {"causal", "window(8)", "causal & window(40)"}, DType::bf16);
  cross(cases, {{1, 12, 256, 64}, {32, 12, 256, 64}, {4, 16, 200, 64}, {2, 12, 256, 128}, {24, 8, 240, 128}},
        {"all", "causal"}, DType::f16);
  cross(cases, {{2, 12, 700, 128}, {8, 16, 2000, 128}, {2, 8, 1500, 256}}, {"window(16)", "causal & window(100)"},
        DType::bf16);
  cross(cases, {{4, 12, 2048, 64}}, {"window(80)", "causal & window(150)"}, DType::f16);
}

// Rows that see most of a few hundred keys, on multiprocessors that are filled once or a few times: which form is the
// fastest is then a matter of how row blocks fit them.
void full_short_rows(std::vector<GpuCase>& cases) {
  cross(cases, {{1, 20, 500, 32}, {8, 4, 768, 32}, {4, 12, 384, 32}}, {"all", "causal", "window(300)"}, DType::bf16);
  cross(cases, {{1, 12, 500, 96}, {32, 12, 384, 96}, {4, 8, 768, 80}}, {"all", "causal", "prefix(20)"}, DType::f16);
  cross(cases, {{32, 20, 200, 256}, {2, 8, 500, 256}, {8, 16, 384, 192}}, {"all", "causal"}, DType::bf16);
  cross(cases, {{2, 8, 700, 128}, {16, 20, 500, 128}}, {"all", "causal"}, DType::f16);
  cross(cases, {{4, 4, 768, 64}, {12, 8, 600, 64}}, {"all", "window(500)"}, DType::f16);
}

}  // namespace

std::string GpuCase::id() const {
  return fmt::format("({},{},{},{},{},{}) {} {}{}{}", shape.batch, shape.heads, shape.kv_heads, shape.queries,
                     shape.keys, shape.head_dim, name_of(shape.dtype), mask,
                     softcap > 0 ? fmt::format(" softcap {}", softcap) : "",
                     bias_reach >= 0 ? fmt::format(" bias {}", bias_reach) : "");
}

std::vector<GpuCase> gpu_calibration_grid() {
  std::vector<GpuCase> cases;
  cross(cases, {{1, 12, 512, 64}, {1, 16, 2048, 64}, {4, 12, 1024, 64}, {12, 16, 512, 64}, {8, 12, 2048, 64}},
        {"all", "causal", "window(12)", "window(48)", "causal & window(300)", "longformer(16,16)", "longformer(64,40)",
         "bigbird(64,3,2,2,5)", "documents([0,55,301,420]) & causal", "random_blocks(64,6,3)", "dilated(24,3)"},
        DType::f16);
  cross(cases, {{2, 12, 128, 64}, {6, 12, 4096, 64}},
        {"causal", "window(20)", "longformer(20,8)", "bigbird(64,3,2,2,5)"}, DType::f16);
  cross(cases, {{1, 32, 4096, 128}, {2, 16, 1024, 128}, {16, 16, 512, 128}},
        {"all", "causal", "window(48)", "causal & window(700)", "longformer(100,64)", "bigbird(64,3,2,2,5)",
         "documents([0,155,301,470]) & causal"},
        DType::f16);
  for (const std::int64_t d : {32, 96, 192, 256})
    cross(cases, {{1, 16, 1024, d}, {8, 16, 1024, d}, {2, 8, 3072, d}},
          {"causal", "window(48)", "longformer(40,24)", "bigbird(64,3,2,2,5)"}, DType::bf16);
  cross(cases, {{8, 12, 1024, 64}, {1, 12, 2048, 64}, {12, 12, 2048, 64}}, {"dilated(20,2)", "dilated(10,4)"},
        DType::f16);
  cross(cases, {{3, 12, 1024, 64}, {10, 12, 512, 64}, {2, 12, 4096, 64}, {16, 12, 768, 64}},
        {"causal", "window(16)", "causal & window(100)", "longformer(16,16)", "longformer(32,32)",
         "bigbird(64,3,3,2,7)", "dilated(16,2)"},
        DType::f16);
  compared_with_others(cases);
  few_queries(cases);
  chunks(cases);
  short_rows(cases);
  full_short_rows(cases);
  for (const std::int64_t batch : {1, 16})
    for (const std::int64_t keys : {1000, 12000}) cases.push_back(decoding(batch, 1, keys, 128, "all"));
  cases.push_back(decoding(4, 8, 3000, 64, "causal & window(512)"));
  return cases;
}

std::vector<GpuCase> gpu_held_out_grid() {
  std::vector<GpuCase> cases;
  cross(
      cases, {{1, 12, 1024, 64}, {1, 12, 4096, 64}, {16, 12, 1024, 64}, {5, 20, 1600, 64}},
      {"causal", "window(32)", "causal & window(200)", "longformer(32,32)", "bigbird(64,3,2,3,1)", "prefix(300)",
       "causal & (window(128) | sink(4))", "dilated(32,2)", "documents([0,255,420,901,1003]) & causal", "strided(48)"},
      DType::f16);
  cross(cases, {{3, 12, 384, 64}, {8, 12, 512, 64}}, {"all", "window(16)", "longformer(8,8)", "bigbird(64,3,2,3,1)"},
        DType::bf16);
  cross(cases, {{1, 20, 6000, 128}, {4, 32, 1024, 128}},
        {"causal", "window(256)", "longformer(32,32)", "bigbird(64,3,2,3,1)", "causal & (window(128) | sink(4))"},
        DType::bf16);
  for (const std::int64_t d : {32, 96, 192, 256})
    cross(cases, {{2, 12, 1536, d}}, {"causal", "longformer(32,32)"}, DType::f16);
  cross(cases, {{1, 16, 250, 128}, {4, 8, 500, 96}, {2, 12, 320, 256}, {1, 10, 450, 192}},
        {"causal", "window(20)", "causal & window(64)"}, DType::f16);
  cross(cases, {{6, 12, 200, 64}, {16, 12, 190, 80}, {1, 16, 256, 64}}, {"all", "causal"}, DType::bf16);
  cross(cases, {{3, 16, 1800, 128}, {3, 16, 1800, 64}}, {"window(40)", "causal & window(120)"}, DType::f16);
  cases.push_back(sharing("causal", 1, {32, 8}, {200, 7100}, 128));
  cases.push_back(sharing("causal", 4, {12, 12}, {1024, 4500}, 64));
  cases.push_back(sharing("causal & window(512)", 4, {32, 8}, {384, 3500}, 64));
  cases.push_back(sharing("causal & (window(128) | sink(4))", 4, {32, 8}, {100, 4009}, 96));
  cases.push_back(sharing("bigbird(64,3,2,3,1)", 2, {32, 8}, {512, 3010}, 128));
  cases.push_back(in_bf16(sharing("window(32)", 8, {16, 16}, {256, 2010}, 128)));
  cases.push_back(decoding(2, 1, 7000, 128, "all"));
  cases.push_back(decoding(32, 1, 2000, 128, "sink(4) | causal & window(1000)"));
  cases.push_back(decoding(8, 4, 5000, 128, "causal"));
  return cases;
}

std::vector<GpuCase> gpu_capped_grid(float softcap) {
  std::vector<GpuCase> cases;
  for (const DType dtype : {DType::f16, DType::bf16})
    cross(cases, {{4, 16, 4096, 64}, {4, 16, 4096, 128}, {4, 16, 4096, 256}}, {"causal", "window(512)"}, dtype);
  for (GpuCase& one : cases) one.softcap = softcap, one.shape.capped = true;
  return cases;
}

std::vector<GpuCase> gpu_biased_grid(std::int64_t reach) {
  std::vector<GpuCase> cases;
  cross(cases, {{1, 12, 128, 64}, {8, 12, 512, 64}, {32, 12, 128, 64}, {1, 12, 4096, 64}, {4, 16, 2048, 128}},
        {"all", "causal", "window(256)"}, DType::f16);
  cross(cases, {{16, 12, 1024, 64}, {1, 32, 2048, 128}, {2, 8, 2048, 256}}, {"all", "causal & window(512)"},
        DType::bf16);
  for (GpuCase& one : cases) one.bias_reach = reach, one.shape.biased = true;
  return cases;
}

std::vector<GpuCase> gpu_grouped_grid() {
  return {sharing("causal", 1, {32, 8}, {17, 32768}, 128),
          sharing("causal", 1, {32, 8}, {32, 8192}, 128),
          sharing("causal", 1, {32, 8}, {32, 131072}, 128),
          sharing("causal", 1, {32, 8}, {48, 32768}, 128),
          sharing("all", 1, {32, 8}, {64, 32768}, 128),
          sharing("causal", 1, {32, 8}, {128, 32768}, 128),
          sharing("causal", 1, {32, 8}, {256, 16384}, 128),
          sharing("causal", 1, {32, 8}, {32, 32768}, 64),
          sharing("causal", 1, {32, 8}, {64, 8192}, 64),
          sharing("causal", 16, {32, 8}, {24, 4096}, 128),
          in_bf16(sharing("sink(4) | causal & window(4096)", 4, {32, 8}, {32, 16384}, 128)),
          sharing("causal & window(512)", 8, {32, 8}, {48, 8192}, 64),
          in_bf16(sharing("causal", 1, {64, 8}, {40, 32768}, 128)),
          sharing("causal", 1, {64, 8}, {20, 32768}, 64),
          in_bf16(sharing("causal", 8, {16, 4}, {64, 2048}, 96)),
          sharing("causal", 2, {16, 1}, {32, 32768}, 128),
          sharing("causal", 1, {28, 4}, {24, 8192}, 128),
          sharing("causal", 2, {28, 4}, {60, 8192}, 64),
          sharing("causal", 1, {40, 8}, {76, 4096}, 128),
          sharing("causal & window(128)", 4, {40, 8}, {85, 16384}, 128),
          in_bf16(sharing("causal & window(128)", 8, {40, 8}, {194, 2048}, 128)),
          in_bf16(sharing("all", 1, {40, 8}, {289, 16384}, 64)),
          sharing("causal", 4, {24, 8}, {100, 4096}, 128),
          sharing("causal & window(128)", 4, {64, 8}, {300, 8192}, 64),
          sharing("causal", 1, {16, 2}, {28, 5045}, 256),
          in_bf16(sharing("causal & window(2048)", 4, {28, 4}, {146, 8192}, 256)),
          sharing("causal", 2, {8, 1}, {231, 1051}, 256),
          sharing("causal", 1, {32, 8}, {400, 8192}, 128)};
}

}  // namespace stof::cli
