// SPDX-License-Identifier: Apache-2.0
// out = activation(x weight^T + bias) + residual for some rows and some panels of columns, with weights in panels: a
// panel is linear_tiling().panel columns side by side in vectors, [words of depth][panel], so that a product reads
// its weights front to back. A word is what one lane multiplies at once: a float, or two bf16 that follow each other.
// What is stored as bf16 is multiplied in pairs where the processor has AVX512_BF16, else widened to floats.
#pragma once
#include <cstddef>
#include <cstdint>

namespace stof::cpu {

enum class LinearType : std::uint8_t { f32, bf16 };
enum class LinearActivation : std::uint8_t { none, gelu, gelu_tanh, silu, relu, tanh };

// Depth is cut into slices that x and a panel of weights stay in the second-level cache for.
constexpr std::int64_t kLinearSlice = 768;  // words
constexpr std::int64_t kLinearRows = 128;   // that are worked on together

struct LinearTiling {
  int panel;  // columns
  int rows;   // of a tile, at most
};
LinearTiling linear_tiling();  // of this processor

struct LinearNumbers {
  std::int64_t in = 0, out = 0;
  LinearType type = LinearType::f32;  // of x, residual and out
  bool pairs = false;                 // words of weights are pairs of bf16; needs type bf16 and AVX512_BF16
  LinearActivation activation = LinearActivation::none;
  // The first half of a panel's columns are those of a gate, the second half what it lets through: out has half as many
  // columns, activation(gate) * other. No residual.
  bool gate = false;
  std::int64_t out_columns() const { return gate ? out / 2 : out; }
};

// Words of depth.
constexpr std::int64_t linear_words(const LinearNumbers& numbers) {
  return numbers.pairs ? (numbers.in + 1) / 2 : numbers.in;
}

// Rows [0, rows) of x, residual and out, at most kLinearRows, and the columns of panels [begin, end).
struct LinearTask {
  const std::byte* x = nullptr;         // [rows, in]
  const float* weight = nullptr;        // [panels][words][panel], zeros past `in` and `out`
  const float* bias = nullptr;          // [panels][panel], or null
  const std::byte* residual = nullptr;  // [rows, out], or null; may be out
  std::byte* out = nullptr;             // [rows, out_columns()]
  int rows = 0;
  int begin = 0, end = 0;
  const float* next = nullptr;  // weights that this thread needs after those, or null
};

// Scratch of one thread for at most `panels` panels, 64-byte aligned.
std::size_t linear_scratch(const LinearNumbers& numbers, int panels);

// The bits of an element depend on its row of x and its column of weights alone.
void multiply_panels(const LinearNumbers& numbers, const LinearTask& task, void* scratch);

}  // namespace stof::cpu
