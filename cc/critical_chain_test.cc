#include "cc/critical_chain.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

std::vector<std::string> Names(const World& world, const std::vector<ChainLink>& chain) {
  std::vector<std::string> names;
  for (const ChainLink& link : chain) names.push_back(world.graph.name(link.node));
  return names;
}

// a feeds b and c; d joins them. b runs on worker 0, c on worker 1.
std::unique_ptr<World> Diamond() {
  tensorflow::GraphDef def;
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  AddOp(def, "a", "Tanh", {"arg"}, WorkerCpu(0));
  AddOp(def, "b", "Tanh", {"a"}, WorkerCpu(0));
  AddOp(def, "c", "Tanh", {"a"}, WorkerCpu(0));
  AddOp(def, "d", "Add", {"b", "c"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  for (const char* op : {"a", "b", "c", "d"}) world->SetUs(op, 10);
  world->SetUs("arg", 0);
  return world;
}

std::vector<ChainLink> ChainOf(const World& world, const Placement& placement) {
  Simulator simulator(world.graph, world.devices, world.legality, world.op_us);
  Timeline timeline;
  simulator.Run(placement, {}, &timeline);
  return CriticalChain(world.problem, placement, timeline);
}

TEST(CriticalChain, GoesThroughTheTransferThatCameLast) {
  const auto world = Diamond();
  world->SetBytes("a", 1000);
  world->SetBytes("c", 1000);
  Placement placement = world->legality.incoming;
  placement[world->graph.Find("c")] = 1;
  const std::vector<ChainLink> chain = ChainOf(*world, placement);
  EXPECT_EQ(Names(*world, chain), (std::vector<std::string>{"d", "c", "a", "arg"}));
  EXPECT_TRUE(chain[0].for_transfer);
  EXPECT_TRUE(chain[1].for_transfer);
  EXPECT_FALSE(chain[2].for_transfer);
  EXPECT_EQ(chain.back().before, -1);
}

TEST(CriticalChain, GoesToTheOpThatHadTheDevice) {
  const auto world = Diamond();
  world->SetUs("b", 30);
  const Placement placement = world->legality.incoming;
  const std::vector<ChainLink> chain = ChainOf(*world, placement);
  double us = 0;
  int waits = 0;
  for (const ChainLink& link : chain) {
    us += link.us;
    waits += link.for_device ? 1 : 0;
    EXPECT_FALSE(link.for_transfer);
  }
  EXPECT_DOUBLE_EQ(us, 60);  // One thread: 10 + 30 + 10 + 10.
  EXPECT_EQ(waits, 1);       // Of b and c, one had to wait for the other.
  EXPECT_EQ(chain.size(), 5u);
}

TEST(CriticalChain, AddsUpToTheStep) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto world =
        MakeWorld(MakeItem(RandomGraph(80, seed, WorkerCpu(0))), WorkerCpus(3), true);
    const Placement placement = RandomLegal(world->problem, seed);
    Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
    Timeline timeline;
    simulator.Run(placement, {}, &timeline);
    const std::vector<ChainLink> chain = CriticalChain(world->problem, placement, timeline);
    double us = 0, end = 0;
    for (const ChainLink& link : chain) us += link.us;
    for (const double each : timeline.end_us) end = std::max(end, each);
    EXPECT_NEAR(us, end, 1e-6 * end) << "graph " << seed;
    for (size_t k = 0; k + 1 < chain.size(); ++k) EXPECT_EQ(chain[k].before, chain[k + 1].node);
  }
}

}  // namespace
}  // namespace grappler_go
