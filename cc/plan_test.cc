#include "cc/plan.h"

#include "cc/planner.h"
#include "cc/report.h"
#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<World> Chains() {
  tensorflow::GraphDef def = TwoChains(2, 2, WorkerCpu(0));
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->graph.static_shape.assign(world->graph.num_tensors(), true);
  return world;
}

// A plan's JSON with the two workers as devices.
std::string Json(const std::string& nodes) {
  return absl::StrCat(R"({"version":1,"devices":[")", WorkerCpu(1), R"(",")", WorkerCpu(0),
                      R"("],"nodes":)", nodes, "}");
}

TEST(ReadPlan, ReadsDecisions) {
  const auto world = Chains();
  const auto plan = ReadPlan(
      Json(R"([{"name":"left0","device":0,"fusion":3,"priority":-2},{"name":"sum","device":1}])"),
      world->problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const int left = world->graph.Find("left0");
  EXPECT_EQ(plan->device, world->Place({{"left0", 1}}));  // By the plan's own list of devices.
  EXPECT_EQ(plan->fusion_of(left), 3);
  EXPECT_EQ(plan->priority_of(left), -2);
  EXPECT_EQ(plan->fusion_of(world->graph.Find("sum")), -1);
  EXPECT_EQ(plan->source, "stored");
}

TEST(ReadPlan, OpsThatAreNotNamedStay) {
  const auto world = Chains();
  const auto plan = ReadPlan(Json("[]"), world->problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->device, world->legality.incoming);
}

TEST(ReadPlan, ReadsAReportBack) {
  const auto world = Chains();
  for (const bool with_priority : {false, true}) {
    Choice choice;
    choice.plan.source = "m_etf";
    choice.plan.device = world->Place({{"left0", 1}, {"left1", 1}});
    if (with_priority) choice.plan.priority = {0, 1, 2, 3, 4, 5, 6};
    choice.predicted.peak_bytes = {0, 0};
    const auto plan = ReadPlan(ReportJson(world->problem, choice, world->item), world->problem);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->source, "m_etf");
    EXPECT_EQ(plan->device, choice.plan.device);
    // A plan without priorities or clusters has none after a round trip: it must get no order
    // edges.
    EXPECT_EQ(plan->priority, choice.plan.priority);
    EXPECT_EQ(plan->fusion, choice.plan.fusion);
  }
}

TEST(ReadPlan, ErrorsNameFieldAndValue) {
  const auto world = Chains();
  const std::pair<std::string, const char*> cases[] = {
      {"", "plan is not a JSON object"},
      {"[]", "plan is not a JSON object"},
      {"{}", "'version' is 0"},
      {R"({"version":2})", "'version' is 2"},
      {R"({"version":1.5})", "'version' is 1.5"},
      {R"({"version":"1"})", "'version' is not a number"},
      {R"({"version":1,"nodes":[]})", "'devices' is missing"},
      {R"({"version":1,"devices":7,"nodes":[]})", "'devices' is not a list"},
      {R"({"version":1,"devices":[7],"nodes":[]})", "'devices'"},
      {R"({"version":1,"devices":["/device:CPU:0"],"nodes":[]})", "'/device:CPU:0'"},
      {R"({"version":1,"devices":[]})", "'nodes' is not a list"},
      {R"({"version":1,"devices":[],"nodes":{}})", "'nodes' is not a list"},
      {R"({"version":1,"devices":[],"nodes":[],"source":3})", "'source' is not a string"},
      {Json("[3]"), "nodes[0] is not an object"},
      {Json("[{}]"), "nodes[0]: field 'name' is missing"},
      {Json(R"([{"name":3,"device":0}])"), "'name' is not a string"},
      {Json(R"([{"name":"gone","device":0}])"), "op 'gone' is not in the graph"},
      {Json(R"([{"name":"sum"}])"), "nodes[0]: field 'device' is missing"},
      {Json(R"([{"name":"sum","device":2}])"), "op 'sum': field 'device' is 2"},
      {Json(R"([{"name":"sum","device":-1}])"), "op 'sum': field 'device' is -1"},
      {Json(R"([{"name":"sum","device":0.5}])"), "op 'sum': field 'device' is 0.5"},
      {Json(R"([{"name":"sum","device":"0"}])"), "op 'sum': field 'device' is not a number"},
      {Json(R"([{"name":"sum","device":0,"fusion":-2}])"), "op 'sum': field 'fusion' is -2"},
      {Json(R"([{"name":"sum","device":0,"fusion":"a"}])"), "'fusion' is not a number"},
      {Json(R"([{"name":"sum","device":0,"priority":1e9}])"),
       "op 'sum': field 'priority' is 1e+09"},
      {Json(R"([{"name":"sum","device":0,"priority":-1e9}])"), "'priority' is -1e+09"},
      {Json(R"([{"name":"sum","device":0,"priority":0.5}])"), "'priority' is 0.5"},
      {Json(R"([{"name":"sum","device":0,"priority":true}])"), "'priority' is not a number"},
  };
  for (const auto& [json, words] : cases) {
    const auto plan = ReadPlan(json, world->problem);
    ASSERT_FALSE(plan.ok()) << json;
    EXPECT_THAT(Words(plan), AllOf(HasSubstr("plan"), HasSubstr(words))) << json;
  }
}

TEST(CheckPlan, RefusesIllegalPlacementsAndSplitClusters) {
  const auto world = Chains();
  Plan plan;
  plan.device = world->legality.incoming;
  EXPECT_TRUE(CheckPlan(world->problem, plan).ok());
  plan.device = world->Place({{"arg", 1}});
  EXPECT_THAT(Words(CheckPlan(world->problem, plan)), HasSubstr("'arg'"));
  plan.device = {0, 0};
  EXPECT_FALSE(CheckPlan(world->problem, plan).ok());
  plan.device = world->Place({{"left0", 1}});
  plan.fusion.assign(world->graph.num_nodes(), -1);
  plan.fusion[world->graph.Find("left0")] = 4;
  EXPECT_TRUE(CheckPlan(world->problem, plan).ok());
  plan.fusion[world->graph.Find("left1")] = 4;
  EXPECT_THAT(Words(CheckPlan(world->problem, plan)),
              AllOf(HasSubstr("'left0'"), HasSubstr("'left1'"), HasSubstr("two devices")));
}

TEST(CheckPlan, RefusesListsOfTheWrongLength) {
  const auto world = Chains();
  Plan plan;
  plan.device = world->legality.incoming;
  plan.fusion = {1, 1};
  EXPECT_FALSE(CheckPlan(world->problem, plan).ok());
  plan.fusion.clear();
  plan.priority.assign(100, 0);
  EXPECT_FALSE(CheckPlan(world->problem, plan).ok());
}

}  // namespace
}  // namespace grappler_go
