// SPDX-License-Identifier: Apache-2.0
// What STOF takes from the environment: nothing else reads it.
#pragma once
#include <filesystem>

namespace stof {

// Where STOF keeps what it can make again: $XDG_CACHE_HOME/stof, else $HOME/.cache/stof, else the folder for temporary
// files. A relative $XDG_CACHE_HOME is ignored, as the XDG base directory specification asks. Nothing is created.
std::filesystem::path cache_folder();

// Whether somebody asked OpenMP for a number of threads: $OMP_NUM_THREADS is set.
bool names_threads();

}  // namespace stof
