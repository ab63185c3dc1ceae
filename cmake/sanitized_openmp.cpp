// SPDX-License-Identifier: Apache-2.0
// LLVM's OpenMP library registers each process under its number in shared memory and reads what it finds there. A
// process that was killed leaves its registration, empty if it had just begun: the next one of that number would end
// with a bus error. Programs of the sanitizers' builds, whose tests kill many, begin by removing what is not theirs.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

namespace {

[[gnu::constructor]] void remove_what_a_killed_process_left() {
  char name[64];
  std::snprintf(name, sizeof name, "/__KMP_REGISTERED_LIB_%ld_%ld", long{getpid()}, static_cast<long>(getuid()));
  shm_unlink(name);
}

}  // namespace
