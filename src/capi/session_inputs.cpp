// SPDX-License-Identifier: Apache-2.0
#include "src/capi/session_inputs.h"

#include <algorithm>
#include <array>
#include <limits>

#include "src/base/narrow.h"
#include "src/capi/array.h"
#include "src/capi/boundary.h"
#include "src/model/unicode.h"

namespace stof::capi {
namespace {

constexpr std::int64_t kMostTexts = std::numeric_limits<std::int32_t>::max() - 1;

constexpr std::array kPoolings{Pooling::none, Pooling::cls, Pooling::mean, Pooling::max, Pooling::last};
static_assert(kPoolings[STOF_POOLING_NONE - 1] == Pooling::none && kPoolings[STOF_POOLING_CLS - 1] == Pooling::cls &&
              kPoolings[STOF_POOLING_MEAN - 1] == Pooling::mean && kPoolings[STOF_POOLING_MAX - 1] == Pooling::max &&
              kPoolings[STOF_POOLING_LAST - 1] == Pooling::last);

void check_count(std::int64_t count, std::string_view name) {
  if (count < 0 || count > kMostTexts)
    fail(ErrorKind::invalid_argument, "{}.count is {}; accepted: 0..{}", name, count, kMostTexts);
}

void check_numbers(const void* first, std::string_view name, DType dtype) {
  check_aligned(name, &given(static_cast<const char*>(first), name), dtype);
  check_host_address(name, "", first);
}

std::string text_of(const stof_texts& texts, std::size_t i, std::string_view name) {
  const char* const data = texts.data[i];
  if (data == nullptr) fail(ErrorKind::invalid_argument, "{}.data[{}] is NULL", name, i);
  if (texts.sizes != nullptr && (texts.sizes[i] < 0 || texts.sizes[i] > kMostBytes))
    fail(ErrorKind::invalid_argument, "{}.sizes[{}] is {}; accepted: 0..{}", name, i, texts.sizes[i], kMostBytes);
  std::string text = texts.sizes == nullptr ? data : std::string(data, static_cast<std::size_t>(texts.sizes[i]));
  if (const std::size_t invalid = unicode::find_invalid(text); invalid != std::string::npos)
    fail(ErrorKind::invalid_argument, "{}.data[{}] is not UTF-8 at its byte {}: 0x{:02X}", name, i, invalid,
         static_cast<unsigned char>(text[invalid]));
  return text;
}

}  // namespace

std::int32_t number_of(Pooling pooling) {
  return static_cast<std::int32_t>(std::ranges::find(kPoolings, pooling) - kPoolings.begin()) + 1;
}

std::optional<Pooling> pooling_of(std::int32_t pooling, std::string_view name) {
  if (pooling < 0 || pooling > std::int32_t{kPoolings.size()})
    fail(ErrorKind::invalid_argument, "{} is {}; accepted: 0..{}, a stof_pooling", name, pooling, kPoolings.size());
  if (pooling == STOF_POOLING_OF_MODEL) return std::nullopt;
  return kPoolings[static_cast<std::size_t>(pooling) - 1];
}

std::vector<std::string> texts_of(const stof_texts* texts, std::string_view name) {
  const stof_texts& all = given(texts, name);
  check_count(all.count, name);
  if (all.count == 0) return {};
  given(all.data, fmt::format("{}.data", name));
  std::vector<std::string> result;
  for (std::int64_t i = 0; i < all.count; ++i) result.push_back(text_of(all, static_cast<std::size_t>(i), name));
  return result;
}

std::vector<std::int32_t> ids_of(const std::int32_t* ids, std::int64_t count, std::string_view name) {
  if (count < 0 || count > std::numeric_limits<std::int32_t>::max())
    fail(ErrorKind::invalid_argument, "{}: their count is {}; accepted: 0..{}", name, count,
         std::numeric_limits<std::int32_t>::max());
  if (count == 0) return {};
  check_numbers(ids, name, DType::i32);
  return {ids, ids + count};
}

std::vector<std::vector<std::int32_t>> tokens_of(const stof_tokens* tokens, std::string_view name) {
  const stof_tokens& all = given(tokens, name);
  check_count(all.count, name);
  if (all.count == 0) return {};
  const std::vector<std::int32_t> offsets = ids_of(all.offsets, all.count + 1, fmt::format("{}.offsets", name));
  if (offsets[0] != 0) fail(ErrorKind::invalid_argument, "{}.offsets[0] is {}; accepted: 0", name, offsets[0]);
  const auto falls = std::ranges::adjacent_find(offsets, std::greater());
  if (falls != offsets.end())
    fail(ErrorKind::invalid_argument, "{}.offsets[{}] is {} and the one before it {}; accepted: ascending ones", name,
         falls - offsets.begin() + 1, falls[1], falls[0]);
  const std::vector<std::int32_t> ids = ids_of(all.ids, offsets.back(), fmt::format("{}.ids", name));
  std::vector<std::vector<std::int32_t>> result;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    result.emplace_back(ids.begin() + offsets[i], ids.begin() + offsets[i + 1]);
  return result;
}

float* written(float* values, std::string_view name) {
  check_numbers(values, name, DType::f32);
  return values;
}

std::int32_t* written(std::int32_t* numbers, std::string_view name) {
  check_numbers(numbers, name, DType::i32);
  return numbers;
}

void write_offsets(const std::vector<std::vector<std::int32_t>>& texts, std::int32_t* offsets) {
  *offsets = 0;
  for (const auto& ids : texts) {
    const std::int64_t end = *offsets + std::ssize(ids);
    *++offsets = narrow<std::int32_t>(end, "tokens of all texts together");
  }
}

void write_ids(const std::vector<std::vector<std::int32_t>>& texts, std::int32_t* ids) {
  for (const auto& text : texts) ids = std::ranges::copy(text, ids).out;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const Session& session) {
  std::shared_ptr<const Tokenizer> tokenizer = session.tokenizer();
  STOF_CHECK(tokenizer != nullptr);
  return tokenizer;
}

}  // namespace stof::capi
