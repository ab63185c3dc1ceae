// SPDX-License-Identifier: Apache-2.0
// Compiled kernels by name: from the library, from the cache, or from the run-time compiler; loaded once a GPU.
#pragma once
#include <string>
#include <string_view>

#include "src/backend/cuda/driver/kernel.h"
#include "stof/device.h"

namespace stof::cuda {

// Entry points of the units of kernels/cuda/instances.cmake.
inline constexpr std::string_view kStreamEntry =
    "_ZN4stof4cuda23stream_attention_kernelINS0_8InstanceEEEvNS0_13AttentionMapsENT_6ParamsE";
inline constexpr std::string_view kListedStreamEntry =
    "_ZN4stof4cuda23stream_attention_kernelINS0_14ListedInstanceEEEvNS0_13AttentionMapsENT_6ParamsE";
inline constexpr std::string_view kStreamSumEntry =
    "_ZN4stof4cuda17stream_sum_kernelINS0_14ListedInstanceEEEvNT_6ParamsE";
inline constexpr std::string_view kPagedStreamEntry =
    "_ZN4stof4cuda23stream_attention_kernelINS0_13PagedInstanceEEEvNS0_13AttentionMapsENT_6ParamsE";
inline constexpr std::string_view kBandEntry =
    "_ZN4stof4cuda21band_attention_kernelINS0_8InstanceEEEvNS0_13AttentionMapsENT_6ParamsE";
inline constexpr std::string_view kGatherEntry =
    "_ZN4stof4cuda23gather_attention_kernelINS0_8InstanceEEEvNS0_13AttentionMapsENS0_12GatherParamsE";
inline constexpr std::string_view kRaggedGatherEntry =
    "_ZN4stof4cuda23gather_attention_kernelINS0_14RaggedInstanceEEEvNS0_13AttentionMapsENS0_12GatherParamsE";
inline constexpr std::string_view kRaggedBandEntry =
    "_ZN4stof4cuda21band_attention_kernelINS0_14RaggedInstanceEEEvNS0_13AttentionMapsENT_6ParamsE";
inline constexpr std::string_view kPagedBandEntry =
    "_ZN4stof4cuda21band_attention_kernelINS0_13PagedInstanceEEEvNS0_13AttentionMapsENT_6ParamsE";
inline constexpr std::string_view kMmaEntry = "_ZN4stof4cuda20mma_attention_kernelINS0_8InstanceEEEvNS0_9MmaParamsE";
inline constexpr std::string_view kPackedMmaEntry =
    "_ZN4stof4cuda20mma_attention_kernelINS0_14PackedInstanceEEEvNS0_9MmaParamsE";
inline constexpr std::string_view kPagedMmaEntry =
    "_ZN4stof4cuda20mma_attention_kernelINS0_13PagedInstanceEEEvNS0_9MmaParamsE";
inline constexpr std::string_view kPagedPackedMmaEntry =
    "_ZN4stof4cuda20mma_attention_kernelINS0_19PagedPackedInstanceEEEvNS0_9MmaParamsE";

inline constexpr std::string_view kDecodeEntry =
    "_ZN4stof4cuda23decode_attention_kernelINS0_8InstanceEEEvNS0_12DecodeParamsE";
inline constexpr std::string_view kDecodeTwoEntry =
    "_ZN4stof4cuda23decode_attention_kernelINS0_11TwoRowWarpsEEEvNS0_12DecodeParamsE";
inline constexpr std::string_view kDecodeFourEntry =
    "_ZN4stof4cuda23decode_attention_kernelINS0_12FourRowWarpsEEEvNS0_12DecodeParamsE";
inline constexpr std::string_view kDecodeTreeEntry =
    "_ZN4stof4cuda23decode_attention_kernelINS0_12TreeInstanceEEEvNS0_12DecodeParamsE";
inline constexpr std::string_view kDecodeSumEntry =
    "_ZN4stof4cuda17decode_sum_kernelINS0_8InstanceEEEvNS0_12DecodeParamsE";
inline constexpr std::string_view kDecodeSumTwoEntry =
    "_ZN4stof4cuda17decode_sum_kernelINS0_11TwoRowWarpsEEEvNS0_12DecodeParamsE";
inline constexpr std::string_view kDecodeSumFourEntry =
    "_ZN4stof4cuda17decode_sum_kernelINS0_12FourRowWarpsEEEvNS0_12DecodeParamsE";

// What is compiled for a GPU: "sm_90a" on 9.0; "sm_80" on 8.x, whose machine code all of them run.
std::string target_of(int arch);

// Source of a unit; throws internal for an unknown name.
std::string_view unit_source(std::string_view name);

// Why units that this build lacks cannot be compiled for the device; empty when they can. A device that is only
// described is another machine, whose NVRTC nobody knows.
std::string why_not_compiled(const Device& device);

// Machine code. Throws unsupported when the unit is not part of this build and cannot be compiled.
std::string unit_cubin(std::string_view name, int arch);

struct InstanceKernel {
  Kernel kernel;
  unsigned threads = 0, shared_bytes = 0;
};

// A unit that need not be one of the build's: then its source is compiled.
struct KernelUnit {
  std::string name, source;
};

// Loaded at the first call, kept to the end of the process. Threads and shared memory are what the unit says.
const InstanceKernel& instance_kernel(const Gpu& gpu, const std::string& unit, std::string_view entry);
const InstanceKernel& instance_kernel(const Gpu& gpu, const KernelUnit& unit, std::string_view entry);
// Allocates nothing for a kernel that is loaded.
const Kernel& plain_kernel(const Gpu& gpu, std::string_view unit, std::string_view entry, unsigned threads);

}  // namespace stof::cuda
