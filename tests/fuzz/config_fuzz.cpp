// SPDX-License-Identifier: Apache-2.0
// The small JSON files of a checkpoint: config.json, modules.json, the pooling's config, the two that bound the
// length, what ends a text, and the config of a dense layer, which has no weights. A part that is absent is a file that
// is absent.
#include <array>

#include "src/backend/contract.h"
#include "src/model/config.h"
#include "src/model/relative_positions.h"
#include "stof/error.h"
#include "tests/fuzz/fuzzed_file.h"

namespace {

using namespace stof;

constexpr std::array<const char*, 7> kNames{
    "config.json",           "modules.json",           "1_Pooling/config.json", "sentence_bert_config.json",
    "tokenizer_config.json", "generation_config.json", "2_Dense/config.json"};

void check_layers(const ModelConfig& config) {
  fuzz::require(std::ssize(config.rotary) == config.layers);
  for (const RotaryLayer& layer : config.rotary) {
    const RotaryScaling& scaling = layer.scaling;
    fuzz::require(layer.theta > 0 && (!layer.reach || *layer.reach >= 0));
    const auto turned = static_cast<std::size_t>(layer.pairs.value_or(config.head_dim / 2));
    const std::size_t factors = scaling.kind == RotaryScaling::Kind::longrope ? turned : 0;
    fuzz::require(scaling.short_factors.size() == factors && scaling.long_factors.size() == factors);
    fuzz::require(scaling.long_after() == config.long_after());
    fuzz::require(!layer.pairs || (*layer.pairs >= 1 && 2 * *layer.pairs < config.head_dim));
    fuzz::require(scaling.factor >= 1 && scaling.few > 0 && scaling.many >= scaling.few && scaling.amplitude > 0);
  }
}

void check_relative(const ModelConfig& config) {
  const RelativePositions& relative = config.relative;
  fuzz::require((config.family == Family::mpnet || config.family == Family::t5) == (relative.buckets > 0));
  if (relative.buckets == 0) return;
  fuzz::require(relative.max_distance > relative.buckets / 4);
  for (const std::int64_t distance :
       {-relative.max_distance, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, relative.max_distance}) {
    const std::int64_t bucket = bucket_of(distance, relative);
    fuzz::require(bucket >= 0 && bucket < relative.buckets);
  }
}

void read(const std::filesystem::path& folder) {
  const ModelConfig config = read_config(folder);
  for (const std::int64_t size : {config.vocab_size, config.hidden_size, config.heads, config.intermediate_size,
                                  config.max_positions, config.position_rows()})
    fuzz::require(size >= 1 && size <= INT32_MAX);
  fuzz::require(config.type_vocab_size >= 0 && config.type_vocab_size <= INT32_MAX);
  fuzz::require(config.first_position >= 0);
  const bool has_kv_heads =
      config.family == Family::llama || config.family == Family::gemma || config.family == Family::eurobert;
  const bool has_head_dim = has_kv_heads || config.family == Family::t5;
  fuzz::require(has_head_dim || config.hidden_size % config.heads == 0);
  if (has_head_dim) fuzz::require(config.head_dim >= 1 && config.head_dim <= kMaxHeadDim);
  check_relative(config);
  if (config.family == Family::modernbert || config.family == Family::nomic) {
    check_layers(config);
    fuzz::require(config.hidden_size / config.heads % 2 == 0);
  }
  fuzz::require(config.family != Family::longformer || std::ssize(config.reaches) == config.layers);
  if (has_kv_heads) {
    check_layers(config);
    fuzz::require(config.kv_heads >= 1 && config.heads % config.kv_heads == 0);
    fuzz::require(config.head_dim % 2 == 0);
    for (const std::optional<double>& cap : {config.score_cap, config.logit_cap})
      fuzz::require(!cap || (*cap >= 1e-18 && *cap <= 1e18));
  }
  for (const std::int32_t end : config.ends) fuzz::require(end >= 0);
  const PoolingConfig pooling = read_pooling(folder, config);
  fuzz::require(pooling.max_tokens >= 1 && pooling.max_tokens <= config.max_positions);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<fuzz::MemoryFile, kNames.size()> files;
  static const fuzz::Folder folder;
  std::string_view text = fuzz::text_of(data, size);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const bool given = !text.empty();
    files[i].write(fuzz::next_part(text));
    const bool linked = std::filesystem::exists(folder.path() / kNames[i]);
    if (given && !linked) folder.link(kNames[i], files[i]);
    if (!given && linked) folder.unlink(kNames[i]);
  }
  try {
    read(folder.path());
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
  return 0;
}
