// SPDX-License-Identifier: Apache-2.0
// Sentences to vectors with a checkpoint, tokenisation included: many in batches, one at a time, and the first one of
// a new process.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "cli/bench_model.h"
#include "cli/call_times.h"
#include "cli/first_embedding.h"
#include "cli/loading.h"
#include "cli/reference_encoder.h"
#include "cli/text_lines.h"
#include "src/base/error.h"
#include "src/model/tokenizer.h"

namespace stof::cli {
namespace {

constexpr std::size_t kChecked = 8;                    // sentences that the reference computes
constexpr double kF32Bound = 1e-5, kBf16Bound = 1e-3;  // 1 - cosine

std::string throughput_id(DType dtype, std::int64_t batch) {
  return fmt::format("sentences {} batch {}", name_of(dtype), batch);
}
std::string latency_id(DType dtype) { return fmt::format("one sentence {}", name_of(dtype)); }
std::string start_id(DType dtype) { return fmt::format("first embedding {}", name_of(dtype)); }

// The one whose length is the median.
const std::string& middle_sentence(std::vector<std::string>& sentences) {
  const auto middle = sentences.begin() + std::ssize(sentences) / 2;
  std::nth_element(sentences.begin(), middle, sentences.end(),
                   [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  return *middle;
}

// Of the mean or the maxima over all tokens, of the first one or of the last one.
std::vector<double> reference_vector(const Model& model, std::span<const std::int32_t> ids, Pooling pooling) {
  const bool one = pooling == Pooling::cls || pooling == Pooling::last;
  std::vector<std::int64_t> wanted(one ? 1 : ids.size());
  std::iota(wanted.begin(), wanted.end(), pooling == Pooling::last ? std::ssize(ids) - 1 : 0);
  const std::vector<double> hidden = reference_encoder(model, ids, all(), wanted);
  const auto columns = static_cast<std::size_t>(model.config.hidden_size);
  std::vector<double> pooled(columns, pooling == Pooling::max ? -INFINITY : 0.0);
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    double& value = pooled[i % columns];
    value = pooling == Pooling::max ? std::max(value, hidden[i]) : value + hidden[i];
  }
  return pooled;  // the mean is the sum up to a factor, which a cosine does not see
}

double cosine_distance(const float* a, std::span<const double> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += b[i] * b[i];
  }
  return 1 - ab / std::sqrt(aa * bb);
}

// The largest distance of a sentence from the reference.
double check_sentences(const Model& model, const Tokenizer& tokenizer, const Session& session,
                       const std::vector<std::string>& sentences, DType dtype) {
  const Tensor values = session.embed(sentences).values;
  double worst = 0;
  for (std::size_t i = 0; i < std::min(kChecked, sentences.size()); ++i) {
    const std::size_t at = i * sentences.size() / std::min(kChecked, sentences.size());
    const std::vector<std::int32_t> ids = tokenizer.encode(sentences[at], session.max_tokens()).ids;
    const double distance = cosine_distance(values.as<float>() + static_cast<std::int64_t>(at) * session.hidden_size(),
                                            reference_vector(model, ids, session.pooling()));
    worst = std::isnan(distance) ? distance : std::max(worst, distance);
  }
  const double bound = dtype == DType::f32 ? kF32Bound : kBf16Bound;
  if (!(worst < bound))
    fail(ErrorKind::internal,
         "bug in STOF: an embedding in {} is {:.2e} from the reference (1 - cosine); accepted: {:.0e}", name_of(dtype),
         worst, bound);
  return worst;
}

void bench_dtype(const ModelBench& bench, DType dtype, const std::vector<std::string>& sentences, BenchResults& results,
                 Progress& progress) {
  const Session session = load_session(bench.model, {.device = bench.device, .dtype = dtype});
  const double distance =
      check_sentences(read_model(bench.model), Tokenizer::load(bench.model), session, sentences, dtype);
  const auto row = [&](const std::string& id, const CallTimes& times, const Json& more) {
    Json made{{"id", id}, {"dtype", name_of(dtype)}};
    made.update(json_of(times));
    made["cosine"] = 1 - distance;
    made.update(more);
    results.add(std::move(made));
    progress.advance(1);
  };
  for (const std::int64_t batch : bench.batches) {
    if (results.find(throughput_id(dtype, batch)) != nullptr) continue;
    const CallTimes times = time_calls([&] { session.embed(sentences, {.batch = batch}); }, bench.seconds);
    row(throughput_id(dtype, batch), times,
        {{"batch", batch}, {"sentences_per_s", 1e6 * static_cast<double>(sentences.size()) / times.median_us}});
  }
  if (results.find(latency_id(dtype)) == nullptr) {
    std::vector<std::string> sorted = sentences;
    const std::vector<std::string> one = {middle_sentence(sorted)};
    const double alone = check_sentences(read_model(bench.model), Tokenizer::load(bench.model), session, one, dtype);
    row(latency_id(dtype), time_calls([&] { session.embed(one); }, bench.seconds), {{"cosine", 1 - alone}});
  }
}

std::vector<std::string> sentences_of(const ModelBench& bench) {
  if (!std::filesystem::exists(bench.input))
    fail(ErrorKind::bad_file, "there is no {}; --input names a file with one sentence a line", bench.input);
  std::vector<std::string> sentences = read_input(bench.input);
  if (sentences.empty()) fail(ErrorKind::bad_file, "{}: no sentence in it", bench.input);
  return sentences;
}

}  // namespace

std::vector<std::string> start_rows(const ModelBench& bench) {
  std::vector<std::string> ids;
  for (const DType dtype : bench.dtypes) ids.push_back(start_id(dtype));
  return ids;
}

std::vector<std::string> sentence_rows(const ModelBench& bench) {
  std::vector<std::string> ids = start_rows(bench);
  for (const DType dtype : bench.dtypes) {
    for (const std::int64_t batch : bench.batches) ids.push_back(throughput_id(dtype, batch));
    ids.push_back(latency_id(dtype));
  }
  return ids;
}

void bench_start(const ModelBench& bench, BenchResults& results, Progress& progress) {
  std::vector<std::string> sentences = sentences_of(bench);
  const std::string middle = middle_sentence(sentences);
  for (const DType dtype : bench.dtypes) {
    if (results.find(start_id(dtype)) != nullptr) continue;
    const FirstEmbedding first = first_embedding(
        {.model = bench.model, .text = middle, .dtype = std::string(name_of(dtype)), .device = bench.device});
    results.add({{"id", start_id(dtype)},
                 {"dtype", name_of(dtype)},
                 {"seconds", first.seconds},
                 {"megabytes", first.megabytes},
                 {"measured", first.measured},
                 {"compiled", first.compiled}});
    progress.advance(1);
  }
}

void bench_sentences(const ModelBench& bench, BenchResults& results, Progress& progress) {
  // Before this process holds a model: what a process took until it began another program counts as that one's.
  bench_start(bench, results, progress);
  const std::vector<std::string> sentences = sentences_of(bench);
  for (const DType dtype : bench.dtypes) bench_dtype(bench, dtype, sentences, results, progress);
}

}  // namespace stof::cli
