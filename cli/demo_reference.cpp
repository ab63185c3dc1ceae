// SPDX-License-Identifier: Apache-2.0
// The distance from embeddings that another program computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/demo.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/model/file_map.h"
#include "src/tensor/npy.h"

namespace stof::cli {
namespace {

// XXH3 of the files that tests/data/minilm_embeddings.npy was made from; tests/cli/demo_test.py checks them against the
// SHA-256 that tests/data/minilm_embeddings.json records.
constexpr std::string_view kReferenceModel = "340d94e989ceea9234cb29e344fee166";
constexpr std::string_view kReferenceSentences = "c93677baa74f44f04e6d11e1d621eacb";

std::string fingerprint_of_file(const std::filesystem::path& file) {
  return fingerprint_of(FileMap(file).bytes()).hex();
}

bool is_made_of(const std::filesystem::path& file, std::string_view fingerprint) {
  return std::filesystem::exists(file) && fingerprint_of_file(file) == fingerprint;
}

}  // namespace

void show_reference(const DemoFiles& files, const Tensor& embeddings) {
  if (!std::filesystem::exists(files.reference)) {
    fmt::print("  not compared: there is no {}; --reference names it\n", files.reference.string());
    return;
  }
  if (!is_made_of(files.model / "model.safetensors", kReferenceModel) ||
      !is_made_of(files.sentences, kReferenceSentences)) {
    fmt::print("  not compared: {} is of all-MiniLM-L6-v2 and the sentences of data/; these are others\n",
               files.reference.filename().string());
    return;
  }
  const Tensor reference = read_npy(files.reference);
  if (reference.dtype() != DType::f32 || reference.shape() != embeddings.shape())
    fail(ErrorKind::bad_file, "{} is {} {}; expected f32 {}", files.reference.string(), name_of(reference.dtype()),
         to_string(reference.shape()), to_string(embeddings.shape()));
  double worst = 0;
  for (std::int64_t i = 0; i < embeddings.size(); ++i) {
    const double difference = std::abs(double{embeddings.as<float>()[i]} - double{reference.as<float>()[i]});
    worst = std::isnan(difference) ? difference : std::max(worst, difference);
  }
  fmt::print("  largest difference of a component: {:.2g}, over {} embeddings (transformers, fp32)\n", worst,
             embeddings.shape().at(0));
}

}  // namespace stof::cli
