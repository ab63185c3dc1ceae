// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/emit_mask.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "src/base/error.h"
#include "src/codegen/emit_where.h"
#include "src/mask/expression.h"

namespace stof {
namespace {

// Numbers beyond this act as this: positions and keys stay below it.
constexpr std::int64_t kFar = (std::int64_t{1} << 31) - 1;

// Text in which each '$' stands for the parameter of the same rank; or why there is none.
struct Piece {
  std::string text;
  std::vector<std::int32_t> parameters;
  std::string refusal;
};

Piece refused(std::string reason) { return {.text = {}, .parameters = {}, .refusal = std::move(reason)}; }

Piece piece(std::string_view text, std::initializer_list<std::int64_t> numbers = {}) {
  Piece made{.text = std::string(text), .parameters = {}, .refusal = {}};
  for (const std::int64_t number : numbers)
    made.parameters.push_back(static_cast<std::int32_t>(std::min(number, kFar)));
  return made;
}

void append(Piece& to, std::string_view between, Piece part) {
  to.text += between;
  to.text += part.text;
  to.parameters.insert(to.parameters.end(), part.parameters.begin(), part.parameters.end());
  if (to.refusal.empty()) to.refusal = std::move(part.refusal);
}

class Emitter {
 public:
  explicit Emitter(const MaskExtent& extent) : extent_(extent) {}

  Piece emit(const Mask& mask) const {
    return std::visit([this](const auto& term) { return of(term); }, mask.node().term);
  }

 private:
  Piece of(const term::All&) const { return piece("true"); }
  Piece of(const term::None&) const { return piece("false"); }
  Piece of(const term::Causal&) const { return piece("causal(q, k)"); }
  Piece of(const term::Window& t) const { return piece("window($, $, q, k)", {t.left, t.right}); }
  Piece of(const term::Dilated& t) const { return piece("comb($, $, q, k)", {t.stride, t.reach}); }
  Piece of(const term::Strided& t) const { return piece("comb($, $, q, k)", {t.stride, t.reach}); }
  Piece of(const term::Sink& t) const { return piece("sink($, k)", {t.count}); }
  Piece of(const term::Prefix& t) const { return piece("prefix($, q, k)", {t.count}); }
  Piece of(const term::Global& t) const {
    if (!t.positions.empty()) return refused("global holds an array");
    return piece("global($, q, k)", {t.first});
  }
  Piece of(const term::Natten& t) const {
    return piece("natten({$, $, $, $}, q, k)", {t.height, t.width, t.kernel_height, t.kernel_width});
  }
  Piece of(const term::Where& t) const {
    EmittedWhere where = emit_where(t, extent_);
    return {std::move(where.text), std::move(where.parameters), std::move(where.refusal)};
  }
  Piece of(const term::Documents&) const { return refused("documents holds an array"); }
  Piece of(const term::DocumentIds&) const { return refused("document_ids holds an array"); }
  Piece of(const term::Segments&) const { return refused("segments holds an array"); }
  Piece of(const term::Blocks&) const { return refused("blocks holds an array"); }
  Piece of(const term::RandomBlocks&) const { return refused("random_blocks draws an array"); }
  Piece of(const term::BigBird&) const { return refused("bigbird draws an array"); }
  Piece of(const term::Tree&) const { return refused("tree holds an array"); }
  Piece of(const term::Bits&) const { return refused("bits holds an array"); }

  Piece of(const term::And& t) const { return joined(t.masks, " & "); }
  Piece of(const term::Or& t) const { return joined(t.masks, " | "); }
  Piece of(const term::Not& t) const {
    Piece result = piece("(!");
    append(result, "", emit(t.mask));
    result.text += ")";
    return result;
  }

  // Masks are ordered by their numbers too; here by structure first, so that numbers do not change the source.
  Piece joined(const std::vector<Mask>& masks, std::string_view between) const {
    std::vector<Piece> parts;
    for (const Mask& mask : masks) parts.push_back(emit(mask));
    std::stable_sort(parts.begin(), parts.end(), [](const Piece& a, const Piece& b) { return a.text < b.text; });
    Piece result = piece("(");
    for (std::size_t i = 0; i < parts.size(); ++i) append(result, i == 0 ? "" : between, std::move(parts[i]));
    result.text += ")";
    return result;
  }

  Piece of(const term::Select& t) const {
    const std::string_view index = t.by == term::SelectBy::head ? "h" : "b";
    Piece result = piece("(");
    for (const Selection& selection : t.selections) {
      append(result, "", piece(fmt::format("within($, $, {}) ? ", index), {selection.first, selection.last}));
      append(result, "", emit(selection.mask));
      result.text += " : ";
    }
    append(result, "", t.otherwise ? emit(*t.otherwise) : piece("false"));
    result.text += ")";
    return result;
  }

  MaskExtent extent_;
};

// '$' becomes a[0], a[1], ... in order.
std::string numbered(std::string_view text) {
  std::string result;
  int count = 0;
  for (const char c : text)
    if (c == '$') result += fmt::format("a[{}]", count++);
    else result += c;
  return result;
}

Piece emit_piece(const Mask& mask, const MaskExtent& extent) {
  constexpr std::int64_t kMostExtent = std::int64_t{1} << 30;
  if (extent.queries >= kMostExtent || extent.keys >= kMostExtent)
    return refused(
        fmt::format("{} queries and {} keys do not fit a predicate of 32-bit numbers", extent.queries, extent.keys));
  return Emitter(extent).emit(mask);
}

}  // namespace

std::optional<std::string> refuses_to_emit(const Mask& mask, const MaskExtent& extent) {
  Piece emitted = emit_piece(mask, extent);
  if (emitted.refusal.empty()) return std::nullopt;
  return std::move(emitted.refusal);
}

EmittedMask emit_mask(const Mask& mask, const MaskExtent& extent) {
  Piece emitted = emit_piece(mask, extent);
  if (!emitted.refusal.empty()) fail(ErrorKind::unsupported, "no predicate for this mask: {}", emitted.refusal);
  constexpr std::string_view kBefore =
      "#include \"kernels/shared/mask_terms.h\"\n"
      "\n"
      "struct MaskPredicate {\n"
      "  static STOF_DEVICE bool allows([[maybe_unused]] const int* a, [[maybe_unused]] int b, [[maybe_unused]] int "
      "h,\n"
      "                                 [[maybe_unused]] int q, [[maybe_unused]] int k) {\n"
      "    using namespace stof::mask_terms;\n"
      "    return ";
  return {.source = fmt::format("{}{};\n  }}\n}};\n", kBefore, numbered(emitted.text)),
          .parameters = std::move(emitted.parameters)};
}

}  // namespace stof
