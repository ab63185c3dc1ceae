// SPDX-License-Identifier: Apache-2.0
#include "src/model/json.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "src/base/error.h"
#include "src/model/file_map.h"

namespace stof {
namespace {

using nlohmann::json;

// Watches the parser's events, so that a hostile file is refused before it has become a tree.
class Guard {
 public:
  Guard(std::string_view name, const JsonLimits& limits) : name_(name), limits_(limits) {}

  bool operator()(json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    switch (event) {
      case Event::object_start:
      case Event::array_start: open(); break;
      case Event::object_end:
      case Event::array_end: keys_.pop_back(); break;
      case Event::key: add_key(parsed.get_ref<const std::string&>()); break;
      case Event::value: count(); break;
    }
    return true;
  }

 private:
  void open() {
    count();
    keys_.emplace_back();
    if (keys_.size() > limits_.depth)
      fail(ErrorKind::bad_file, "{}: JSON nested deeper than {} levels", name_, limits_.depth);
  }
  void count() {
    if (++values_ > limits_.values) fail(ErrorKind::bad_file, "{}: JSON of more than {} values", name_, limits_.values);
  }
  void add_key(const std::string& key) {
    if (!keys_.back().insert(key).second) fail(ErrorKind::bad_file, "{}: the name '{}' appears twice", name_, key);
  }

  std::string_view name_;
  const JsonLimits& limits_;
  std::vector<std::set<std::string>> keys_;  // of each open object
  std::size_t values_ = 0;
};

}  // namespace

json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    fail(ErrorKind::bad_file, "{}: {} bytes of JSON; accepted: at most {}", name, text.size(), limits.bytes);
  Guard guard(name, limits);
  try {
    return json::parse(text, [&](int, json::parse_event_t event, json& parsed) { return guard(event, parsed); });
  } catch (const json::parse_error& error) {
    fail(ErrorKind::bad_file, "{}: not valid JSON at byte {} of {}", name, error.byte, text.size());
  } catch (const json::out_of_range&) {  // a number like 1e999
    fail(ErrorKind::bad_file, "{}: a number beyond the range of double", name);
  }
}

json read_json(const std::filesystem::path& file, const JsonLimits& limits) {
  const FileMap map(file);
  return parse_json(map.text(), file.string(), limits);
}

std::string excerpt(const json& value) {
  constexpr std::size_t kLongest = 60;
  if (value.is_structured() && value.size() > kLongest)
    return fmt::format("{} of {} entries", value.type_name(), value.size());
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kLongest) text.replace(kLongest, std::string::npos, "...");
  return text;
}

JsonObject::JsonObject(const json& value, std::string where) : value_(&value), where_(std::move(where)) {
  if (!value.is_object()) fail(ErrorKind::bad_file, "{}: {}; accepted: an object", where_, excerpt(value));
}

const json* JsonObject::find(std::string_view key) const {
  const auto found = value_->find(key);
  return found == value_->end() ? nullptr : &*found;
}

const json& JsonObject::at(std::string_view key) const {
  if (const json* value = find(key)) return *value;
  fail(ErrorKind::bad_file, "{}: '{}' is missing", where_, key);
}

void JsonObject::refuse(std::string_view key, std::string_view accepted) const {
  fail(ErrorKind::bad_file, "{}: '{}' is {}; accepted: {}", where_, key, excerpt(at(key)), accepted);
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t least, std::int64_t most,
                                 std::optional<std::int64_t> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = at(key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || std::in_range<std::int64_t>(value.get<std::uint64_t>()));
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    refuse(key, fmt::format("an integer from {} to {}", least, most));
  return value.get<std::int64_t>();
}

double JsonObject::positive_number(std::string_view key, std::optional<double> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = at(key);
  if (!value.is_number() || !(value.get<double>() > 0)) refuse(key, "a number above 0");
  return value.get<double>();
}

bool JsonObject::boolean(std::string_view key, std::optional<bool> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = at(key);
  if (!value.is_boolean()) refuse(key, "true, false");
  return value.get<bool>();
}

std::optional<bool> JsonObject::optional_boolean(std::string_view key) const {
  const json* value = find(key);
  if (!value || value->is_null()) return {};
  if (!value->is_boolean()) refuse(key, "true, false, null");
  return value->get<bool>();
}

std::string JsonObject::string(std::string_view key, std::optional<std::string_view> otherwise) const {
  if (otherwise && !has(key)) return std::string(*otherwise);
  const json& value = at(key);
  if (!value.is_string()) refuse(key, "a string");
  return value.get<std::string>();
}

void JsonObject::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : value_->items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(ErrorKind::unsupported, "{}: '{}' is not understood; accepted: {}", where_, key, fmt::join(keys, ", "));
}

}  // namespace stof
