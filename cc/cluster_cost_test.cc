#include "cc/cluster_cost.h"

#include "cc/simulator.h"
#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::testing::ElementsAre;

constexpr char kXlaProfile[] =
    R"({"version":1,"devices":{"CPU":{"matmul_gflops":1,"elementwise_gops":1,"memory_gb_per_s":1,
        "launch_us":1,"threads":1,"xla_launch_us":3,"xla_compile_us":1000,
        "xla_compile_us_per_op":10}},
        "links":[{"source":"CPU","target":"CPU","scope":"remote","latency_us":10,"gb_per_s":1,
        "busy_us":2}]})";

// x -> a -> b -> c, and b -> d: 20 us each, 1000 bytes, 500 operations.
std::unique_ptr<World> Fork() {
  tensorflow::GraphDef def;
  AddMatrix(def, "x", 1, 1, WorkerCpu(0));
  for (const auto& [name, input] :
       {std::pair("a", "x"), std::pair("b", "a"), std::pair("c", "b"), std::pair("d", "b")}) {
    AddOp(def, name, "Tanh", {input}, WorkerCpu(0));
  }
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2), false, {}, kXlaProfile);
  world->SetBytes("x", 1500);
  for (const char* op : {"a", "b", "c", "d"}) {
    world->SetUs(op, 20);
    world->SetBytes(op, 1000);
    world->graph.work[world->graph.Find(op)] = {0, 500, 2000};
  }
  return world;
}

Clusters Fuse(const World& world, const Placement& placement,
              const std::vector<std::pair<const char*, int>>& ops) {
  std::vector<int32_t> fusion(world.graph.num_nodes(), -1);
  for (const auto& [name, cluster] : ops) fusion[world.graph.Find(name)] = cluster;
  return MakeClusters(world.graph, world.devices, placement, fusion);
}

TEST(EstimateCluster, CountsWhatCrossesTheBorder) {
  const auto world = Fork();
  const Clusters clusters = Fuse(*world, world->legality.incoming, {{"a", 70}, {"b", 70}});
  ASSERT_EQ(clusters.members.size(), 1u);
  EXPECT_THAT(clusters.members[0], ElementsAre(world->graph.Find("a"), world->graph.Find("b")));
  // a's bytes stay inside; x's 1500 in and b's 1000 out take 2.5 us, 1000 operations 1 us.
  EXPECT_NEAR(clusters.cost[0].run_us, 3 + 2.5, 1e-9);
  EXPECT_EQ(clusters.cost[0].compile_us, 1000 + 2 * 10);
  // Arithmetic rules where there is more of it.
  world->graph.work[world->graph.Find("a")] = {7000, 500, 2000};
  EXPECT_NEAR(Fuse(*world, world->legality.incoming, {{"a", 7}, {"b", 7}}).cost[0].run_us, 3 + 8,
              1e-9);
}

TEST(Simulator, AClusterRunsAsOne) {
  const auto world = Fork();
  const Placement& placement = world->legality.incoming;
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  EXPECT_EQ(simulator.Run(placement).step_us, 80);
  const Clusters clusters = Fuse(*world, placement, {{"a", 1}, {"b", 1}});
  simulator.SetClusters(&clusters);
  Timeline timeline;
  const StepEstimate fused = simulator.Run(placement, {}, &timeline);
  EXPECT_NEAR(fused.step_us, 5.5 + 20 + 20, 1e-9);
  const int a = world->graph.Find("a"), b = world->graph.Find("b"), c = world->graph.Find("c");
  EXPECT_EQ(timeline.start_us[a], timeline.start_us[b]);
  EXPECT_EQ(timeline.end_us[a], timeline.end_us[b]);
  EXPECT_GE(timeline.start_us[c], timeline.end_us[b]);
  // a's tensor never exists: b's is live while c makes its own, and d may write into it.
  EXPECT_THAT(fused.peak_bytes, ElementsAre(4 + 2000, 0));
  EXPECT_NEAR(simulator.Run(placement, {}, nullptr, Track::kTime).step_us, 45.5, 1e-9);
  simulator.SetClusters(nullptr);
  EXPECT_EQ(simulator.Run(placement).step_us, 80);
}

TEST(Simulator, AClusterWaitsForAllThatItsOpsRead) {
  const auto world = Fork();
  // c and d fused on the other device: b is sent once.
  const Placement placement = world->Place({{"c", 1}, {"d", 1}});
  const Clusters clusters = Fuse(*world, placement, {{"c", 0}, {"d", 0}});
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  simulator.SetClusters(&clusters);
  Timeline timeline;
  // 1000 bytes: 1 us on the link, read once by the cluster; nobody reads what c and d give.
  EXPECT_NEAR(simulator.Run(placement, {}, &timeline).step_us, 40 + 2 + 1 + 10 + 2 + 3 + 1, 1e-9);
  EXPECT_EQ(timeline.transfers.size(), 1u);
}

TEST(Simulator, ACycleThroughAClusterIsInfeasible) {
  const auto world = Fork();
  const Clusters clusters = Fuse(*world, world->legality.incoming, {{"a", 0}, {"c", 0}});
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  simulator.SetClusters(&clusters);  // b reads a and c reads b.
  const StepEstimate estimate = simulator.Run(world->legality.incoming);
  EXPECT_FALSE(estimate.feasible);
  EXPECT_EQ(estimate.unfinished, 4);
  EXPECT_EQ(WhyInfeasible(estimate, world->devices),
            "4 ops never run: a cluster waits for what it makes itself");
}

}  // namespace
}  // namespace grappler_go
