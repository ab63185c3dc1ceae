// SPDX-License-Identifier: Apache-2.0
// Units of kernels/cuda/instances.cmake as the host knows them, and what each must hold.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/shared/rows.h"
#include "src/backend/cuda/attention/few_keys.h"
#include "src/backend/cuda/attention/instances.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/attention/rows.h"
#include "src/backend/cuda/attention/sums.h"
#include "src/backend/cuda/attention/table_planner.h"
#include "src/backend/cuda/attention/token_attention.h"
#include "src/backend/cuda/matmul/gemv.h"
#include "src/backend/cuda/matmul/instances.h"
#include "src/backend/cuda/rows.h"
#include "src/backend/cuda/rows/rotate.h"

namespace stof::cuda {

inline int threads_of(const GemmInstance& i) {
  if (i.setting.kernel == MatmulSetting::Kernel::mma) return 32 * i.setting.warpgroups;
  return 128 * (i.setting.warpgroups * i.setting.teams + 1);
}

// What kernels/cuda/gemm_instances.cmake has, tiles as "64x48 s7 w1 t1 split1".
class BuiltGemms {
 public:
  void add(std::initializer_list<std::string> tiles, const GemmInstance& epilogue,
           std::initializer_list<DType> dtypes = {DType::f16, DType::bf16}) {
    for (const std::string& tile : tiles)
      for (const DType dtype : dtypes) {
        all.push_back(epilogue);
        all.back().setting = matmul_setting_of("wgmma " + std::string(tile).replace(tile.find(' '), 1, " k64 "));
        all.back().dtype = dtype;
      }
  }
  std::vector<GemmInstance> all;
};

inline void add_encoders(BuiltGemms& built) {
  built.add({"64x48 s7 w1 t1 split1", "64x96 s8 w1 t1 split4", "128x72 s7 w2 t1 split1",
             "128x144 s5 w2 t1 split1 share2", "128x192 s4 w1 t2 split1 share2"},
            {.setting = {}, .bias = true});
  built.add({"128x72 s7 w2 t1 split1", "128x96 s6 w2 t1 split1 share2", "128x144 s5 w2 t1 split1 share2",
             "128x192 s4 w1 t2 split1 share2"},
            {.setting = {}, .activation = Activation::gelu, .bias = true});
  built.add({"128x192 s4 w1 t2 split1 share2"}, {.setting = {}, .activation = Activation::gelu_tanh, .bias = true});
  built.add({"64x96 s8 w1 t1 split1 share2", "128x96 s6 w2 t1 split1 share2", "128x128 s5 w1 t2 split1 share2"},
            {.setting = {}, .bias = true, .residual = true});
  built.add({"64x48 s7 w1 t1 split1", "128x128 s5 w1 t2 split1", "128x192 s4 w1 t2 split1 share2"},
            {.setting = {}, .activation = Activation::gelu, .gate = true});
}

inline void add_deferred_norms(BuiltGemms& built) {
  const std::initializer_list<DType> f16{DType::f16};
  built.add({"64x96 s8 w1 t1 split1 share2"}, {.setting = {}, .bias = true, .x_norm = true}, f16);
  built.add({"64x64 s6 w1 t1 split1", "64x128 s3 w1 t1 split4"},
            {.setting = {}, .activation = Activation::gelu, .bias = true, .x_norm = true}, f16);
  built.add({"64x96 s8 w1 t1 split1"},
            {.setting = {}, .activation = Activation::gelu_tanh, .bias = true, .x_norm = true}, f16);
  built.add({"64x96 s8 w1 t1 split1 share2", "128x96 s6 w2 t1 split1 share2"},
            {.setting = {}, .activation = Activation::gelu, .bias = true, .x_norm = true, .gate = true}, f16);
  built.add({"64x64 s4 w1 t1 split4", "64x64 s6 w1 t1 split1"}, {.setting = {}, .residual = true, .moments = true},
            f16);
  built.add({"64x64 s4 w1 t1 split4", "64x64 s8 w1 t1 split4"},
            {.setting = {}, .bias = true, .residual = true, .moments = true}, f16);
  built.add({"64x64 s4 w1 t1 split4", "64x64 s8 w1 t1 split4"},
            {.setting = {}, .bias = true, .residual = true, .residual_norm = true, .moments = true}, f16);
  built.add({"64x64 s8 w1 t1 split4"}, {.setting = {}, .bias = true, .residual = true, .residual_norm = true}, f16);
}

inline void add_decoders(BuiltGemms& built) {
  built.add({"64x48 s7 w1 t1 split1", "64x96 s8 w1 t1 split1", "128x96 s6 w2 t1 split1 share2",
             "128x128 s5 w1 t2 split1 share2", "128x192 s4 w1 t2 split1 share2"},
            {});
  built.add({"64x48 s7 w1 t1 split1", "64x64 s4 w1 t1 split4", "64x64 s8 w1 t1 split4", "64x96 s8 w1 t1 split1",
             "64x96 s8 w1 t1 split1 share2", "128x64 s8 w2 t1 split1 share2", "128x96 s6 w2 t1 split1 share2",
             "128x128 s5 w1 t2 split1 share2", "128x192 s4 w2 t1 split1 share2", "64x96 s8 w1 t1 split4"},
            {.setting = {}, .residual = true});
  built.add({"64x48 s7 w1 t1 split1", "64x96 s8 w1 t1 split1", "64x192 s6 w1 t1 split1",
             "128x96 s6 w2 t1 split1 share2", "128x128 s5 w1 t2 split1", "128x128 s5 w1 t2 split1 share2",
             "128x192 s4 w1 t2 split1", "128x192 s4 w1 t2 split1 share2"},
            {.setting = {}, .activation = Activation::silu, .gate = true});
  built.add({"64x48 s7 w1 t1 split1", "64x96 s8 w1 t1 split1", "128x192 s4 w1 t2 split1 share2"},
            {.setting = {}, .activation = Activation::gelu_tanh, .gate = true});
}

inline void add_encoders_without_biases(BuiltGemms& built) {
  built.add({"64x48 s7 w1 t1 split1", "128x72 s7 w2 t1 split1", "128x192 s4 w2 t1 split1 share2"},
            {.setting = {}, .turned = true});
  built.add({"64x48 s7 w1 t1 split1", "128x192 s4 w1 t2 split1 share2"},
            {.setting = {}, .activation = Activation::relu});
}

inline std::vector<GemmInstance> gemm_built_ahead() {
  BuiltGemms built;
  add_encoders(built);
  add_deferred_norms(built);
  add_decoders(built);
  add_encoders_without_biases(built);
  return built.all;
}

// Machine code of one unit for one architecture, and what it must hold.
struct Unit {
  std::string name, target;
  std::vector<std::string> entries;
  int threads = 0;           // 0: the unit states no facts
  int shared_bytes = 0;      // 0: whatever the unit says
  int most_kilobytes = 227;  // that a CTA may have
};

// GPUs of 8.6 and 8.9 run what is compiled for 8.0, with 99 KB a CTA.
template <class Instance>
int kilobytes_on_smallest(const Instance& instance) {
  return ctas_of(instance, {.name = "", .cores = 1, .arch = 86}) > 0 ? 99 : 227;
}

inline std::vector<Unit> instance_units() {
  std::vector<Unit> units;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const StreamInstance& i : stream_instances()) {
      Unit& unit = units.emplace_back(Unit{name_of(i, dtype),
                                           "sm_90a",
                                           {std::string(kStreamEntry), std::string(kPagedStreamEntry)},
                                           128 * (i.teams * i.parts * i.groups + 1)});
      unit.entries.emplace_back(kListedStreamEntry);
    }
    for (const BandInstance& i : band_instances())
      units.push_back({name_of(i, dtype),
                       "sm_90a",
                       {std::string(kBandEntry), std::string(kRaggedBandEntry), std::string(kPagedBandEntry)},
                       128 * i.parts});
    for (const GatherInstance& i : gather_instances())
      units.push_back({name_of(i, dtype), "sm_90a", {std::string(kGatherEntry), std::string(kRaggedGatherEntry)}, 128});
    for (const DecodeInstance& i : decode_instances()) {
      units.push_back({wide_name_of(i, dtype),
                       "sm_90a",
                       {std::string(kDecodeEntry), std::string(kDecodeTreeEntry), std::string(kDecodeSumEntry)},
                       128 * (i.warpgroups + 1)});
      for (const char* target : {"sm_80", "sm_90a"})
        units.push_back(
            {name_of(i, dtype),
             target,
             {std::string(kDecodeEntry), std::string(kDecodeTwoEntry), std::string(kDecodeFourEntry),
              std::string(kDecodeSumEntry), std::string(kDecodeSumTwoEntry), std::string(kDecodeSumFourEntry)},
             i.head_dim > 128 ? 384 : 256,
             0,
             target == std::string_view("sm_80") ? kilobytes_on_smallest(i) : 227});
    }
    for (const MmaInstance& i : mma_instances())
      for (const char* target : {"sm_80", "sm_90"}) {
        Unit& unit = units.emplace_back(Unit{name_of(i, dtype),
                                             target,
                                             {std::string(kMmaEntry), std::string(kPagedMmaEntry)},
                                             i.threads(),
                                             i.shared_bytes()});
        if (i.parts == 1)
          unit.entries.insert(unit.entries.end(), {std::string(kPackedMmaEntry), std::string(kPagedPackedMmaEntry)});
      }
  }
  for (const GemmInstance& i : gemm_built_ahead())
    units.push_back({name_of(i), "sm_90a", {std::string(kGemmEntry)}, threads_of(i)});
  return units;
}

inline std::vector<std::string> gemv_entries(DType dtype) {
  std::vector<std::string> entries;
  for (const MatmulSetting& setting : gemv_settings())
    for (const int slabs : {1, 2})
      for (const bool norm : {false, true})
        for (const bool gate : {false, true}) {
          if (gate && setting.columns < 2 * GemvGrid::kTile) continue;
          const MatmulProblem problem{.dtype = dtype, .gate = gate, .own_norm = norm};
          entries.push_back(gemv_entry(problem, setting.columns / GemvGrid::kTile, slabs));
        }
  return entries;
}

inline std::vector<Unit> few_keys_units() {
  std::vector<Unit> units;
  for (const char* target : {"sm_80", "sm_90a"}) {
    Unit tokens{kTokenAttentionUnit, target, {}};
    for (const DType dtype : {DType::f16, DType::bf16}) {
      Unit unit{few_keys_unit(dtype), target, {}};
      for (const std::int64_t head_dim : {64, 128, 256})
        for (const std::int64_t slabs : {1, 2}) unit.entries.push_back(few_keys_entry(dtype, head_dim, slabs));
      units.push_back(unit);
      for (const std::int64_t head_dim : {64, 128}) tokens.entries.push_back(token_attention_entry(dtype, head_dim));
    }
    units.push_back(tokens);
  }
  return units;
}

inline std::vector<Unit> units() {
  std::vector<Unit> units = instance_units();
  std::vector<std::string> rows, sums, norms, rms_norms, additions, turned, halves, heads, results, copies,
      pooling{std::string(kNormalizeEntry)}, highest{std::string(kMergeHighestEntry)};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    rows.emplace_back(row_entry(dtype));
    rows.emplace_back(listed_row_entry(dtype));
    for (const int sources : {0, 1, 2, 3}) sums.push_back(sum_norm_entry(dtype, sources));
    for (const bool rms : {false, true})
      for (int n = 1; dtype != DType::f32 && n <= (rms ? RowNormGrid::kMostRmsVectors : RowNormGrid::kMostVectors); ++n)
        norms.push_back(row_norm_entry(dtype, n, rms));
    for (const int groups : TurnedHeadsGrid::kGroups) turned.push_back(turn_heads_entry(dtype, groups));
    for (const RmsNormCta& cta : RmsNormGrid::kCtas)
      for (const int form : {1, 2, RmsNormGrid::kAdded})
        if (cta.threads * cta.vectors * 16 / static_cast<int>(size_of(dtype)) <= RmsNormGrid::kMostColumns)
          rms_norms.push_back(rms_norm_entry(dtype, cta, form));
    rms_norms.push_back(wide_rms_norm_entry(dtype));
    for (const bool vectors : {false, true}) {
      additions.push_back(add_rows_entry(dtype, vectors));
      results.push_back(add_results_entry(dtype, vectors));
      halves.insert(halves.end(), {rotate_entry(dtype, vectors), gate_entry(dtype, vectors)});
      heads.push_back(rotate_normed_entry(dtype, vectors));
      highest.push_back(highest_entry(dtype, vectors));
    }
    pooling.push_back(pool_rows_entry(dtype));
  }
  for (const int piece_bytes : {1, 2, 4, 16}) copies.push_back(copy_rows_entry(piece_bytes));
  const std::vector<std::pair<const char*, std::vector<std::string>>> of_rows{
      {"row_attention", rows}, {"sum_norm", sums},       {"row_norm", norms},  {"rms_norm", rms_norms},
      {"add_rows", additions}, {"turned_heads", turned}, {"halves", halves},   {"normed_heads", heads},
      {"pool_rows", pooling},  {"copy_rows", copies},    {"highest", highest}, {"add_results", results}};
  for (const char* target : {"sm_80", "sm_90a"}) {
    units.push_back({"call_memory", target, {"write_numbers_kernel", "place_items_kernel"}});
    for (const auto& [name, entries] : of_rows) units.push_back({name, target, entries});
  }
  for (const char* target : {"sm_80", "sm_90a"})
    for (const DType dtype : {DType::f16, DType::bf16})
      units.push_back({gemv_unit(dtype), target, gemv_entries(dtype)});
  const std::vector<Unit> few = few_keys_units();
  units.insert(units.end(), few.begin(), few.end());
  std::vector<std::string> plan = {"order_items_kernel"};
  for (const TableKind kind : {TableKind::lists, TableKind::blocks, TableKind::bits, TableKind::packed})
    plan.emplace_back(plan_entry(kind));
  units.push_back({"table_plan", "sm_90a", plan});
  units.push_back({"row_block_list", "sm_90a", {"list_row_blocks_kernel"}});
  return units;
}

}  // namespace stof::cuda
