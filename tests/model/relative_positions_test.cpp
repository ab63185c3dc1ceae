// SPDX-License-Identifier: Apache-2.0
// Buckets of distances against those of transformers (tools/make_buckets_reference.py), and the biases made of them.
#include "src/model/relative_positions.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/tensor/half.h"
#include "tests/source_folder.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

nlohmann::json reference() { return nlohmann::json::parse(read_bytes(source_folder() / "tests/data/buckets.json")); }

RelativePositions relative_of(const nlohmann::json& setting) {
  return {.buckets = setting.at("buckets"), .max_distance = setting.at("max_distance")};
}

TEST(RelativePositions, FallIntoTheBucketsOfTransformers) {
  for (const nlohmann::json& setting : reference().at("settings")) {
    const RelativePositions relative = relative_of(setting);
    for (const auto& run : setting.at("runs")) {
      const std::int64_t first = run[0], count = run[1], bucket = run[2];
      for (std::int64_t distance = first; distance < first + count; ++distance)
        ASSERT_EQ(bucket_of(distance, relative), bucket)
            << relative.buckets << " buckets to " << relative.max_distance << ", distance " << distance;
    }
  }
}

// One distance less has another bucket, to one side at least.
TEST(RelativePositions, ReachWhereTheLastBucketsBegin) {
  for (const nlohmann::json& setting : reference().at("settings")) {
    const RelativePositions relative = relative_of(setting);
    const std::int64_t reach = reach_of(relative);
    for (std::int64_t distance = reach; distance < 5000; ++distance) {
      ASSERT_EQ(bucket_of(distance, relative), bucket_of(reach, relative));
      ASSERT_EQ(bucket_of(-distance, relative), bucket_of(-reach, relative));
    }
    EXPECT_NE(bucket_of(-reach + 1, relative), bucket_of(-reach, relative));
  }
  EXPECT_EQ(reach_of({.buckets = 32, .max_distance = 128}), 91);
}

TEST(RelativePositions, AreAWeightByDistance) {
  const Model model = read_model(source_folder() / "tests/data/families/t5");
  const std::string name = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias";
  const TensorView& table = model.weight(name + ".weight", {16, 4});
  const std::int64_t reach = reach_of(model.config.relative);
  const TensorView& bias = model.weight(name + std::string(kByDistance), {4, 2 * reach + 1});
  ASSERT_EQ(table.dtype, DType::f16);
  for (std::int64_t head = 0; head < 4; ++head)
    for (std::int64_t distance = -reach; distance <= reach; ++distance)
      EXPECT_EQ(bias.as<float>()[head * (2 * reach + 1) + reach + distance],
                float_of_f16(table.as<std::uint16_t>()[bucket_of(distance, model.config.relative) * 4 + head]));
  EXPECT_FALSE(model.has("encoder.block.1.layer.0.SelfAttention.relative_attention_bias" + std::string(kByDistance)));
}

}  // namespace
}  // namespace stof
