#include "cc/heuristics.h"

#include <functional>
#include <set>

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;

struct Named {
  const char* name;
  std::function<Placement(const Problem&)> place;
};

const std::vector<Named>& All() {
  static const auto* const kAll = new std::vector<Named>{
      {"critical_path", [](const Problem& p) { return CriticalPath(p, 1); }},
      {"critical_path shy", [](const Problem& p) { return CriticalPath(p, 8); }},
      {"m_etf", [](const Problem& p) { return EarliestTaskFirst(p, 1); }},
      {"m_etf shy", [](const Problem& p) { return EarliestTaskFirst(p, 8); }},
      {"single_device", [](const Problem& p) { return SingleDevice(p, 1); }},
      {"random", [](const Problem& p) { return RandomLegal(p, 7); }}};
  return *kAll;
}

double StepUs(const World& world, const Placement& placement) {
  Simulator simulator(world.graph, world.devices, world.legality, world.op_us);
  return simulator.Run(placement).step_us;
}

std::unique_ptr<World> Chains(double op_us, double bytes) {
  auto world = MakeWorld(MakeItem(TwoChains(3, 2, WorkerCpu(0))), WorkerCpus(2));
  for (int i = 0; i < world->graph.num_nodes(); ++i) {
    if (world->graph.op(i) != "MatMul") continue;
    world->SetUs(world->graph.name(i), op_us);
    world->SetBytes(world->graph.name(i), bytes);
  }
  return world;
}

TEST(Heuristics, AreLegalAndRepeatable) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    GraphDef def = RandomGraph(60, seed, WorkerCpu(0));
    AddOp(def, "random", "RandomUniform", {"shape"}, WorkerCpu(0));
    AddConst(def, "shape", tensorflow::Tensor(tensorflow::DT_INT32, {1}), WorkerCpu(0));
    Colocate(AddOp(def, "held", "Tanh", {"n59"}, WorkerCpu(0)), "random");
    const auto world = MakeWorld(MakeItem(def), WorkerCpus(3), true);
    for (const Named& heuristic : All()) {
      const Placement placement = heuristic.place(world->problem);
      EXPECT_EQ(Words(world->legality.Check(world->graph, world->devices, placement)), "")
          << heuristic.name;
      EXPECT_EQ(heuristic.place(world->problem), placement) << heuristic.name;
    }
  }
}

TEST(Heuristics, FindTheOptimumOfTwoChains) {
  const auto world = Chains(100, 1000);
  const double best_us = BruteForce(world->problem).second;
  EXPECT_LT(best_us, StepUs(*world, world->legality.incoming) * 0.6);
  EXPECT_EQ(StepUs(*world, CriticalPath(world->problem, 1)), best_us);
  EXPECT_EQ(StepUs(*world, EarliestTaskFirst(world->problem, 1)), best_us);
}

TEST(Heuristics, StayHomeWhereTransfersAreDear) {
  GraphDef def;
  AddMatrix(def, "x", 2, 2, WorkerCpu(0));
  AddOp(def, "a", "Tanh", {"x"}, WorkerCpu(0));
  for (const char* op : {"b", "c", "d"}) AddOp(def, op, "Tanh", {"a"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->SetBytes("a", 1e6);
  for (const Placement& placement :
       {CriticalPath(world->problem, 1), EarliestTaskFirst(world->problem, 1)}) {
    EXPECT_EQ(StepUs(*world, placement), 4);
  }
}

TEST(Heuristics, PreferTheFasterDevice) {
  GraphDef def;
  AddMatrix(def, "x", 2, 2, WorkerCpu(0));
  AddOp(def, "a", "Tanh", {"x"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->SetUs("a", 0, 100);
  world->SetUs("a", 1, 10);
  EXPECT_EQ(CriticalPath(world->problem, 1)[world->graph.Find("a")], 1);
}

TEST(Heuristics, SpreadVariablesThatDoNotFitOneDevice) {
  GraphDef def;
  for (const char* name : {"v", "w"}) {
    SetShape(AddOp(def, name, "VarHandleOp", {}, WorkerCpu(0)), {15});
    AddOp(def, absl::StrCat("read_", name), "ReadVariableOp", {name}, WorkerCpu(0));
  }
  LegalityOptions options;
  options.move_state = true;
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2), false, options,
                               R"({"version":1,"devices":{"CPU":{"memory_bytes":100}}})");
  for (const Placement& placement :
       {CriticalPath(world->problem, 1), EarliestTaskFirst(world->problem, 1)}) {
    Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
    EXPECT_TRUE(simulator.Run(placement).feasible);
    EXPECT_FALSE(simulator.Run(world->legality.incoming).feasible);
  }
}

TEST(UpwardRank, IsTheLongestRemainingPath) {
  GraphDef def;
  AddMatrix(def, "x", 2, 2);
  AddOp(def, "a", "Tanh", {"x"});
  AddOp(def, "b", "Tanh", {"a"});
  AddOp(def, "c", "Tanh", {"a"});
  AddOp(def, "d", "Add", {"b", "c"});
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->SetUs("a", 1);
  world->SetUs("b", 10);
  world->SetUs("c", 0, 50);
  world->SetUs("c", 1, 20);  // The fastest device counts.
  world->SetUs("d", 3);
  const std::vector<double> rank = UpwardRank(world->problem);
  const auto of = [&](const char* name) { return rank[world->graph.Find(name)]; };
  EXPECT_EQ(of("d"), 3);
  EXPECT_EQ(of("c"), 23);
  EXPECT_EQ(of("b"), 13);
  EXPECT_EQ(of("a"), 24);
  EXPECT_EQ(of("x"), 24);
}

TEST(SingleDevice, LeavesWhatCannotMove) {
  GraphDef def = TwoChains(1, 2, WorkerCpu(0));
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  const Placement placement = SingleDevice(world->problem, 1);
  for (int i = 0; i < world->graph.num_nodes(); ++i) {
    EXPECT_EQ(placement[i], world->graph.name(i) == "arg" ? 0 : 1) << world->graph.name(i);
  }
}

TEST(RandomLegal, DrawsAllDevicesAndDiffersBySeed) {
  const auto world = MakeWorld(MakeItem(RandomGraph(60, 1, WorkerCpu(0))), WorkerCpus(3));
  std::set<int> devices;
  for (const int8_t device : RandomLegal(world->problem, 1)) devices.insert(device);
  EXPECT_EQ(devices.size(), 3u);
  EXPECT_NE(RandomLegal(world->problem, 1), RandomLegal(world->problem, 2));
}

}  // namespace
}  // namespace grappler_go
