// SPDX-License-Identifier: Apache-2.0
// A BERT small enough to compute by hand: random weights in memory, and its definition in double, token by token,
// written against the paper and not against the backend.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "src/base/hash.h"
#include "src/mask/bind.h"
#include "src/model/model.h"
#include "stof/session.h"
#include "tests/runtime/random_weights.h"

namespace stof {

inline Model small_bert(std::int64_t layers = 2, const std::string& activation = "gelu") {
  Model model;
  model.config = {.architecture = "BertModel",
                  .vocab_size = 50,
                  .hidden_size = 24,
                  .layers = layers,
                  .heads = 3,
                  .intermediate_size = 40,
                  .max_positions = 96,
                  .type_vocab_size = 2,
                  .activation = activation};
  model.pooling = {.pooling = Pooling::mean, .normalize = true, .max_tokens = 96};
  RandomWeights weights(model);
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    weights.add(name + ".weight", {out, in}, 0, 0.5f);
    weights.add(name + ".bias", {out}, 0, 0.3f);
  };
  const auto norm = [&](const std::string& name) {
    weights.add(name + ".weight", {24}, 1, 0.3f);
    weights.add(name + ".bias", {24}, 0, 0.3f);
  };
  weights.add("embeddings.word_embeddings.weight", {50, 24}, 0, 1);
  weights.add("embeddings.position_embeddings.weight", {96, 24}, 0, 1);
  weights.add("embeddings.token_type_embeddings.weight", {2, 24}, 0, 1);
  norm("embeddings.LayerNorm");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = "encoder.layer." + std::to_string(layer) + ".";
    for (const char* part : {"query", "key", "value"}) linear(prefix + "attention.self." + part, 24, 24);
    linear(prefix + "attention.output.dense", 24, 24);
    norm(prefix + "attention.output.LayerNorm");
    linear(prefix + "intermediate.dense", 40, 24);
    linear(prefix + "output.dense", 24, 40);
    norm(prefix + "output.LayerNorm");
  }
  return model;
}

using Rows = std::vector<std::vector<double>>;

class NaiveBert {
 public:
  NaiveBert(const Model& model, const Mask& mask) : model_(model), mask_(mask) {}

  Rows run(const std::vector<std::int32_t>& ids) const {
    Rows x;
    for (std::size_t p = 0; p < ids.size(); ++p) {
      x.emplace_back();
      for (std::int64_t c = 0; c < model_.config.hidden_size; ++c)
        x.back().push_back(at("embeddings.word_embeddings.weight", ids[p], c) +
                           at("embeddings.position_embeddings.weight", static_cast<std::int64_t>(p), c) +
                           at("embeddings.token_type_embeddings.weight", 0, c));
    }
    x = norm("embeddings.LayerNorm", x);
    for (std::int64_t layer = 0; layer < model_.config.layers; ++layer) {
      const std::string prefix = "encoder.layer." + std::to_string(layer) + ".";
      const Rows context =
          attention(linear(prefix + "attention.self.query", x), linear(prefix + "attention.self.key", x),
                    linear(prefix + "attention.self.value", x));
      x = norm(prefix + "attention.output.LayerNorm", sum(linear(prefix + "attention.output.dense", context), x));
      const Rows expanded = activate(linear(prefix + "intermediate.dense", x));
      x = norm(prefix + "output.LayerNorm", sum(linear(prefix + "output.dense", expanded), x));
    }
    return x;
  }

 private:
  double at(const std::string& name, std::int64_t row, std::int64_t column = 0) const {
    const TensorView& view = model_.weights.at(name);
    return view.as<float>()[view.rank() == 1 ? row : row * view.dim(1) + column];
  }
  Rows linear(const std::string& name, const Rows& x) const {
    const std::int64_t out = model_.weights.at(name + ".weight").dim(0),
                       in = model_.weights.at(name + ".weight").dim(1);
    Rows y;
    for (const auto& row : x) {
      y.emplace_back();
      for (std::int64_t o = 0; o < out; ++o) {
        double value = at(name + ".bias", o);
        for (std::int64_t i = 0; i < in; ++i) value += at(name + ".weight", o, i) * row[static_cast<std::size_t>(i)];
        y.back().push_back(value);
      }
    }
    return y;
  }
  Rows norm(const std::string& name, Rows x) const {
    for (auto& row : x) {
      double mean = 0, variance = 0;
      for (const double value : row) mean += value / static_cast<double>(row.size());
      for (const double value : row) variance += (value - mean) * (value - mean) / static_cast<double>(row.size());
      for (std::size_t c = 0; c < row.size(); ++c)
        row[c] = (row[c] - mean) / std::sqrt(variance + model_.config.norm_epsilon) *
                     at(name + ".weight", static_cast<std::int64_t>(c)) +
                 at(name + ".bias", static_cast<std::int64_t>(c));
    }
    return x;
  }
  Rows activate(Rows x) const {
    const std::string& name = model_.config.activation;
    for (auto& row : x)
      for (double& v : row)
        v = name == "gelu"       ? 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)))
            : name == "gelu_new" ? 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))
                                 : std::max(v, 0.0);
    return x;
  }
  static Rows sum(Rows x, const Rows& y) {
    for (std::size_t r = 0; r < x.size(); ++r)
      for (std::size_t c = 0; c < x[r].size(); ++c) x[r][c] += y[r][c];
    return x;
  }
  Rows attention(const Rows& q, const Rows& k, const Rows& v) const {
    const auto n = static_cast<std::int64_t>(q.size());
    const std::size_t heads = static_cast<std::size_t>(model_.config.heads), d = q[0].size() / heads;
    const BoundMask mask(mask_, {.queries = n, .keys = n, .batch = 1, .heads = model_.config.heads});
    Rows out(q.size(), std::vector<double>(q[0].size(), 0));
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < q.size(); ++i) {
        std::vector<double> weight(k.size(), 0);
        double total = 0;
        for (std::size_t j = 0; j < k.size(); ++j) {
          if (!mask.allows(mask.group_of(0, static_cast<std::int64_t>(h)), static_cast<std::int64_t>(i),
                           static_cast<std::int64_t>(j)))
            continue;
          double score = 0;
          for (std::size_t c = h * d; c < (h + 1) * d; ++c) score += q[i][c] * k[j][c];
          total += weight[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        for (std::size_t j = 0; j < k.size() && total > 0; ++j)
          for (std::size_t c = h * d; c < (h + 1) * d; ++c) out[i][c] += weight[j] / total * v[j][c];
      }
    return out;
  }

  const Model& model_;
  Mask mask_;
};

// Texts of the given lengths; equal (length, index) give equal texts.
inline TokenBatch texts_of(const std::vector<std::int64_t>& lengths) {
  TokenBatch batch;
  for (std::size_t text = 0; text < lengths.size(); ++text) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < lengths[text]; ++i)
      ids.push_back(static_cast<std::int32_t>(splitmix64(text * 1000 + static_cast<std::uint64_t>(i)) % 50));
    batch.add(ids);
  }
  return batch;
}

}  // namespace stof
