// SPDX-License-Identifier: Apache-2.0
// How long the works of a graph should take, without measuring any.
#pragma once
#include "src/fusion/search.h"
#include "stof/device.h"

namespace stof {

struct CostContext {
  const Device* device = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, texts = 1, longest = 0;  // of a call; as Bucket in src/runtime
  bool built_in_only = false;                     // nothing that would have to be compiled first
};

// Every way of running a work, the shortest prediction first. Matmuls: as the device's own model says; attention: as
// choose() says; rows: by the bytes that they read and write.
std::vector<Candidate> candidates_of(const Work& work, const CostContext& context);

// An oracle of predictions: its search takes no time and needs no device.
class Predictions final : public Oracle {
 public:
  explicit Predictions(const CostContext& context) : context_(context) {}
  std::vector<Candidate> candidates(const Work& work) override { return candidates_of(work, context_); }
  std::optional<double> measure(const Work&, const Candidate& candidate) override { return candidate.predicted_us; }
  bool has_time() override { return true; }

 private:
  CostContext context_;
};

}  // namespace stof
