// SPDX-License-Identifier: Apache-2.0
// The same ragged batch twice: padded to its longest sentence, as most engines run it, and without padding.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cli/demo.h"
#include "cli/loading.h"
#include "cli/table.h"
#include "src/model/tokenizer.h"

namespace stof::cli {
namespace {

constexpr std::size_t kTexts = 64;
constexpr int kRuns = 3;

struct Timed {
  Tensor vectors;
  double best = std::numeric_limits<double>::infinity();  // seconds, of kRuns after one that warms up
};

Timed embed_repeatedly(const Session& session, const TokenBatch& batch) {
  Timed timed{session.embed(batch, session.pooling())};
  for (int run = 0; run < kRuns; ++run) {
    const Stopwatch watch;
    timed.vectors = session.embed(batch, session.pooling());
    timed.best = std::min(timed.best, watch.seconds());
  }
  return timed;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double worst = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a.as<float>()[i]} - double{b.as<float>()[i]});
    worst = std::isnan(difference) ? difference : std::max(worst, difference);
  }
  return worst;
}

}  // namespace

void show_padding(const DemoFiles& files, const Session& session, const DemoTexts& texts) {
  const Tokenizer tokenizer = Tokenizer::load(files.model);
  TokenBatch batch;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < std::min(kTexts, texts.sentences.size()); ++i) {
    const auto ids = tokenizer.encode(texts.sentences[i], session.max_tokens()).ids;
    batch.add(ids);
    longest = std::max(longest, ids.size());
  }
  const Session padded_session = load_session(files.model, {.device = files.device, .padded = true});
  const Timed unpadded = embed_repeatedly(session, batch), padded = embed_repeatedly(padded_session, batch);
  Table table({"", "tokens computed", "time", "speed-up"});
  table.add({"padded to the longest", fmt::format("{}", batch.texts() * static_cast<std::int64_t>(longest)),
             fmt::format("{:.1f} ms", padded.best * 1e3), "1.00"});
  table.add({"unpadded", fmt::format("{}", batch.ids.size()), fmt::format("{:.1f} ms", unpadded.best * 1e3),
             fmt::format("{:.2f}", padded.best / unpadded.best)});
  fmt::print("{}  largest difference between the vectors: {:.2g}\n", table.text(),
             largest_difference(padded.vectors, unpadded.vectors));
}

}  // namespace stof::cli
