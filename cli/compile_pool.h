// SPDX-License-Identifier: Apache-2.0
// Kernels that a search may want are compiled by processes beside each other before it begins: the run-time compiler
// does one at a time in a process. They meet in the kernel cache.
#pragma once
#include <string>
#include <vector>

namespace stof::cli {

// This program with these arguments, `processes` times, each with "--compile INDEX,PROCESSES" behind. A process that
// fails costs its share, which is compiled when it is wanted.
void run_beside(const std::vector<std::string>& arguments, int processes);

struct Share {
  int index = 0, of = 1;
};
// "INDEX,PROCESSES". Throws invalid_argument.
Share share_of(const std::string& text);

}  // namespace stof::cli
