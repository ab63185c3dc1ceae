// SPDX-License-Identifier: Apache-2.0
// Nearest neighbours by cosine, and the distance from embeddings that another program computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>

#include "cli/demo.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/tensor/npy.h"

namespace stof::cli {
namespace {

constexpr std::size_t kNeighbours = 3;

// XXH3 of the files that tests/data/minilm_embeddings.npy was made from; tests/cli/demo_test.py checks them against the
// SHA-256 that tests/data/minilm_embeddings.json records.
constexpr std::string_view kReferenceModel = "340d94e989ceea9234cb29e344fee166";
constexpr std::string_view kReferenceSentences = "c93677baa74f44f04e6d11e1d621eacb";

std::string fingerprint_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream contents;
  contents << in.rdbuf();
  if (!in) fail(ErrorKind::bad_file, "cannot read {}", file.string());
  return fingerprint_of(contents.view()).hex();
}

double cosine(const float* a, const float* b, std::int64_t size) {
  const double ab = std::inner_product(a, a + size, b, 0.0);
  const double aa = std::inner_product(a, a + size, a, 0.0), bb = std::inner_product(b, b + size, b, 0.0);
  return ab / std::sqrt(aa * bb);
}

}  // namespace

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) fail(ErrorKind::bad_file, "cannot read {}; expected UTF-8 text, one item a line", file.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  if (lines.empty()) fail(ErrorKind::bad_file, "{} has no lines; expected UTF-8 text, one item a line", file.string());
  return lines;
}

void show_neighbours(const std::vector<std::string>& sentences, const Tensor& sentence_embeddings,
                     const std::vector<std::string>& queries, const Tensor& query_embeddings) {
  const std::int64_t hidden = sentence_embeddings.shape().at(1);
  for (std::size_t query = 0; query < queries.size(); ++query) {
    std::vector<std::pair<double, std::size_t>> found;
    for (std::size_t i = 0; i < sentences.size(); ++i)
      found.emplace_back(cosine(query_embeddings.as<float>() + static_cast<std::int64_t>(query) * hidden,
                                sentence_embeddings.as<float>() + static_cast<std::int64_t>(i) * hidden, hidden),
                         i);
    const std::size_t shown = std::min(kNeighbours, found.size());
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(shown), found.end(), std::greater());
    fmt::print("\n  {}\n", queries[query]);
    for (std::size_t i = 0; i < shown; ++i) fmt::print("    {:.2f}  {}\n", found[i].first, sentences[found[i].second]);
  }
}

void show_reference(const DemoFiles& files, const Tensor& embeddings) {
  if (fingerprint_of_file(files.model / "model.safetensors") != kReferenceModel ||
      fingerprint_of_file(files.sentences) != kReferenceSentences) {
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
