// SPDX-License-Identifier: Apache-2.0
// Matmul with fused bias, activation and residual, by oneDNN. The only file that includes dnnl.hpp: oneDNN 2 builds a
// primitive from an operation descriptor, oneDNN 3 without one (make_description).
#include <omp.h>

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "src/backend/cpu/matmul.h"
#include "src/base/error.h"
#include "src/tensor/convert.h"

namespace stof::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr std::int64_t kPackingRows = 256;   // the weight layout is what oneDNN likes best for this many rows
constexpr std::size_t kMaxPrimitives = 128;  // per linear, one for each number of rows and of threads

// Making a primitive takes as long as a matmul of a hundred rows, and its speed does not depend on the number of rows
// (within 5 % from 6 on). So a call is cut into rows of few different numbers: 64, 128, 192, 256, and what is left.
std::int64_t chunk_of(std::int64_t rows) { return rows >= 256 ? 256 : rows >= 64 ? rows / 64 * 64 : rows; }

// Where memory ends while oneDNN writes machine code it writes through what it did not get. So what its kernels for a
// matmul take is asked for and given back before (16 MB were not enough). std::bad_alloc if it is not there.
void find_room_for_code() {
  constexpr std::size_t kMostCode = std::size_t{64} << 20;
  void* room = ::operator new(kMostCode);
  asm volatile("" : : "r"(room) : "memory");  // or the compiler leaves both calls out
  ::operator delete(room);
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

[[noreturn]] void fail_onednn(const dnnl::error& error, std::string_view what) {
  if (error.status == dnnl_out_of_memory) fail(ErrorKind::device, "out of memory while {}", what);
  fail(ErrorKind::unsupported, "oneDNN refused {}: {}", what, error.what());
}

dnnl::matmul::primitive_desc make_description(const memory::desc& x, const memory::desc& weight,
                                              const memory::desc& bias, const memory::desc& out,
                                              const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  if (bias.get_ndims() > 0) return {engine(), x, weight, bias, out, attributes};
  return {engine(), x, weight, out, attributes};
#else
  if (bias.data.ndims > 0) return {dnnl::matmul::desc(x, weight, bias, out), attributes, engine()};
  return {dnnl::matmul::desc(x, weight, out), attributes, engine()};
#endif
}

void append_activation(dnnl::post_ops& post, Activation activation) {
  const auto append = [&](dnnl::algorithm algorithm, float alpha = 0.f) {
#if DNNL_VERSION_MAJOR >= 3
    post.append_eltwise(algorithm, alpha, 0.f);
#else
    post.append_eltwise(1.f, algorithm, alpha, 0.f);
#endif
  };
  switch (activation) {
    case Activation::none: return;
    case Activation::gelu: return append(dnnl::algorithm::eltwise_gelu_erf);
    case Activation::gelu_tanh: return append(dnnl::algorithm::eltwise_gelu_tanh);
    case Activation::silu: return append(dnnl::algorithm::eltwise_swish, 1.f);
    case Activation::relu: return append(dnnl::algorithm::eltwise_relu);
    case Activation::tanh: return append(dnnl::algorithm::eltwise_tanh);
  }
}

class OneDnnLinear final : public Linear {
 public:
  explicit OneDnnLinear(const LinearSpec& spec)
      : dtype_(spec.dtype),
        type_(type_of(spec.dtype)),
        element_bytes_(static_cast<std::int64_t>(size_of(spec.dtype))),
        residual_(spec.residual),
        activation_(spec.activation) {
    in_ = spec.weight.front().dim(1);
    for (const TensorView& part : spec.weight) out_ += part.dim(0);
    pack_bias(spec);
    try {
      pack_weight(spec);
    } catch (const dnnl::error& error) {
      fail_onednn(error, fmt::format("packing the weights [{}, {}] of a matmul", out_, in_));
    }
  }

  PackedMatrix matrix() const override { return weight_; }

  void run(const LinearCall& call) const override {
    const auto at = [&](const void* base, std::int64_t row, std::int64_t columns) {
      return const_cast<std::byte*>(static_cast<const std::byte*>(base)) + row * columns * element_bytes_;
    };
    const std::int64_t rows = row_capacity(call.rows);
    for (std::int64_t row = 0, chunk = 0; row < rows; row += chunk) {
      chunk = chunk_of(rows - row);
      run_chunk({.x = at(call.x, row, in_),
                 .out = at(call.out, row, out_),
                 .residual = residual_ ? at(call.residual, row, out_) : nullptr,
                 .rows = chunk});
    }
  }

 private:
  void run_chunk(const LinearCall& call) const try {
    const Primitive primitive = primitive_for(call.rows);
    dnnl::stream stream(engine());
    const auto bind = [&](const memory::desc& description, const void* data) {
      return memory(description, engine(), const_cast<void*>(data));
    };
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, bind(rows_of(call.rows, in_), call.x)},
                                              {DNNL_ARG_WEIGHTS, *weight_},
                                              {DNNL_ARG_DST, bind(rows_of(call.rows, out_), call.out)}};
    if (!bias_.empty()) arguments.emplace(DNNL_ARG_BIAS, bind(bias_description(), bias_.data()));
    if (residual_)
      arguments.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(activation_ == Activation::none ? 0 : 1) | DNNL_ARG_SRC_1,
                        bind(rows_of(call.rows, out_), call.residual));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(primitive.scratchpad, engine()));
    primitive.matmul.execute(stream, arguments);
    stream.wait();
  } catch (const dnnl::error& error) {
    fail_onednn(error, "running a matmul");
  }

  memory::desc rows_of(std::int64_t rows, std::int64_t columns) const { return {{rows, columns}, type_, Tag::ab}; }
  memory::desc bias_description() const {
    return bias_.empty() ? memory::desc() : memory::desc({1, out_}, memory::data_type::f32, Tag::ab);
  }

  dnnl::matmul::primitive_desc description(std::int64_t rows, const memory::desc& weight) const {
    dnnl::post_ops post;
    append_activation(post, activation_);
    if (residual_) post.append_binary(dnnl::algorithm::binary_add, rows_of(rows, out_));
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(post);
    // The library's own scratchpad belongs to the thread that made the primitive; calls come from any thread.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    try {
      return make_description(rows_of(rows, in_), weight, bias_description(), rows_of(rows, out_), attributes);
    } catch (const dnnl::error& error) {
      fail_onednn(error, fmt::format("a matmul of [{}, {}] and [{}, {}]", rows, in_, in_, out_));
    }
  }

  void pack_bias(const LinearSpec& spec) {
    if (spec.bias.empty()) return;
    bias_.reserve(static_cast<std::size_t>(out_));
    for (const TensorView& part : spec.bias) {
      const Tensor values = converted(part, DType::f32);
      bias_.insert(bias_.end(), values.as<float>(), values.as<float>() + values.size());
    }
  }

  // What another linear packed is in the order that oneDNN liked best with its epilogue: with this one that may differ.
  void pack_weight(const LinearSpec& spec) {
    const memory::desc any({in_, out_}, type_, Tag::any), liked = description(kPackingRows, any).weights_desc();
    weight_ = std::static_pointer_cast<const memory>(spec.matrix);
    if (weight_ && weight_->get_desc() == liked) return;
    // In the type that is multiplied: of a vocabulary's matrix fp32 would be twice as much again.
    Tensor stacked(dtype_, {out_, in_});
    auto* next = stacked.as<std::byte>();
    for (const TensorView& part : spec.weight) {
      convert(part, view_of(next, dtype_, part.shape));
      next += static_cast<std::size_t>(element_count(part.shape)) * size_of(dtype_);
    }
    memory packed(liked, engine());
    // The checkpoint's [out, in] is the transposed view of [in, out].
    memory plain({{in_, out_}, type_, Tag::ba}, engine(), stacked.data());
    dnnl::stream stream(engine());
    find_room_for_code();
    dnnl::reorder(plain, packed).execute(stream, plain, packed);
    stream.wait();
    weight_ = std::make_shared<const memory>(std::move(packed));
  }

  struct Primitive {
    dnnl::matmul matmul;
    memory::desc scratchpad;
  };
  Primitive primitive_for(std::int64_t rows) const {
    const std::lock_guard lock(mutex_);
    const std::pair key(rows, omp_get_max_threads());
    if (const auto found = primitives_.find(key); found != primitives_.end()) return found->second;
    if (primitives_.size() >= kMaxPrimitives) primitives_.clear();
    const dnnl::matmul::primitive_desc made = description(rows, weight_->get_desc());
    find_room_for_code();
    return primitives_.emplace(key, Primitive{dnnl::matmul(made), made.scratchpad_desc()}).first->second;
  }

  DType dtype_;
  memory::data_type type_;
  std::int64_t element_bytes_;
  bool residual_;
  Activation activation_;
  std::int64_t in_ = 0, out_ = 0;
  std::vector<float> bias_;
  std::shared_ptr<const memory> weight_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::int64_t, int>, Primitive> primitives_;  // by rows and threads
};

}  // namespace

std::shared_ptr<const Linear> pack_onednn(const LinearSpec& spec) { return std::make_shared<const OneDnnLinear>(spec); }

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace stof::cpu
