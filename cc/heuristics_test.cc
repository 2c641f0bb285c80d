#include "cc/heuristics.h"

#include <functional>
#include <set>

#include "cc/celeritas.h"
#include "cc/schedule.h"
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
      {"heft", [](const Problem& p) { return Heft(p, 1); }},
      {"heft shy", [](const Problem& p) { return Heft(p, 8); }},
      {"m_topo", [](const Problem& p) { return TopologicalCut(p); }},
      {"celeritas", [](const Problem& p) { return Celeritas(p, 1); }},
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
  EXPECT_EQ(StepUs(*world, Heft(world->problem, 1)), best_us);
}

TEST(Heuristics, StayHomeWhereTransfersAreDear) {
  GraphDef def;
  AddMatrix(def, "x", 2, 2, WorkerCpu(0));
  AddOp(def, "a", "Tanh", {"x"}, WorkerCpu(0));
  for (const char* op : {"b", "c", "d"}) AddOp(def, op, "Tanh", {"a"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->SetBytes("a", 1e6);
  for (const Placement& placement :
       {CriticalPath(world->problem, 1), EarliestTaskFirst(world->problem, 1),
        Heft(world->problem, 1), Celeritas(world->problem, 1)}) {
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
       {CriticalPath(world->problem, 1), EarliestTaskFirst(world->problem, 1),
        Heft(world->problem, 1), TopologicalCut(world->problem), Celeritas(world->problem, 1)}) {
    Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
    EXPECT_TRUE(simulator.Run(placement).feasible);
    EXPECT_FALSE(simulator.Run(world->legality.incoming).feasible);
  }
}

// The ten tasks on three processors of Topcuoglu et al. 2002, figure 2 and table 2.
std::unique_ptr<World> TenTasks() {
  struct Edge {
    int source, target;
    double bytes;
  };
  const double us[10][3] = {{14, 16, 9}, {13, 19, 18}, {11, 13, 19}, {13, 8, 17},  {12, 13, 10},
                            {13, 16, 9}, {7, 15, 11},  {5, 11, 14},  {18, 12, 20}, {21, 7, 16}};
  const std::vector<Edge> edges = {{1, 2, 18}, {1, 3, 12}, {1, 4, 9},   {1, 5, 11},  {1, 6, 14},
                                   {2, 8, 19}, {2, 9, 16}, {3, 7, 23},  {4, 8, 27},  {4, 9, 23},
                                   {5, 9, 13}, {6, 8, 15}, {7, 10, 17}, {8, 10, 11}, {9, 10, 13}};
  GraphDef def;
  std::vector<int> outputs(11, 0);
  std::vector<std::vector<std::string>> inputs(11);
  for (const Edge& edge : edges) {
    inputs[edge.target].push_back(absl::StrCat("n", edge.source, ":", outputs[edge.source]++));
  }
  for (int k = 1; k <= 10; ++k) {
    auto& attr =
        *AddOp(def, absl::StrCat("n", k), "GrapplerGoWork", inputs[k], WorkerCpu(0)).mutable_attr();
    attr["num_inputs"].set_i(static_cast<int64_t>(inputs[k].size()));
    attr["num_outputs"].set_i(outputs[k]);
    for (int port = 0; port < outputs[k]; ++port) attr["output_bytes"].mutable_list()->add_f(1);
  }
  auto world = MakeWorld(MakeItem(def), WorkerCpus(3), false, {},
                         R"({"version":1,"links":[{"source":"CPU","target":"CPU",
                             "scope":"remote","latency_us":0,"gb_per_s":0.001}]})");
  std::fill(outputs.begin(), outputs.end(), 0);
  for (const Edge& edge : edges) {
    const int node = world->graph.Find(absl::StrCat("n", edge.source));
    world->graph.tensor_bytes[world->graph.tensor_offsets[node] + outputs[edge.source]++] =
        edge.bytes;
  }
  for (int k = 1; k <= 10; ++k) {
    for (int d = 0; d < 3; ++d) world->SetUs(absl::StrCat("n", k), d, us[k - 1][d]);
  }
  return world;
}

TEST(Heft, GivesThePublishedScheduleOfTheTenTasks) {
  const auto world = TenTasks();
  const Placement placement = Heft(world->problem, 1);
  const int published[10] = {2, 0, 2, 1, 2, 1, 2, 0, 1, 1};
  for (int k = 1; k <= 10; ++k) {
    EXPECT_EQ(placement[world->graph.Find(absl::StrCat("n", k))], published[k - 1]) << "task " << k;
  }
  // In the order of the paper's upward ranks the schedule ends at 80.
  Schedule schedule(world->problem, 1, Schedule::Slots::kInsert);
  for (const int k : {1, 3, 4, 2, 5, 6, 9, 7, 8, 10}) {
    schedule.Place(world->graph.Find(absl::StrCat("n", k)), published[k - 1]);
  }
  EXPECT_DOUBLE_EQ(schedule.EndUs(), 80);
}

TEST(Schedule, FillsGapsOnlyWhereAskedTo) {
  GraphDef def;
  AddOp(def, "a", "_Arg", {}, WorkerCpu(0));
  for (const char* op : {"far", "near"}) AddOp(def, op, "Tanh", {"a"}, WorkerCpu(0));
  AddOp(def, "back", "Tanh", {"far"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->SetUs("a", 0);
  world->SetUs("far", 5);
  world->SetUs("near", 8);
  world->SetUs("back", 1);
  for (const Schedule::Slots slots : {Schedule::Slots::kAppend, Schedule::Slots::kInsert}) {
    Schedule schedule(world->problem, 1, slots);
    schedule.Place(world->graph.Find("a"), 0);
    schedule.Place(world->graph.Find("far"), 1);
    schedule.Place(world->graph.Find("back"), 0);
    const double done_us = schedule.EndUs();
    // Until the result is back the first device has nothing to do.
    const double start_us = schedule.StartUs(world->graph.Find("near"), 0);
    if (slots == Schedule::Slots::kInsert) {
      EXPECT_LT(start_us + 8, done_us);
    } else {
      EXPECT_EQ(start_us, done_us);
    }
  }
}

TEST(TopologicalCut, GivesEachDeviceItsShareOfTheMemory) {
  GraphDef def;
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  std::string last = "arg";
  for (int k = 0; k < 8; ++k) {
    AddOp(def, absl::StrCat("t", k), "Tanh", {last}, WorkerCpu(0));
    last = absl::StrCat("t", k);
  }
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  for (int k = 0; k < 8; ++k) world->SetBytes(absl::StrCat("t", k), 10);
  // 80 bytes: half of them and the largest op's are 50.
  const Placement placement = TopologicalCut(world->problem);
  for (int k = 0; k < 8; ++k) {
    EXPECT_EQ(placement[world->graph.Find(absl::StrCat("t", k))], k < 5 ? 0 : 1) << k;
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
