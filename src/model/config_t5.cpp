// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_t5.h"

#include <limits>
#include <string>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/model/config_activation.h"

namespace stof {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostBuckets = 1 << 16;
// Of the tokens of a text: T5 has no table of positions that ends.
constexpr std::int64_t kMostTokens = 1 << 17;

// The activation's name, the key that says it, and whether it is that of a gate.
struct FeedForward {
  std::string activation;
  std::string_view key;
  bool gated = false;
};

// "relu" or "gated-gelu", where "gated-gelu" is the one by tanh. What transformers makes of it stands in files that it
// has written besides, and goes first.
FeedForward read_feed_forward(const JsonObject& object, std::string_view otherwise) {
  constexpr std::string_view kKey = "feed_forward_proj", kGated = "gated-";
  const std::string name = object.string(kKey, otherwise);
  FeedForward said{name, kKey, name.starts_with(kGated)};
  if (said.gated) said.activation.erase(0, kGated.size());
  if (said.activation.empty() || said.activation.find('-') != std::string::npos)
    refuse(object, kKey, "an activation, or gated- and an activation");
  if (name == "gated-gelu") said.activation = "gelu_new";
  if (object.has("dense_act_fn")) said.key = "dense_act_fn", said.activation = object.string(said.key);
  said.gated = object.boolean("is_gated_act", said.gated);
  return said;
}

RelativePositions read_relative(const JsonObject& object) {
  constexpr std::string_view kDistance = "relative_attention_max_distance";
  RelativePositions relative{.buckets = object.integer("relative_attention_num_buckets", 4, kMostBuckets, 32),
                             .max_distance = object.integer(kDistance, 1, kMost, 128)};
  if (relative.max_distance <= relative.buckets / 4 || relative.max_distance > kMostTokens)
    object.refuse(kDistance, fmt::format("{}..{}, above a quarter of relative_attention_num_buckets",
                                         relative.buckets / 4 + 1, kMostTokens));
  return relative;
}

}  // namespace

// Transformers reads the number of buckets for the size of the table alone: it takes 32, whatever it is.
void read_mpnet(const JsonObject& object, ModelConfig& config) {
  constexpr std::string_view kBuckets = "relative_attention_num_buckets";
  constexpr std::int64_t kUsed = 32;
  config.norm_epsilon = object.positive_number("layer_norm_eps", 1e-12);
  if (object.integer(kBuckets, 1, kMost, kUsed) != kUsed) refuse(object, kBuckets, "32");
  config.relative = {.buckets = kUsed, .max_distance = 128};
  config.first_position = 2;
  config.max_positions -= config.first_position;
  if (config.max_positions < 2) object.refuse("max_position_embeddings", "at least 4");
}

void read_t5(const JsonObject& object, std::string_view model_type, ModelConfig& config) {
  const FeedForward fed = read_feed_forward(object, model_type == "t5" ? "relu" : "gated-gelu");
  config.activation = usual_activation_name(object, fed.key, fed.activation);
  config.gated_mlp = fed.gated;
  config.max_positions = kMostTokens;
  std::string_view width = "d_kv";
  take_other_name(object, "head_dim", width);
  config.head_dim = object.integer(width, 1, kMaxHeadDim, 64);
  config.norm_epsilon = object.positive_number("layer_norm_epsilon", 1e-6);
  config.relative = read_relative(object);
  config.relative.each_layer = model_type == "umt5";
  config.unscaled_scores = true;
}

}  // namespace stof
