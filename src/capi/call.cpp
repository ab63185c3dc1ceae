// SPDX-License-Identifier: Apache-2.0
#include "src/capi/call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "src/attention/pages.h"
#include "src/backend/contract.h"
#include "src/capi/array.h"
#include "src/capi/boundary.h"

namespace stof::capi {
namespace {

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

// A dimension of a tensor but the last, which is contiguous.
struct Dimension {
  std::string_view name;
  std::int64_t size, stride;
};

// One of the tensors of a call. `row` elements lie side by side at every place. items: -1: they follow each other.
struct Argument {
  std::string_view name;
  const stof_tensor& tensor;
  DType dtype;
  std::int64_t items, heads, rows, row;
};

class Checker {
 public:
  Checker(const stof_call& call, const stof_plan& plan)
      : call_(call),
        on_cpu_(plan.device.backend->memory == nullptr),
        packed_(call.cu_q || call.cu_kv || call.device_cu_q || call.device_cu_kv),
        paged_(call.page_table) {}

  void view(const Argument& argument, TensorView& view) const {
    const stof_tensor& tensor = argument.tensor;
    view.data = tensor.data;
    view.dtype = argument.dtype;
    if (argument.items < 0) {
      view.shape = {argument.rows, argument.heads};
      view.strides = {tensor.row_stride, tensor.head_stride};
    } else {
      view.shape = {argument.items, argument.heads, argument.rows};
      view.strides = {tensor.batch_stride, tensor.head_stride, tensor.row_stride};
    }
    check(argument, element_count(view.shape) == 0);
    if (argument.row == 0) return;  // lse
    view.shape.push_back(argument.row);
    view.strides.push_back(1);
  }

  void check_scalars() const {
    check_range("batch", call_.batch, packed_ ? 1 : 0, kMostRows - 1);
    check_range("queries", call_.queries, 0, kMostRows);
    check_range("keys", call_.keys, 0, kMostRows);
    if (paged_) {
      check_pages();
    } else {
      check_offsets("cu_q", call_.cu_q, "cu_kv", call_.cu_kv);
      check_offsets("device_cu_q", call_.device_cu_q, "device_cu_kv", call_.device_cu_kv);
    }
    if (on_cpu_ && call_.stream != nullptr)
      fail(ErrorKind::invalid_argument, "stof_plan_run: call.stream is {}; accepted on the CPU: NULL", call_.stream);
  }

  std::int64_t items() const { return packed_ ? -1 : call_.batch; }
  std::int64_t key_items() const { return paged_ ? call_.pages : items(); }
  std::int64_t key_rows() const { return paged_ ? call_.page_size : call_.keys; }

  // Lists on the device that a kernel in front of the others reads. device_kv_lengths belong to them only beside
  // another.
  void device_lengths(std::optional<DeviceLengths>& lengths) const {
    lengths.reset();
    if (!call_.device_q_lengths && !call_.device_cu_q && !call_.device_cu_kv && !call_.lengths_status) return;
    lengths = {.items = call_.batch,
               .q_lengths = device_numbers("device_q_lengths", call_.device_q_lengths),
               .kv_lengths = device_numbers("device_kv_lengths", call_.device_kv_lengths),
               .cu_q = device_numbers("device_cu_q", call_.device_cu_q),
               .cu_kv = device_numbers("device_cu_kv", call_.device_cu_kv)};
    device_numbers("lengths_status", reinterpret_cast<const std::int32_t*>(call_.lengths_status));
    static_assert(sizeof(LengthsStatus) == sizeof(stof_lengths_status));
    lengths->status = reinterpret_cast<LengthsStatus*>(call_.lengths_status);
  }

  // A list in the device's memory.
  void device_list(std::string_view name, const std::int32_t* first, std::initializer_list<std::int64_t> shape,
                   std::int64_t stride, std::optional<TensorView>& view) const {
    if (device_numbers(name, first) == nullptr) return view.reset();
    if (!view) view.emplace();
    // No list is written; views do not say so.
    view->data = const_cast<std::int32_t*>(first);
    view->dtype = DType::i32;
    view->shape = shape;
    view->strides = {stride, 1};
    if (shape.size() == 1) view->strides = {1};
  }

  // One for all items where they are no distance apart.
  void tree(std::optional<TensorView>& view) const {
    if (call_.tree == nullptr) return view.reset();
    check_range("tree_queries", call_.tree_queries, 1, kMostRows);
    check_range("tree_row_stride", call_.tree_row_stride, 0, kMostRows);
    check_range("tree_batch_stride", call_.tree_batch_stride, 0, kMostBytes / std::max<std::int64_t>(1, call_.batch));
    const std::int64_t words = (call_.tree_queries + 31) / 32;
    device_list("tree", call_.tree, {call_.batch, call_.tree_queries, words}, 1, view);
    view->strides = {call_.tree_batch_stride, call_.tree_row_stride, 1};
  }

  // A list in the host's memory; empty when there is none.
  std::span<const std::int32_t> list(std::string_view name, const std::int32_t* first, std::int64_t count) const {
    if (first == nullptr) return {};
    if (reinterpret_cast<std::uintptr_t>(first) % alignof(std::int32_t) != 0) fail_alignment(name, first, DType::i32);
    check_host_address("stof_plan_run: call.", name, first);
    return {first, static_cast<std::size_t>(count)};
  }

 private:
  // NULL, or where numbers of the device's may be.
  const std::int32_t* device_numbers(std::string_view name, const std::int32_t* first) const {
    if (first == nullptr) return nullptr;
    if (reinterpret_cast<std::uintptr_t>(first) % alignof(std::int32_t) != 0) fail_alignment(name, first, DType::i32);
    if (on_cpu_) check_host_address("stof_plan_run: call.", name, first);
    return first;
  }

  static void check_offsets(std::string_view q, const std::int32_t* of_q, std::string_view kv,
                            const std::int32_t* of_kv) {
    if ((of_q == nullptr) != (of_kv == nullptr))
      fail(ErrorKind::invalid_argument, "stof_plan_run: call.{} is NULL; accepted: both {} and {}, or neither",
           of_q == nullptr ? q : kv, q, kv);
  }

  void check_pages() const {
    check_range("pages", call_.pages, 0, kMostRows);
    if (std::ranges::find(kPageSizes, call_.page_size) == kPageSizes.end())
      fail(ErrorKind::invalid_argument, "stof_plan_run: call.page_size is {}; accepted: 16, 32, 64, 128, 256",
           call_.page_size);
    check_range("page_table_stride", call_.page_table_stride, 0, kMostRows);
    if (call_.keys % call_.page_size != 0)
      fail(ErrorKind::invalid_argument, "stof_plan_run: call.keys is {}; accepted with pages: a multiple of {}",
           call_.keys, call_.page_size);
  }

  static void check_range(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
      fail(ErrorKind::invalid_argument, "stof_plan_run: call.{} is {}; accepted: {}..{}", name, value, least, most);
  }

  [[noreturn]] static void fail_alignment(std::string_view name, const void* address, DType dtype) {
    fail(ErrorKind::invalid_argument, "stof_plan_run: call.{} is at {}; accepted for {}: a multiple of {}", name,
         address, name_of(dtype), size_of(dtype));
  }

  void check(const Argument& argument, bool empty) const {
    for (const Dimension& dimension : {Dimension{"row_stride", argument.rows, argument.tensor.row_stride},
                                       Dimension{"head_stride", argument.heads, argument.tensor.head_stride},
                                       Dimension{"batch_stride", argument.items, argument.tensor.batch_stride}})
      check_stride(argument, dimension);
    const void* const data = argument.tensor.data;
    if (empty || data == nullptr) return;  // what lacks its memory is refused by the run
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(argument.dtype) != 0)
      fail_alignment(fmt::format("{}.data", argument.name), data, argument.dtype);
    if (on_cpu_) check_host_address("stof_plan_run: call.", fmt::format("{}.data", argument.name), data);
  }

  static void check_stride(const Argument& argument, const Dimension& dimension) {
    if (dimension.size <= 1) return;
    const auto element = static_cast<std::int64_t>(size_of(argument.dtype));
    const std::int64_t most = kMostBytes / element / dimension.size;
    if (dimension.stride < 0 || dimension.stride > most)
      fail(ErrorKind::invalid_argument, "stof_plan_run: call.{}.{} is {}; accepted: 0..{} elements", argument.name,
           dimension.name, dimension.stride, most);
  }

  const stof_call& call_;
  const bool on_cpu_, packed_, paged_;
};

}  // namespace

void convert(const stof_call& call, const stof_plan& plan, AttentionArguments& arguments) {
  const AttentionShape& shape = plan.shape;
  const DType dtype = dtype_of("stof_plan_run: call.dtype", call.dtype);
  if (dtype != shape.dtype)
    fail(ErrorKind::invalid_argument, "stof_plan_run: call.dtype is {}; this plan takes {}", name_of(dtype),
         name_of(shape.dtype));
  const Checker checker(call, plan);
  checker.check_scalars();
  const std::int64_t heads = shape.heads, kv_heads = shape.kv_heads, d = shape.head_dim;
  const std::int64_t items = checker.items(), key_items = checker.key_items(), key_rows = checker.key_rows();
  checker.view({"q", call.q, dtype, items, heads, call.queries, d}, arguments.q);
  checker.view({"k", call.k, dtype, key_items, kv_heads, key_rows, d}, arguments.k);
  checker.view({"v", call.v, dtype, key_items, kv_heads, key_rows, d}, arguments.v);
  checker.view({"out", call.out, dtype, items, heads, call.queries, d}, arguments.out);
  if (call.lse.data == nullptr) arguments.lse.reset();
  else if (!arguments.lse) arguments.lse.emplace();
  if (arguments.lse) checker.view({"lse", call.lse, DType::f32, items, heads, call.queries, 0}, *arguments.lse);
  arguments.scale.reset();
  if (call.scale != nullptr) arguments.scale = *call.scale;
  arguments.softcap.reset();
  if (call.softcap != nullptr) arguments.softcap = *call.softcap;
  arguments.relative_bias = call.relative_bias == nullptr ? nullptr : &call.relative_bias->bias;
  arguments.q_lengths = checker.list("q_lengths", call.q_lengths, call.batch);
  arguments.kv_lengths = checker.list("kv_lengths", call.kv_lengths, call.batch);
  arguments.cu_q = checker.list("cu_q", call.cu_q, call.batch + 1);
  arguments.cu_kv = checker.list("cu_kv", call.cu_kv, call.batch + 1);
  const std::int64_t pages = call.page_table == nullptr ? 0 : call.keys / call.page_size;
  checker.device_list("page_table", call.page_table, {call.batch, pages}, call.page_table_stride, arguments.page_table);
  checker.device_lengths(arguments.device_lengths);
  const std::int32_t* const kv_lengths = arguments.device_lengths ? nullptr : call.device_kv_lengths;
  checker.device_list("device_kv_lengths", kv_lengths, {call.batch}, 1, arguments.device_kv_lengths);
  checker.tree(arguments.tree);
  arguments.check_pages = call.check_pages != 0;
  arguments.stream = call.stream;
  arguments.workspace = call.workspace;
  arguments.workspace_bytes = call.workspace_bytes;
  arguments.may_plan = false;
}

}  // namespace stof::capi

stof_status stof_plan_run(const stof_plan* plan, const stof_call* call) {
  namespace capi = stof::capi;
  return capi::guarded([&] {
    const stof_plan& of_plan = capi::given(plan, "stof_plan_run: plan");
    constexpr std::size_t kWithoutPages = offsetof(stof_call, page_table), kWithoutCap = offsetof(stof_call, softcap),
                          kWithoutLists = offsetof(stof_call, device_q_lengths),
                          kWithoutTree = offsetof(stof_call, tree), kWithoutBias = offsetof(stof_call, relative_bias);
    const stof_call given_call = capi::given_grown(
        call, {kWithoutPages, kWithoutCap, kWithoutLists, kWithoutTree, kWithoutBias}, "stof_plan_run: call");
    const stof::Pool<stof::AttentionArguments>::Lease arguments(of_plan.arguments);
    capi::convert(given_call, of_plan, *arguments);
    of_plan.attention.run(*arguments);
  });
}
