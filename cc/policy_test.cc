#include "cc/policy.h"

#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "cc/test_policy.h"
#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::SavedModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<World> Small() {
  return MakeWorld(MakeItem(RandomGraph(20, 1, WorkerCpu(0))), WorkerCpus(2), true);
}

std::string LoadError(const SavedModel& model) { return Words(Policy::Load(SavePolicy(model))); }

std::string ScoreError(const SavedModel& model) {
  const auto policy = Policy::Load(SavePolicy(model));
  if (!policy.ok()) return absl::StrCat("not loaded: ", Words(policy));
  return Words((*policy)->Score(Small()->problem));
}

auto& Signature(SavedModel& model, const std::string& name) {
  return (*model.mutable_meta_graphs(0)->mutable_signature_def())[name];
}

TEST(Policy, ScoresTheGraph) {
  const auto policy = Policy::Load(SavePolicy(TestPolicy()));
  ASSERT_TRUE(policy.ok()) << policy.status();
  const auto world = Small();
  const auto scores = (*policy)->Score(world->problem);
  ASSERT_TRUE(scores.ok()) << scores.status();
  ASSERT_EQ(scores->size(), 40u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ((*scores)[2 * i], -2);  // Where it came from.
    EXPECT_EQ((*scores)[2 * i + 1], 0);
  }
}

TEST(Policy, IsLoadedOnceAndAgainWhenItsFileChanges) {
  const std::string folder = SavePolicy(TestPolicy());
  const auto first = Policy::Load(folder);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, *Policy::Load(folder));
  // TensorFlow tells file times by the second.
  const timeval later[2] = {{time(nullptr) + 10, 0}, {time(nullptr) + 10, 0}};
  ASSERT_EQ(utimes((folder + "/saved_model.pb").c_str(), later), 0);
  const auto second = Policy::Load(folder);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*first, *second);
}

TEST(Policy, NamesAMissingOrCorruptFile) {
  const auto missing = Policy::Load("/no/such/policy");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Words(missing), HasSubstr("/no/such/policy"));
  const std::string folder = NewFolder();
  WriteFile(folder, "saved_model.pb", "not a protocol buffer at all");
  EXPECT_THAT(Words(Policy::Load(folder)), AllOf(HasSubstr(folder), HasSubstr("cannot be loaded")));
  WriteFile(folder, "saved_model.pb", TestPolicy().SerializeAsString().substr(0, 300));
  EXPECT_FALSE(Policy::Load(folder).ok());
}

TEST(Policy, RefusesAnotherFeatureTableByName) {
  std::vector<std::string> renamed = FeatureTable();
  const std::string had = renamed[3];
  renamed[3] = "node/colour";
  EXPECT_THAT(LoadError(TestPolicy(renamed)),
              AllOf(HasSubstr("feature 3"), HasSubstr("'node/colour'"), HasSubstr(had)));
  std::vector<std::string> shorter = FeatureTable();
  shorter.pop_back();
  EXPECT_THAT(LoadError(TestPolicy(shorter)), AllOf(HasSubstr("'nothing'"), HasSubstr("version/")));
  std::vector<std::string> longer = FeatureTable();
  longer.push_back("more");
  EXPECT_THAT(LoadError(TestPolicy(longer)), HasSubstr("'more'"));
  std::vector<std::string> newer = FeatureTable();
  newer.back() = "version/2000";
  EXPECT_THAT(LoadError(TestPolicy(newer)), HasSubstr("'version/2000'"));
}

TEST(Policy, RefusesMissingSignatures) {
  for (const char* name : {"serving_default", "feature_table"}) {
    SavedModel model = TestPolicy();
    model.mutable_meta_graphs(0)->mutable_signature_def()->erase(name);
    EXPECT_THAT(LoadError(model), HasSubstr(absl::StrCat("'", name, "'")));
  }
  SavedModel no_names = TestPolicy();
  Signature(no_names, "feature_table").mutable_outputs()->clear();
  EXPECT_THAT(LoadError(no_names), HasSubstr("'names'"));
  SavedModel not_strings = TestPolicy();
  (*Signature(not_strings, "feature_table").mutable_outputs())["names"].set_name("factor:0");
  EXPECT_THAT(LoadError(not_strings), HasSubstr("not a list of names"));
}

TEST(Policy, RefusesInputsAndOutputsThatItDoesNotKnow) {
  SavedModel input = TestPolicy();
  auto& inputs = *Signature(input, "serving_default").mutable_inputs();
  inputs["weather"] = inputs["node_device_features"];
  EXPECT_THAT(ScoreError(input), HasSubstr("'weather'"));
  SavedModel type = TestPolicy();
  (*Signature(type, "serving_default").mutable_inputs())["node_device_features"].set_dtype(
      tensorflow::DT_INT32);
  EXPECT_THAT(ScoreError(type), AllOf(HasSubstr("'node_device_features'"), HasSubstr("type")));
  SavedModel output = TestPolicy();
  Signature(output, "serving_default").mutable_outputs()->clear();
  EXPECT_THAT(ScoreError(output), HasSubstr("'placement_logits'"));
}

TEST(Policy, RefusesBadScores) {
  SavedModel shape = TestPolicy();
  (*Signature(shape, "serving_default").mutable_outputs())["placement_logits"].set_name("factor:0");
  EXPECT_THAT(ScoreError(shape), AllOf(HasSubstr("shape"), HasSubstr("[20,2]")));
  SavedModel type = TestPolicy();
  (*Signature(type, "serving_default").mutable_outputs())["placement_logits"].set_name("begin:0");
  EXPECT_THAT(ScoreError(type), HasSubstr("scores"));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    SavedModel model = TestPolicy();
    for (auto& node : *model.mutable_meta_graphs(0)->mutable_graph_def()->mutable_node()) {
      if (node.name() != "factor") continue;
      tensorflow::Tensor factor(tensorflow::DT_FLOAT, {});
      factor.scalar<float>()() = bad;
      factor.AsProtoTensorContent((*node.mutable_attr())["value"].mutable_tensor());
    }
    EXPECT_THAT(ScoreError(model), HasSubstr("not finite"));
  }
  SavedModel fails = TestPolicy();
  (*Signature(fails, "serving_default").mutable_outputs())["placement_logits"].set_name("gone:0");
  EXPECT_THAT(ScoreError(fails), HasSubstr("gone"));
}

TEST(Sample, TheFirstIsTheBestOfEachGroup) {
  tensorflow::GraphDef def = TwoChains(2, 2, WorkerCpu(0));
  for (auto& node : *def.mutable_node()) {
    if (node.name() == "left1") Colocate(node, "left0");
  }
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  std::vector<float> logits(2 * world->graph.num_nodes(), 0);
  const auto set = [&](const char* name, float zero, float one) {
    logits[2 * world->graph.Find(name)] = zero;
    logits[2 * world->graph.Find(name) + 1] = one;
  };
  set("right0", 0, 1);
  set("left0", 3, 0);  // The group's mean is for device 1.
  set("left1", 0, 4);
  set("arg", 0, 9);  // Not movable.
  set("sum", 1, 0);
  const auto placements = Sample(world->problem, logits, 1, 0);
  ASSERT_EQ(placements.size(), 1u);
  const auto of = [&](const char* name) { return placements[0][world->graph.Find(name)]; };
  EXPECT_EQ(of("right0"), 1);
  EXPECT_EQ(of("left0"), 1);
  EXPECT_EQ(of("left1"), 1);
  EXPECT_EQ(of("arg"), 0);
  EXPECT_EQ(of("sum"), 0);
}

TEST(Sample, IsLegalDeterministicAndFollowsTheScores) {
  const auto world = MakeWorld(MakeItem(RandomGraph(60, 3, WorkerCpu(0))), WorkerCpus(3), true);
  std::vector<float> logits(3 * 60, 0);
  for (size_t i = 0; i < 60; ++i) logits[3 * i + 2] = std::log(8.0f);
  // At temperature t the device has 8^(1/t) chances against 2; t rises from 0 to 1, by turns of the
  // levels.
  constexpr int kSamples = 600;
  const int levels = static_cast<int>(DecisionBlocks(world->problem).size());
  EXPECT_GT(levels, 2);
  double expected = 0;
  for (int k = 0; k < kSamples; ++k) {
    const double temperature = static_cast<double>(k / levels) / ((kSamples - 1) / levels);
    const double chances = std::pow(8.0, 1 / temperature);
    expected += (std::isinf(chances) ? 1 : chances / (chances + 2)) / kSamples;
  }
  const auto placements = Sample(world->problem, logits, kSamples, 5);
  ASSERT_EQ(placements.size(), static_cast<size_t>(kSamples));
  EXPECT_EQ(placements, Sample(world->problem, logits, kSamples, 5));
  EXPECT_NE(placements, Sample(world->problem, logits, kSamples, 6));
  double there = 0, all = 0;
  for (const Placement& placement : placements) {
    EXPECT_EQ(Words(world->legality.Check(world->graph, world->devices, placement)), "");
    for (const int8_t device : placement) {
      there += device == 2 ? 1 : 0;
      all += 1;
    }
  }
  EXPECT_NEAR(there / all, expected, 0.04);
  // Without sampling, the best device alone.
  for (const int8_t device : placements.front()) EXPECT_EQ(device, 2);
}

TEST(DecisionBlocks, StartWithTheGroupsAndEachLevelJoinsTheLast) {
  const auto world = MakeWorld(MakeItem(RandomGraph(60, 3, WorkerCpu(0))), WorkerCpus(3), true);
  const auto levels = DecisionBlocks(world->problem);
  ASSERT_GT(levels.size(), 2u);
  for (size_t i = 0; i < 60; ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_EQ(levels[0][i] == levels[0][j], world->legality.group[i] == world->legality.group[j]);
      for (size_t l = 1; l < levels.size(); ++l) {
        // What was joined stays so.
        if (levels[l - 1][i] == levels[l - 1][j]) {
          EXPECT_EQ(levels[l][i], levels[l][j]);
        }
      }
    }
  }
  const auto count = [](const std::vector<int32_t>& level) {
    return *std::max_element(level.begin(), level.end());
  };
  for (size_t l = 1; l < levels.size(); ++l) EXPECT_LT(count(levels[l]), count(levels[l - 1]));
}

}  // namespace
}  // namespace grappler_go
