// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, loaded by name when a model is first brought to a GPU. Every entry point checks its own result.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "src/backend/cuda/driver/blas_types.h"
#include "src/backend/cuda/driver/types.h"

namespace stof::cuda {

void* load_blas_symbol(void* library, const char* name);  // throws device when the library is too old to have it

// A function of cuBLASLt. Calling it throws device, naming function and meaning; attempt() returns the status.
template <class... Parameters>
class BlasEntry {
 public:
  using Function = BlasStatus(Parameters...);
  BlasEntry(void* library, const char* name)
      : name_(name), function_(reinterpret_cast<Function*>(load_blas_symbol(library, name))) {}

  void operator()(Parameters... arguments) const;
  BlasStatus attempt(Parameters... arguments) const noexcept { return function_(arguments...); }

 private:
  const char* name_;
  Function* function_;
};

struct Blas {
  explicit Blas(void* opened) : library(opened) {}
  void* library;

  BlasEntry<BlasHandle*> create{library, "cublasLtCreate"};
  BlasEntry<BlasProductHandle*, int, BlasType> create_product{library, "cublasLtMatmulDescCreate"};
  BlasEntry<BlasProductHandle> destroy_product{library, "cublasLtMatmulDescDestroy"};
  BlasEntry<BlasProductHandle, BlasProductAttribute, const void*, std::size_t> set_product{
      library, "cublasLtMatmulDescSetAttribute"};
  BlasEntry<BlasMatrixHandle*, BlasType, std::uint64_t, std::uint64_t, std::int64_t> create_matrix{
      library, "cublasLtMatrixLayoutCreate"};
  BlasEntry<BlasMatrixHandle> destroy_matrix{library, "cublasLtMatrixLayoutDestroy"};
  BlasEntry<BlasPreferenceHandle*> create_preference{library, "cublasLtMatmulPreferenceCreate"};
  BlasEntry<BlasPreferenceHandle> destroy_preference{library, "cublasLtMatmulPreferenceDestroy"};
  BlasEntry<BlasPreferenceHandle, BlasPreference, const void*, std::size_t> set_preference{
      library, "cublasLtMatmulPreferenceSetAttribute"};
  BlasEntry<BlasHandle, BlasProductHandle, BlasMatrixHandle, BlasMatrixHandle, BlasMatrixHandle, BlasMatrixHandle,
            BlasPreferenceHandle, int, BlasChoice*, int*>
      choose{library, "cublasLtMatmulAlgoGetHeuristic"};
  BlasEntry<BlasHandle, BlasProductHandle, const void*, const void*, BlasMatrixHandle, const void*, BlasMatrixHandle,
            const void*, const void*, BlasMatrixHandle, void*, BlasMatrixHandle, const BlasAlgorithm*, void*,
            std::size_t, StreamHandle>
      multiply{library, "cublasLtMatmul"};
};

// The library; throws device, saying what is missing and the way out, each time that there is none.
const Blas& blas();

// What keeps blas() from working: empty when nothing does.
std::string missing_blas();

// "13.0.2", of a library that is there.
std::string blas_version();

// Where it may be.
std::vector<std::filesystem::path> blas_places();

[[noreturn]] void fail_blas_call(const char* name, BlasStatus status);

template <class... Parameters>
void BlasEntry<Parameters...>::operator()(Parameters... arguments) const {
  if (const BlasStatus status = function_(arguments...); status != kBlasSuccess) fail_blas_call(name_, status);
}

}  // namespace stof::cuda
