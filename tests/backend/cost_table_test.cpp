// SPDX-License-Identifier: Apache-2.0
// Tables of costs as files: read back as written, and ignored with the reason when they are of another machine or bad.
#include "src/backend/cpu/attention/cost_table.h"

#include <gtest/gtest.h>

#include <fstream>

#include "src/base/error.h"
#include "stof/device.h"
#include "tests/temporary_folder.h"

namespace stof::cpu {
namespace {

CostTable table_of_this_machine() {
  CostTable table = built_in_costs();
  table.block_f32[0] = 12.5;
  table.device = open_device("cpu").caps.name;
  table.processor = processor_name();
  table.commit = "0123456";
  table.day = "2026-01-02";
  return table;
}

TEST(CostTable, WithoutAFileTheBuiltInOneIsUsed) {
  const TemporaryFolder folder;
  const CostsInUse costs = read_costs(folder.path() / "none.json");
  EXPECT_EQ(costs.source, "built in");
  EXPECT_FALSE(costs.ignored);
  EXPECT_EQ(costs.table, built_in_costs());
}

TEST(CostTable, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "made" / "costs.json";
  write_calibration(table_of_this_machine(), file);
  const CostsInUse costs = read_costs(file);
  EXPECT_EQ(costs.table, table_of_this_machine());
  EXPECT_EQ(costs.source, fmt::format("measured here on 2026-01-02 ({})", file.string()));
}

TEST(CostTable, OfAnotherProcessorIsIgnored) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "costs.json";
  CostTable table = table_of_this_machine();
  table.processor = "Another 9000";
  write_calibration(table, file);
  const CostsInUse costs = read_costs(file);
  EXPECT_TRUE(costs.ignored);
  EXPECT_EQ(costs.table, built_in_costs());
  EXPECT_EQ(costs.source, fmt::format("built in: {} was measured on Another 9000 ({}), this is {} ({})", file.string(),
                                      table.device, processor_name(), table.device));
}

TEST(CostTable, ThatIsBadIsIgnored) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "costs.json";
  write_calibration(table_of_this_machine(), file);
  std::ifstream in(file);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    EXPECT_NE(text.find(what), std::string::npos) << what;
    return text.replace(text.find(what), what.size(), by);
  };
  for (const std::string& text :
       {std::string(), std::string("[1, 2]"), good.substr(0, good.size() / 2),
        replaced("\"format\": 1", "\"format\": 2"), replaced("12.5", "-12.5"), replaced("12.5", "1e308"),
        replaced("12.5", "\"12.5\""), replaced("12.5", "1, 12.5"), replaced("row_f16", "row_f61")}) {
    std::ofstream(file) << text;
    const CostsInUse costs = read_costs(file);
    EXPECT_TRUE(costs.ignored) << text;
    EXPECT_EQ(costs.source,
              fmt::format("built in: {} is no calibration of format 1; `stof calibrate` writes one", file.string()));
  }
}

}  // namespace
}  // namespace stof::cpu
