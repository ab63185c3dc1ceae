// SPDX-License-Identifier: Apache-2.0
// What a unit of work costs the CPU's attention kernels, in nanoseconds: fitted to measurements of one machine, with
// where they come from. Built in is the table of an AVX-512 processor; `stof calibrate` makes one for the machine that
// it runs on, which is used there from then on.
#pragma once
#include <array>
#include <filesystem>
#include <string>

#include "stof/tensor.h"

namespace stof::cpu {

inline constexpr std::size_t kBlockTerms = 7;
inline constexpr std::size_t kRowTerms = 4;
using BlockCosts = std::array<double, kBlockTerms>;
using RowCosts = std::array<double, kRowTerms>;

struct CostTable {
  BlockCosts block_f32, block_f16, block_bf16;
  RowCosts row_f32, row_f16, row_bf16;
  std::string device = {};            // its instruction sets, as DeviceCaps::name
  std::string processor = {};         // its model
  std::string commit = {}, day = {};  // of what measured, and when
  friend bool operator==(const CostTable&, const CostTable&) = default;

  const BlockCosts& block(DType dtype) const {
    return dtype == DType::f32 ? block_f32 : dtype == DType::f16 ? block_f16 : block_bf16;
  }
  const RowCosts& row(DType dtype) const {
    return dtype == DType::f32 ? row_f32 : dtype == DType::f16 ? row_f16 : row_bf16;
  }
};

const CostTable& built_in_costs();

// `cpu-attention.json` in the cache folder.
std::filesystem::path calibration_file();
void write_calibration(const CostTable& table, const std::filesystem::path& file);

// The table in use, and why: "built in", "measured here on 2026-11-21 (FILE)", or "built in: FILE was measured on ..."
// when the file is of another processor, damaged or of another format.
struct CostsInUse {
  CostTable table;
  std::string source;
  bool ignored = false;  // there is a file, which is not used
};
CostsInUse read_costs(const std::filesystem::path& file);
// Of calibration_file(), read when first asked for.
const CostsInUse& costs_in_use();

std::string processor_name();  // "AMD EPYC", "unknown"

}  // namespace stof::cpu
