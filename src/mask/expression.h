// SPDX-License-Identifier: Apache-2.0
// The tree behind a Mask. Nodes are immutable and shared; equal trees have equal canonical text.
#pragma once
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/mask/array_names.h"
#include "src/mask/terms/block_rows.h"
#include "src/mask/terms/combine.h"
#include "src/mask/terms/dense.h"
#include "src/mask/terms/diagonal.h"
#include "src/mask/terms/documents.h"
#include "src/mask/terms/natten.h"
#include "src/mask/terms/tokens.h"
#include "src/mask/terms/tree.h"
#include "src/mask/terms/where.h"

namespace stof {

using Term = std::variant<term::All, term::None, term::Causal, term::Window, term::Dilated, term::Strided, term::Global,
                          term::Sink, term::Prefix, term::Documents, term::DocumentIds, term::Segments, term::Blocks,
                          term::RandomBlocks, term::BigBird, term::Tree, term::Bits, term::Natten, term::Where,
                          term::And, term::Or, term::Not, term::Select>;

// Deeper trees are refused: evaluation recurses, with a scratch row of words on each level. As many parentheses, !,
// heads() and batch() may be inside each other in a text, which has no more of them than its tree has levels.
inline constexpr int kMaxDepth = 150;
// Terms of one text, and of the text of a tree.
inline constexpr std::size_t kMaxTerms = std::size_t{1} << 16;
// Bytes of a text, and of the text of a tree: one whose branches share their parts may have 2^depth of them.
inline constexpr std::size_t kMaxText = std::size_t{64} << 20;

struct MaskNode {
  Term term;
  std::string canonical;  // with arrays by content: what equality, order and fingerprint look at
  int depth = 1;
  std::size_t terms = 1;
};

// A node for a term whose arguments were checked. Throws invalid_argument when it would be nested too deep.
Mask make_mask(Term term);

// All of, any of: at least one mask; one alone is itself.
Mask conjunction(std::vector<Mask> masks);
Mask disjunction(std::vector<Mask> masks);

std::string print(const Mask& mask, ArrayNames names);

}  // namespace stof
