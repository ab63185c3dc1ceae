// SPDX-License-Identifier: Apache-2.0
// From the start of the program to its first embedding, as a user waits for it: in a process of its own.
#pragma once
#include <string>

namespace stof::cli {

struct FirstEmbedding {
  double seconds = 0;    // from the start to the exit of the process
  double megabytes = 0;  // the most memory that it held at a time
  int measured = 0;      // times that it took of anything
  int compiled = 0;      // kernels that were in no cache
};

struct FirstCall {
  std::string model, text, dtype, device;
};

// The fastest of a few runs of `stof run --model MODEL --input -`, given the text: what the disk and caches can keep is
// there, and the last of them says what was measured and compiled all the same. Throws what it says when one fails.
FirstEmbedding first_embedding(const FirstCall& call);

}  // namespace stof::cli
