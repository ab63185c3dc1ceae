// SPDX-License-Identifier: Apache-2.0
// How much of its partial blocks a kernel that skips dead cells still computes: two masks of one density may differ in
// this by an order of magnitude (a band and scattered elements).
#pragma once
#include "src/mask/bind.h"

namespace stof {

// Share of a partial 64x64 block that lies in live cells: the mean over cells of 32 rows x 8 keys (scores) and of
// 8 rows x 8 keys (weighted values), from a fixed sample of at most 64 partial blocks; 1 when there is none.
double partial_live_share(const BoundMask& mask);

}  // namespace stof
