// SPDX-License-Identifier: Apache-2.0
// What a backend offers, as constants: attention kernels that say why not, matmul and row operations.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/layout/block_layout.h"
#include "src/mask/stats.h"
#include "stof/attention.h"
#include "stof/device.h"

namespace stof {

struct AttentionProblem {
  AttentionShape shape;
  MaskStats stats;
  bool mask_has_text = true;  // the mask can be emitted as source (no lambda-only or array leaf stands in the way)
};

enum class LayoutKind : std::uint8_t { block, row };

struct AttentionPlan {
  std::string_view kernel;
  LayoutKind layout = LayoutKind::block;
  BlockFormat format;
  int splits = 1;
  double predicted_us = 0;
  std::string reason;  // one line, shown by `stof plan`
  friend bool operator==(const AttentionPlan&, const AttentionPlan&) = default;
};

using Refusal = std::optional<std::string>;  // empty: the kernel takes the problem

// The layout in the form a kernel wants; made once per plan, owned by the attention object, shared by runs.
struct PackedMask {
  LayoutKind kind = LayoutKind::block;
  BlockLayout blocks;
  RowLayout rows;
};

struct AttentionKernel {
  std::string_view name;
  Refusal (*refuses)(const AttentionProblem&, const DeviceCaps&);
  // Tiles and splits worth considering, each with its predicted time.
  std::vector<AttentionPlan> (*candidates)(const AttentionProblem&, const DeviceCaps&);
  void (*run)(const AttentionPlan&, const PackedMask&, const AttentionArguments&, const Device&);
};

struct Backend {
  std::string_view name;
  std::span<const AttentionKernel> attention;
};

extern const Backend cpu_backend;  // backend/cpu/backend.cpp

}  // namespace stof
