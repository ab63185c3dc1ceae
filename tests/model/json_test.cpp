// SPDX-License-Identifier: Apache-2.0
#include "src/model/json.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"

namespace stof {
namespace {

using nlohmann::json;

TEST(Json, RefusesWhatExceedsItsLimits) {
  EXPECT_ERROR(parse_json("[1, 2]", "f", {.bytes = 5}), ErrorKind::bad_file, "f: 6 bytes of JSON; accepted: at most 5");
  EXPECT_ERROR(parse_json("[[1]]", "f", {.depth = 1}), ErrorKind::bad_file, "f: JSON nested deeper than 1 levels");
  EXPECT_ERROR(parse_json("[1, 2]", "f", {.values = 2}), ErrorKind::bad_file, "f: JSON of more than 2 values");
  EXPECT_ERROR(parse_json(std::string(1'000'000, '['), "f"), ErrorKind::bad_file,
               "f: JSON nested deeper than 32 levels");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_ERROR(parse_json(objects, "f"), ErrorKind::bad_file, "f: JSON nested deeper than 32 levels");
}

TEST(Json, RefusesWhatIsNotJson) {
  EXPECT_ERROR(parse_json("", "f"), ErrorKind::bad_file, "f: empty; accepted: JSON");
  EXPECT_ERROR(parse_json("{\"a\": nul}", "f"), ErrorKind::bad_file, "f: not valid JSON at byte 10 of 10");
  EXPECT_ERROR(parse_json("[1e999]", "f"), ErrorKind::bad_file, "f: a number beyond the range of double");
}

TEST(Json, RefusesDuplicateNamesInOneObjectOnly) {
  EXPECT_ERROR(parse_json(R"({"a": {"b": 1, "b": 2}})", "f"), ErrorKind::bad_file, "f: the name 'b' appears twice");
  EXPECT_EQ(parse_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "f").size(), 2u);
}

TEST(Json, GettersNameWhatTheyGotAndAccept) {
  const json tree = json::parse(R"({"n": 3, "x": 0.5, "s": "text", "t": true, "none": null, "big": 18446744073709551615,
                      "tiny": 1e-40, "huge": 1e39})");
  const JsonObject object(tree, "f");
  EXPECT_EQ(object.integer("n", 1, 3), 3);
  EXPECT_EQ(object.integer("absent", 1, 3, 2), 2);
  EXPECT_EQ(object.positive_number("x"), 0.5);
  EXPECT_EQ(object.string("s"), "text");
  EXPECT_TRUE(object.boolean("t"));
  EXPECT_EQ(object.optional_boolean("none"), std::nullopt);
  EXPECT_EQ(object.optional_boolean("t"), true);
  EXPECT_ERROR(object.integer("n", 4, 9), ErrorKind::bad_file, "f: 'n' is 3; accepted: an integer from 4 to 9");
  EXPECT_ERROR(object.integer("x", 0, 9), ErrorKind::bad_file, "f: 'x' is 0.5; accepted: an integer from 0 to 9");
  EXPECT_ERROR(object.integer("big", 0, 9), ErrorKind::bad_file,
               "f: 'big' is 18446744073709551615; accepted: an integer from 0 to 9");
  EXPECT_ERROR(object.positive_number("s"), ErrorKind::bad_file, "f: 's' is \"text\"; accepted: a number above 0");
  for (const char* const size : {"tiny", "huge"})
    EXPECT_ERROR(
        object.positive_number(size), ErrorKind::bad_file,
        std::string("f: '") + size + "' is " + tree[size].dump() + "; accepted: 1.2e-38 to 3.4e38, as floats are");
  EXPECT_ERROR(object.boolean("n"), ErrorKind::bad_file, "f: 'n' is 3; accepted: true, false");
  EXPECT_ERROR(object.optional_boolean("n"), ErrorKind::bad_file, "f: 'n' is 3; accepted: true, false, null");
  EXPECT_ERROR(object.string("n"), ErrorKind::bad_file, "f: 'n' is 3; accepted: a string");
  EXPECT_ERROR(object.at("absent"), ErrorKind::bad_file, "f: 'absent' is missing");
  EXPECT_ERROR(object.object("n"), ErrorKind::bad_file, "f: n: 3; accepted: an object");
}

TEST(Json, ExcerptsAreShort) {
  EXPECT_EQ(excerpt(json(std::string(100, 'x'))), '"' + std::string(59, 'x') + "...");
  EXPECT_EQ(excerpt(json(std::vector<int>(100))), "array of 100 entries");
}

}  // namespace
}  // namespace stof
