// SPDX-License-Identifier: Apache-2.0
// stof: masked attention and Transformers from the command line. Exit codes: 0; 2 the user's error; 3 unsupported here;
// 4 device or memory; 1 our bug.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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
  CLI::App app{
      "STOF runs Transformers whose attention is restricted by a mask: which query may attend to which key.\n"
      "Start with 'stof doctor', which says what this machine offers; 'stof COMMAND --help' explains a command.",
      "stof"};
  app.set_version_flag("--version", "stof " STOF_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("stof: {}; --help lists what is accepted\n", error.what());
  });
  stof::cli::add_attention(app);
  stof::cli::add_demo(app);
  stof::cli::add_doctor(app);
  stof::cli::add_graph(app);
  stof::cli::add_mask(app);
  stof::cli::add_plan(app);
  stof::cli::add_run(app);
  stof::cli::add_tokenize(app);
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
    const int code = run(argc, argv);
    if (std::fflush(stdout) == 0) return code;
    fmt::print(stderr, "stof: cannot write to stdout: {}\n", std::strerror(errno));
    return exit_code(stof::ErrorKind::device);
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
