#include "cc/legality.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string>& CpuGpu() {
  static const auto* const kNames = new std::vector<std::string>{
      LocalDevice("CPU", 0), LocalDevice("GPU", 0), LocalDevice("GPU", 1)};
  return *kNames;
}

GraphDef Chain(const std::string& device = WorkerCpu(0)) {
  GraphDef def;
  AddMatrix(def, "a", 4, 4, device);
  AddOp(def, "b", "Tanh", {"a"}, device);
  AddOp(def, "c", "Tanh", {"b"}, device);
  return def;
}

std::unique_ptr<World> TwoWorkers(const GraphDef& def, const LegalityOptions& options = {}) {
  return MakeWorld(MakeItem(def), WorkerCpus(2), false, options);
}

int GroupOf(const World& world, const std::string& name) {
  return world.legality.group[world.graph.Find(name)];
}

// That `op` is bound to the first worker by `rule`, and that Check says so.
void ExpectBound(const World& world, const std::string& op, Rule rule) {
  EXPECT_EQ(world.RuleOf(op), rule) << op << ": " << RuleName(world.RuleOf(op));
  EXPECT_FALSE(world.Movable(op)) << op;
  Placement placement = world.legality.incoming;
  EXPECT_TRUE(world.legality.Check(world.graph, world.devices, placement).ok());
  placement[world.graph.Find(op)] ^= 1;
  const std::string words = Words(world.legality.Check(world.graph, world.devices, placement));
  EXPECT_THAT(words, AllOf(HasSubstr(absl::StrCat("'", op, "'")), HasSubstr(RuleName(rule))));
}

TEST(Legality, FreeOpsMayGoAnywhere) {
  const auto world = TwoWorkers(Chain());
  EXPECT_EQ(world->legality.num_groups(), 3);
  for (const char* op : {"a", "b", "c"}) {
    EXPECT_TRUE(world->Movable(op));
    EXPECT_EQ(world->RuleOf(op), Rule::kNone);
    EXPECT_EQ(world->legality.mask(world->graph.Find(op)), 0b11u);
  }
  EXPECT_TRUE(world->legality.placed);
  EXPECT_TRUE(world->legality.replicable[world->graph.Find("a")]);
  EXPECT_FALSE(world->legality.replicable[world->graph.Find("b")]);
}

TEST(Legality, CheckRefusesBadPlacements) {
  const auto world = TwoWorkers(Chain());
  const auto check = [&](const Placement& placement) {
    return Words(world->legality.Check(world->graph, world->devices, placement));
  };
  EXPECT_THAT(check({0, 0}), AllOf(HasSubstr("2"), HasSubstr("3")));
  EXPECT_THAT(check({0, 2, 0}), AllOf(HasSubstr("'b'"), HasSubstr("2"), HasSubstr("0..1")));
  EXPECT_THAT(check({0, 0, -1}), AllOf(HasSubstr("'c'"), HasSubstr("-1")));
}

TEST(Legality, ColocatedOpsShareADevice) {
  GraphDef def = Chain();
  Colocate(*def.mutable_node(2), "b");
  const auto world = TwoWorkers(def);
  EXPECT_EQ(GroupOf(*world, "b"), GroupOf(*world, "c"));
  EXPECT_TRUE(world->Movable("b"));
  EXPECT_THAT(Words(world->legality.Check(world->graph, world->devices,
                                          world->Place({{"b", 1}, {"c", 0}}))),
              AllOf(HasSubstr("'b'"), HasSubstr("'c'"), HasSubstr("share a device")));
  EXPECT_TRUE(
      world->legality.Check(world->graph, world->devices, world->Place({{"b", 1}, {"c", 1}})).ok());
}

TEST(Legality, ColocationSurvivesATargetThatIsGone) {
  GraphDef def = Chain();
  Colocate(*def.mutable_node(1), "gone");
  Colocate(*def.mutable_node(2), "gone");
  const auto world = TwoWorkers(def);
  EXPECT_EQ(GroupOf(*world, "b"), GroupOf(*world, "c"));
  EXPECT_NE(GroupOf(*world, "a"), GroupOf(*world, "b"));
}

TEST(Legality, AnOpWithoutAGpuKernelStays) {
  GraphDef def;
  const std::string cpu = LocalDevice("CPU", 0);
  AddConst(def, "text", tensorflow::Tensor("x"), cpu);
  AddOp(def, "upper", "StringUpper", {"text"}, cpu);
  AddMatrix(def, "x", 4, 4, cpu);
  AddOp(def, "y", "MatMul", {"x", "x"}, cpu);
  const auto world = MakeWorld(MakeItem(def), CpuGpu());
  EXPECT_EQ(world->legality.mask(world->graph.Find("y")), 0b111u);
  ExpectBound(*world, "upper", Rule::kNoKernel);
  // One op of a group without a kernel keeps the whole group.
  Colocate(*def.mutable_node(3), "upper");
  const auto joined = MakeWorld(MakeItem(def), CpuGpu());
  ExpectBound(*joined, "y", Rule::kColocation);
}

TEST(Legality, SpecialEdgesTieTheirEnds) {
  GraphDef def;
  const std::string home = WorkerCpu(0);
  AddOp(def, "queue", "NoSuchOp", {}, home);
  AddOp(def, "list", "EmptyTensorList", {"a", "b"}, home);
  AddConst(def, "a", tensorflow::Tensor(tensorflow::DT_FLOAT, {0}), home);
  AddConst(def, "b", tensorflow::Tensor(tensorflow::DT_FLOAT, {0}), home);
  AddOp(def, "length", "TensorListLength", {"list"}, home);
  const auto variant = TwoWorkers(def);
  EXPECT_EQ(GroupOf(*variant, "list"), GroupOf(*variant, "length"));
  EXPECT_TRUE(variant->Movable("list"));

  GraphDef resource;
  SetShape(AddOp(resource, "v", "VarHandleOp", {}, home), {2});
  AddOp(resource, "id", "Identity", {"v"}, home, tensorflow::DT_RESOURCE);
  const auto stateful = TwoWorkers(resource);
  ExpectBound(*stateful, "v", Rule::kStateful);
  ExpectBound(*stateful, "id", Rule::kResource);

  GraphDef reference;
  SetShape(AddOp(reference, "v", "VariableV2", {}, home), {4, 4});
  AddOp(reference, "read", "Identity", {"v"}, home);
  AddOp(reference, "use", "Tanh", {"read"}, home);
  const auto ref = TwoWorkers(reference);
  ExpectBound(*ref, "v", Rule::kStateful);
  ExpectBound(*ref, "read", Rule::kReference);
  EXPECT_TRUE(ref->Movable("use"));
}

TEST(Legality, StateMovesAsAGroupWhenAsked) {
  GraphDef def;
  SetShape(AddOp(def, "v", "VarHandleOp", {}, WorkerCpu(0)), {2});
  AddOp(def, "read", "ReadVariableOp", {"v"}, WorkerCpu(0));
  const auto stays = TwoWorkers(def);
  ExpectBound(*stays, "read", Rule::kStateful);
  LegalityOptions options;
  options.move_state = true;
  const auto moves = TwoWorkers(def, options);
  EXPECT_TRUE(moves->Movable("v"));
  EXPECT_EQ(GroupOf(*moves, "v"), GroupOf(*moves, "read"));
}

TEST(Legality, StateOfOneStepMovesWithItsUsers) {
  GraphDef def;
  AddConst(def, "size", tensorflow::Tensor(tensorflow::DT_INT32, {}), WorkerCpu(0));
  AddOp(def, "array", "TensorArrayV3", {"size"}, WorkerCpu(0));
  AddOp(def, "length", "TensorArraySizeV3", {"array:0", "array:1"}, WorkerCpu(0));
  const auto world = TwoWorkers(def);
  EXPECT_TRUE(world->Movable("array"));
  EXPECT_EQ(GroupOf(*world, "array"), GroupOf(*world, "length"));
}

TEST(Legality, FeedsAndBoundariesStay) {
  GraphDef def = Chain();
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  AddOp(def, "result", "_Retval", {"c"}, WorkerCpu(0));
  SetShape(AddOp(def, "placeholder", "Placeholder", {}, WorkerCpu(0)), {2});
  auto item = MakeItem(def);
  item.feed.emplace_back("b:0", tensorflow::Tensor());
  const auto world = MakeWorld(item, WorkerCpus(2));
  ExpectBound(*world, "b", Rule::kFeed);
  ExpectBound(*world, "arg", Rule::kBoundary);
  ExpectBound(*world, "result", Rule::kBoundary);
  ExpectBound(*world, "placeholder", Rule::kBoundary);
  EXPECT_TRUE(world->Movable("c"));
}

TEST(Legality, AFetchedConstantIsNotCopied) {
  const auto world = MakeWorld(MakeItem(Chain(), {"a:0"}), WorkerCpus(2));
  EXPECT_FALSE(world->legality.replicable[world->graph.Find("a")]);
}

TEST(Legality, ALoopIsOneGroup) {
  GraphDef def;
  const std::string home = WorkerCpu(0);
  AddMatrix(def, "start", 1, 1, home);
  (*AddOp(def, "enter", "Enter", {"start"}, home).mutable_attr())["frame_name"].set_s("loop");
  AddOp(def, "merge", "Merge", {"enter", "next"}, home);
  AddOp(def, "body", "Tanh", {"merge"}, home);
  AddOp(def, "next", "NextIteration", {"body"}, home);
  AddOp(def, "exit", "Exit", {"merge"}, home);
  AddOp(def, "after", "Tanh", {"exit"}, home);
  const auto world = TwoWorkers(def);
  for (const char* op : {"merge", "body", "next", "exit"}) {
    EXPECT_EQ(GroupOf(*world, op), GroupOf(*world, "enter")) << op;
  }
  EXPECT_TRUE(world->Movable("enter"));
  EXPECT_NE(GroupOf(*world, "after"), GroupOf(*world, "enter"));
  // A stateful op in the loop holds all of it.
  AddConst(def, "shape", tensorflow::Tensor(tensorflow::DT_INT32, {1}), home);
  AddOp(def, "random", "RandomUniform", {"shape", "^merge"}, home);
  const auto held = TwoWorkers(def);
  ExpectBound(*held, "body", Rule::kControlFlow);
  ExpectBound(*held, "random", Rule::kStateful);
}

TEST(Legality, ALoneSwitchAndMergeStay) {
  GraphDef def = Chain();
  const std::string home = WorkerCpu(0);
  AddConst(def, "p", tensorflow::Tensor(true), home);
  AddOp(def, "switch", "Switch", {"c", "p"}, home);
  AddOp(def, "left", "Tanh", {"switch:0"}, home);
  AddOp(def, "right", "Relu", {"switch:1"}, home);
  AddOp(def, "merge", "Merge", {"left", "right"}, home);
  const auto world = TwoWorkers(def);
  ExpectBound(*world, "switch", Rule::kControlFlow);
  ExpectBound(*world, "merge", Rule::kControlFlow);
  EXPECT_TRUE(world->Movable("left"));
}

TEST(Legality, CallsUnknownAndXlaOpsStay) {
  GraphDef def = Chain();
  auto& call = AddOp(def, "call", "PartitionedCall", {"a"}, WorkerCpu(0));
  (*call.mutable_attr())["f"].mutable_func()->set_name("f");
  AddOp(def, "unknown", "NoSuchOp", {"a"}, WorkerCpu(0));
  (*AddOp(def, "xla", "Tanh", {"a"}, WorkerCpu(0)).mutable_attr())["_XlaMustCompile"].set_b(true);
  const auto world = TwoWorkers(def);
  ExpectBound(*world, "call", Rule::kFunctionCall);
  ExpectBound(*world, "unknown", Rule::kUnknownOp);
  ExpectBound(*world, "xla", Rule::kXla);
}

TEST(Legality, ALibraryFunctionsNameIsACall) {
  GraphDef def = Chain();
  def.mutable_library()->add_function()->mutable_signature()->set_name("MyFunction");
  AddOp(def, "call", "MyFunction", {"a"}, WorkerCpu(0));
  ExpectBound(*TwoWorkers(def), "call", Rule::kFunctionCall);
}

TEST(Legality, TheUsersDeviceIsRespectedUnlessOverridden) {
  GraphDef def = Chain();
  (*def.mutable_node(1)->mutable_attr())[kUserDeviceAttr].set_s("/job:worker/task:0");
  ExpectBound(*TwoWorkers(def), "b", Rule::kUserDevice);
  LegalityOptions options;
  options.override_user_devices = true;
  EXPECT_TRUE(TwoWorkers(def, options)->Movable("b"));
  // A wish that leaves a choice.
  (*def.mutable_node(1)->mutable_attr())[kUserDeviceAttr].set_s("/device:CPU:0");
  EXPECT_TRUE(TwoWorkers(def)->Movable("b"));
  // TensorFlow placed the op against the wish (soft placement): it stays there.
  (*def.mutable_node(1)->mutable_attr())[kUserDeviceAttr].set_s("/job:worker/task:1");
  ExpectBound(*TwoWorkers(def), "b", Rule::kUserDevice);
}

TEST(Legality, AnUnplacedGraphIsPlacedAsTensorFlowDoes) {
  GraphDef def = Chain("");
  def.mutable_node(1)->set_device("/device:GPU:1");  // The user's wish.
  AddConst(def, "text", tensorflow::Tensor("x"));
  AddOp(def, "upper", "StringUpper", {"text"});
  const auto world = MakeWorld(MakeItem(def), CpuGpu());
  EXPECT_FALSE(world->legality.placed);
  EXPECT_EQ(world->legality.incoming[world->graph.Find("c")], 1);
  EXPECT_EQ(world->legality.incoming[world->graph.Find("upper")], 0);
  EXPECT_EQ(world->legality.incoming[world->graph.Find("b")], 2);
  EXPECT_EQ(world->RuleOf("b"), Rule::kUserDevice);
  EXPECT_TRUE(world->Movable("c"));
  LegalityOptions options;
  options.override_user_devices = true;
  EXPECT_TRUE(MakeWorld(MakeItem(def), CpuGpu(), false, options)->Movable("b"));
}

TEST(Legality, AForeignDeviceIsNotTouched) {
  GraphDef def = Chain();
  def.mutable_node(1)->set_device("/job:ps/replica:0/task:0/device:CPU:0");
  const auto world = TwoWorkers(def);
  ExpectBound(*world, "b", Rule::kForeignDevice);
  EXPECT_TRUE(world->Movable("c"));
}

TEST(Legality, WhatBelongsWithAForeignOpIsNotTouchedEither) {
  GraphDef def = Chain("");
  def.mutable_node(1)->set_device("/job:ps/replica:0/task:0/device:CPU:0");
  Colocate(*def.mutable_node(2), "b");
  ExpectBound(*TwoWorkers(def), "c", Rule::kForeignDevice);
}

TEST(Legality, AMixedGroupIsFrozen) {
  GraphDef def = Chain();
  def.mutable_node(2)->set_device(WorkerCpu(1));
  Colocate(*def.mutable_node(2), "b");
  const auto world = TwoWorkers(def);
  ExpectBound(*world, "b", Rule::kColocation);
  ExpectBound(*world, "c", Rule::kColocation);
  EXPECT_EQ(world->legality.incoming[world->graph.Find("c")], 1);
}

TEST(Legality, RepairFollowsMostOfTheGroupsCompute) {
  GraphDef def = Chain();
  Colocate(*def.mutable_node(2), "b");
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  const auto world = TwoWorkers(def);
  world->graph.work[world->graph.Find("c")].matmul_flops = 1e6;
  const Placement repaired = world->legality.Repair(
      world->graph, world->Place({{"a", 1}, {"b", 0}, {"c", 1}, {"arg", 1}}));
  EXPECT_EQ(repaired, world->Place({{"a", 1}, {"b", 1}, {"c", 1}, {"arg", 0}}));
  const Placement nowhere(4, 7);
  EXPECT_EQ(world->legality.Repair(world->graph, nowhere), world->legality.incoming);
}

TEST(Legality, RepairedPlacementsAreLegal) {
  std::mt19937_64 random(1);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    GraphDef def = RandomGraph(50, seed, LocalDevice("CPU", 0));
    for (auto& node : *def.mutable_node()) {
      if (random() % 8 == 0) node.set_device("");
      if (random() % 8 == 0) node.set_device(LocalDevice("GPU", 1));
      if (random() % 8 == 0) (*node.mutable_attr())[kUserDeviceAttr].set_s("/device:GPU:*");
    }
    const auto world = MakeWorld(MakeItem(def), CpuGpu());
    const Legality& legality = world->legality;
    EXPECT_TRUE(legality.Check(world->graph, world->devices, legality.incoming).ok());
    for (int k = 0; k < 20; ++k) {
      Placement placement(50);
      for (int8_t& device : placement) device = static_cast<int8_t>(random() % 5) - 1;
      const Placement repaired = legality.Repair(world->graph, placement);
      EXPECT_EQ(Words(legality.Check(world->graph, world->devices, repaired)), "");
      EXPECT_EQ(legality.Repair(world->graph, repaired), repaired);
    }
  }
}

}  // namespace
}  // namespace grappler_go
