// SPDX-License-Identifier: Apache-2.0
#include "src/model/dense_layer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/expect_error.h"
#include "tests/source_folder.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

std::filesystem::path layer_folder() { return source_folder() / "tests/data/families/gemma3_with_dense/3_Dense"; }

// The layer of the folder with other words in its config.json, where null takes the word away.
class DenseLayers : public testing::Test {
 protected:
  DenseLayers() {
    std::filesystem::create_symlink(layer_folder() / "model.safetensors", folder_ / "model.safetensors");
  }
  void config(const nlohmann::json& words) {
    nlohmann::json config = nlohmann::json::parse(read_bytes(layer_folder() / "config.json"));
    config.merge_patch(words);
    write_bytes(folder_ / "config.json", config.dump());
  }
  DenseLayer read() { return read_dense_layer(folder_.path(), 48); }
  void expect(const nlohmann::json& words, ErrorKind kind, const std::string& message,
              const std::string& file = "config.json") {
    config(words);
    EXPECT_ERROR(read(), kind, (folder_ / file).string() + ": " + message);
  }
  TemporaryFolder folder_;
};

TEST_F(DenseLayers, AreAsSaved) {
  config(nlohmann::json::object());
  const DenseLayer layer = read();
  EXPECT_EQ(layer.inputs(), 48);
  EXPECT_EQ(layer.outputs(), 40);
  EXPECT_EQ(layer.activation, "tanh");
  ASSERT_TRUE(layer.bias);
  EXPECT_EQ(layer.bias->shape, (Shape{40}));
}

TEST_F(DenseLayers, OfOlderVersionsSayLess) {
  config({{"module_input_name", nullptr},
          {"module_output_name", nullptr},
          {"activation_function", nullptr},
          {"bias", nullptr}});
  EXPECT_EQ(read().activation, "tanh");
  EXPECT_TRUE(read().bias);
  config({{"bias", false}, {"activation_function", "torch.nn.modules.linear.Identity"}});
  EXPECT_EQ(read().activation, "");
  EXPECT_FALSE(read().bias);
  for (const auto& [name, activation] : {std::pair{"GELU", "gelu"}, {"ReLU", "relu"}, {"SiLU", "silu"}}) {
    config({{"activation_function", std::string("torch.nn.modules.activation.") + name}});
    EXPECT_EQ(read().activation, activation);
  }
}

TEST_F(DenseLayers, RefusesWhatIsNotDone) {
  expect(
      {{"activation_function", "torch.nn.modules.activation.Sigmoid"}}, ErrorKind::unsupported,
      R"('activation_function' is "torch.nn.modules.activation.Sigmoid"; accepted: Identity, GELU, ReLU, SiLU, Tanh )"
      "of torch.nn.modules");
  expect({{"use_residual", true}}, ErrorKind::unsupported, "'use_residual' is true; accepted: false");
  for (const std::string key : {"module_input_name", "module_output_name"})
    expect({{key, "token_embeddings"}}, ErrorKind::unsupported,
           "'" + key + R"(' is "token_embeddings"; accepted: sentence_embedding)");
}

TEST_F(DenseLayers, RefusesWhatDoesNotFit) {
  expect({{"in_features", 32}}, ErrorKind::bad_file, "'in_features' is 32; accepted: the columns of what comes in, 48");
  expect({{"out_features", 0}}, ErrorKind::bad_file, "'out_features' is 0; accepted: an integer from 1 to 2147483647");
  expect({{"out_features", 41}}, ErrorKind::bad_file,
         "tensor 'linear.weight' has shape [40, 48]; config.json asks for [41, 48]", "model.safetensors");
  std::filesystem::remove(folder_ / "model.safetensors");
  config(nlohmann::json::object());
  EXPECT_ERROR(read(), ErrorKind::bad_file,
               folder_.path().string() +
                   ": neither model.safetensors nor model.safetensors.index.json; weights in other "
                   "files (pytorch_model.bin) are not read");
}

}  // namespace
}  // namespace stof
