// SPDX-License-Identifier: Apache-2.0
// The instruction sets that every Highway file here is compiled for: SSE4 (the baseline), AVX2 and AVX3 (AVX-512).
// Include before any Highway header. The others differ too little to pay for their compile time.
#pragma once
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
