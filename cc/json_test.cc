#include "cc/json.h"

#include <limits>
#include <vector>

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::google::protobuf::Struct;
using ::testing::AllOf;
using ::testing::HasSubstr;

Struct Parse(const std::string& text) {
  const absl::StatusOr<Struct> object = ParseJsonObject(text, "thing");
  EXPECT_TRUE(object.ok()) << object.status();
  return object.ok() ? *object : Struct();
}

TEST(ParseJsonObject, ReadsNestedValues) {
  const Struct object = Parse(R"({"a": 1.5, "b": {"c": [true, null, "x"]}})");
  EXPECT_EQ(object.fields().at("a").number_value(), 1.5);
  const auto& list = object.fields().at("b").struct_value().fields().at("c").list_value();
  EXPECT_EQ(list.values_size(), 3);
  EXPECT_EQ(list.values(2).string_value(), "x");
}

TEST(ParseJsonObject, NamesTheDocumentInErrors) {
  for (const char* text :
       {"", "[1]", "7", "{", "{\"a\":}", "{\"a\":1} x", "{\"a\":1e999}", "{\"a\":1,\"a\":2}"}) {
    const absl::StatusOr<Struct> object = ParseJsonObject(text, "device profile");
    ASSERT_FALSE(object.ok()) << text;
    EXPECT_EQ(object.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Words(object), HasSubstr("device profile is not a JSON object")) << text;
  }
}

TEST(ReadJsonFile, ReadsAndNamesThePath) {
  const std::string folder = NewFolder();
  const auto good = ReadJsonFile(WriteFile(folder, "good.json", R"({"a":2})"), "op costs");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->fields().at("a").number_value(), 2);
  EXPECT_THAT(Words(ReadJsonFile(WriteFile(folder, "bad.json", "{"), "op costs")),
              AllOf(HasSubstr("op costs"), HasSubstr("bad.json")));
  const auto missing = ReadJsonFile(folder + "/missing.json", "op costs");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Words(missing), AllOf(HasSubstr("op costs"), HasSubstr("missing.json")));
}

TEST(NumberField, FallsBackAndChecks) {
  const Struct object = Parse(R"({"a": 3, "text": "3", "low": -0.5, "null": null})");
  EXPECT_EQ(*NumberField(object, "a", 7, 0, "thing"), 3);
  EXPECT_EQ(*NumberField(object, "a", 7, 3, "thing"), 3);
  EXPECT_EQ(*NumberField(object, "absent", 7, 0, "thing"), 7);
  EXPECT_EQ(Words(NumberField(object, "text", 7, 0, "thing")),
            "thing: field 'text' is not a number");
  EXPECT_EQ(Words(NumberField(object, "null", 7, 0, "thing")),
            "thing: field 'null' is not a number");
  EXPECT_EQ(Words(NumberField(object, "low", 7, 0, "thing")),
            "thing: field 'low' is -0.5, must be finite and at least 0");
}

TEST(NumberField, RefusesNumbersThatAreNotFinite) {
  for (const double value :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Struct object;
    (*object.mutable_fields())["a"].set_number_value(value);
    EXPECT_THAT(Words(NumberField(object, "a", 7, 0, "thing")), HasSubstr("must be finite"));
  }
}

TEST(StringField, FallsBackAndChecks) {
  const Struct object = Parse(R"({"a": "x", "number": 3})");
  EXPECT_EQ(*StringField(object, "a", "y", "thing"), "x");
  EXPECT_EQ(*StringField(object, "absent", "y", "thing"), "y");
  EXPECT_EQ(Words(StringField(object, "number", "y", "thing")),
            "thing: field 'number' is not a string");
}

TEST(JsonQuote, SurvivesTheParser) {
  EXPECT_EQ(JsonQuote("a/b_1"), "\"a/b_1\"");
  EXPECT_EQ(JsonQuote("\n"), "\"\\u000a\"");
  for (const std::string& text :
       std::vector<std::string>{"", "plain", "a\"b\\c", "tab\tline\nreturn\r", "\x01\x1f\x7f",
                                "caf\xc3\xa9", "</script>", std::string("nul\0inside", 10)}) {
    EXPECT_EQ(Parse("{\"t\":" + JsonQuote(text) + "}").fields().at("t").string_value(), text);
  }
}

}  // namespace
}  // namespace grappler_go
