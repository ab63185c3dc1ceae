// SPDX-License-Identifier: Apache-2.0
#include "cli/short_spins.h"

#include <stdlib.h>
#include <unistd.h>

#include <climits>

namespace stof::cli {
namespace {

constexpr const char *kSpins = "GOMP_SPINCOUNT", *kPolicy = "OMP_WAIT_POLICY", *kTurns = "1000";

}  // namespace

void spin_for_a_moment(char** arguments) {
  if (getenv(kSpins) != nullptr || getenv(kPolicy) != nullptr) return;
  // By its name: under an emulator or valgrind /proc/self/exe is another program.
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return;
  self[length] = '\0';
  if (setenv(kSpins, kTurns, 0) == 0) execv(self, arguments);
}

std::string thread_waiting() {
  for (const char* name : {kSpins, kPolicy})
    if (const char* value = getenv(name); value != nullptr) return std::string(name) + "=" + value;
  return {};
}

void forget_spins() { unsetenv(kSpins); }

}  // namespace stof::cli
