// SPDX-License-Identifier: Apache-2.0
// One way of computing a matmul on a GPU: a value that can be compared, printed and read back.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace stof {

struct MatmulSetting {
  enum class Kernel : std::uint8_t { cublaslt, wgmma, mma, gemv };
  Kernel kernel = Kernel::cublaslt;
  // The rest is of wgmma and mma, and 0 for cuBLASLt, which chooses by itself; gemv has columns alone.
  int rows = 0, columns = 0;  // of a tile of the output
  int depth = 0;              // of a step along the inner dimension
  int stages = 0;             // steps in flight
  int warpgroups = 0;         // that share a tile; of mma: warps
  int teams = 0;              // of warpgroups, which take tiles in turns: one multiplies while another writes
  int split = 0;              // CTAs that share the inner dimension of a tile
  int share = 1;              // CTAs with tiles below each other, that load the weight together
  friend auto operator<=>(const MatmulSetting&, const MatmulSetting&) = default;
};

// "cublaslt", "gemv 16", or "wgmma 128x192 k64 s4 w2 t1 split1" with " share2" after it where CTAs do, or "mma 128x128
// k32 s4 w8 t1 split1".
std::string text_of(const MatmulSetting& setting);

// The inverse; throws invalid_argument. Whether a device takes it is another question (MatmulOperations::refuses).
MatmulSetting matmul_setting_of(std::string_view text);

struct MatmulChoice {
  MatmulSetting setting;
  double predicted_us = 0;
};

}  // namespace stof
