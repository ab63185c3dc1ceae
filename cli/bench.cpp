// SPDX-License-Identifier: Apache-2.0
// stof bench: what STOF's parts take on this machine. Each of its subcommands is a question, in the file of its name.
#include "cli/commands.h"

namespace stof::cli {

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure attention or models here, each output checked first");
  command->require_subcommand(0, 1);  // without one: main.cpp says which there are
  add_bench_attention(*command);
  add_bench_model(*command);
}

}  // namespace stof::cli
