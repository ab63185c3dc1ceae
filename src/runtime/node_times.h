// SPDX-License-Identifier: Apache-2.0
// Where the time of a whole call goes: what each node takes by itself, and what the call takes longer for having it.
#pragma once
#include <string>
#include <vector>

#include "src/graph/graph.h"
#include "src/runtime/timed_call.h"

namespace stof {

struct NodeTime {
  std::string work;      // src/fusion/work.h; nodes of one work are alike
  double alone_us = 0;   // again and again, of the first node of its work
  double inside_us = 0;  // of a call that ends with it, less that of one that ends before it
};

struct NodeTimes {
  std::vector<NodeTime> nodes;  // of the graph, in order, inputs left out
  double empty_us = 0;          // a call without steps
  double whole_us = 0;          // and with all of them: empty_us and every inside_us
};

struct NodeTimeOptions {
  int rounds = 9;
  double seconds_alone = 0.005;  // of measuring a work by itself
};

// The program was made of the graph.
NodeTimes node_times(const Program& program, const Graph& graph, const EvenCall& call, const NodeTimeOptions& options);

// Of times_up_to_each_step: for each step the median over rounds of what it adds to a call. The sum of medians is not
// the median of sums: what is missing to the median of the whole calls is shared out in proportion.
std::vector<double> added_times(const std::vector<std::vector<double>>& rounds);

// A node a line, in order; then a line for each work with its sums. Columns: alone, inside, difference.
std::string to_text(const NodeTimes& times);

}  // namespace stof
