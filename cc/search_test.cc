#include "cc/search.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

// Eight ops in two strands with a crossing, and a GPU-like second device for some.
std::unique_ptr<World> EightOps(uint64_t seed) {
  tensorflow::GraphDef def;
  const std::string home = WorkerCpu(0);
  AddMatrix(def, "x", 2, 2, home);
  AddOp(def, "a", "Tanh", {"x"}, home);
  AddOp(def, "b", "Tanh", {"x"}, home);
  AddOp(def, "c", "Tanh", {"a"}, home);
  AddOp(def, "d", "Tanh", {"b"}, home);
  AddOp(def, "e", "Add", {"c", "d"}, home);
  AddOp(def, "f", "Tanh", {"d"}, home);
  AddOp(def, "g", "Tanh", {"e"}, home);
  AddOp(def, "h", "Add", {"f", "g"}, home);
  auto world = MakeWorld(MakeItem(def), WorkerCpus(3));
  std::mt19937_64 random(seed);
  for (const char* op : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    for (int d = 0; d < 3; ++d) world->SetUs(op, d, 10 + static_cast<double>(random() % 90));
    world->SetBytes(op, static_cast<double>(random() % 20000));
  }
  return world;
}

SearchResult SearchFrom(const World& world, const Placement& start, int evaluations,
                        uint64_t seed = 0, uint64_t deadline_us = 0,
                        const std::vector<int32_t>& priority = {}) {
  Simulator simulator(world.graph, world.devices, world.legality, world.op_us);
  return Search(world.problem, Coarsen(world.problem), {{start, {}}}, priority, evaluations, seed,
                deadline_us, simulator);
}

TEST(Search, FindsTheOptimumOfSmallGraphs) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto world = EightOps(seed);
    const auto [placement, best_us] = BruteForce(world->problem);
    double found_us = SearchFrom(*world, world->legality.incoming, 3000).estimate.step_us;
    for (uint64_t k = 0; k < 4; ++k) {  // As the planner, from several starts.
      found_us = std::min(
          found_us, SearchFrom(*world, RandomLegal(world->problem, k), 3000, k).estimate.step_us);
    }
    EXPECT_DOUBLE_EQ(found_us, best_us) << "graph " << seed;
    EXPECT_EQ(SearchFrom(*world, placement, 500).estimate.step_us, best_us);
  }
}

TEST(Search, IsLegalAndNeverWorseThanItsStart) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto world =
        MakeWorld(MakeItem(RandomGraph(60, seed, WorkerCpu(0))), WorkerCpus(3), true);
    Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
    const Placement start = RandomLegal(world->problem, seed);
    for (const int evaluations : {0, 1, 10, 300}) {
      const SearchResult result = SearchFrom(*world, start, evaluations);
      EXPECT_EQ(Words(world->legality.Check(world->graph, world->devices, result.placement)), "");
      EXPECT_LE(result.estimate.step_us, simulator.Run(start).step_us);
      EXPECT_EQ(result.estimate.step_us, simulator.Run(result.placement).step_us);
      EXPECT_LE(result.evaluations, std::max(1, evaluations));
    }
  }
}

TEST(Search, IsDeterministicBySeed) {
  const auto world = MakeWorld(MakeItem(RandomGraph(60, 4, WorkerCpu(0))), WorkerCpus(3), true);
  const SearchResult one = SearchFrom(*world, world->legality.incoming, 400, 3);
  const SearchResult two = SearchFrom(*world, world->legality.incoming, 400, 3);
  EXPECT_EQ(one.placement, two.placement);
  EXPECT_EQ(one.evaluations, two.evaluations);
}

TEST(Search, StopsAtItsDeadline) {
  const auto world = EightOps(1);
  const SearchResult result =
      SearchFrom(*world, world->legality.incoming, 1 << 20, 0, /*deadline_us=*/1);
  EXPECT_EQ(result.evaluations, 1);
  EXPECT_EQ(result.placement, world->legality.incoming);
}

TEST(Search, SimulatesWithThePriorities) {
  const auto world = EightOps(3);
  std::vector<int32_t> priority(world->graph.num_nodes(), 0);
  priority[world->graph.Find("b")] = 5;
  const SearchResult result = SearchFrom(*world, world->legality.incoming, 500, 0, 0, priority);
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  EXPECT_EQ(result.estimate.step_us, simulator.Run(result.placement, priority).step_us);
}

TEST(Search, GetsBackWithinTheMemory) {
  auto world = EightOps(2);
  for (const char* op : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    world->graph.persistent_bytes[world->graph.Find(op)] = 100;
    world->SetBytes(op, 1);
  }
  for (int d = 0; d < 3; ++d) world->devices.SetMemoryLimit(d, 500);
  const SearchResult result = SearchFrom(*world, world->legality.incoming, 2000);
  EXPECT_TRUE(result.estimate.feasible);
}

TEST(Search, NothingMovableIsFine) {
  tensorflow::GraphDef def;
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  EXPECT_TRUE(Coarsen(world->problem).empty());
  EXPECT_EQ(SearchFrom(*world, world->legality.incoming, 100).placement, world->legality.incoming);
}

TEST(Search, TakesTheBestOfItsStarts) {
  const auto world = EightOps(4);
  const Placement best = BruteForce(world->problem).first;
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  const SearchResult result =
      Search(world->problem, Coarsen(world->problem), {{world->legality.incoming, {}}, {best, {}}},
             {}, 2, 0, 0, simulator);
  EXPECT_EQ(result.placement, best);
  EXPECT_EQ(result.evaluations, 2);
  // What was simulated before is free.
  const SearchResult known =
      Search(world->problem, Coarsen(world->problem),
             {{world->legality.incoming, simulator.Run(world->legality.incoming)},
              {best, simulator.Run(best)}},
             {}, 0, 0, 0, simulator);
  EXPECT_EQ(known.placement, best);
  EXPECT_EQ(known.evaluations, 0);
}

// The answer fits, though a step that does not is the faster one.
TEST(Search, PrefersWhatFits) {
  auto world = EightOps(5);
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  const Placement fast = BruteForce(world->problem).first;
  for (const char* op : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    world->graph.persistent_bytes[world->graph.Find(op)] = 100;
  }
  const Placement slow = SingleDevice(world->problem, 0);
  std::vector<int> ops(3, 0);
  for (const char* op : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    ++ops[fast[world->graph.Find(op)]];
  }
  for (int d = 1; d < 3; ++d) world->devices.SetMemoryLimit(d, 100.0 * ops[d] - 50);
  Simulator limited(world->graph, world->devices, world->legality, world->op_us);
  ASSERT_FALSE(limited.Run(fast).feasible);
  ASSERT_TRUE(limited.Run(slow).feasible);
  const SearchResult result = Search(world->problem, Coarsen(world->problem),
                                     {{fast, {}}, {slow, {}}}, {}, 2, 0, 0, limited);
  EXPECT_EQ(result.placement, slow);
}

}  // namespace
}  // namespace grappler_go
