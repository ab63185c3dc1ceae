// SPDX-License-Identifier: Apache-2.0
// How long threads spin for each other before they sleep.
#pragma once
#include <string>

namespace stof::cli {

// OpenMP's own default makes a call many times slower where another program keeps a core
// (docs/decisions/0006-threads-spin-for-a-moment.md), and is read before main: the program starts again, in the same
// process, with another one in its environment. Returns where the user chose, or where it cannot start again.
void spin_for_a_moment(char** arguments);

// What waiting threads do, as the environment says it: "GOMP_SPINCOUNT=1000"; empty: OpenMP's own default.
std::string thread_waiting();

// The environment without that choice: what a program that is started as a user starts it finds.
void forget_spins();

}  // namespace stof::cli
