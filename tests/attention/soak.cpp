// SPDX-License-Identifier: Apache-2.0
// Random problems by the thousand: tools/soak.sh runs many of these side by side. Says what differs from the definition
// and fails, or says nothing.
//   attention_soak DEVICE KERNEL FIRST_SEED PROBLEMS
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "tests/attention/random_problem.h"

namespace {

// Most masks fit their lengths: so many seeds for a problem mean that something else refuses them.
constexpr unsigned kSeedsPerProblem = 60;

int soak(const stof::Device& device, const std::string& kernel, unsigned first_seed, unsigned problems) {
  int wrong = 0;
  unsigned checked = 0;
  for (unsigned seed = first_seed; checked < problems; ++seed) {
    if (seed - first_seed == kSeedsPerProblem * problems) {
      fmt::print("seed {} {}: {} of {} seeds are problems\n", first_seed, kernel, checked, seed - first_seed);
      return 1;
    }
    const stof::RandomOutcome outcome = stof::try_random_problem(seed, device, kernel);
    checked += outcome.taken ? 1 : 0;
    if (outcome.wrong.empty()) continue;
    fmt::print("{}\n", outcome.wrong);
    wrong = 1;
  }
  return wrong;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    fmt::print(stderr, "usage: attention_soak DEVICE KERNEL FIRST_SEED PROBLEMS\n");
    return 2;
  }
  return soak(stof::open_device(arguments[1]), arguments[2], static_cast<unsigned>(std::stoul(arguments[3])),
              static_cast<unsigned>(std::stoul(arguments[4])));
}
