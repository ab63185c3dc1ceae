// SPDX-License-Identifier: Apache-2.0
#include "src/model/json.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "src/base/error.h"
#include "src/model/file_map.h"

namespace stof {
namespace {

using nlohmann::json;

// Builds the tree and counts as it goes, so that a hostile file is refused before it has become one.
class Builder final : public nlohmann::json_sax<json> {
 public:
  Builder(std::string_view name, const JsonLimits& limits) : name_(name), limits_(limits) {}

  json tree;
  std::size_t error_byte = 0;
  bool number_too_large = false;

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(std::int64_t value) override { return add(value) != nullptr; }
  bool number_unsigned(std::uint64_t value) override { return add(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return add(value) != nullptr; }
  bool string(std::string& value) override { return add(std::move(value)) != nullptr; }
  bool binary(json::binary_t&) override { return false; }  // not in text
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    const auto [member, added] = open_.back()->get_ref<json::object_t&>().try_emplace(std::move(name));
    if (!added) fail(ErrorKind::bad_file, "{}: the name '{}' appears twice", name_, member->first);
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOutOfRange = 406;
    number_too_large = error.id == kNumberOutOfRange;
    error_byte = byte;
    return false;
  }

 private:
  json* add(json value) {
    if (++values_ > limits_.values) fail(ErrorKind::bad_file, "{}: JSON of more than {} values", name_, limits_.values);
    json* place = open_.empty() ? &tree : member_;
    if (!open_.empty() && open_.back()->is_array()) place = &open_.back()->emplace_back();
    *place = std::move(value);
    return place;
  }
  bool open(json value) {
    open_.push_back(add(std::move(value)));
    if (open_.size() > limits_.depth)
      fail(ErrorKind::bad_file, "{}: JSON nested deeper than {} levels", name_, limits_.depth);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view name_;
  const JsonLimits& limits_;
  std::vector<json*> open_;  // objects and arrays, outermost first
  json* member_ = nullptr;   // the value of the last key
  std::size_t values_ = 0;
};

}  // namespace

json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    fail(ErrorKind::bad_file, "{}: {} bytes of JSON; accepted: at most {}", name, text.size(), limits.bytes);
  if (text.empty()) fail(ErrorKind::bad_file, "{}: empty; accepted: JSON", name);
  Builder builder(name, limits);
  if (json::sax_parse(text, &builder)) return std::move(builder.tree);
  if (builder.number_too_large) fail(ErrorKind::bad_file, "{}: a number beyond the range of double", name);
  fail(ErrorKind::bad_file, "{}: not valid JSON at byte {} of {}", name, std::min(builder.error_byte, text.size()),
       text.size());
}

json read_json(const std::filesystem::path& file, const JsonLimits& limits) {
  const FileMap map(file);
  return parse_json(map.text(), file.string(), limits);
}

std::string excerpt(const json& value, std::size_t longest) {
  if (value.is_structured() && value.size() > longest)
    return fmt::format("{} of {} entries", value.type_name(), value.size());
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > longest) text.replace(longest, std::string::npos, "...");
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
  constexpr double kLeast = std::numeric_limits<float>::min(), kMost = std::numeric_limits<float>::max();
  if (value.get<double>() < kLeast || value.get<double>() > kMost) refuse(key, "1.2e-38 to 3.4e38, as floats are");
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

void take_other_name(const JsonObject& object, std::string_view other, std::string_view& key) {
  if (other == key || !object.has(other)) return;
  if (is_said(object, key) && object.at(key) != object.at(other))
    fail(ErrorKind::bad_file, "{}: '{}' is {}, and '{}' is {}; accepted: one of them, or the same twice",
         object.where(), key, excerpt(object.at(key)), other, excerpt(object.at(other)));
  key = other;
}

bool is_said(const JsonObject& object, std::string_view key) { return object.has(key) && !object.at(key).is_null(); }

void refuse(const JsonObject& object, std::string_view key, std::string_view accepted) {
  fail(ErrorKind::unsupported, "{}: '{}' is {}; accepted: {}", object.where(), key, excerpt(object.at(key)), accepted);
}

void JsonObject::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : value_->items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(ErrorKind::unsupported, "{}: '{}' is not understood; accepted: {}", where_, key, fmt::join(keys, ", "));
}

}  // namespace stof
