#include "cc/rewriter.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<World> FourCpus(const GraphDef& def, const std::vector<std::string>& fetch = {}) {
  return MakeWorld(MakeItem(def, fetch), LocalCpus(4), true);
}

Plan RandomPlan(const World& world, uint64_t seed, bool with_priority) {
  std::mt19937_64 random(seed);
  Plan plan;
  plan.device = RandomLegal(world.problem, seed);
  for (int i = 0; with_priority && i < world.graph.num_nodes(); ++i) {
    plan.priority.push_back(static_cast<int32_t>(random() % 20));
  }
  return plan;
}

GraphDef MustRewrite(const World& world, const Plan& plan,
                     const absl::flat_hash_set<std::string>& preserve = {}) {
  const absl::StatusOr<GraphDef> out = Rewrite(world.item.graph, world.problem, plan, preserve);
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? *out : GraphDef();
}

// Rewrites by random plans, and expects the fetches to come out as before.
void ExpectSameOutputs(const GraphDef& def, const std::vector<std::string>& fetches, int plans) {
  const auto world = FourCpus(def, fetches);
  const auto want = Evaluate(def, fetches);
  for (int k = 0; k < plans; ++k) {
    const Plan plan = RandomPlan(*world, static_cast<uint64_t>(k), /*with_priority=*/k % 2 == 1);
    ExpectEqual(want, Evaluate(MustRewrite(*world, plan), fetches));
  }
}

TEST(Rewrite, KeepsTheOutputsOfRandomGraphs) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    GraphDef def = RandomGraph(50, seed, seed % 2 == 0 ? LocalDevice("CPU", 0) : "");
    if (seed % 3 == 0) Shuffle(def, seed);
    ExpectSameOutputs(def, {"n49:0", "n48", "n40:0", "n30:0"}, 6);
  }
}

TEST(Rewrite, KeepsTheOutputsOfALoopACondAndStrings) {
  GraphDef def;
  const auto scalar = [&](const std::string& name, float value) {
    tensorflow::Tensor tensor(tensorflow::DT_FLOAT, {});
    tensor.scalar<float>()() = value;
    AddConst(def, name, tensor);
  };
  scalar("zero", 0);
  scalar("limit", 10);
  scalar("step", 3);
  const auto enter = [&](const std::string& name, const std::string& input, bool constant) {
    NodeDef& node = AddOp(def, name, "Enter", {input});
    (*node.mutable_attr())["frame_name"].set_s("loop");
    (*node.mutable_attr())["is_constant"].set_b(constant);
  };
  enter("i", "zero", false);
  enter("limit_in", "limit", true);
  enter("step_in", "step", true);
  AddOp(def, "merge", "Merge", {"i", "next"});
  AddOp(def, "less", "Less", {"merge", "limit_in"});
  AddOp(def, "cond", "LoopCond", {"less"});
  AddOp(def, "switch", "Switch", {"merge", "cond"});
  AddOp(def, "body", "Add", {"switch:1", "step_in"});
  AddOp(def, "next", "NextIteration", {"body"});
  AddOp(def, "exit", "Exit", {"switch:0"});
  AddOp(def, "after", "Neg", {"exit"});
  AddOp(def, "is_large", "Less", {"limit", "exit"});
  AddOp(def, "branch", "Switch", {"after", "is_large"});
  AddOp(def, "no", "Tanh", {"branch:0"});
  AddOp(def, "yes", "Square", {"branch:1"});
  AddOp(def, "either", "Merge", {"no", "yes"});
  AddConst(def, "text", tensorflow::Tensor("grappler"));
  AddOp(def, "upper", "StringUpper", {"text"});
  AddOp(def, "lower", "StringLower", {"upper", "^either"});
  const auto want = Evaluate(def, {"exit", "either"});
  EXPECT_EQ(want[0].scalar<float>()(), 12);
  EXPECT_EQ(want[1].scalar<float>()(), 144);
  ExpectSameOutputs(def, {"exit", "either", "lower"}, 8);
}

TEST(Rewrite, WritesTheDecisionsOnEveryOp) {
  const auto world = FourCpus(TwoChains(2, 4, LocalDevice("CPU", 0)));
  Plan plan;
  plan.device = world->Place({{"left0", 2}, {"left1", 2}});
  plan.priority.assign(world->graph.num_nodes(), 5);
  const GraphDef out = MustRewrite(*world, plan);
  for (const NodeDef& node : out.node()) {
    EXPECT_EQ(node.attr().at(kDeviceAttr).s(), node.device()) << node.name();
    EXPECT_EQ(node.attr().at(kFusionAttr).i(), -1);
    EXPECT_EQ(node.attr().at(kPriorityAttr).i(), 5);
    EXPECT_FALSE(node.attr().contains("_XlaCompile"));
  }
  EXPECT_EQ(FindNode(out, "left1")->device(), LocalDevice("CPU", 2));
  EXPECT_EQ(FindNode(out, "sum")->device(), LocalDevice("CPU", 0));
  EXPECT_TRUE(IsPlanned(out));
  EXPECT_FALSE(IsPlanned(world->item.graph));
}

TEST(Rewrite, PlacesAnUnplacedGraphCompletely) {
  const auto world = FourCpus(RandomGraph(30, 2));
  const GraphDef out = MustRewrite(*world, RandomPlan(*world, 1, false));
  for (const NodeDef& node : out.node()) {
    EXPECT_GE(world->devices.Find(node.device()), 0) << node.name();
  }
}

TEST(Rewrite, CopiesConstantsToTheirReaders) {
  GraphDef def = TwoChains(1, 4, LocalDevice("CPU", 0));
  AddOp(def, "w/go_copy_2", "Relu", {"w:0", "^w"}, LocalDevice("CPU", 0));  // The name is taken.
  const auto world = FourCpus(def);
  Plan plan;
  plan.device = world->Place({{"left0", 1}, {"w/go_copy_2", 2}});
  const GraphDef out = MustRewrite(*world, plan);
  EXPECT_EQ(out.node_size(), def.node_size() + 2);
  const NodeDef* copy = FindNode(out, "w/go_copy_1");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->device(), LocalDevice("CPU", 1));
  EXPECT_EQ(copy->attr().at(kDeviceAttr).s(), copy->device());
  EXPECT_THAT(FindNode(out, "left0")->input(), ElementsAre("w/go_copy_1", "w/go_copy_1"));
  EXPECT_THAT(FindNode(out, "right0")->input(), ElementsAre("w", "w"));
  const std::string other = FindNode(out, "w/go_copy_2")->input(0);
  EXPECT_NE(other, "w/go_copy_2");
  EXPECT_EQ(FindNode(out, other)->device(), LocalDevice("CPU", 2));
  EXPECT_EQ(FindNode(out, "w/go_copy_2")->input(1), "^" + other);
  ExpectEqual(Evaluate(def, {"sum", "w/go_copy_2"}), Evaluate(out, {"sum", "w/go_copy_2"}));
}

TEST(Rewrite, MovesAConstantThatIsReadElsewhereOnly) {
  const auto world = FourCpus(TwoChains(1, 4, LocalDevice("CPU", 0)));
  Plan plan;
  plan.device = world->Place({{"left0", 1}, {"right0", 1}});
  const GraphDef moved = MustRewrite(*world, plan);
  EXPECT_EQ(moved.node_size(), world->graph.num_nodes());
  EXPECT_EQ(FindNode(moved, "w")->device(), LocalDevice("CPU", 1));
  // One that must stay under its name stays where it is.
  const GraphDef kept = MustRewrite(*world, plan, {"w"});
  EXPECT_EQ(FindNode(kept, "w")->device(), LocalDevice("CPU", 0));
  EXPECT_EQ(FindNode(kept, "left0")->input(0), "w/go_copy_1");
}

TEST(Rewrite, AClustersConstantStaysWithIt) {
  const auto world = FourCpus(TwoChains(1, 4, LocalDevice("CPU", 0)));
  Plan plan;
  plan.device = world->Place({{"left0", 1}, {"right0", 1}});
  plan.fusion.assign(world->graph.num_nodes(), -1);
  plan.fusion[world->graph.Find("w")] = plan.fusion[world->graph.Find("sum")] = 0;
  const GraphDef out = MustRewrite(*world, plan);
  EXPECT_EQ(FindNode(out, "w")->device(), LocalDevice("CPU", 0));
  EXPECT_EQ(FindNode(out, "w")->attr().at(kFusionAttr).i(), 0);
  EXPECT_FALSE(FindNode(out, "w/go_copy_1")->attr().contains("_XlaCompile"));
}

TEST(Rewrite, SendsLargeConstantsInsteadOfCopying) {
  GraphDef def;
  AddMatrix(def, "w", 1024, 257, LocalDevice("CPU", 0));  // Above 1 MiB.
  AddOp(def, "a", "Tanh", {"w"}, LocalDevice("CPU", 0));
  AddOp(def, "b", "Tanh", {"w"}, LocalDevice("CPU", 0));
  const auto world = FourCpus(def);
  Plan plan;
  plan.device = world->Place({{"b", 1}});
  EXPECT_EQ(MustRewrite(*world, plan).node_size(), 3);
}

TEST(Rewrite, ClustersGetTheirScope) {
  GraphDef def;
  AddMatrix(def, "x", 4, 4, LocalDevice("CPU", 0));
  AddOp(def, "a", "Add", {"x", "x"}, LocalDevice("CPU", 0));
  AddOp(def, "b", "Relu", {"a"}, LocalDevice("CPU", 0));
  AddOp(def, "c", "Neg", {"b"}, LocalDevice("CPU", 0));
  const auto world = FourCpus(def);
  Plan plan;
  plan.device = world->legality.incoming;
  plan.fusion.assign(world->graph.num_nodes(), -1);
  plan.fusion[world->graph.Find("a")] = plan.fusion[world->graph.Find("b")] = 7;
  const GraphDef out = MustRewrite(*world, plan);
  for (const char* op : {"a", "b"}) {
    const auto& attr = FindNode(out, op)->attr();
    EXPECT_TRUE(attr.at("_XlaCompile").b());
    EXPECT_EQ(attr.at("_XlaScope").s(), "grappler_go_7");
    EXPECT_EQ(attr.at(kFusionAttr).i(), 7);
  }
  EXPECT_FALSE(FindNode(out, "c")->attr().contains("_XlaCompile"));
  ExpectEqual(Evaluate(def, {"b", "c"}), Evaluate(out, {"b", "c"}));  // XLA compiles the cluster.
  plan.device = world->Place({{"b", 1}});
  EXPECT_THAT(Words(Rewrite(def, world->problem, plan, {})), HasSubstr("one cluster"));
}

TEST(Rewrite, PrioritiesBecomeControlInputs) {
  GraphDef def;
  AddMatrix(def, "x", 16, 16, LocalDevice("CPU", 0));
  for (const char* op : {"a", "b", "c"})
    AddOp(def, op, "MatMul", {"x", "x"}, LocalDevice("CPU", 0));
  const auto world = FourCpus(def, {"a", "b", "c"});
  Plan plan;
  plan.device = world->legality.incoming;
  plan.priority.assign(world->graph.num_nodes(), 0);
  plan.priority[world->graph.Find("c")] = 2;
  plan.priority[world->graph.Find("b")] = 1;
  const GraphDef out = MustRewrite(*world, plan);
  EXPECT_THAT(FindNode(out, "c")->input(), ElementsAre("x", "x"));
  EXPECT_THAT(FindNode(out, "b")->input(), ElementsAre("x", "x", "^c"));
  EXPECT_THAT(FindNode(out, "a")->input(), ElementsAre("x", "x", "^b"));
  ExpectEqual(Evaluate(def, {"a", "b", "c"}), Evaluate(out, {"a", "b", "c"}));
}

TEST(Rewrite, ForeignOpsKeepTheirDevice) {
  GraphDef def = TwoChains(1, 4, LocalDevice("CPU", 0));
  def.mutable_node(1)->set_device("/job:ps/replica:0/task:0/device:CPU:0");
  const auto world = FourCpus(def);
  Plan plan;
  plan.device = world->legality.incoming;
  const GraphDef out = MustRewrite(*world, plan);
  EXPECT_EQ(FindNode(out, def.node(1).name())->device(), def.node(1).device());
}

TEST(Rewrite, RefusesAnIllegalPlan) {
  GraphDef def = TwoChains(1, 4, LocalDevice("CPU", 0));
  AddOp(def, "arg", "_Arg", {}, LocalDevice("CPU", 0));
  const auto world = FourCpus(def);
  Plan plan;
  plan.device = world->Place({{"arg", 1}});
  const auto out = Rewrite(def, world->problem, plan, {});
  EXPECT_THAT(Words(out), AllOf(HasSubstr("'arg'"), HasSubstr("argument or result")));
}

TEST(Rewrite, KeepsLibraryVersionsAndOrder) {
  GraphDef def = RandomGraph(30, 4, LocalDevice("CPU", 0));
  def.mutable_library()->add_function()->mutable_signature()->set_name("f");
  def.mutable_versions()->set_producer(1234);
  const auto world = FourCpus(def);
  const GraphDef out = MustRewrite(*world, RandomPlan(*world, 3, true));
  EXPECT_EQ(out.library().function(0).signature().name(), "f");
  EXPECT_EQ(out.versions().producer(), 1234);
  for (int i = 0; i < def.node_size(); ++i) EXPECT_EQ(out.node(i).name(), def.node(i).name());
}

}  // namespace
}  // namespace grappler_go
