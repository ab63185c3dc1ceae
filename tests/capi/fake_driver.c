/* SPDX-License-Identifier: Apache-2.0
 * The entry points of the CUDA driver that STOF loads, for one GPU of compute capability 9.0 that is not there: memory
 * is the host's, copies copy, kernels are counted and do nothing. What the host does around them can be tested
 * anywhere. A program that links it finds it in place of the driver, by its name as a library. */
#include "tests/capi/fake_driver.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kMostBlocks = 4096, kMostKernels = 256, kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2 };
enum { kUnsupportedInCapture = 900 };

/* Memory that is the device's, so that an address of the host is not taken for one. */
static struct { uintptr_t first, bytes; } blocks[kMostBlocks];
static int block_count;

static struct {
  char name[128];
  int launched;
} kernels[kMostKernels];
static int kernel_count;
static long launches, allocations;
static const void* recording;         /* the stream that is */
static unsigned long long generation; /* of streams: two of one handle have other numbers */

long fake_allocations(void) { return allocations; }
long fake_held(void) { return block_count; }
void fake_new_streams(void) { ++generation; }
long fake_launches(void) { return launches; }

int fake_launched(const char* part) {
  int found = 0;
  for (int i = 0; i < kernel_count; ++i) found |= kernels[i].launched && strstr(kernels[i].name, part) != NULL;
  return found;
}

void fake_forget(void) {
  for (int i = 0; i < kernel_count; ++i) kernels[i].launched = 0;
}

void fake_record(const void* stream) { recording = stream; }

/* ---- what does something ---- */

int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  if (block_count == kMostBlocks) return kOutOfMemory;
  void* const memory = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  if (memory == NULL) return kOutOfMemory;
  ++allocations;
  blocks[block_count].first = (uintptr_t)memory;
  blocks[block_count++].bytes = bytes == 0 ? 1 : bytes;
  *address = (uintptr_t)memory;
  return kSuccess;
}
int cuMemFree_v2(unsigned long long address) {
  for (int i = 0; i < block_count; ++i)
    if (blocks[i].first == address) {
      blocks[i] = blocks[--block_count];
      free((void*)(uintptr_t)address);
      return kSuccess;
    }
  return kInvalidValue;
}
int cuMemAllocHost_v2(void** address, size_t bytes) {
  *address = malloc(bytes);
  return *address != NULL ? kSuccess : kOutOfMemory;
}
int cuMemFreeHost(void* address) {
  free(address);
  return kSuccess;
}
int cuPointerGetAttribute(void* value, int attribute, unsigned long long address) {
  for (int i = 0; i < block_count; ++i)
    if (address - blocks[i].first < blocks[i].bytes) {
      *(int*)value =
          attribute == 2 ? 2 : 0; /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE: of the device; else ordinal 0, not managed */
      return kSuccess;
    }
  return kInvalidValue;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void* stream) {
  (void)stream;
  memcpy((void*)(uintptr_t)to, from, bytes);
  return kSuccess;
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void* stream) {
  (void)stream;
  memcpy(to, (const void*)(uintptr_t)from, bytes);
  return kSuccess;
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  return cuMemcpyHtoDAsync_v2(to, (const void*)(uintptr_t)from, bytes, stream);
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void* stream) {
  (void)stream;
  memset((void*)(uintptr_t)to, value, bytes);
  return kSuccess;
}
int cuStreamIsCapturing(void* stream, int* status) {
  *status = recording != NULL && stream == recording;
  return kSuccess;
}
int cuStreamGetId(void* stream, unsigned long long* number) {
  if (recording != NULL && stream == recording) return kUnsupportedInCapture; /* as the driver says, and ends it */
  static _Thread_local char of_thread; /* 2 is the handle of the stream that every thread has for itself */
  *number = (uintptr_t)(stream == (void*)2 ? &of_thread : stream) + (generation << 48);
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  (void)library;
  if (kernel_count == kMostKernels) return kOutOfMemory;
  strncpy(kernels[kernel_count].name, name, sizeof kernels[0].name - 1);
  *kernel = &kernels[kernel_count++];
  return kSuccess;
}
int cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return kSuccess;
}
int cuLaunchKernelEx(const void* config, void* function, void** parameters, void** extra) {
  (void)config, (void)parameters, (void)extra;
  for (int i = 0; i < kernel_count; ++i)
    if (function == &kernels[i]) kernels[i].launched = 1;
  ++launches;
  return kSuccess;
}

/* ---- what answers ---- */

static int answer(int* value, int with) {
  *value = with;
  return kSuccess;
}
static int handle(void** value) {
  static int object;
  *value = &object;
  return kSuccess;
}

int cuInit(unsigned flags) { return flags == 0 ? kSuccess : kInvalidValue; }
int cuDriverGetVersion(int* version) { return answer(version, 13000); }
int cuDeviceGetCount(int* count) { return answer(count, 1); }
int cuDeviceGet(int* device, int ordinal) { return answer(device, ordinal); }
int cuDeviceGetName(char* name, int bytes, int device) {
  (void)device;
  strncpy(name, "a GPU that is not there", (size_t)bytes - 1);
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  switch (attribute) { /* CUdevice_attribute, with the numbers of an H200 */
    case 16: return answer(value, 132);
    case 38: return answer(value, 60 << 20);
    case 75: return answer(value, 9);
    case 76: return answer(value, 0);
    case 97: return answer(value, 227 << 10);
    default: return kInvalidValue;
  }
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)1 << 37;
  return kSuccess;
}
int cuMemGetInfo_v2(size_t* left, size_t* bytes) {
  *left = *bytes = (size_t)1 << 37;
  return kSuccess;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* count, void* function, int threads, size_t bytes) {
  (void)function, (void)threads, (void)bytes;
  return answer(count, 1);
}
int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const void* sizes, const void* strides,
                           const void* box, const void* steps, int interleave, int swizzle, int promotion, int fill) {
  (void)type, (void)rank, (void)address, (void)sizes, (void)strides, (void)box, (void)steps;
  (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  memset(map, 0, 128);
  return kSuccess;
}
int cuLibraryLoadData(void** library, const void* code, int* options, void** values, unsigned count, int* more,
                      void** more_values, unsigned more_count) {
  (void)code, (void)options, (void)values, (void)count, (void)more, (void)more_values, (void)more_count;
  return handle(library);
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  (void)device;
  return handle(context);
}
int cuCtxPopCurrent_v2(void** context) { return handle(context); }
int cuStreamCreate(void** stream, unsigned flags) {
  (void)flags;
  return handle(stream);
}
int cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  return handle(event);
}

/* ---- what succeeds ---- */

#define SUCCEEDS(name, ...) \
  int name(__VA_ARGS__);    \
  int name(__VA_ARGS__) { return kSuccess; }
#pragma GCC diagnostic ignored "-Wunused-parameter"
SUCCEEDS(cuCtxPushCurrent_v2, void* context)
SUCCEEDS(cuStreamDestroy_v2, void* stream)
SUCCEEDS(cuStreamSynchronize, void* stream)
SUCCEEDS(cuEventDestroy_v2, void* event)
SUCCEEDS(cuEventRecord, void* event, void* stream)
SUCCEEDS(cuEventSynchronize, void* event)
SUCCEEDS(cuLibraryUnload, void* library)
SUCCEEDS(cuKernelSetAttribute, int attribute, int value, void* kernel, int device)
SUCCEEDS(cuThreadExchangeStreamCaptureMode, int* mode)

/* ---- what tests do not use, and STOF looks for ---- */

#define REFUSES(name) \
  int name(void);     \
  int name(void) { return kInvalidValue; }
REFUSES(cuGetExportTable) /* by NVRTC, where a driver is loaded */
REFUSES(cuGetErrorName)
REFUSES(cuGetErrorString)
REFUSES(cuStreamBeginCapture_v2)
REFUSES(cuStreamEndCapture)
REFUSES(cuGraphInstantiateWithFlags)
REFUSES(cuGraphLaunch)
REFUSES(cuGraphExecDestroy)
REFUSES(cuGraphDestroy)
REFUSES(cuEventElapsedTime)
