// SPDX-License-Identifier: Apache-2.0
// The driver's types, numbers and signatures as STOF declares them, compared with cuda.h where there is a toolkit. All
// of it happens while this compiles.
#include <cuda.h>
#include <gtest/gtest.h>

#include "src/backend/cuda/driver/api.h"
#include "tests/backend/passes_alike.h"

namespace stof::cuda {
namespace {

template <class OurEntry, class TheirFunction>
struct Same;
template <class... Ours, class... Theirs>
struct Same<Entry<Ours...>, CUresult(Theirs...)> {
  static constexpr bool kValue = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) return (passes_alike<Ours, Theirs>() && ...);
    else return false;
  }();
};

template <auto kMember, class TheirFunction>
constexpr bool same = false;
template <class OurEntry, OurEntry Driver::*kMember, class TheirFunction>
constexpr bool same<kMember, TheirFunction> = Same<OurEntry, TheirFunction>::kValue;

static_assert(same<&Driver::init, decltype(cuInit)>);
static_assert(same<&Driver::version, decltype(cuDriverGetVersion)>);
static_assert(same<&Driver::error_name, decltype(cuGetErrorName)>);
static_assert(same<&Driver::error_text, decltype(cuGetErrorString)>);
static_assert(same<&Driver::device_count, decltype(cuDeviceGetCount)>);
static_assert(same<&Driver::device, decltype(cuDeviceGet)>);
static_assert(same<&Driver::device_name, decltype(cuDeviceGetName)>);
static_assert(same<&Driver::device_attribute, decltype(cuDeviceGetAttribute)>);
static_assert(same<&Driver::retain_context, decltype(cuDevicePrimaryCtxRetain)>);
static_assert(same<&Driver::push_context, decltype(cuCtxPushCurrent_v2)>);
static_assert(same<&Driver::pop_context, decltype(cuCtxPopCurrent_v2)>);
static_assert(same<&Driver::allocate, decltype(cuMemAlloc_v2)>);
static_assert(same<&Driver::release, decltype(cuMemFree_v2)>);
static_assert(same<&Driver::allocate_pinned, decltype(cuMemAllocHost_v2)>);
static_assert(same<&Driver::release_pinned, decltype(cuMemFreeHost)>);
static_assert(same<&Driver::memory_left, decltype(cuMemGetInfo_v2)>);
static_assert(same<&Driver::copy_in, decltype(cuMemcpyHtoDAsync_v2)>);
static_assert(same<&Driver::copy_out, decltype(cuMemcpyDtoHAsync_v2)>);
static_assert(same<&Driver::copy, decltype(cuMemcpyDtoDAsync_v2)>);
static_assert(same<&Driver::fill, decltype(cuMemsetD8Async)>);
static_assert(same<&Driver::pointer_attribute, decltype(cuPointerGetAttribute)>);
static_assert(same<&Driver::create_stream, decltype(cuStreamCreate)>);
static_assert(same<&Driver::destroy_stream, decltype(cuStreamDestroy_v2)>);
static_assert(same<&Driver::synchronize_stream, decltype(cuStreamSynchronize)>);
static_assert(same<&Driver::stream_id, decltype(cuStreamGetId)>);
static_assert(same<&Driver::begin_capture, decltype(cuStreamBeginCapture_v2)>);
static_assert(same<&Driver::exchange_capture_mode, decltype(cuThreadExchangeStreamCaptureMode)>);
static_assert(same<&Driver::end_capture, decltype(cuStreamEndCapture)>);
static_assert(same<&Driver::instantiate, decltype(cuGraphInstantiateWithFlags)>);
static_assert(same<&Driver::launch_graph, decltype(cuGraphLaunch)>);
static_assert(same<&Driver::destroy_graph_run, decltype(cuGraphExecDestroy)>);
static_assert(same<&Driver::destroy_graph, decltype(cuGraphDestroy)>);
static_assert(same<&Driver::create_event, decltype(cuEventCreate)>);
static_assert(same<&Driver::destroy_event, decltype(cuEventDestroy_v2)>);
static_assert(same<&Driver::record_event, decltype(cuEventRecord)>);
static_assert(same<&Driver::synchronize_event, decltype(cuEventSynchronize)>);
static_assert(same<&Driver::elapsed, decltype(cuEventElapsedTime)>);
static_assert(same<&Driver::load_library, decltype(cuLibraryLoadData)>);
static_assert(same<&Driver::unload_library, decltype(cuLibraryUnload)>);
static_assert(same<&Driver::kernel, decltype(cuLibraryGetKernel)>);
static_assert(same<&Driver::kernel_function, decltype(cuKernelGetFunction)>);
static_assert(same<&Driver::set_kernel_attribute, decltype(cuKernelSetAttribute)>);
static_assert(same<&Driver::blocks_per_multiprocessor, decltype(cuOccupancyMaxActiveBlocksPerMultiprocessor)>);
static_assert(same<&Driver::launch, decltype(cuLaunchKernelEx)>);
static_assert(same<&Driver::encode_tensor_map, decltype(cuTensorMapEncodeTiled)>);

constexpr int number(auto value) { return static_cast<int>(value); }

static_assert(kSuccess == number(CUDA_SUCCESS) && kOutOfMemory == number(CUDA_ERROR_OUT_OF_MEMORY));
static_assert(number(DeviceAttribute::l2_cache_bytes) == number(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
static_assert(number(DeviceAttribute::multiprocessors) == number(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(number(DeviceAttribute::shared_bytes_per_block) ==
              number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(number(DeviceAttribute::capability_major) == number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(number(DeviceAttribute::capability_minor) == number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(number(KernelAttribute::dynamic_shared_bytes) == number(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(number(LaunchAttributeKind::cluster) == number(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
static_assert(number(LaunchAttributeKind::programmatic_serialization) ==
              number(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));
static_assert(number(TensorElement::u8) == number(CU_TENSOR_MAP_DATA_TYPE_UINT8));
static_assert(number(TensorElement::f16) == number(CU_TENSOR_MAP_DATA_TYPE_FLOAT16));
static_assert(number(TensorElement::f32) == number(CU_TENSOR_MAP_DATA_TYPE_FLOAT32));
static_assert(number(TensorElement::bf16) == number(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16));
static_assert(number(TensorInterleave::none) == number(CU_TENSOR_MAP_INTERLEAVE_NONE));
static_assert(number(TensorSwizzle::bytes_32) == number(CU_TENSOR_MAP_SWIZZLE_32B));
static_assert(number(TensorSwizzle::bytes_64) == number(CU_TENSOR_MAP_SWIZZLE_64B));
static_assert(number(TensorSwizzle::bytes_128) == number(CU_TENSOR_MAP_SWIZZLE_128B));
static_assert(number(TensorPromotion::bytes_128) == number(CU_TENSOR_MAP_L2_PROMOTION_L2_128B));
static_assert(number(TensorPromotion::bytes_256) == number(CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
static_assert(number(TensorFill::zero) == number(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kCaptureThreadLocal == number(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(kCaptureRelaxed == number(CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(kPointerOrdinal == number(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));

static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              alignof(LaunchAttribute) == alignof(CUlaunchAttribute) &&
              offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(CUlaunchAttributeValue, clusterDim) == 0 &&
              offsetof(CUlaunchAttributeValue, programmaticStreamSerializationAllowed) == 0);
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig) &&
              offsetof(LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX) &&
              offsetof(LaunchConfig, dynamic_shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes) &&
              offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream) &&
              offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs) &&
              offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(TensorMapBytes) == sizeof(CUtensorMap) && alignof(TensorMapBytes) >= alignof(CUtensorMap));

TEST(DriverAbi, IsThatOfTheToolkit) { EXPECT_GE(CUDA_VERSION, 12000); }

}  // namespace
}  // namespace stof::cuda
