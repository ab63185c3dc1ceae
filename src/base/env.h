// SPDX-License-Identifier: Apache-2.0
// What STOF takes from the environment: nothing else reads it.
#pragma once
#include <filesystem>
#include <string>

namespace stof {

// Where STOF keeps what it can make again: $XDG_CACHE_HOME/stof, else $HOME/.cache/stof. A relative $XDG_CACHE_HOME is
// ignored, as the XDG base directory specification asks. Neither is created. Without both it is stof-UID among the
// temporary files, which is made for this user alone, so that nobody else can make it before something is kept there;
// if others can write there, a name below /dev/null, which nobody can write or read.
std::filesystem::path cache_folder();

// The same for who only looks: makes nothing.
std::filesystem::path cache_folder_as_it_is();

// A relative $XDG_CACHE_HOME; empty otherwise.
std::string ignored_cache_home();

// Why either is that name; empty otherwise.
std::string why_no_cache();

// Whether somebody asked OpenMP for a number of threads: $OMP_NUM_THREADS is set.
bool names_threads();

}  // namespace stof
