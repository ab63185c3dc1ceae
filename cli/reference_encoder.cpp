// SPDX-License-Identifier: Apache-2.0
#include "cli/reference_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/mask/bind.h"
#include "src/tensor/convert.h"

namespace stof::cli {
namespace {

struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Matrix(std::int64_t the_rows, std::int64_t the_columns)
      : rows(the_rows), columns(the_columns), values(static_cast<std::size_t>(the_rows * the_columns)) {}
  double* row(std::int64_t r) { return values.data() + r * columns; }
  const double* row(std::int64_t r) const { return values.data() + r * columns; }
};

double activated(const std::string& name, double x) {
  if (name == "relu") return std::max(0.0, x);
  if (name == "gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

Matrix rows_of(const Matrix& x, std::span<const std::int64_t> wanted) {
  Matrix rows(std::ssize(wanted), x.columns);
  for (std::int64_t r = 0; r < rows.rows; ++r)
    std::copy_n(x.row(wanted[static_cast<std::size_t>(r)]), x.columns, rows.row(r));
  return rows;
}

class Encoder {
 public:
  explicit Encoder(const Model& model) : model_(model) {}

  Matrix embed(std::span<const std::int32_t> ids) const {
    const std::int64_t hidden = model_.config.hidden_size;
    const Tensor words = weight("embeddings.word_embeddings.weight"),
                 positions = weight("embeddings.position_embeddings.weight"),
                 segments = weight("embeddings.token_type_embeddings.weight");
    Matrix x(std::ssize(ids), hidden);
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t c = 0; c < hidden; ++c)
        x.row(r)[c] = double{words.as<float>()[ids[static_cast<std::size_t>(r)] * hidden + c]} +
                      positions.as<float>()[r * hidden + c] + segments.as<float>()[c];
    normalize(x, "embeddings.LayerNorm");
    return x;
  }

  // Of the wanted rows of x.
  Matrix layer(std::int64_t index, const Matrix& x, const BoundMask& mask, std::span<const std::int64_t> wanted) const {
    const std::string prefix = fmt::format("encoder.layer.{}.", index);
    const Matrix own = rows_of(x, wanted);
    const Matrix context = attend(prefix + "attention.self.", x, own, mask, wanted);
    Matrix attended = linear(prefix + "attention.output.dense", context);
    add(attended, own);
    normalize(attended, prefix + "attention.output.LayerNorm");
    Matrix expanded = linear(prefix + "intermediate.dense", attended);
    for (double& value : expanded.values) value = activated(model_.config.activation, value);
    Matrix out = linear(prefix + "output.dense", expanded);
    add(out, attended);
    normalize(out, prefix + "output.LayerNorm");
    return out;
  }

 private:
  Tensor weight(const std::string& name) const {
    const auto found = model_.weights.find(name);
    STOF_CHECK(found != model_.weights.end());
    return converted(found->second, DType::f32);
  }

  Matrix linear(const std::string& name, const Matrix& x) const {
    const Tensor weights = weight(name + ".weight"), bias = weight(name + ".bias");
    Matrix out(x.rows, weights.shape().at(0));
#pragma omp parallel for collapse(2)
    for (std::int64_t r = 0; r < out.rows; ++r)
      for (std::int64_t c = 0; c < out.columns; ++c) {
        const double* const from = x.row(r);
        const float* const by = weights.as<float>() + c * x.columns;
        double sum = bias.as<float>()[c];
#pragma omp simd reduction(+ : sum)
        for (std::int64_t k = 0; k < x.columns; ++k) sum += from[k] * double{by[k]};
        out.row(r)[c] = sum;
      }
    return out;
  }

  static void add(Matrix& x, const Matrix& y) {
    for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] += y.values[i];
  }

  void normalize(Matrix& x, const std::string& name) const {
    const Tensor scale = weight(name + ".weight"), shift = weight(name + ".bias");
    const auto columns = static_cast<double>(x.columns);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      double* const row = x.row(r);
      double mean = 0, variance = 0;
      for (std::int64_t c = 0; c < x.columns; ++c) mean += row[c] / columns;
      for (std::int64_t c = 0; c < x.columns; ++c) variance += (row[c] - mean) * (row[c] - mean) / columns;
      const double inverse = 1 / std::sqrt(variance + model_.config.norm_epsilon);
      for (std::int64_t c = 0; c < x.columns; ++c)
        row[c] = (row[c] - mean) * inverse * double{scale.as<float>()[c]} + double{shift.as<float>()[c]};
    }
  }

  Matrix attend(const std::string& prefix, const Matrix& x, const Matrix& own, const BoundMask& mask,
                std::span<const std::int64_t> wanted) const {
    const Matrix q = linear(prefix + "query", own), k = linear(prefix + "key", x), v = linear(prefix + "value", x);
    const std::int64_t heads = model_.config.heads, d = x.columns / heads;
    Matrix out(own.rows, x.columns);
#pragma omp parallel for collapse(2)
    for (std::int64_t r = 0; r < own.rows; ++r)
      for (std::int64_t head = 0; head < heads; ++head) {
        std::vector<double> weights(static_cast<std::size_t>(x.rows), 0.0);
        double sum = 0;
        for (std::int64_t key = 0; key < x.rows; ++key) {
          if (!mask.allows(mask.group_of(0, head), wanted[static_cast<std::size_t>(r)], key)) continue;
          double score = 0;
          for (std::int64_t c = head * d; c < (head + 1) * d; ++c) score += q.row(r)[c] * k.row(key)[c];
          const double weight = std::exp(score / std::sqrt(static_cast<double>(d)));
          weights[static_cast<std::size_t>(key)] = weight;
          sum += weight;
        }
        for (std::int64_t key = 0; key < x.rows && sum > 0; ++key)
          for (std::int64_t c = head * d; c < (head + 1) * d; ++c)
            out.row(r)[c] += weights[static_cast<std::size_t>(key)] / sum * v.row(key)[c];
      }
    return out;
  }

  const Model& model_;
};

}  // namespace

void check_is_bert(std::string_view option, const std::string& folder) {
  if (const ModelConfig config = read_config(folder); config.family != Family::bert)
    fail(ErrorKind::unsupported, "{} {}: a {}; accepted: a BERT, whose definition its output is checked against",
         option, folder, config.architecture);
}

std::vector<double> reference_encoder(const Model& model, std::span<const std::int32_t> ids, const Mask& mask,
                                      std::span<const std::int64_t> wanted) {
  const Encoder encoder(model);
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const BoundMask bound(mask, {.queries = tokens, .keys = tokens, .heads = model.config.heads});
  std::vector<std::int64_t> every(ids.size());
  for (std::int64_t i = 0; i < tokens; ++i) every[static_cast<std::size_t>(i)] = i;
  Matrix x = encoder.embed(ids);
  if (model.config.layers == 0) x = rows_of(x, wanted);
  for (std::int64_t layer = 0; layer < model.config.layers; ++layer)
    x = encoder.layer(layer, x, bound, layer + 1 == model.config.layers ? wanted : every);
  return std::move(x.values);
}

}  // namespace stof::cli
