// SPDX-License-Identifier: Apache-2.0
// stof: masked attention and Transformers from the command line. Exit codes: 0; 2 the user's error; 3 unsupported here;
// 4 device or memory; 1 our bug.
#include <fcntl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/kernels_ahead.h"
#include "cli/messages.h"
#include "cli/short_spins.h"
#include "src/base/error.h"
#include "src/codegen/compiler.h"

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

// A descriptor that is closed would be given to the next file that is opened, and messages would end in that file.
// Writing to this one still fails.
void keep_standard_descriptors() {
  for (const int descriptor : {0, 1, 2})
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDONLY);
}

// A file that may not grow further is an error of writing, as a full disk is.
void outlive_file_size_limits() { std::signal(SIGXFSZ, SIG_IGN); }

void complain(const std::string& what) { stof::cli::say(fmt::format("stof: {}\n", stof::cli::shortened(what))); }

std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

// Of `stof`, or of a command that has commands of its own, the one that was to be named and was not.
std::optional<std::string> missing_command(CLI::App& app) {
  const std::vector<CLI::App*> commands = commands_of(app);
  if (commands.empty()) return std::nullopt;
  if (const std::vector<CLI::App*> chosen = app.get_subcommands(); !chosen.empty()) return missing_command(*chosen[0]);
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  const std::vector<std::string> extra = app.remaining();
  const std::string got = extra.empty() ? "no command" : fmt::format("'{}' is no command", extra.front());
  const std::string of = app.get_parent() == nullptr ? "" : fmt::format(" of '{}'", app.get_name());
  return fmt::format("{}{}; accepted: {}", got, of, fmt::join(names, ", "));
}

void refuse_missing_command(CLI::App& app) {
  if (const auto missing = missing_command(app)) stof::fail(stof::ErrorKind::invalid_argument, "{}", *missing);
}

// An empty value is a shell variable that was not set, not the wish for the default. Only a text may be empty.
void refuse_empty_values(CLI::App& app) {
  const auto refuse = [](const std::string& value) { return std::string(value.empty() ? "the value is empty" : ""); };
  for (CLI::App* command : commands_of(app)) {
    refuse_empty_values(*command);
    for (CLI::Option* option : command->get_options())
      if (option->get_items_expected_min() > 0 && option->get_name() != "--text") option->check(refuse);
  }
}

// Of every command that runs on a device, or plans for one.
void add_jit(CLI::App& app) {
  for (CLI::App* command : commands_of(app)) {
    add_jit(*command);
    if (command->get_option_no_throw("--device") == nullptr) continue;
    const auto choose = [](const std::string& jit) {
      stof::machine_compiler().switch_jit(jit == "off" ? stof::Jit::off : stof::Jit::on);
    };
    command->add_option_function<std::string>("--jit", choose, "on: compile GPU kernels that the build lacks; off")
        ->check(CLI::IsMember({"on", "off"}))
        ->default_str("on");
  }
}

// What --help shows in the place of a value, as docs/cli.md does; of other options CLI11's own word.
void name_values(CLI::App& app) {
  static const std::map<std::string, std::vector<std::string>> kNames = {
      {"DIR", {"--model", "--encoder", "--data"}},
      {"FILE",
       {"--q", "--k", "--v", "--out", "--lse", "--lengths", "--lengths-out", "--input", "--hidden-out", "--reference",
        "--json", "--png", "--dot", "--times", "--source", "file"}},
      {"EXPR", {"--mask", "mask"}},
      {"NAME", {"--device", "--kernel", "--dtype", "--random"}},
      {"PART", {"--part", "--ablation"}},
      {"SIZES", {"--shape", "--seq"}},
      {"BITS", {"--scheme"}},
      {"TIME", {"--budget"}}};
  for (CLI::App* command : commands_of(app)) {
    name_values(*command);
    for (const auto& [shown, names] : kNames)
      for (const std::string& name : names)
        if (CLI::Option* option = command->get_option_no_throw(name); option != nullptr) option->type_name(shown);
  }
}

// CLI11 takes them from the end; `stof help COMMAND` is `stof COMMAND --help`.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  std::ranges::reverse(arguments);
  return arguments;
}

// CLI11 lists them from the last to the first.
CLI::ExtrasError extras_error(std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);
  return CLI::ExtrasError(arguments);
}

// What is missing may have been given, misspelled.
CLI::RequiredError with_unknown_argument(const CLI::RequiredError& error, const std::vector<std::string>& unknown) {
  if (unknown.empty()) return error;
  const std::string what = unknown.front().starts_with("-") ? "no option " : "nothing is done with ";
  return {fmt::format("{}'{}'; {}", what, unknown.front(), error.what()), CLI::ExitCodes::RequiredError};
}

// CLI11 counts values: "--seq: At Most 1 required but received 2".
std::optional<CLI::ArgumentMismatch> given_again(const CLI::ArgumentMismatch& error) {
  constexpr std::string_view kWords = ": At Most 1 required but received ";
  const std::string text = error.what();
  const std::size_t at = text.find(kWords);
  if (at == std::string::npos) return std::nullopt;
  return CLI::ArgumentMismatch(
      fmt::format("{} is given {} times; accepted: once", text.substr(0, at), text.substr(at + kWords.size())));
}

// CLI11 counts what is not there, too: "--seq: 1 required SIZES missing".
std::optional<CLI::ArgumentMismatch> given_without_value(const CLI::ArgumentMismatch& error) {
  constexpr std::string_view kBefore = ": 1 required ", kBehind = " missing";
  const std::string text = error.what();
  const std::size_t at = text.find(kBefore);
  if (at == std::string::npos || !text.ends_with(kBehind)) return std::nullopt;
  const std::size_t name = at + kBefore.size();
  return CLI::ArgumentMismatch(fmt::format("{} is given without its value, {}", text.substr(0, at),
                                           text.substr(name, text.size() - kBehind.size() - name)));
}

// Text of --help and --version goes where all other data goes, so that a full disk is noticed.
int exit_of(const CLI::App& app, const CLI::Error& error) {
  std::ostringstream text;
  const int code = app.exit(error, text);
  fmt::print("{}", text.str());
  return code == 0 ? 0 : 2;
}

int run(int argc, char** argv) {
  CLI::App app{
      "STOF runs Transformers whose attention is restricted by a mask: which query may attend to which key.\n"
      "Start with 'stof doctor', which says what this machine offers; 'stof COMMAND --help' explains a command.",
      "stof"};
  app.set_version_flag("--version", "stof " STOF_VERSION);
  app.require_subcommand(0, 1);  // without one: missing_command()
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("stof: {}; --help lists what is accepted\n", stof::cli::shortened(error.what()));
  });
  stof::cli::add_attention(app);
  stof::cli::add_bench(app);
  stof::cli::add_calibrate(app);
  stof::cli::add_demo(app);
  stof::cli::add_doctor(app);
  stof::cli::add_generate(app);
  stof::cli::add_graph(app);
  stof::cli::add_mask(app);
  stof::cli::add_plan(app);
  stof::cli::add_plans(app);
  stof::cli::add_run(app);
  stof::cli::add_tokenize(app);
  stof::cli::add_tune(app);
  add_jit(app);
  name_values(app);
  refuse_empty_values(app);
  try {
    app.parse(arguments_of(argc, argv));
    refuse_missing_command(app);
    return 0;
  } catch (const CLI::ExtrasError&) {
    refuse_missing_command(app);
    return exit_of(app, extras_error(app.remaining(true)));
  } catch (const CLI::RequiredError& error) {
    return exit_of(app, with_unknown_argument(error, app.remaining(true)));
  } catch (const CLI::ArgumentMismatch& error) {
    return exit_of(app, given_again(error).value_or(given_without_value(error).value_or(error)));
  } catch (const CLI::CallForHelp& error) {
    if (!app.remaining().empty()) refuse_missing_command(app);
    return exit_of(app, error);
  } catch (const CLI::ParseError& error) {
    return exit_of(app, error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_descriptors();
  outlive_file_size_limits();
  if (argc == 3 && std::string_view(argv[1]) == stof::cli::kCompileWorker) stof::serve_compiles(argv[2]);
  stof::cli::spin_for_a_moment(argv);
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) == 0) return code;
    complain(fmt::format("cannot write to stdout: {}", std::strerror(errno)));
    return exit_code(stof::ErrorKind::device);
  } catch (const stof::Error& error) {
    complain(error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return 4;
  } catch (const std::system_error& error) {
    complain(std::ferror(stdout) != 0 ? fmt::format("cannot write to stdout: {}", error.code().message())
                                      : error.what());
    return exit_code(stof::ErrorKind::device);
  } catch (const std::exception& error) {
    complain(error.what());
    return 1;
  }
}
