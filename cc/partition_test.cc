#include "cc/partition.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

TEST(SpreadRuns, CutsChainsIntoEqualParts) {
  tensorflow::GraphDef def;
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  std::string last = "arg";
  for (int k = 0; k < 16; ++k) {
    AddOp(def, absl::StrCat("t", k), "Tanh", {last}, WorkerCpu(0));
    last = absl::StrCat("t", k);
  }
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  const std::vector<Placement> runs = SpreadRuns(world->problem, Coarsen(world->problem));
  ASSERT_FALSE(runs.empty());
  for (const Placement& placement : runs) {
    EXPECT_EQ(Words(world->legality.Check(world->graph, world->devices, placement)), "");
    int second = 0, changes = 0;
    for (int k = 0; k < 16; ++k) {
      const int device = placement[world->graph.Find(absl::StrCat("t", k))];
      second += device;
      if (k > 0) {
        changes += device != placement[world->graph.Find(absl::StrCat("t", k - 1))] ? 1 : 0;
      }
    }
    EXPECT_EQ(changes, 1);
    EXPECT_NEAR(second, 8, 2);
  }
}

// Two cliques of eight ops that exchange much, with one thin edge between them, their names and
// order mixed.
TEST(Partitions, FindTheThinCut) {
  tensorflow::GraphDef def;
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  const auto name = [](int clique, int k) { return absl::StrCat("op", k, "_", clique); };
  for (int k = 0; k < 8; ++k) {
    for (int clique = 0; clique < 2; ++clique) {
      std::vector<std::string> inputs = {k == 0 ? "arg" : name(clique, k - 1)};
      if (k > 1) inputs.push_back(name(clique, k - 2));
      AddOp(def, name(clique, k), inputs.size() == 1 ? "Tanh" : "Add", inputs, WorkerCpu(0));
    }
  }
  AddOp(def, "sum", "Add", {name(0, 7), name(1, 7)}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  for (int clique = 0; clique < 2; ++clique) {
    for (int k = 0; k < 8; ++k) {
      world->SetUs(name(clique, k), 10);
      world->SetBytes(name(clique, k), k == 7 ? 1 : 1e6);
    }
  }
  world->SetUs("sum", 1);
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  double best_us = 1e9;
  for (const Placement& placement : Partitions(world->problem, Coarsen(world->problem))) {
    EXPECT_EQ(Words(world->legality.Check(world->graph, world->devices, placement)), "");
    best_us = std::min(best_us, simulator.Run(placement).step_us);
  }
  // A small transfer to the second device (14 us), 80 us there, one back, the sum.
  EXPECT_LT(best_us, 110);
}

// Two chains: one computes, the other holds what two devices can only just keep.
TEST(Partitions, BalanceMemoryWhereItIsShort) {
  tensorflow::GraphDef def;
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  std::string last = "arg";
  for (int k = 0; k < 16; ++k) {
    AddOp(def, absl::StrCat("t", k), "Tanh", {last}, WorkerCpu(0));
    last = absl::StrCat("t", k);
  }
  const auto fits = [&](double limit) {
    auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
    for (int k = 0; k < 16; ++k) {  // The first half computes, the second keeps.
      const std::string op = absl::StrCat("t", k);
      world->SetUs(op, k < 8 ? 100 : 1);
      world->SetBytes(op, 1);
      world->graph.persistent_bytes[world->graph.Find(op)] = k < 8 ? 0 : 100;
    }
    for (int d = 0; d < 2; ++d) world->devices.SetMemoryLimit(d, limit);
    Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
    int count = 0;
    for (const Placement& placement : Partitions(world->problem, Coarsen(world->problem))) {
      count += simulator.Run(placement).feasible ? 1 : 0;
    }
    return count;
  };
  EXPECT_GT(fits(520), 0);
  EXPECT_EQ(fits(300), 0);  // Nothing can.
}

}  // namespace
}  // namespace grappler_go
