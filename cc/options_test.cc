#include "cc/options.h"

#include <cmath>

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::AttrValue;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

AttrValue Value(const std::string& text) {
  AttrValue value;
  value.set_s(text);
  return value;
}
AttrValue Value(const char* text) { return Value(std::string(text)); }
AttrValue Value(bool b) {
  AttrValue value;
  value.set_b(b);
  return value;
}
AttrValue Value(int i) {
  AttrValue value;
  value.set_i(i);
  return value;
}
AttrValue Value(float f) {
  AttrValue value;
  value.set_f(f);
  return value;
}

absl::StatusOr<Options> Read(const std::string& field, const AttrValue& value) {
  ParameterMap parameters;
  parameters[field] = value;
  return ReadOptions(parameters);
}

TEST(ReadOptions, HasDefaults) {
  const absl::StatusOr<Options> options = ReadOptions({});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->keep_default);
  EXPECT_FALSE(options->fail_on_error);
  EXPECT_FALSE(options->override_user_devices);
  EXPECT_FLOAT_EQ(options->margin, 0.05f);
  EXPECT_EQ(options->samples, 16);
  EXPECT_EQ(options->optimize_timeout_ms, 60000);
  EXPECT_EQ(options->candidates.size(), 7u);
  EXPECT_THAT(options->tasks, ElementsAre("placement", "scheduling"));
}

TEST(ReadOptions, ReadsEveryField) {
  ParameterMap parameters;
  parameters["candidates"] = Value("random,m_etf");
  parameters["tasks"] = Value("placement,scheduling");
  parameters["keep_default"] = Value(false);
  parameters["margin"] = Value(0.25f);
  parameters["samples"] = Value(3);
  parameters["search"] = Value(0);
  parameters["seed"] = Value(9);
  parameters["policy"] = Value("none");
  parameters["profile"] = Value("{}");
  parameters["costs"] = Value("c.json");
  parameters["override_user_devices"] = Value(true);
  parameters["move_state"] = Value(true);
  parameters["fail_on_error"] = Value(true);
  parameters["optimize_timeout_ms"] = Value(7);
  parameters["report"] = Value("folder");
  const absl::StatusOr<Options> options = ReadOptions(parameters);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->candidates, ElementsAre("random", "m_etf"));
  EXPECT_THAT(options->tasks, ElementsAre("placement", "scheduling"));
  EXPECT_FALSE(options->keep_default);
  EXPECT_EQ(options->margin, 0.25);
  EXPECT_EQ(options->samples, 3);
  EXPECT_EQ(options->search, 0);
  EXPECT_EQ(options->seed, 9);
  EXPECT_EQ(options->policy, "none");
  EXPECT_EQ(options->profile, "{}");
  EXPECT_EQ(options->costs, "c.json");
  EXPECT_TRUE(options->override_user_devices);
  EXPECT_TRUE(options->move_state);
  EXPECT_TRUE(options->fail_on_error);
  EXPECT_EQ(options->optimize_timeout_ms, 7);
  EXPECT_EQ(options->report, "folder");
}

TEST(ReadOptions, NamesAreTrimmedOfEmptyParts) {
  const absl::StatusOr<Options> options = Read("candidates", Value("random,,m_etf,"));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->candidates, ElementsAre("random", "m_etf"));
}

TEST(ReadOptions, UnknownOptionListsTheKnown) {
  EXPECT_THAT(Words(Read("margn", Value(0.1f))),
              AllOf(HasSubstr("unknown option 'margn'"), HasSubstr("margin"), HasSubstr("samples"),
                    HasSubstr("optimize_timeout_ms")));
}

TEST(ReadOptions, BadValuesNameFieldAndValue) {
  struct Case {
    const char* field;
    AttrValue value;
    const char* shown;
  };
  const Case cases[] = {
      {"candidates", Value("m_etf,magic"), "'magic'"},
      {"candidates", Value(""), "''"},
      {"candidates", Value(","), "','"},
      {"candidates", Value(3), "'3'"},
      {"tasks", Value("cooking"), "'cooking'"},
      {"tasks", Value(true), "'true'"},
      {"keep_default", Value(1), "'1'"},
      {"keep_default", Value("false"), "false"},
      {"margin", Value(-0.1f), "-0.1"},
      {"margin", Value(1.0f), "'1'"},
      {"margin", Value(0), "'0'"},
      {"margin", Value(std::nanf("")), "nan"},
      {"samples", Value(0), "'0'"},
      {"samples", Value(4097), "'4097'"},
      {"samples", Value(1.0f), "'1'"},
      {"search", Value(-2), "'-2'"},
      {"seed", Value(-1), "'-1'"},
      {"policy", Value(3), "'3'"},
      {"profile", Value(true), "'true'"},
      {"costs", Value(3), "'3'"},
      {"report", Value(3), "'3'"},
      {"override_user_devices", Value("yes"), "yes"},
      {"move_state", Value(0), "'0'"},
      {"fail_on_error", Value(0), "'0'"},
      {"optimize_timeout_ms", Value(-1), "'-1'"},
      {"optimize_timeout_ms", Value("fast"), "fast"},
  };
  for (const Case& c : cases) {
    const absl::StatusOr<Options> options = Read(c.field, c.value);
    ASSERT_FALSE(options.ok()) << c.field << " " << c.value.ShortDebugString();
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Words(options), AllOf(HasSubstr(absl::StrCat("option '", c.field, "' is")),
                                      HasSubstr(c.shown), HasSubstr("must be")));
  }
}

TEST(PolicyDirectory, NoneAndByName) {
  Options options;
  options.policy = "none";
  EXPECT_EQ(PolicyDirectory(options), "");
  options.policy = "/some/where";
  EXPECT_EQ(PolicyDirectory(options), "/some/where");
  options.policy = "";
  const std::string shipped = PolicyDirectory(options);
  if (!shipped.empty()) {
    EXPECT_TRUE(tensorflow::Env::Default()->FileExists(shipped + "/saved_model.pb").ok());
  }
}

}  // namespace
}  // namespace grappler_go
