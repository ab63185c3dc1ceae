// SPDX-License-Identifier: Apache-2.0
// A problem on the device: random tensors, an fp32 reference for sampled rows, tensor maps, checks and timings.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/cuda/dense_mask.h"
#include "kernels/shared/device_layout.h"

namespace stof::bench {

using cuda::AttentionMaps;
using cuda::AttentionOutput;
using cuda::SliceShape;
using cuda::TensorMap;

void check_cuda(cudaError_t status, const char* what, int line);
#define BENCH_CUDA(call) ::stof::bench::check_cuda((call), #call, __LINE__)

struct Free {
  void operator()(void* p) const { cudaFree(p); }
};
template <class T>
using DeviceArray = std::unique_ptr<T[], Free>;

template <class T>
DeviceArray<T> allocate(std::size_t count) {
  void* p = nullptr;
  BENCH_CUDA(cudaMalloc(&p, count * sizeof(T) + 16));
  BENCH_CUDA(cudaMemset(p, 0, count * sizeof(T) + 16));
  return DeviceArray<T>(static_cast<T*>(p));
}
template <class T>
DeviceArray<T> to_device(const std::vector<T>& values) {
  DeviceArray<T> array = allocate<T>(values.size());
  BENCH_CUDA(cudaMemcpy(array.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return array;
}

enum class Order { head_major, row_major };  // [item, head, row, column] or [item, row, head, column]

struct Sizes {
  int batch = 1, heads = 1, kv_heads = 1, head_dim = 64;
  bool bfloat = false;
  Order order = Order::head_major;
};

struct Problem {
  Sizes sizes;
  const DenseMask* mask;
  int residues = 1;                             // rows are viewed by residue class
  std::vector<int> query_lengths, key_lengths;  // [batch], or empty
  DeviceArray<std::uint16_t> q, k, v, out;
  DeviceArray<float> lse;
  DeviceArray<std::uint64_t> bits;
  DeviceArray<int> device_query_lengths, device_key_lengths;

  std::string name() const;
  double floor_us() const;
  double useful_flops() const;
};

Problem make_problem(const Sizes& sizes, const DenseMask& mask, std::vector<int> query_lengths = {},
                     std::vector<int> key_lengths = {});

// Maps with the dimensions of AttentionMaps; boxes of 64 columns and the given rows.
AttentionMaps make_maps(const Problem& problem, int key_box, int query_box = 64);
AttentionOutput output_of(const Problem& problem);
SliceShape slices_of(const Problem& problem);
float scale_log2(const Problem& problem);

struct Errors {
  double frobenius = 0, worst_row = 0, lse = 0;
  long bad = 0;  // NaN, or unwritten, or written past the lengths
};
Errors check(const Problem& problem);
void poison(const Problem& problem);

struct KernelFacts {
  const void* function;
  int threads, shared_bytes;
};

// Checks, then times burst and steady; adds a row to the results. Filtered by the command line.
void measure(const Problem& problem, const std::string& variant, const KernelFacts& kernel,
             const std::function<void(cudaStream_t)>& launch);
bool wanted(const Problem& problem, const std::string& variant);

// With or without the programmatic dependent launch attribute.
void launch_kernel(const KernelFacts& kernel, int grid, const AttentionMaps& maps, const void* params, std::size_t size,
                   cudaStream_t stream);

struct Settings {
  std::string filter, json, commit;
  bool time = true, dependent_launch = true;
};
Settings& settings();
void write_results();

}  // namespace stof::bench
