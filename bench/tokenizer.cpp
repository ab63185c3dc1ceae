// SPDX-License-Identifier: Apache-2.0
// How fast text becomes token ids, on one thread: loading the tokenizer, then each line of each file, as JSON on
// stdout. bench/peers/tokenizer.py gives the same rows for the Python package `tokenizers`; equal `tokens` and `id_sum`
// say that both did the same work.
#include "src/model/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

constexpr int kRuns = 15;
constexpr double kSecondsPerRun = 0.1;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Pass {
  std::int64_t tokens = 0, id_sum = 0;
};

Pass encode_all(const stof::Tokenizer& tokenizer, const std::vector<std::string>& lines) {
  Pass pass;
  for (const std::string& line : lines) {
    const std::vector<std::int32_t> ids = tokenizer.encode(line);
    pass.tokens += static_cast<std::int64_t>(ids.size());
    for (const std::int32_t id : ids) pass.id_sum += id;
  }
  return pass;
}

nlohmann::json time_file(const stof::Tokenizer& tokenizer, const char* path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  std::size_t bytes = 0;
  for (std::string line; std::getline(file, line); lines.push_back(line)) bytes += line.size();
  std::vector<double> rates;  // MB/s
  const Pass pass = encode_all(tokenizer, lines);
  for (int run = 0; run < kRuns; ++run) {
    int passes = 0;
    const auto begin = std::chrono::steady_clock::now();
    do encode_all(tokenizer, lines);
    while (++passes, seconds_since(begin) < kSecondsPerRun);
    rates.push_back(static_cast<double>(bytes) * passes / seconds_since(begin) / 1e6);
  }
  std::sort(rates.begin(), rates.end());
  return {{"file", path},
          {"lines", lines.size()},
          {"bytes", bytes},
          {"tokens", pass.tokens},
          {"id_sum", pass.id_sum},
          {"mb_per_s", rates[kRuns / 2]},
          {"best_mb_per_s", rates.back()}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_tokenizer MODEL FILE...\n");
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  const stof::Tokenizer tokenizer = stof::Tokenizer::load(argv[1]);
  const double load_ms = 1e3 * seconds_since(begin);
  nlohmann::json rows = nlohmann::json::array();
  for (int i = 2; i < argc; ++i) rows.push_back(time_file(tokenizer, argv[i]));
  fmt::print("{}\n", nlohmann::json{{"threads", 1}, {"load_ms", load_ms}, {"rows", rows}}.dump(1));
}
