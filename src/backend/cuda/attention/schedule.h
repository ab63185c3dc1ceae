// SPDX-License-Identifier: Apache-2.0
// When the last of many teams is done.
#pragma once
#include <span>

namespace stof::cuda {

struct SamePieces {
  double cost = 0;   // of each
  double count = 0;  // not always whole: of some slices' share, say
};

// Whoever is idle takes the costliest piece that is left. `pieces`: descending by cost. Where there are several for
// each team, an estimate: the last ones, which are the cheapest, even out what is before.
double makespan(std::span<const SamePieces> pieces, double teams);

// Not below it, without following who takes what.
double most_makespan(std::span<const SamePieces> pieces, double teams);

// Of at most two rounds that are dealt in turns, the second one backwards: the team that began with the costliest gets
// the cheapest of the second round, or none.
double makespan_dealt(std::span<const SamePieces> pieces, double teams);

struct Crew {
  int multiprocessors = 1;
  int ctas = 1;   // of each
  int teams = 1;  // of each CTA
};

// At most one piece for each team, costs as they are while all teams of a multiprocessor work; who is alone there takes
// the share `alone` of them. Dealt to CTA after CTA, every other team of a CTA from the other end (first_place of
// stream_attention.cuh).
double makespan_of_one_round(std::span<const SamePieces> pieces, const Crew& crew, double alone);

}  // namespace stof::cuda
