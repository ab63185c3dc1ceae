// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/plan.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "src/base/error.h"
#include "src/fusion/kept_number.h"
#include "src/model/json.h"

namespace stof {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::int64_t kFormat = 2;  // 1 knew no weights
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

struct TextField {
  const char* name;
  std::string PlanKey::*value;
};
constexpr std::array<TextField, 8> kTexts{{{"graph", &PlanKey::graph},
                                           {"mask", &PlanKey::mask},
                                           {"dtype", &PlanKey::dtype},
                                           {"device", &PlanKey::device},
                                           {"driver", &PlanKey::driver},
                                           {"cuda", &PlanKey::cuda},
                                           {"blas", &PlanKey::blas},
                                           {"library", &PlanKey::library}}};
struct NumberField {
  const char* name;
  std::int64_t PlanKey::*value;
};
constexpr std::array<NumberField, 3> kNumbers{
    {{"rows", &PlanKey::rows}, {"texts", &PlanKey::texts}, {"longest", &PlanKey::longest}}};

Ordered without_weights(const PlanKey& key) {
  Ordered json = Ordered::object();
  for (const TextField& field : kTexts) json[field.name] = key.*field.value;
  for (const NumberField& field : kNumbers) json[field.name] = key.*field.value;
  json["cores"] = key.cores;
  return json;
}

Ordered json_of(const PlanKey& key) {
  Ordered json = without_weights(key);
  json["weights"] = key.weights;
  return json;
}

PlanKey key_of(const JsonObject& json) {
  PlanKey key;
  for (const TextField& field : kTexts) key.*field.value = json.string(field.name);
  for (const NumberField& field : kNumbers) key.*field.value = json.integer(field.name, 1, kMost);
  key.cores = static_cast<int>(json.integer("cores", 1, kMost));
  key.weights = json.string("weights");
  return key;
}

double number(const JsonObject& json, std::string_view key) {
  const nlohmann::json& value = json.at(key);
  if (!value.is_number() || !(value.get<double>() >= 0)) json.refuse(key, "a number from 0 on");
  return value.get<double>();
}

// Of everything but itself, with sorted keys.
std::string checksum_of(nlohmann::json json) {
  json.erase("checksum");
  return fingerprint_of(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).hex();
}

const nlohmann::json& list(const JsonObject& json, std::string_view key) {
  const nlohmann::json& value = json.at(key);
  if (!value.is_array()) json.refuse(key, "a list");
  return value;
}

// Whether it fits a model only the model can tell.
Scheme scheme_in(const JsonObject& json) {
  Scheme scheme{strings_of(json.string("scheme"))};
  for (const std::string& bits : scheme.bits)
    if (!bits.starts_with('0') || bits.find_first_not_of("01") != std::string::npos)
      json.refuse("scheme", "0 and 1, 0 first, as in 0011, for each kind of block");
  return scheme;
}

}  // namespace

Fingerprint PlanKey::fingerprint() const { return fingerprint_of(json_of(*this).dump()); }

Fingerprint PlanKey::question() const {
  PlanKey asked = *this;
  asked.device = asked.driver = asked.cuda = asked.blas = asked.library = "";
  asked.cores = 0;
  return fingerprint_of(without_weights(asked).dump());
}

std::string difference(const PlanKey& plan, const PlanKey& here) {
  for (const TextField& field : kTexts)
    if (plan.*field.value != here.*field.value)
      return fmt::format("{} is '{}'; here it is '{}'", field.name, plan.*field.value, here.*field.value);
  for (const NumberField& field : kNumbers)
    if (plan.*field.value != here.*field.value)
      return fmt::format("{} is {}; here it is {}", field.name, plan.*field.value, here.*field.value);
  if (plan.cores != here.cores) return fmt::format("cores is {}; here it is {}", plan.cores, here.cores);
  if (plan.weights != here.weights)
    return fmt::format("its weights are '{}'; here they are '{}'", plan.weights, here.weights);
  return {};
}

std::map<std::string, std::string> settings_of(const FusionPlan& plan) {
  std::map<std::string, std::string> settings;
  for (const PlannedWork& work : plan.works)
    if (!work.setting.empty()) settings[work.work] = work.setting;
  return settings;
}

Ordered to_json(const FusionPlan& plan) {
  Ordered works = Ordered::array(), confirmed = Ordered::array();
  for (const PlannedWork& work : plan.works)
    works.push_back({{"work", work.work},
                     {"setting", work.setting},
                     {"count", work.count},
                     {"us", kept_number(work.us)},
                     {"spread", kept_number(work.spread)},
                     {"runs", work.runs},
                     {"when", work.when}});
  for (const ConfirmedTime& time : plan.confirmed)
    confirmed.push_back({{"what", time.what},
                         {"scheme", time.scheme},
                         {"us", kept_number(time.us)},
                         {"spread", kept_number(time.spread)},
                         {"runs", time.runs},
                         {"error", kept_number(time.error)}});
  Ordered json{{"format", kFormat}, {"key", json_of(plan.key)},     {"model", plan.model},
               {"mask", plan.mask}, {"scheme", plan.scheme.text()}, {"origin", plan.origin},
               {"works", works},    {"confirmed", confirmed},       {"commit", plan.commit},
               {"when", plan.when}};
  json["checksum"] = checksum_of(nlohmann::json(json));
  return json;
}

FusionPlan plan_from_json(std::string_view text, std::string_view name) {
  const nlohmann::json tree = parse_json(text, name);
  const JsonObject json(tree, std::string(name));
  if (const std::int64_t format = json.integer("format", 0, kMost); format != kFormat)
    fail(ErrorKind::bad_file, "{}: a plan of format {}; accepted: {}", name, format, kFormat);
  if (json.string("checksum") != checksum_of(tree)) fail(ErrorKind::bad_file, "{}: its checksum does not fit", name);
  FusionPlan plan{.key = key_of(json.object("key")),
                  .model = json.string("model"),
                  .mask = json.string("mask"),
                  .scheme = scheme_in(json),
                  .origin = json.string("origin"),
                  .works = {},
                  .confirmed = {},
                  .commit = json.string("commit"),
                  .when = json.string("when")};
  for (const nlohmann::json& entry : list(json, "works")) {
    const JsonObject work(entry, fmt::format("{}: works", name));
    plan.works.push_back({.work = work.string("work"),
                          .setting = work.string("setting"),
                          .count = static_cast<int>(work.integer("count", 1, kMost)),
                          .us = number(work, "us"),
                          .spread = number(work, "spread"),
                          .runs = static_cast<int>(work.integer("runs", 0, kMost)),
                          .when = work.string("when")});
  }
  for (const nlohmann::json& entry : list(json, "confirmed")) {
    const JsonObject time(entry, fmt::format("{}: confirmed", name));
    plan.confirmed.push_back({.what = time.string("what"),
                              .scheme = time.string("scheme"),
                              .us = number(time, "us"),
                              .spread = number(time, "spread"),
                              .error = number(time, "error"),
                              .runs = static_cast<int>(time.integer("runs", 0, kMost))});
  }
  return plan;
}

}  // namespace stof
