// SPDX-License-Identifier: Apache-2.0
// One function per subcommand, each in the file of its name: it declares its options and its callback.
// Callbacks write data to stdout, messages to stderr, and report failure by throwing.
#pragma once
#include <CLI/CLI.hpp>

namespace stof::cli {

void add_attention(CLI::App& app);
void add_bench(CLI::App& app);
void add_calibrate(CLI::App& app);
void add_demo(CLI::App& app);
void add_doctor(CLI::App& app);
void add_generate(CLI::App& app);
void add_graph(CLI::App& app);
void add_mask(CLI::App& app);
void add_plan(CLI::App& app);
void add_plans(CLI::App& app);
void add_run(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_tune(CLI::App& app);

// What `stof bench` measures, each its own subcommand.
void add_bench_attention(CLI::App& bench);
void add_bench_model(CLI::App& bench);

}  // namespace stof::cli
