// SPDX-License-Identifier: Apache-2.0
// What was decided for one model, one size of call, one device: the scheme, and how each of its works is run. With it
// everything that the decision depends on, and where its numbers come from.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/hash.h"
#include "src/fusion/rules.h"

namespace stof {

struct PlanKey {
  std::string graph, mask;                        // fingerprints
  std::int64_t rows = 0, texts = 0, longest = 0;  // the bucket of calls
  std::string dtype = {}, device = {};            // "NVIDIA H200", "AMD EPYC 9B14 (AVX-512, bf16 dot product)"
  std::string weights = {};                       // fingerprint of those that results were compared with
  int cores = 0;
  std::string driver = {}, cuda = {}, blas = {}, library = {};  // versions; empty where there is none
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
  Fingerprint fingerprint() const;
  // Of graph, mask, dtype and bucket alone: what is asked, of whatever weights and on whatever machine. The same in
  // every format, so that a plan of another one is found and said to be.
  Fingerprint question() const;
};

// Empty when they agree, else the first part in which they differ: "device is 'NVIDIA A100'; here it is 'NVIDIA H200'".
std::string difference(const PlanKey& plan, const PlanKey& here);

struct PlannedWork {
  std::string work, setting;
  int count = 0;
  double us = 0, spread = 0;
  int runs = 0;
  std::string when = {};  // it was measured; empty: it was predicted
  friend bool operator==(const PlannedWork&, const PlannedWork&) = default;
};

// A whole model, end to end.
struct ConfirmedTime {
  // "default", "analytical", "tuned"; "tuned 2" is another scheme, "untuned" what a session runs where nothing is kept,
  // "refined" has other settings, "kept" is the plan that a search with a budget found kept.
  std::string what;
  std::string scheme;
  double us = 0, spread = 0, error = 0;  // the error is against the unfused model
  int runs = 0;
  friend bool operator==(const ConfirmedTime&, const ConfirmedTime&) = default;
};

struct FusionPlan {
  PlanKey key;
  std::string model, mask;  // for people: the folder's name, the mask's text
  Scheme scheme;
  std::string origin;  // "forced", or what of the confirmed won
  std::vector<PlannedWork> works;
  std::vector<ConfirmedTime> confirmed;
  std::string commit, when;
  friend bool operator==(const FusionPlan&, const FusionPlan&) = default;
};

// By work, of those that have one.
std::map<std::string, std::string> settings_of(const FusionPlan& plan);

nlohmann::ordered_json to_json(const FusionPlan& plan);
// Throws bad_file led by `name`: another version, something missing, a checksum that does not fit.
FusionPlan plan_from_json(std::string_view text, std::string_view name);

}  // namespace stof
