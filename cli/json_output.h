// SPDX-License-Identifier: Apache-2.0
// `--json F`: what a command found, with stable keys (docs/cli.md), into a file or, for "-", to stdout in place of
// text.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace stof::cli {

using Json = nlohmann::ordered_json;

// Both throw bad_file when the file cannot be made, device when the disk is full.
void write_json(const Json& value, const std::string& file);
void write_text(const std::string& text, const std::string& file);

}  // namespace stof::cli
