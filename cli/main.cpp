// SPDX-License-Identifier: Apache-2.0
// stof: masked attention and Transformers from the command line. Exit codes: 0; 2 the user's error; 3 unsupported here;
// 4 device or memory; 1 our bug.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "cli/commands.h"
#include "stof/error.h"

namespace {

int exit_code(stof::ErrorKind kind) {
  switch (kind) {
    case stof::ErrorKind::invalid_argument:
    case stof::ErrorKind::bad_file: return 2;
    case stof::ErrorKind::unsupported: return 3;
    case stof::ErrorKind::device: return 4;
    case stof::ErrorKind::internal: return 1;
  }
  return 1;
}

int run(int argc, char** argv) {
  CLI::App app{"Transformers under any attention mask.", "stof"};
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const stof::Error& error) {
    fmt::print(stderr, "stof: {}\n", error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "stof: out of memory\n");
    return 4;
  } catch (const std::exception& error) {
    fmt::print(stderr, "stof: {}\n", error.what());
    return 1;
  }
}
