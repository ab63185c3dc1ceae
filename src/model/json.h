// SPDX-License-Identifier: Apache-2.0
// Strict JSON for files that nobody has checked: bounded in bytes, depth and values, duplicate keys refused, and
// getters whose messages name the file, the key, what was got and what is accepted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace stof {

struct JsonLimits {
  std::size_t bytes = std::size_t{64} << 20;
  std::size_t depth = 32;  // of nested objects and arrays
  std::size_t values = 4'000'000;
};

// `name` leads every message. Throws bad_file.
nlohmann::json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {});
nlohmann::json read_json(const std::filesystem::path& file, const JsonLimits& limits = {});

// As it stands in the file, cut to a length that a message can carry.
std::string excerpt(const nlohmann::json& value, std::size_t longest = 60);

// A view of one object; `where` leads its messages: the file, then the way to the object.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& value, std::string where);

  const std::string& where() const { return where_; }
  bool has(std::string_view key) const { return value_->contains(key); }
  const nlohmann::json& at(std::string_view key) const;
  JsonObject object(std::string_view key) const { return {at(key), where_ + ": " + std::string(key)}; }

  // Without a default the key is needed. A null counts as absent for optional_boolean alone.
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most,
                       std::optional<std::int64_t> otherwise = {}) const;
  double positive_number(std::string_view key, std::optional<double> otherwise = {}) const;
  bool boolean(std::string_view key, std::optional<bool> otherwise = {}) const;
  std::optional<bool> optional_boolean(std::string_view key) const;
  std::string string(std::string_view key, std::optional<std::string_view> otherwise = {}) const;

  // Refuses, by name, every key but these: what is not understood must not be ignored.
  void allow_only(std::initializer_list<std::string_view> keys) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view accepted) const;

 private:
  const nlohmann::json* find(std::string_view key) const;

  const nlohmann::json* value_;
  std::string where_;
};

// Whether a key is there and not null.
bool is_said(const JsonObject& object, std::string_view key);
// `key` becomes `other` where that is there. Throws bad_file where `key` is said, too, and differs.
void take_other_name(const JsonObject& object, std::string_view other, std::string_view& key);
// Throws unsupported: the value is understood, and not done.
[[noreturn]] void refuse(const JsonObject& object, std::string_view key, std::string_view accepted);

}  // namespace stof
