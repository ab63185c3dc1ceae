// SPDX-License-Identifier: Apache-2.0
// The activations of CUDA kernels by number, as parameters and template arguments have them.
#pragma once

namespace stof::cuda {

enum ActivationCode : int { kNoActivation, kGelu, kGeluTanh, kSilu, kRelu, kTanh };

}  // namespace stof::cuda
