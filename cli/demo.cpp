// SPDX-License-Identifier: Apache-2.0
// stof demo: what `make demo` shows. A tour, not a benchmark: each time is measured once or a few times.
#include "cli/demo.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/loading.h"
#include "cli/text_lines.h"
#include "src/base/error.h"
#include "src/tensor/npy.h"

namespace stof::cli {
namespace {

enum class Part { all, text, masks };

// What the program comes with lies in the repository; elsewhere it has to be named.
void check_data(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file))
    fail(ErrorKind::bad_file, "there is no {}; --data names the folder with sentences.txt and queries.txt",
         file.string());
}

void show_text(const DemoFiles& files) {
  check_data(files.sentences);
  check_data(files.queries);
  const DemoTexts texts{read_lines(files.sentences), read_lines(files.queries)};
  for (const auto& [file, lines] : {std::pair(&files.sentences, &texts.sentences), {&files.queries, &texts.queries}})
    if (lines->empty()) fail(ErrorKind::bad_file, "{} is empty; accepted: one text a line", file->string());
  const Stopwatch watch;
  const Session session = load_session(files.model, {.device = files.device});
  fmt::print("1. Sentences to vectors, and the three nearest to a few queries\n");
  fmt::print("  {} loaded in {:.2f} s\n", files.model.string(), watch.seconds());
  const Tensor embeddings = show_search(session, texts);
  fmt::print("\n2. The same vectors from another program\n");
  show_reference(files, embeddings);
  fmt::print("\n3. Sentences of unequal length in one batch\n");
  show_padding(files, session, texts);
}

Part parse_part(const std::string& name) {
  if (name == "all") return Part::all;
  if (name == "text") return Part::text;
  if (name == "masks") return Part::masks;
  fail(ErrorKind::invalid_argument, "--part {}; accepted: all, text, masks", name);
}

void show(const DemoFiles& files, Part part) {
  static_cast<void>(open_device(files.device));  // refused before anything is shown
  if (part != Part::masks) show_text(files);
  if (part == Part::all) fmt::print("\n");
  if (part != Part::text) {
    fmt::print("4. What masks buy on long input: an encoder of BERT-base's size, with random weights\n");
    show_masks(files.device);
  }
}

}  // namespace

void add_demo(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "demo", "Embed and search sentences, compare with a reference, drop the padding, and time masks on long input");
  auto model = std::make_shared<std::string>(), data = std::make_shared<std::string>("data");
  auto reference = std::make_shared<std::string>("tests/data/minilm_embeddings.npy");
  auto part = std::make_shared<std::string>("all"), device = std::make_shared<std::string>("auto");
  command->add_option("--model", *model, "folder of a Hugging Face encoder; not needed with --part masks");
  command->add_option("--data", *data, "folder with sentences.txt and queries.txt")->capture_default_str();
  CLI::Option* named = command->add_option("--reference", *reference, "embeddings of the sentences by another program")
                           ->capture_default_str();
  command->add_option("--part", *part, "text (1 to 3), masks (4) or all")->capture_default_str();
  command->add_option("--device", *device, "auto, cpu, cuda or cuda:N: where models run")->capture_default_str();
  command->callback([=] {
    const Part wanted = parse_part(*part);
    if (wanted != Part::masks && model->empty())
      fail(ErrorKind::invalid_argument, "--part {} needs a model: --model DIR; --part masks needs none", *part);
    const std::filesystem::path folder = *data;
    if (named->count() > 0) static_cast<void>(read_npy(*reference));  // not after minutes of work
    show({*model, folder / "sentences.txt", folder / "queries.txt", *reference, *device}, wanted);
  });
}

}  // namespace stof::cli
