// SPDX-License-Identifier: Apache-2.0
// Matmul by our own kernel: weights in panels of columns, rows in blocks; a thread takes a run of panels of blocks.
#include <omp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "kernels/cpu/linear.h"
#include "src/backend/contract.h"
#include "src/backend/cpu/matmul.h"
#include "src/backend/cpu/memory.h"
#include "src/tensor/convert.h"
#include "src/tensor/half.h"

namespace stof::cpu {
namespace {

constexpr int kMostPanels = 32;  // of a task, whose sums wait in scratch
// What bringing a panel of weights near costs, in rows multiplied with it.
constexpr std::int64_t kRowsOfPanel = 4;

// Into how many blocks rows are cut: no more than the threads need to finish together.
std::int64_t blocks_for(std::int64_t rows, std::int64_t panels, std::int64_t threads) {
  const std::int64_t least = (rows + kLinearRows - 1) / kLinearRows;
  std::int64_t best = least, best_cost = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t blocks = least; blocks < least + threads && blocks <= rows; ++blocks) {
    const std::int64_t most = (blocks * panels + threads - 1) / threads;  // panels of blocks of one thread
    const std::int64_t cost = most * ((rows + blocks - 1) / blocks + kRowsOfPanel);
    if (cost < best_cost) best = blocks, best_cost = cost;
  }
  return best;
}

ScratchPool& scratch_pool() {
  static ScratchPool pool(linear_scratch({.in = 2 * kLinearSlice}, kMostPanels));
  return pool;
}

class PanelLinear final : public Linear {
 public:
  PanelLinear(const LinearSpec& spec, Bf16Words words) : residual_(spec.residual), element_bytes_(size_of(spec.dtype)) {
    numbers_.type = spec.dtype == DType::f32 ? LinearType::f32 : LinearType::bf16;
    numbers_.pairs = spec.dtype == DType::bf16 && words == Bf16Words::pairs;
    numbers_.activation = linear_activation(spec.activation);
    numbers_.in = spec.weight.front().dim(1);
    numbers_.gate = spec.gate;
    for (const TensorView& part : spec.weight) numbers_.out += part.dim(0);
    panels_ = (numbers_.out_columns() + written_by_panel() - 1) / written_by_panel();
    pack_bias(spec);
    weight_ = std::static_pointer_cast<const Tensor>(spec.matrix);
    if (!weight_) pack_weight(spec);
  }

  PackedMatrix matrix() const override { return weight_; }

  void run(const LinearCall& call) const override {
    if (call.rows == 0) return;
    const int most = omp_get_max_threads();
    const std::int64_t blocks = blocks_for(call.rows, panels_, most), units = blocks * panels_;
    const int threads = static_cast<int>(std::min<std::int64_t>(most, units));
    const ScratchPool::Lease scratch(scratch_pool(), threads);
    const Cut cut{.rows = call.rows, .blocks = blocks};
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
      // There may be fewer than were asked for.
      const int thread = omp_get_thread_num(), there = omp_get_num_threads();
      run_units(call, cut, {thread * units / there, (thread + 1) * units / there}, scratch.at(thread));
    }
  }

 private:
  struct Cut {
    std::int64_t rows, blocks;
    std::int64_t first_row(std::int64_t block) const { return block * rows / blocks; }
  };
  struct Units {
    std::int64_t begin, end;  // unit u is panel u % panels_ of block u / panels_
  };

  const float* weight_of(std::int64_t panel) const {
    return weight_->as<float>() + panel * linear_words(numbers_) * panel_;
  }

  void run_units(const LinearCall& call, const Cut& cut, Units units, void* scratch) const {
    while (units.begin < units.end) {
      const std::int64_t block = units.begin / panels_, begin = units.begin % panels_;
      const std::int64_t end = std::min({panels_, begin + units.end - units.begin, begin + kMostPanels});
      const std::int64_t row = cut.first_row(block);
      units.begin += end - begin;
      const auto at = [&](const void* base, std::int64_t columns) {
        return static_cast<const std::byte*>(base) + row * columns * static_cast<std::int64_t>(element_bytes_);
      };
      multiply_panels(numbers_,
                      {.x = at(call.x, numbers_.in),
                       .weight = weight_->as<float>(),
                       .bias = has_bias_ ? bias_.as<float>() : nullptr,
                       .residual = residual_ ? at(call.residual, numbers_.out) : nullptr,
                       .out = const_cast<std::byte*>(at(call.out, numbers_.out_columns())),
                       .rows = static_cast<int>(cut.first_row(block + 1) - row),
                       .begin = static_cast<int>(begin),
                       .end = static_cast<int>(end),
                       .next = units.begin < units.end ? weight_of(end % panels_) : nullptr},
                      scratch);
    }
  }

  std::int64_t written_by_panel() const { return numbers_.gate ? panel_ / 2 : panel_; }

  // The stacked weights' column that stands in a column of a panel; none: -1.
  std::int64_t column_of(std::int64_t panel, std::int64_t place) const {
    const std::int64_t width = written_by_panel();
    const std::int64_t column = panel * width + place % width;
    if (column >= numbers_.out_columns()) return -1;
    return place < width ? column : numbers_.out / 2 + column;
  }

  void pack_bias(const LinearSpec& spec) {
    if (spec.bias.empty()) return;
    has_bias_ = true;
    std::vector<float> all;
    for (const TensorView& part : spec.bias) {
      const Tensor values = converted(part, DType::f32);
      all.insert(all.end(), values.as<float>(), values.as<float>() + values.size());
    }
    bias_ = Tensor(DType::f32, {panels_ * panel_});
    for (std::int64_t i = 0; i < bias_.size(); ++i) {
      const std::int64_t column = column_of(i / panel_, i % panel_);
      bias_.as<float>()[i] = column < 0 ? 0.f : all.at(static_cast<std::size_t>(column));
    }
  }

  void pack_weight(const LinearSpec& spec) {
    weight_ = std::make_shared<const Tensor>(DType::f32, Shape{panels_, linear_words(numbers_), panel_});
    std::fill(const_cast<float*>(weight_of(panels_ - 1)), weight_->as<float>() + weight_->size(), 0.f);
    std::int64_t first = 0;
    for (const TensorView& part : spec.weight) {
      const bool has_rows = part.dim(1) <= 1 || part.strides[1] == 1;
      const Tensor values = has_rows ? Tensor() : converted(part, DType::f32);
      pack_columns(has_rows ? part : values.view(), first);
      first += part.dim(0);
    }
  }

  // Rows of a matrix become columns of panels, from `first` on. By short pieces of depth, which stay in the first-level
  // cache while a panel's columns are written side by side, and which alone are held as fp32 beside the panels: all of
  // a vocabulary's matrix would be twice what the checkpoint has of it.
  void pack_columns(const TensorView& rows, std::int64_t first) {
    constexpr std::int64_t kPiece = 32;
    const std::int64_t words = linear_words(numbers_), end = first + rows.dim(0), of_word = numbers_.pairs ? 2 : 1;
#pragma omp parallel for
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      std::vector<std::int64_t> places;  // few panels have any of the rows where they are one part of many
      for (std::int64_t place = 0; place < panel_; ++place)
        if (const std::int64_t column = column_of(panel, place); column >= first && column < end)
          places.push_back(place);
      for (std::int64_t word = 0; word < words && !places.empty(); word += kPiece)
        for (const std::int64_t place : places) {
          std::array<float, 2 * kPiece> piece{};
          const std::int64_t last = std::min(words, word + kPiece);
          read_row({rows, column_of(panel, place) - first}, word * of_word, std::min(numbers_.in, last * of_word),
                   piece.data());
          pack_words(piece.data(), last - word, const_cast<float*>(weight_of(panel)) + word * panel_ + place);
        }
    }
  }

  struct Row {
    const TensorView& matrix;
    std::int64_t index;
  };
  static void read_row(const Row& row, std::int64_t begin, std::int64_t end, float* to) {
    const std::int64_t first = row.index * row.matrix.strides[0] + begin;
    const auto read = [&](const auto* values, auto&& float_of) {
      for (std::int64_t i = 0; i < end - begin; ++i) to[i] = float_of(values[first + i]);
    };
    switch (row.matrix.dtype) {
      case DType::f16: return read(row.matrix.as<std::uint16_t>(), float_of_f16);
      case DType::bf16: return read(row.matrix.as<std::uint16_t>(), float_of_bf16);
      default: return read(row.matrix.as<float>(), [](float value) { return value; });
    }
  }
  void pack_words(const float* piece, std::int64_t words, float* to) const {
    if (!numbers_.pairs) {
      const bool rounds = numbers_.type == LinearType::bf16;
      for (std::int64_t word = 0; word < words; ++word)
        to[word * panel_] = rounds ? float_of_bf16(bf16_of_float(piece[word])) : piece[word];
      return;
    }
    for (std::int64_t word = 0; word < words; ++word) {
      const std::uint32_t low = bf16_of_float(piece[2 * word]), high = bf16_of_float(piece[2 * word + 1]);
      to[word * panel_] = std::bit_cast<float>(high << 16 | low);
    }
  }

  LinearNumbers numbers_;
  bool residual_, has_bias_ = false;
  std::size_t element_bytes_;
  std::int64_t panel_ = linear_tiling().panel, panels_ = 0;
  Tensor bias_;
  std::shared_ptr<const Tensor> weight_;  // also of others, whose epilogues differ
};

}  // namespace

LinearActivation linear_activation(Activation activation) {
  switch (activation) {
    case Activation::none: return LinearActivation::none;
    case Activation::gelu: return LinearActivation::gelu;
    case Activation::gelu_tanh: return LinearActivation::gelu_tanh;
    case Activation::silu: return LinearActivation::silu;
    case Activation::relu: return LinearActivation::relu;
    case Activation::tanh: return LinearActivation::tanh;
  }
  return LinearActivation::none;
}

std::shared_ptr<const Linear> pack_panels(const LinearSpec& spec, Bf16Words words) {
  return std::make_shared<const PanelLinear>(spec, words);
}

}  // namespace stof::cpu
