// SPDX-License-Identifier: Apache-2.0
// The types and numbers of the CUDA driver API that STOF uses, declared here so that building needs no CUDA header.
// tests/backend/driver_abi_test.cpp compares every one of them with cuda.h where there is a toolkit.
#pragma once
#include <cstddef>
#include <cstdint>

namespace stof::cuda {

using Status = int;  // CUresult
inline constexpr Status kSuccess = 0;
inline constexpr Status kOutOfMemory = 2;

using DeviceOrdinal = int;                 // CUdevice
using DevicePointer = unsigned long long;  // CUdeviceptr

// Handles: what they point at is the driver's.
using ContextHandle = struct OpaqueContext*;
using StreamHandle = struct OpaqueStream*;
using EventHandle = struct OpaqueEvent*;
using LibraryHandle = struct OpaqueLibrary*;
using KernelHandle = struct OpaqueKernel*;
using FunctionHandle = struct OpaqueFunction*;
using GraphHandle = struct OpaqueGraph*;
using GraphRunHandle = struct OpaqueGraphRun*;

// CUdevice_attribute
enum class DeviceAttribute : int {
  l2_cache_bytes = 38,
  multiprocessors = 16,
  capability_major = 75,
  capability_minor = 76,
  shared_bytes_per_block = 97,  // after opting in
};

// CUfunction_attribute
enum class KernelAttribute : int { dynamic_shared_bytes = 8 };

// CUlaunchAttributeID
enum class LaunchAttributeKind : int { cluster = 4, programmatic_serialization = 6 };

// CUlaunchAttribute: of the value's 64 bytes these two attributes use the first words.
struct LaunchAttribute {
  LaunchAttributeKind kind;
  int padding;
  alignas(8) unsigned value[16];
};

// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3], block[3], dynamic_shared_bytes;
  StreamHandle stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

// CUtensorMap
struct alignas(128) TensorMapBytes {
  std::uint64_t opaque[16];
};

// CUtensorMapDataType
enum class TensorElement : int { u8 = 0, f16 = 6, f32 = 7, bf16 = 9 };
// CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill
enum class TensorInterleave : int { none = 0 };
enum class TensorSwizzle : int { none = 0, bytes_32 = 1, bytes_64 = 2, bytes_128 = 3 };
enum class TensorPromotion : int { none = 0, bytes_128 = 2, bytes_256 = 3 };
enum class TensorFill : int { zero = 0 };

inline constexpr unsigned kStreamNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
inline constexpr int kCaptureThreadLocal = 1;      // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr int kCaptureRelaxed = 2;          // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr int kPointerMemoryType = 2;       // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kPointerIsManaged = 8;        // CU_POINTER_ATTRIBUTE_IS_MANAGED
inline constexpr int kPointerOrdinal = 9;          // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
inline constexpr unsigned kMemoryOfDevice = 2;     // CU_MEMORYTYPE_DEVICE

}  // namespace stof::cuda
