// SPDX-License-Identifier: Apache-2.0
#include "cli/compile_pool.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>

#include "src/base/error.h"

namespace stof::cli {

void run_beside(const std::vector<std::string>& arguments, int processes) {
  std::vector<pid_t> started;
  for (int index = 0; index < processes; ++index) {
    std::vector<std::string> words{"stof"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--compile", fmt::format("{},{}", index, processes)});
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    pid_t process = 0;
    if (posix_spawn(&process, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ) == 0)
      started.push_back(process);
  }
  for (const pid_t process : started) waitpid(process, nullptr, 0);
}

Share share_of(const std::string& text) {
  Share share;
  const char* const end = text.data() + text.size();
  const auto [comma, first] = std::from_chars(text.data(), end, share.index);
  if (first == std::errc() && comma != end && *comma == ',') {
    const auto [rest, second] = std::from_chars(comma + 1, end, share.of);
    if (second == std::errc() && rest == end && share.index >= 0 && share.index < share.of) return share;
  }
  fail(ErrorKind::invalid_argument, "--compile {}; accepted: INDEX,PROCESSES", text);
}

}  // namespace stof::cli
