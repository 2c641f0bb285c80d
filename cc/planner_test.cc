#include "cc/planner.h"

#include "cc/report.h"
#include "cc/test_policy.h"
#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Without the shipped policy and the search, for speed: tests ask for what they test.
Options Plain(const std::vector<std::string>& candidates) {
  Options options;
  options.policy = "none";
  options.candidates = candidates;
  options.search = 0;
  return options;
}

std::unique_ptr<World> Chains(double op_us, double bytes) {
  auto world = MakeWorld(MakeItem(TwoChains(4, 2, WorkerCpu(0))), WorkerCpus(2));
  for (int i = 0; i < world->graph.num_nodes(); ++i) {
    if (world->graph.op(i) != "MatMul") continue;
    world->SetUs(world->graph.name(i), op_us);
    world->SetBytes(world->graph.name(i), bytes);
  }
  return world;
}

Choice Take(const World& world, const Options& options) {
  const auto choice = Choose(world.problem, options, 0);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? *choice : Choice();
}

TEST(Choose, TakesTheBestCandidate) {
  const auto world = Chains(100, 100);
  const Choice choice = Take(*world, Plain({"single_device", "critical_path", "m_etf", "random"}));
  EXPECT_TRUE(choice.applied);
  EXPECT_EQ(choice.incoming.step_us, 801);
  EXPECT_NEAR(choice.predicted.step_us, BruteForce(world->problem).second, 1e-6);
  EXPECT_THAT(choice.reason, HasSubstr(choice.plan.source));
  ASSERT_EQ(choice.candidates.size(), 4u);
  EXPECT_EQ(choice.candidates[0].source, "single_device");
  EXPECT_EQ(choice.candidates[0].tried, 2);
  for (const CandidateResult& candidate : choice.candidates) {
    EXPECT_GE(candidate.step_us, choice.predicted.step_us);
    EXPECT_TRUE(candidate.feasible);
  }
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  EXPECT_EQ(simulator.Run(choice.plan.device).step_us, choice.predicted.step_us);
}

TEST(Choose, KeepsTheDefaultWhereNothingIsBetter) {
  const auto world = Chains(1, 1e6);
  const Choice choice = Take(*world, Plain({"single_device", "random"}));
  EXPECT_FALSE(choice.applied);
  EXPECT_EQ(choice.plan.source, "default");
  EXPECT_EQ(choice.plan.device, world->legality.incoming);
  EXPECT_EQ(choice.predicted.step_us, choice.incoming.step_us);
  EXPECT_THAT(choice.reason, HasSubstr("no gain above 5%"));
  // Unless told otherwise.
  Options forced = Plain({"random"});
  forced.keep_default = false;
  const Choice worse = Take(*world, forced);
  EXPECT_TRUE(worse.applied);
  EXPECT_EQ(worse.plan.source, "random");
  EXPECT_EQ(worse.candidates[0].tried, forced.samples);
}

TEST(Choose, ObeysTheMargin) {
  const auto world = Chains(100, 100);
  Options options = Plain({"critical_path"});
  options.margin = 0.1;
  const Choice choice = Take(*world, options);
  ASSERT_TRUE(choice.applied);
  const double gain = 1 - choice.predicted.step_us / choice.incoming.step_us;
  options.margin = gain + 0.01;
  EXPECT_FALSE(Take(*world, options).applied);
  options.margin = gain - 0.01;
  EXPECT_TRUE(Take(*world, options).applied);
}

TEST(Choose, SearchImprovesOnTheIncomingGraph) {
  const auto world = Chains(100, 100);
  Options options = Plain({"single_device"});
  options.search = 2000;
  const Choice choice = Take(*world, options);
  EXPECT_TRUE(choice.applied);
  EXPECT_EQ(choice.plan.source, "search");
  EXPECT_EQ(choice.candidates.back().source, "search");
  EXPECT_NEAR(choice.predicted.step_us, BruteForce(world->problem).second, 1e-6);
}

TEST(Choose, IsRepeatable) {
  const auto world = MakeWorld(MakeItem(RandomGraph(60, 3, WorkerCpu(0))), WorkerCpus(3), true);
  Options options = Plain({"random", "critical_path"});
  options.keep_default = false;
  options.search = 300;
  EXPECT_EQ(Take(*world, options).plan.device, Take(*world, options).plan.device);
}

TEST(Choose, WhereThePlanMustFitTheMemory) {
  auto world = Chains(100, 100);
  for (int d = 0; d < 2; ++d) world->devices.SetMemoryLimit(d, 10);
  const Choice none = Take(*world, Plain({"critical_path", "single_device"}));
  EXPECT_FALSE(none.applied);
  EXPECT_EQ(none.reason, "no plan fits into the devices' memory");
  // The first device alone is too small: any plan that fits is better than the incoming one.
  auto one = Chains(1, 100);
  one->devices.SetMemoryLimit(0, 150);
  const Choice moved = Take(*one, Plain({"single_device"}));
  EXPECT_FALSE(moved.incoming.feasible);
  EXPECT_TRUE(moved.applied);
  EXPECT_TRUE(moved.predicted.feasible);
}

TEST(Choose, PastItsDeadlineItFails) {
  const auto world = Chains(100, 100);
  const auto choice = Choose(world->problem, Plain({"critical_path"}), 1);
  EXPECT_EQ(choice.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Words(choice), HasSubstr("optimize_timeout_ms"));
}

TEST(Choose, AtItsDeadlineItTakesTheBestSoFar) {
  const auto world = Chains(100, 100);
  Options options = Plain({"critical_path"});
  options.search = 1 << 30;  // Would take hours.
  const auto choice =
      Choose(world->problem, options, tensorflow::Env::Default()->NowMicros() + 200'000);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->applied);
  EXPECT_LT(choice->predicted.step_us, choice->incoming.step_us);
}

TEST(Choose, AsksThePolicy) {
  const auto world = Chains(100, 100);
  Options options = Plain({"policy"});
  options.policy = SavePolicy(TestPolicy());
  options.keep_default = false;
  options.samples = 1;
  const Choice choice = Take(*world, options);
  EXPECT_EQ(choice.plan.source, "policy");
  EXPECT_EQ(choice.plan.device, SingleDevice(world->problem, 1));  // It wants all ops elsewhere.
  options.policy = "/no/such/policy";
  EXPECT_THAT(Words(Choose(world->problem, options, 0)), HasSubstr("/no/such/policy"));
}

TEST(Choose, WithoutAPolicyThePolicyMakesNoProposal) {
  const auto world = Chains(100, 100);
  const Choice choice = Take(*world, Plain({"policy"}));
  EXPECT_FALSE(choice.applied);
  EXPECT_EQ(choice.reason, "no planner made a proposal");
  EXPECT_EQ(choice.candidates[0].tried, 0);
}

TEST(Choose, SchedulingGivesPriorities) {
  const auto world = Chains(100, 100);
  Options options = Plain({"critical_path"});
  options.tasks = {"placement", "scheduling"};
  const Choice choice = Take(*world, options);
  ASSERT_EQ(static_cast<int>(choice.plan.priority.size()), world->graph.num_nodes());
  EXPECT_GT(choice.plan.priority[world->graph.Find("left0")],
            choice.plan.priority[world->graph.Find("left3")]);
}

TEST(Choose, StopsEarlyWhereTheBoundForbidsAGain) {
  tensorflow::GraphDef def;  // A chain: no second device can help.
  AddMatrix(def, "x", 2, 2, WorkerCpu(0));
  AddOp(def, "a", "Tanh", {"x"}, WorkerCpu(0));
  AddOp(def, "b", "Tanh", {"a"}, WorkerCpu(0));
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  const Choice choice = Take(*world, Plain({"critical_path", "random"}));
  EXPECT_FALSE(choice.applied);
  EXPECT_EQ(choice.plan.device, world->legality.incoming);
  EXPECT_FALSE(choice.reason.empty());
}

TEST(PlanningContext, ReadsAllItsInputs) {
  const auto item = MakeItem(RandomGraph(20, 1, WorkerCpu(0)));
  const auto devices = DeviceSet::Create(WorkerCpus(2), "");
  const std::string costs =
      WriteFile(NewFolder(), "costs.json", R"({"version":1,"ops":{"n5":77}})");
  const auto context = PlanningContext::Create(item, *devices, {}, costs);
  ASSERT_TRUE(context.ok()) << context.status();
  const Problem& problem = (*context)->problem();
  EXPECT_EQ(problem.graph->num_nodes(), 20);
  EXPECT_FLOAT_EQ(problem.op_us[2 * problem.graph->Find("n5")], 77);
  EXPECT_THAT(Words(PlanningContext::Create(item, *devices, {}, "/no/such/costs")),
              HasSubstr("/no/such/costs"));
  auto bad = item;
  bad.graph.mutable_node(3)->add_input("^gone");
  EXPECT_THAT(Words(PlanningContext::Create(bad, *devices, {}, "")), HasSubstr("'^gone'"));
}

TEST(Choose, TakesTheStoredPlanAsItIs) {
  const auto world = MakeWorld(MakeItem(TwoChains(2, 2, WorkerCpu(0))), WorkerCpus(2));
  Options options;
  options.plan =
      WriteFile(NewFolder(), "plan.json",
                absl::StrCat(R"({"version":1,"source":"mine","devices":[")", WorkerCpu(0), R"(",")",
                             WorkerCpu(1), R"("],"nodes":[{"name":"left1","device":1}]})"));
  const auto choice = Choose(world->problem, options, 0);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->applied);
  EXPECT_EQ(choice->plan.source, "mine");
  EXPECT_EQ(choice->plan.device, world->Place({{"left1", 1}}));
  EXPECT_TRUE(choice->candidates.empty());
}

TEST(Choose, APlanOfAnotherGraphLeavesThisOneAlone) {
  const auto world = MakeWorld(MakeItem(TwoChains(2, 2, WorkerCpu(0))), WorkerCpus(2));
  Options options;
  options.plan = WriteFile(NewFolder(), "plan.json",
                           absl::StrCat(R"({"version":1,"devices":[")", WorkerCpu(0),
                                        R"("],"nodes":[{"name":"gone","device":0}]})"));
  const auto choice = Choose(world->problem, options, 0);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_FALSE(choice->applied);
  EXPECT_THAT(choice->reason, HasSubstr("is of another graph: plan: op 'gone' is not in"));
  options.plan = WriteFile(NewFolder(), "plan.json", R"({"version":9})");
  EXPECT_THAT(Words(Choose(world->problem, options, 0)),
              HasSubstr("plan.json: plan: field 'version' is 9"));
}

}  // namespace
}  // namespace grappler_go
