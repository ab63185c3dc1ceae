// SPDX-License-Identifier: Apache-2.0
#include "src/base/matrix_registers.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace stof {

bool may_use_matrix_registers() {
#if defined(__x86_64__) && defined(__linux__)
  // clang 14 has no name for them that __builtin_cpu_supports() takes.
  constexpr unsigned kFeatures = 7, kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) == 0 || (d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

}  // namespace stof
