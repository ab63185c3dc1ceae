// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/work_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/fusion/isolate.h"
#include "src/fusion/work.h"
#include "src/runtime/memory_plan.h"
#include "src/runtime/model_weights.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

constexpr std::int64_t kDistinctRows = 61;  // of an input, one after another: a prime, so that no tile has them alike
constexpr std::int64_t kSampledRows = 32;   // from the beginning, the middle and the end

// The plain operators round what lies between them to the dtype, too.
double most_error(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 4e-3 : 2e-2; }

Tensor distinct_rows(std::int64_t columns, DType dtype, std::uint64_t seed) {
  Tensor values(DType::f32, {kDistinctRows, columns});
  for (std::int64_t i = 0; i < values.size(); ++i)
    values.as<float>()[i] =
        static_cast<float>(splitmix64(seed * 0x10001 + static_cast<std::uint64_t>(i)) >> 40) * 0x1p-23f - 1.f;
  return converted(values.view(), dtype);
}

std::vector<float> moments_of_rows(const Tensor& rows) {
  const Tensor exact = converted(rows.view(), DType::f32);
  const auto columns = static_cast<std::size_t>(exact.shape()[1]);
  std::vector<float> all;
  for (std::int64_t row = 0; row < exact.shape()[0]; ++row) {
    const std::vector<float> moments = moments_of({exact.as<float>() + row * exact.shape()[1], columns});
    all.insert(all.end(), moments.begin(), moments.end());
  }
  return all;
}

std::vector<std::int64_t> first_samples(std::int64_t rows) {
  if (rows <= 3 * kSampledRows) return {0};
  return {0, rows / 2, rows - kSampledRows};
}

}  // namespace

// Anything else that is alone is done in one way only. A matmul in one of its settings is compared with the device's
// own choice.
bool may_be_wrong(const Node& node) { return is_fused(node) || std::holds_alternative<op::MatMul>(node.op); }

std::int64_t timing_bytes(const Work& work, DType dtype, std::int64_t rows) {
  std::int64_t columns = plan_arena(isolated(work.graph, work.node)).columns;
  if (may_be_wrong(work.node)) columns = std::max(columns, plan_arena(isolated_plain(work.graph, work.node)).columns);
  return columns * row_capacity(rows) * static_cast<std::int64_t>(size_of(dtype));
}

double relative_difference(std::span<const float> got, std::span<const float> want) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double apart = double{got[i]} - double{want[i]};
    difference += apart * apart;
    norm += double{want[i]} * double{want[i]};
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

std::vector<float> moments_of(std::span<const float> row) {
  std::vector<float> moments;
  for (std::size_t begin = 0; begin < row.size(); begin += kMomentColumns) {
    const auto piece = row.subspan(begin, std::min(row.size() - begin, static_cast<std::size_t>(kMomentColumns)));
    double mean = 0, squares = 0;
    for (const float value : piece) mean += value / static_cast<double>(piece.size());
    for (const float value : piece) squares += (value - mean) * (value - mean);
    moments.push_back(static_cast<float>(mean));
    moments.push_back(static_cast<float>(squares));
  }
  return moments;
}

WorkTimer::WorkTimer(const Work& work, const ProgramOptions& options, const EvenCall& call)
    : text_(work.text),
      graph_(isolated(work.graph, work.node)),
      dtype_(options.dtype),
      compares_(may_be_wrong(work.node)) {
  if (compares_) {
    const Graph plain = isolated_plain(work.graph, work.node);
    const Program program(plain, options);
    TimedCall unfused(program, call);
    fill_inputs(unfused, plain);
    unfused.run();
    want_ = sampled(unfused, plain.result, plain.value(plain.result).columns);
    no_reference_ = why_not_finite(want_, plain);
    pair_heads(work.node);
  }
  program_ = std::make_unique<Program>(graph_, options);
  call_ = std::make_unique<TimedCall>(*program_, call);
  fill_inputs(*call_, graph_);
}

// Every row that there is room for: what lies behind the values of a call is read as well, by tiles. The device repeats
// them itself: the rows of (16, 2048) are 200 MB for 3072 columns of f16, the distinct ones 0.4.
void WorkTimer::fill_inputs(TimedCall& call, const Graph& graph) const {
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<op::Input>(node.op)) continue;
    const Value& value = graph.value(node.output);
    const Tensor rows = distinct_rows(value.columns, dtype_, static_cast<std::uint64_t>(node.output) + 1);
    const std::int64_t all_bytes = value.columns * static_cast<std::int64_t>(size_of(dtype_)) * call.row_capacity();
    call.fill(node.output, {rows.as<std::byte>(), rows.bytes()}, 0, all_bytes);
    if (!value.moments) continue;
    const std::vector<float> moments = moments_of_rows(rows);
    call.fill(node.output, std::as_bytes(std::span(moments)), all_bytes,
              moments_bytes(call.row_capacity(), value.columns));
  }
}

// What was computed operator by operator, in the order in which a matmul stores heads that it turns.
void WorkTimer::pair_heads(const Node& node) {
  const std::optional<TurnedHeads> turned = linear_spec(node, dtype_, nullptr).turned;
  if (!turned) return;
  const std::vector<float> before = want_;
  const auto columns = static_cast<std::size_t>(graph_.value(graph_.result).columns);
  for (std::size_t row = 0; row < before.size(); row += columns)
    for (std::int64_t i = 0; i < turned->heads * turned->head_dim; ++i) {
      const std::int64_t of_head = i % turned->head_dim;
      const auto place = static_cast<std::size_t>(i - of_head + paired_column(of_head, turned->head_dim));
      want_[row + place] = before[row + static_cast<std::size_t>(i)];
    }
}

std::vector<float> WorkTimer::sampled(TimedCall& call, ValueId value, std::int64_t columns) const {
  std::vector<float> all;
  const auto row_bytes = columns * static_cast<std::int64_t>(size_of(dtype_));
  for (const std::int64_t first : first_samples(call.rows())) {
    const std::int64_t rows = std::min(call.rows() - first, 3 * kSampledRows);
    std::vector<std::byte> bytes = call.read(value, first * row_bytes, rows * row_bytes);
    const Tensor exact = converted(view_of(bytes.data(), dtype_, {rows, columns}), DType::f32);
    all.insert(all.end(), exact.as<float>(), exact.as<float>() + exact.size());
  }
  return all;
}

// Of the first sampled rows, as they were stored.
std::string WorkTimer::check_moments(TimedCall& call, const std::vector<float>& rows, std::int64_t columns) const {
  const std::int64_t count = std::min(call.rows(), kSampledRows), bytes = moments_bytes(count, columns);
  const auto row_bytes = columns * static_cast<std::int64_t>(size_of(dtype_));
  const std::vector<std::byte> got = call.read(graph_.result, row_bytes * call.row_capacity(), bytes);
  std::vector<float> moments(got.size() / sizeof(float)), want;
  std::memcpy(moments.data(), got.data(), got.size());
  for (std::int64_t row = 0; row < count; ++row) {
    const std::vector<float> of_row = moments_of({rows.data() + row * columns, static_cast<std::size_t>(columns)});
    want.insert(want.end(), of_row.begin(), of_row.end());
  }
  const double error = relative_difference(moments, want);
  return error <= 1e-4 ? "" : fmt::format("its moments are off by {:.1e}", error);
}

// Of what the call has computed; nothing where it is right.
std::string WorkTimer::why_wrong(double& error) {
  if (!compares_) return {};
  const std::int64_t columns = graph_.value(graph_.result).columns;
  const std::vector<float> got = sampled(*call_, graph_.result, columns);
  error = relative_difference(got, want_);
  if (!(error <= most_error(dtype_)))
    return fmt::format("off by {:.1e} from the unfused operators; accepted: {:.0e}", error, most_error(dtype_));
  return graph_.value(graph_.result).moments ? check_moments(*call_, got, columns) : std::string();
}

WorkOutcome WorkTimer::measure(const std::string& setting, std::optional<double> seconds) {
  if (!no_reference_.empty())
    return {.wrong = fmt::format("the unfused operators compute {}; accepted: finite numbers", no_reference_)};
  WorkOutcome outcome;
  try {
    if (!setting.empty()) program_->use(text_, matmul_setting_of(setting));
    call_->run();
    outcome.wrong = why_wrong(outcome.error);
    if (outcome.wrong.empty() && seconds) outcome.time = call_->time(Caches::cold, *seconds);
  } catch (const Error& error) {
    // The call itself is refused, or this is our mistake: no other setting does better.
    if (error.kind() == ErrorKind::internal || error.kind() == ErrorKind::invalid_argument) throw;
    outcome.wrong = error.what();
    outcome.lasting = false;  // memory, the compiler or its absence: of this run
  }
  return outcome;
}

}  // namespace stof
