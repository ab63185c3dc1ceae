// SPDX-License-Identifier: Apache-2.0
// Sentences to vectors, and the nearest of them to a few queries.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "cli/demo.h"
#include "cli/progress.h"

namespace stof::cli {
namespace {

constexpr std::size_t kNeighbours = 3;

double cosine(const float* a, const float* b, std::int64_t size) {
  const double ab = std::inner_product(a, a + size, b, 0.0);
  const double aa = std::inner_product(a, a + size, a, 0.0), bb = std::inner_product(b, b + size, b, 0.0);
  return ab / std::sqrt(aa * bb);
}

const float* row(const Tensor& matrix, std::size_t index) {
  return matrix.as<float>() + static_cast<std::int64_t>(index) * matrix.shape().at(1);
}

void print_nearest(const float* query, const std::vector<std::string>& sentences, const Tensor& embeddings) {
  std::vector<std::pair<double, std::size_t>> found;
  for (std::size_t i = 0; i < sentences.size(); ++i)
    if (const double near = cosine(query, row(embeddings, i), embeddings.shape().at(1)); !std::isnan(near))
      found.emplace_back(near, i);
  if (found.empty()) fmt::print("    none: vectors of zeros, or with NaN or infinity, have no direction\n");
  const std::size_t shown = std::min(kNeighbours, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(shown), found.end(), std::greater());
  for (std::size_t i = 0; i < shown; ++i) fmt::print("    {:.2f}  {}\n", found[i].first, sentences[found[i].second]);
}

}  // namespace

Tensor show_search(const Session& session, const DemoTexts& texts) {
  const Stopwatch watch;
  Embeddings embedded;
  {
    Progress progress("  embedding", static_cast<std::int64_t>(texts.sentences.size()));
    std::int64_t before = 0;
    embedded =
        session.embed(texts.sentences,
                      {.progress = [&](std::int64_t done) { progress.advance(done - std::exchange(before, done)); }});
  }
  const double seconds = watch.seconds();
  const std::int64_t tokens = std::accumulate(embedded.lengths.begin(), embedded.lengths.end(), std::int64_t{0});
  fmt::print("  {} sentences, {} tokens, vectors of {}: {:.2f} s, {:.0f} sentences/s\n", texts.sentences.size(), tokens,
             embedded.values.shape()[1], seconds, static_cast<double>(texts.sentences.size()) / seconds);
  const Tensor queries = session.embed(texts.queries).values;
  for (std::size_t query = 0; query < texts.queries.size(); ++query) {
    fmt::print("\n  {}\n", texts.queries[query]);
    print_nearest(row(queries, query), texts.sentences, embedded.values);
  }
  return std::move(embedded.values);
}

}  // namespace stof::cli
