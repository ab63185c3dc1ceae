// SPDX-License-Identifier: Apache-2.0
// Times one work of a graph by itself, in each of its settings, after comparing what it computes with the same work
// done operator by operator.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "src/fusion/search.h"
#include "src/runtime/timed_call.h"

namespace stof {

struct WorkOutcome {
  std::string wrong;    // why it must not be used; empty: the time holds
  bool lasting = true;  // false: another time it may do better, as where memory was short or a compiler refused it
  CallTime time = {};
  double error = 0;  // of sampled rows against the unfused work: Frobenius norm of the difference, relative
};

class WorkTimer {
 public:
  WorkTimer(const Work& work, const ProgramOptions& options, const EvenCall& call);

  // `setting` as candidates_of() names it. Cold caches on a device that has them apart. Without seconds it is compared
  // and not timed.
  WorkOutcome measure(const std::string& setting, std::optional<double> seconds);

 private:
  void fill_inputs(TimedCall& call, const Graph& graph) const;
  void pair_heads(const Node& node);
  std::vector<float> sampled(TimedCall& call, ValueId value, std::int64_t columns) const;
  std::string why_wrong(double& error);
  std::string check_moments(TimedCall& call, const std::vector<float>& rows, std::int64_t columns) const;

  std::string text_;
  Graph graph_;
  DType dtype_;
  bool compares_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<TimedCall> call_;
  std::vector<float> want_;
  std::string no_reference_;  // why nothing can be compared with want_
};

// Activations that a timer of the work holds at most, for a call of so many rows.
std::int64_t timing_bytes(const Work& work, DType dtype, std::int64_t rows);

// Whether results of a node are compared: else it is done in one way only.
bool may_be_wrong(const Node& node);

// Frobenius norm of the difference, relative to that of `want`.
double relative_difference(std::span<const float> got, std::span<const float> want);

// Of so many columns: what WorkTimer compares by. Means, and sums of squared distances from them, of pieces of a row.
std::vector<float> moments_of(std::span<const float> row);

}  // namespace stof
