// SPDX-License-Identifier: Apache-2.0
// The encoders of BERT (Devlin et al. 2018), RoBERTa (Liu et al. 2019), DistilBERT (Sanh et al. 2019), Longformer
// (Beltagy et al. 2020) and MPNet (Song et al. 2020): post-norm, the same operations under other names.
#include <fmt/format.h>

#include "src/graph/build.h"
#include "src/graph/builder.h"
#include "src/model/relative_positions.h"

namespace stof {
namespace {

// Of a layer, behind its prefix.
struct LayerNames {
  std::string_view query, key, value, context, projection, attention_sum, attention_norm;
  std::string_view expand, activation, contract, sum, norm;
};
constexpr LayerNames kBert{.query = "attention.self.query",
                           .key = "attention.self.key",
                           .value = "attention.self.value",
                           .context = "attention.self",
                           .projection = "attention.output.dense",
                           .attention_sum = "attention.output.residual",
                           .attention_norm = "attention.output.LayerNorm",
                           .expand = "intermediate.dense",
                           .activation = "intermediate.activation",
                           .contract = "output.dense",
                           .sum = "output.residual",
                           .norm = "output.LayerNorm"};
constexpr LayerNames kDistilBert{.query = "attention.q_lin",
                                 .key = "attention.k_lin",
                                 .value = "attention.v_lin",
                                 .context = "attention",
                                 .projection = "attention.out_lin",
                                 .attention_sum = "attention.residual",
                                 .attention_norm = "sa_layer_norm",
                                 .expand = "ffn.lin1",
                                 .activation = "ffn.activation",
                                 .contract = "ffn.lin2",
                                 .sum = "ffn.residual",
                                 .norm = "output_layer_norm"};
constexpr LayerNames kMpnet{.query = "attention.attn.q",
                            .key = "attention.attn.k",
                            .value = "attention.attn.v",
                            .context = "attention.attn",
                            .projection = "attention.attn.o",
                            .attention_sum = "attention.residual",
                            .attention_norm = "attention.LayerNorm",
                            .expand = "intermediate.dense",
                            .activation = "intermediate.activation",
                            .contract = "output.dense",
                            .sum = "output.residual",
                            .norm = "output.LayerNorm"};

class Encoder {
 public:
  Encoder(const Model& model, const LayerNames& names, std::int64_t global_tokens = 0)
      : config_(model.config), names_(names), global_tokens_(global_tokens), builder_(model) {}

  // `layers`: the prefix of a layer, with {} for its number.
  Graph build(std::string_view layers) {
    ValueId hidden = embeddings();
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      prefix_ = fmt::format(fmt::runtime(layers), layer);
      hidden = feed_forward(attention(hidden, mask_of(layer)));
    }
    return builder_.finish(hidden);
  }

 private:
  ValueId embeddings() {
    ValueId sum = builder_.lookup("embeddings.word_embeddings", TokenIndex::token, config_.vocab_size);
    if (config_.type_vocab_size > 0)
      sum = builder_.add(
          "embeddings.words_and_segments", sum,
          builder_.lookup("embeddings.token_type_embeddings", TokenIndex::segment, config_.type_vocab_size));
    sum =
        builder_.add("embeddings.sum", sum,
                     builder_.lookup("embeddings.position_embeddings", TokenIndex::position, config_.position_rows()));
    return builder_.norm("embeddings.LayerNorm", sum);
  }

  Mask mask_of(std::int64_t layer) const {
    return config_.reaches.empty() ? all() : window(config_.reaches[static_cast<std::size_t>(layer)]);
  }

  // With projections whose names end so.
  ValueId attend(ValueId x, const Mask& mask, std::string_view end = "") {
    const std::int64_t hidden = config_.hidden_size;
    const auto projection = [&](std::string_view part) {
      return builder_.linear(name(part) + std::string(end), x, hidden, hidden);
    };
    const ValueId q = projection(names_.query), k = projection(names_.key), v = projection(names_.value);
    const bool biased = config_.relative.buckets > 0;
    std::vector<Weight> bias;
    if (biased)
      bias.push_back(builder_.weight("encoder.relative_attention_bias" + std::string(kByDistance),
                                     {config_.heads, 2 * reach_of(config_.relative) + 1}));
    return builder_.node(name(names_.context) + std::string(end),
                         op::Attend{.heads = config_.heads, .mask = mask, .scores = {.scale = {}, .biased = biased}},
                         {q, k, v}, std::move(bias));
  }

  // Global tokens attend by projections of their own, to keys and values of their own; the others see them as they see
  // each other. What attends to nothing is 0, so that the sum of both has each row once.
  ValueId attend_globally(ValueId x, const Mask& mask) {
    const Mask is_global = parse(fmt::format("where(q < {})", global_tokens_));
    const ValueId others = attend(x, (mask | sink(global_tokens_)) & !is_global);
    return builder_.add(name(names_.context) + ".sum", others, attend(x, is_global, "_global"));
  }

  ValueId attention(ValueId x, const Mask& mask) {
    const std::int64_t hidden = config_.hidden_size;
    const ValueId context = global_tokens_ > 0 ? attend_globally(x, mask) : attend(x, mask);
    const ValueId projected = builder_.linear(name(names_.projection), context, hidden, hidden);
    return builder_.norm(name(names_.attention_norm), builder_.add(name(names_.attention_sum), projected, x));
  }

  ValueId feed_forward(ValueId x) {
    const std::int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
    const ValueId expanded = builder_.linear(name(names_.expand), x, intermediate, hidden);
    const ValueId activated = builder_.activate(name(names_.activation), expanded);
    const ValueId projected = builder_.linear(name(names_.contract), activated, hidden, intermediate);
    return builder_.norm(name(names_.norm), builder_.add(name(names_.sum), projected, x));
  }

  std::string name(std::string_view part) const { return prefix_ + std::string(part); }

  const ModelConfig& config_;
  const LayerNames& names_;
  const std::int64_t global_tokens_;
  std::string prefix_;
  GraphBuilder builder_;
};

}  // namespace

Graph build_bert(const Model& model, std::int64_t global_tokens) {
  return Encoder(model, kBert, global_tokens).build("encoder.layer.{}.");
}

Graph build_mpnet(const Model& model) { return Encoder(model, kMpnet).build("encoder.layer.{}."); }

Graph build_distilbert(const Model& model) { return Encoder(model, kDistilBert).build("transformer.layer.{}."); }

}  // namespace stof
