// SPDX-License-Identifier: Apache-2.0
// A whole encoder on texts of one length, dense and under masks, against what the machine's matmul could do.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/bench_model.h"
#include "cli/call_times.h"
#include "cli/encoder_split.h"
#include "cli/loading.h"
#include "cli/random_model.h"
#include "cli/reference_encoder.h"
#include "cli/waiting.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/median.h"
#include "src/mask/stats.h"
#include "src/tensor/npy.h"

namespace stof::cli {
namespace {

constexpr std::int64_t kRowsChecked = 24;  // of the first text
constexpr const char* kMaskOfLongest = "longformer(256,1)";

struct Case {
  std::array<std::int64_t, 2> shape;
  DType dtype;
  std::string mask;
  std::string id() const { return fmt::format("encoder ({},{}) {} {}", shape[0], shape[1], name_of(dtype), mask); }
};

std::vector<Case> cases_of(const ModelBench& bench) {
  std::int64_t longest = 0;
  for (const auto& shape : bench.shapes) longest = std::max(longest, shape[1]);
  std::vector<Case> cases;
  const std::vector<std::string> masks =
      bench.masks.empty() ? std::vector<std::string>{"all", kMaskOfLongest} : bench.masks;
  for (const DType dtype : bench.dtypes)
    for (const std::string& mask : masks)
      for (const auto& shape : bench.shapes)
        if (!bench.masks.empty() || mask == "all" || shape[1] == longest) cases.push_back({shape, dtype, mask});
  return cases;
}

TokenBatch tokens_of(const std::array<std::int64_t, 2>& shape, std::int64_t vocabulary) {
  TokenBatch batch;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape[1]));
  for (std::int64_t text = 0; text < shape[0]; ++text) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(splitmix64(static_cast<std::uint64_t>(text) * ids.size() + i) %
                                         static_cast<std::uint64_t>(vocabulary));
    batch.add(ids);
  }
  return batch;
}

double operations(const Model& model, const Case& one) {
  const ModelConfig& c = model.config;
  const auto tokens = static_cast<double>(one.shape[0] * one.shape[1]), hidden = static_cast<double>(c.hidden_size);
  const BoundMask mask(parse(one.mask), {.queries = one.shape[1], .keys = one.shape[1], .heads = c.heads});
  constexpr std::array kTile = {BlockSize{64, 64}};
  const double pairs = measure(mask, kTile).allowed_pairs * static_cast<double>(one.shape[0]);
  const double matmul = 2 * tokens * hidden * (4 * hidden + 2 * static_cast<double>(c.intermediate_size));
  return static_cast<double>(c.layers) * (matmul + 4 * pairs * hidden / static_cast<double>(c.heads));
}

// One layer at the timed shape, some of its rows against the definition: every layer runs the same kernels. Relative
// Frobenius error.
double check_layer(const Model& model, const Case& one, const SessionOptions& options, const TokenBatch& batch) {
  Model first = model;
  first.config.layers = 1;
  const Tensor hidden = Session(first, options).run(batch);
  std::vector<std::int64_t> wanted;
  for (std::int64_t i = 0; i < kRowsChecked; ++i) wanted.push_back(i * one.shape[1] / kRowsChecked);
  const std::span<const std::int32_t> ids(batch.ids.data(), static_cast<std::size_t>(one.shape[1]));
  const std::vector<double> expected = reference_encoder(first, ids, parse(one.mask), wanted);
  const std::int64_t columns = model.config.hidden_size;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const double got = hidden.as<float>()[wanted[static_cast<std::size_t>(at / columns)] * columns + at % columns];
    difference += (got - expected[i]) * (got - expected[i]);
    norm += expected[i] * expected[i];
  }
  const double error = std::sqrt(difference / norm), bound = one.dtype == DType::f32 ? 1e-5 : 1e-2;
  if (!(error < bound))
    fail(ErrorKind::internal, "bug in STOF: {}: a layer is wrong by {:.2e} of its norm; accepted: {:.0e}", one.id(),
         error, bound);
  return error;
}

void check_finite(const Tensor& hidden, const Case& one) {
  const float* values = hidden.as<float>();
  if (!std::all_of(values, values + hidden.size(), [](float value) { return std::isfinite(value); }))
    fail(ErrorKind::internal, "bug in STOF: {}: a hidden state is not finite", one.id());
}

// On the host in turns with the machine's fastest matmul, which slows down with the calls when others use the machine.
Json time_encoder(const std::function<void()>& call, double flop, const PeakMatmul* matmul, double seconds) {
  const auto measure = [&](double most) { return matmul != nullptr ? matmul->gflops_now(most) : 0.; };
  std::vector<double> us, beside, could_do;  // what the matmul would have done while a call ran
  for (const CallBeside& one : time_calls_beside(call, seconds, measure)) {
    us.push_back(one.us);
    beside.push_back(one.beside);
    could_do.push_back(one.us * one.beside);
  }
  const CallTimes times = times_of(us);
  Json row = json_of(times);
  row["gflops"] = 1e-3 * flop / times.median_us;
  if (matmul == nullptr) return row;
  row["matmul_beside_gflops"] = median_of(std::move(beside));
  row["share_of_matmul_beside"] = 1e-3 * flop / median_of(std::move(could_do));
  return row;
}

Model model_of(const ModelBench& bench) {
  const Waiting waiting(kLoading);
  if (!bench.encoder.empty()) return read_model(bench.encoder);
  std::int64_t longest = 1;
  for (const auto& shape : bench.shapes) longest = std::max(longest, shape[1]);
  return random_bert_base(longest, 1);
}

}  // namespace

void check_encoder(const ModelBench& bench) {
  if (bench.encoder.empty()) return;
  check_is_bert("--encoder", bench.encoder);
  if (read_config(bench.encoder).layers == 0)
    fail(ErrorKind::unsupported, "--encoder {}: 0 layers; accepted: 1 or more, of which one is checked", bench.encoder);
}

std::vector<std::string> encoder_rows(const ModelBench& bench) {
  std::vector<std::string> ids;
  for (const Case& one : cases_of(bench)) ids.push_back(one.id());
  return ids;
}

void bench_encoder(const ModelBench& bench, const Roofline& roofline, BenchResults& results, Progress& progress) {
  const Model model = model_of(bench);
  std::string built_for;
  std::unique_ptr<Session> session;
  for (const Case& one : cases_of(bench)) {
    if (results.find(one.id()) != nullptr) continue;
    const SessionOptions options{.device = bench.device, .dtype = one.dtype, .mask = parse(one.mask)};
    const std::string wanted = fmt::format("{} {}", name_of(one.dtype), one.mask);
    const TokenBatch batch = tokens_of(one.shape, model.config.vocab_size);
    const double error = check_layer(model, one, options, batch);
    if (built_for != wanted) {
      const Waiting waiting(kLoading);  // packs the weights
      session = std::make_unique<Session>(model, options);
    }
    built_for = wanted;
    Tensor hidden;
    const PeakMatmul* const matmul = roofline.matmul(one.dtype);
    const Json timed =
        time_encoder([&] { hidden = session->run(batch); }, operations(model, one), matmul, bench.seconds);
    check_finite(hidden, one);
    if (!bench.hidden_out.empty()) write_npy(bench.hidden_out, hidden.view());
    Json row{{"id", one.id()}, {"dtype", name_of(one.dtype)}, {"mask", one.mask}, {"shape", one.shape}};
    row.update(timed);
    row["share_of_matmul_peak"] = row["gflops"].get<double>() / roofline.gflops(one.dtype);
    row["layer_frobenius"] = error;
    if (bench.split) {
      STOF_CHECK(matmul != nullptr);  // of the CPU, without which --split is refused
      row["split"] = split_encoder(model, options, batch, *matmul, bench.seconds);
    }
    results.add(std::move(row));
    progress.advance(1);
  }
}

}  // namespace stof::cli
