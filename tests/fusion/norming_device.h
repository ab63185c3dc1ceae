// SPDX-License-Identifier: Apache-2.0
// A device whose matmuls apply and leave layer norms, played by the host, naively and in double: what fusion asks of a
// GPU can be tested without one. It has three settings: its own, one that computes the same, and one that is wrong.
#pragma once
#include <cmath>
#include <memory>
#include <vector>

#include "src/backend/contract.h"
#include "src/tensor/convert.h"

namespace stof {

inline MatmulSetting tile_of(int rows) {
  return {.kernel = MatmulSetting::Kernel::wgmma,
          .rows = rows,
          .columns = 64,
          .depth = 64,
          .stages = 2,
          .warpgroups = 1,
          .teams = 1,
          .split = 1};
}
inline MatmulSetting right_setting() { return tile_of(64); }
inline MatmulSetting wrong_setting() { return tile_of(128); }

// f32, weights as doubles.
class NaiveLinear {
 public:
  explicit NaiveLinear(const LinearSpec& spec)
      : activation_(spec.activation),
        gate_(spec.gate),
        paired_(spec.paired),
        turned_(spec.turned.value_or(TurnedHeads{})),
        in_(spec.weight.front().dim(1)),
        weight_(in_a_row(spec.weight)),
        bias_(in_a_row(spec.bias)),
        x_norm_(Norm::of(spec.x_norm)),
        residual_norm_(Norm::of(spec.residual_norm)) {
    out_ = static_cast<std::int64_t>(weight_.size()) / in_;
  }

  void run(const LinearCall& call) const {
    const bool wrong = call.setting != nullptr && *call.setting == wrong_setting();
    for (std::int64_t row = 0; row < call.rows; ++row) {
      const std::vector<double> x =
          x_norm_.applied(static_cast<const float*>(call.x) + row * in_, in_, pieces(call.x_moments, row, in_));
      std::vector<double> residual(static_cast<std::size_t>(out_), 0);
      if (call.residual != nullptr)
        residual = residual_norm_.applied(static_cast<const float*>(call.residual) + row * out_, out_,
                                          pieces(call.residual_moments, row, out_));
      const std::int64_t written = gate_ ? out_ / 2 : out_;
      float* const out = static_cast<float*>(call.out) + row * written;
      for (std::int64_t o = 0; o < written; ++o)
        out[place(o)] = static_cast<float>(activated(sum(o, x)) * (gate_ ? sum(written + o, x) : 1) +
                                           residual[static_cast<std::size_t>(o)] + (wrong ? 0.5 : 0));
      if (turned_.heads > 0) turn(out, call.angles + call.positions[static_cast<std::size_t>(row)] * turned_.head_dim);
      if (call.moments != nullptr) write_moments(out, call.moments + row * moment_pieces(out_) * 2);
    }
  }

 private:
  static std::vector<double> in_a_row(const std::vector<TensorView>& parts) {
    std::vector<double> all;
    for (const TensorView& part : parts) {
      const Tensor values = converted(part, DType::f32);
      all.insert(all.end(), values.as<float>(), values.as<float>() + values.size());
    }
    return all;
  }
  static const float* pieces(const float* moments, std::int64_t row, std::int64_t columns) {
    return moments == nullptr ? nullptr : moments + row * moment_pieces(columns) * 2;
  }

  struct Norm {
    bool is = false;
    std::vector<double> scale, shift;
    double epsilon = 0;
    static Norm of(const std::optional<DeferredNorm>& norm) {
      if (!norm) return {};
      return {true, in_a_row({norm->scale}), in_a_row({norm->shift}), norm->epsilon};
    }
    // By the moments of the pieces (Chan, Golub, LeVeque 1979).
    std::vector<double> applied(const float* row, std::int64_t columns, const float* moments) const {
      std::vector<double> values(row, row + columns);
      if (!is) return values;
      double count = 0, mean = 0, squares = 0;
      for (std::int64_t piece = 0; piece < moment_pieces(columns); ++piece) {
        const double n = static_cast<double>(std::min(kMomentColumns, columns - piece * kMomentColumns));
        const double apart = moments[2 * piece] - mean;
        squares += moments[2 * piece + 1] + apart * apart * count * n / (count + n);
        mean += apart * n / (count + n);
        count += n;
      }
      const double factor = 1 / std::sqrt(squares / count + epsilon);
      for (std::size_t c = 0; c < values.size(); ++c) values[c] = (values[c] - mean) * factor * scale[c] + shift[c];
      return values;
    }
  };

  // Of a column of out.
  std::int64_t place(std::int64_t column) const {
    if (!paired_) return column;
    const std::int64_t half = column / (out_ / 2), of_half = column % (out_ / 2), within = of_half % kPairedColumns;
    return 2 * (of_half - within) + half * kPairedColumns + within;
  }

  double activated(double x) const {
    switch (activation_) {
      case Activation::none: return x;
      case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      case Activation::silu: return x / (1 + std::exp(-x));
      case Activation::relu: return std::max(x, 0.0);
      case Activation::tanh: return std::tanh(x);
    }
    return x;
  }

  void turn(float* row, const float* angles) const {
    const std::int64_t half = turned_.head_dim / 2;
    for (std::int64_t head = 0; head < turned_.heads; ++head, row += turned_.head_dim) {
      const std::vector<float> before(row, row + turned_.head_dim);
      for (std::int64_t i = 0; i < half; ++i) {
        const double a = before[static_cast<std::size_t>(i)], b = before[static_cast<std::size_t>(half + i)];
        row[paired_column(i, turned_.head_dim)] = static_cast<float>(a * angles[2 * i] - b * angles[2 * i + 1]);
        row[paired_column(half + i, turned_.head_dim)] = static_cast<float>(b * angles[2 * i] + a * angles[2 * i + 1]);
      }
    }
  }

  void write_moments(const float* row, float* moments) const {
    for (std::int64_t begin = 0; begin < out_; begin += kMomentColumns, moments += 2) {
      const std::int64_t count = std::min(kMomentColumns, out_ - begin);
      double mean = 0, squares = 0;
      for (std::int64_t c = begin; c < begin + count; ++c) mean += row[c] / static_cast<double>(count);
      for (std::int64_t c = begin; c < begin + count; ++c) squares += (row[c] - mean) * (row[c] - mean);
      moments[0] = static_cast<float>(mean);
      moments[1] = static_cast<float>(squares);
    }
  }

  double sum(std::int64_t o, const std::vector<double>& x) const {
    double sum = bias_.empty() ? 0 : bias_[static_cast<std::size_t>(o)];
    for (std::int64_t i = 0; i < in_; ++i)
      sum += weight_[static_cast<std::size_t>(o * in_ + i)] * x[static_cast<std::size_t>(i)];
    return sum;
  }

  Activation activation_;
  bool gate_, paired_;
  TurnedHeads turned_;
  std::int64_t in_, out_ = 0;
  std::vector<double> weight_, bias_;
  Norm x_norm_, residual_norm_;
};

inline const Backend& norming_backend() {
  static const Backend backend = [] {
    Backend made = cpu_backend;
    made.matmul = {
        .pack = [](const LinearSpec& spec) -> PackedLinear { return std::make_shared<const NaiveLinear>(spec); },
        .takes = [](const LinearSpec& spec) { return !spec.turned || spec.turned->head_dim % 16 == 0; },
        .run = [](const PackedLinear& linear,
                  const LinearCall& call) { static_cast<const NaiveLinear*>(linear.get())->run(call); },
        .pairs_gates = true,
        .settings =
            [](const LinearSpec&, std::int64_t) {
              return std::vector<MatmulChoice>{{wrong_setting(), 1}, {right_setting(), 2}, {MatmulSetting{}, 3}};
            },
        .refuses = [](const LinearSpec&, std::int64_t, const MatmulSetting& setting) -> std::optional<std::string> {
          if (setting.rows <= 128) return std::nullopt;
          return "there is no kernel for '" + text_of(setting) + "'";
        }};
    return made;
  }();
  return backend;
}

inline Device norming_device() {
  Device device = open_device("cpu");
  device.backend = &norming_backend();
  device.caps.name = "norming";
  return device;
}

}  // namespace stof
