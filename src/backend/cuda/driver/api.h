// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, loaded by name when a device is first asked for, so that one program serves machines with and
// without a GPU. Every entry point checks its own result.
#pragma once
#include <string>

#include "src/backend/cuda/driver/types.h"

namespace stof::cuda {

void* load_symbol(void* library, const char* name);  // throws device when the driver is too old to have it

// A function of the driver. Calling it throws device, naming function, error and meaning; attempt() returns the status.
template <class... Parameters>
class Entry {
 public:
  using Function = Status(Parameters...);
  Entry(void* library, const char* name)
      : name_(name), function_(reinterpret_cast<Function*>(load_symbol(library, name))) {}

  void operator()(Parameters... arguments) const;
  Status attempt(Parameters... arguments) const noexcept { return function_(arguments...); }
  const char* name() const { return name_; }

 private:
  const char* name_;
  Function* function_;
};

struct Driver {
  explicit Driver(void* opened) : library(opened) {}
  void* library;

  Entry<unsigned> init{library, "cuInit"};
  Entry<int*> version{library, "cuDriverGetVersion"};
  Entry<Status, const char**> error_name{library, "cuGetErrorName"};
  Entry<Status, const char**> error_text{library, "cuGetErrorString"};

  Entry<int*> device_count{library, "cuDeviceGetCount"};
  Entry<DeviceOrdinal*, int> device{library, "cuDeviceGet"};
  Entry<char*, int, DeviceOrdinal> device_name{library, "cuDeviceGetName"};
  Entry<int*, DeviceAttribute, DeviceOrdinal> device_attribute{library, "cuDeviceGetAttribute"};

  Entry<ContextHandle*, DeviceOrdinal> retain_context{library, "cuDevicePrimaryCtxRetain"};
  Entry<ContextHandle> push_context{library, "cuCtxPushCurrent_v2"};
  Entry<ContextHandle*> pop_context{library, "cuCtxPopCurrent_v2"};

  Entry<DevicePointer*, std::size_t> allocate{library, "cuMemAlloc_v2"};
  Entry<DevicePointer> release{library, "cuMemFree_v2"};
  Entry<void**, std::size_t> allocate_pinned{library, "cuMemAllocHost_v2"};
  Entry<void*> release_pinned{library, "cuMemFreeHost"};
  Entry<std::size_t*, std::size_t*> memory_left{library, "cuMemGetInfo_v2"};
  Entry<DevicePointer, const void*, std::size_t, StreamHandle> copy_in{library, "cuMemcpyHtoDAsync_v2"};
  Entry<void*, DevicePointer, std::size_t, StreamHandle> copy_out{library, "cuMemcpyDtoHAsync_v2"};
  Entry<DevicePointer, DevicePointer, std::size_t, StreamHandle> copy{library, "cuMemcpyDtoDAsync_v2"};
  Entry<DevicePointer, unsigned char, std::size_t, StreamHandle> fill{library, "cuMemsetD8Async"};
  Entry<void*, int, DevicePointer> pointer_attribute{library, "cuPointerGetAttribute"};

  Entry<StreamHandle*, unsigned> create_stream{library, "cuStreamCreate"};
  Entry<StreamHandle> destroy_stream{library, "cuStreamDestroy_v2"};
  Entry<StreamHandle> synchronize_stream{library, "cuStreamSynchronize"};
  Entry<StreamHandle, unsigned long long*> stream_id{library, "cuStreamGetId"};
  Entry<StreamHandle, int*> is_capturing{library, "cuStreamIsCapturing"};
  Entry<StreamHandle, int> begin_capture{library, "cuStreamBeginCapture_v2"};
  Entry<int*> exchange_capture_mode{library, "cuThreadExchangeStreamCaptureMode"};
  Entry<StreamHandle, GraphHandle*> end_capture{library, "cuStreamEndCapture"};
  Entry<GraphRunHandle*, GraphHandle, unsigned long long> instantiate{library, "cuGraphInstantiateWithFlags"};
  Entry<GraphRunHandle, StreamHandle> launch_graph{library, "cuGraphLaunch"};
  Entry<GraphRunHandle> destroy_graph_run{library, "cuGraphExecDestroy"};
  Entry<GraphHandle> destroy_graph{library, "cuGraphDestroy"};

  Entry<EventHandle*, unsigned> create_event{library, "cuEventCreate"};
  Entry<EventHandle> destroy_event{library, "cuEventDestroy_v2"};
  Entry<EventHandle, StreamHandle> record_event{library, "cuEventRecord"};
  Entry<EventHandle> synchronize_event{library, "cuEventSynchronize"};
  Entry<float*, EventHandle, EventHandle> elapsed{library, "cuEventElapsedTime"};

  Entry<LibraryHandle*, const void*, int*, void**, unsigned, int*, void**, unsigned> load_library{library,
                                                                                                  "cuLibraryLoadData"};
  Entry<LibraryHandle> unload_library{library, "cuLibraryUnload"};
  Entry<KernelHandle*, LibraryHandle, const char*> kernel{library, "cuLibraryGetKernel"};
  Entry<FunctionHandle*, KernelHandle> kernel_function{library, "cuKernelGetFunction"};
  Entry<KernelAttribute, int, KernelHandle, DeviceOrdinal> set_kernel_attribute{library, "cuKernelSetAttribute"};
  Entry<int*, FunctionHandle, int, std::size_t> blocks_per_multiprocessor{
      library, "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
  Entry<const LaunchConfig*, FunctionHandle, void**, void**> launch{library, "cuLaunchKernelEx"};

  Entry<TensorMapBytes*, TensorElement, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,
        const std::uint32_t*, const std::uint32_t*, TensorInterleave, TensorSwizzle, TensorPromotion, TensorFill>
      encode_tensor_map{library, "cuTensorMapEncodeTiled"};
};

// The driver, loaded and initialised; throws device, saying what is missing, each time that there is none.
const Driver& driver();

// What keeps driver() from working: empty when nothing does.
std::string missing_driver();

// Whether anything in this process has loaded the driver, which this does not do. Until then there is no memory of a
// GPU.
bool driver_is_loaded();

// Throws device: "cuCtxPushCurrent_v2: CUDA_ERROR_INVALID_CONTEXT (invalid device context)"; behind "out of memory: "
// where that is what the status says, as is_out_of_memory (src/base/out_of_memory.h) knows it.
[[noreturn]] void fail_call(const char* name, Status status);

template <class... Parameters>
void Entry<Parameters...>::operator()(Parameters... arguments) const {
  if (const Status status = function_(arguments...); status != kSuccess) fail_call(name_, status);
}

}  // namespace stof::cuda
