#include "cc/simulator.h"

#include <cmath>

#include "cc/test_util.h"
#include "tensorflow/core/grappler/clusters/virtual_cluster.h"
#include "tensorflow/core/grappler/costs/virtual_placer.h"
#include "tensorflow/core/grappler/costs/virtual_scheduler.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;
using ::testing::ElementsAre;

// Ops are Tanh and Add on 1x1 matrices; times and sizes are set by hand. "x" is fed and free.
std::unique_ptr<World> Make(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& ops,
    const std::vector<std::string>& devices = WorkerCpus(2),
    const std::string& profile = kRoundProfile) {
  GraphDef def;
  AddMatrix(def, "x", 1, 1, devices.front());
  for (const auto& [name, inputs] : ops) {
    const bool one = inputs.size() < 2 || inputs[1][0] == '^';
    AddOp(def, name, one ? "Tanh" : "Add", inputs, devices.front());
  }
  return MakeWorld(MakeItem(def), devices, false, {}, profile);
}

StepEstimate Simulate(World& world, const Placement& placement,
                      const std::vector<int32_t>& priority = {}, Timeline* timeline = nullptr) {
  Simulator simulator(world.graph, world.devices, world.legality, world.op_us);
  return simulator.Run(placement, priority, timeline);
}

TEST(Simulator, AChainTakesTheSum) {
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}, {"c", {"b"}}});
  world->SetUs("a", 10);
  world->SetUs("b", 20);
  world->SetUs("c", 30);
  Timeline timeline;
  const StepEstimate step = Simulate(*world, world->legality.incoming, {}, &timeline);
  EXPECT_EQ(step.step_us, 60);
  EXPECT_THAT(step.busy_us, ElementsAre(60, 0));
  EXPECT_EQ(timeline.start_us[world->graph.Find("c")], 30);
  EXPECT_EQ(timeline.end_us[world->graph.Find("b")], 30);
  EXPECT_TRUE(timeline.transfers.empty());
}

TEST(Simulator, OneDeviceRunsOneOpAtATime) {
  auto world = Make({{"a", {"x"}}, {"b", {"x"}}, {"c", {"a", "b"}}});
  for (const char* op : {"a", "b", "c"}) world->SetUs(op, 10);
  EXPECT_EQ(Simulate(*world, world->legality.incoming).step_us, 30);
}

TEST(Simulator, ATransferTakesLinkAndCompute) {
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}});
  world->SetUs("a", 10);
  world->SetUs("b", 5);
  world->SetBytes("a", 3000);
  Timeline timeline;
  const StepEstimate step = Simulate(*world, world->Place({{"b", 1}}), {}, &timeline);
  // a, copied out (2), 3000 bytes at 1000 a microsecond and 10 us of latency, copied in (2), b.
  EXPECT_EQ(step.step_us, 10 + 2 + 3 + 10 + 2 + 5);
  EXPECT_THAT(step.busy_us, ElementsAre(12, 7));
  ASSERT_EQ(timeline.transfers.size(), 1u);
  EXPECT_EQ(timeline.transfers[0].start_us, 12);
  EXPECT_EQ(timeline.transfers[0].end_us, 25);
  EXPECT_EQ(timeline.transfers[0].target, 1);
  EXPECT_EQ(world->graph.tensor_node[timeline.transfers[0].tensor], world->graph.Find("a"));
}

TEST(Simulator, CopyingBurnsComputeByTheByte) {
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}}, WorkerCpus(2),
                    R"({"version":1,"links":[{"source":"CPU","target":"CPU","scope":"remote",
                        "latency_us":0,"gb_per_s":1000,"busy_us":1,"busy_gb_per_s":2}]})");
  world->SetUs("a", 10);
  world->SetUs("b", 5);
  world->SetBytes("a", 4000);  // 2 us to copy at 2000 bytes a microsecond, 0.004 us on the link.
  const StepEstimate step = Simulate(*world, world->Place({{"b", 1}}));
  EXPECT_NEAR(step.step_us, 10 + 3 + 0.004 + 3 + 5, 1e-9);
  EXPECT_THAT(step.busy_us, ElementsAre(13, 8));
}

TEST(Simulator, CopyingDelaysOtherOps) {
  // After a, its sender is busy for 2 us before c may start.
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}, {"c", {"a"}}});
  world->SetUs("a", 10);
  world->SetUs("b", 1);
  world->SetUs("c", 100);
  Timeline timeline;
  EXPECT_EQ(Simulate(*world, world->Place({{"b", 1}}), {}, &timeline).step_us, 112);
  EXPECT_EQ(timeline.start_us[world->graph.Find("c")], 12);
}

TEST(Simulator, ATensorIsSentOnceToADevice) {
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}, {"c", {"a"}}, {"d", {"a", "a"}}}, WorkerCpus(3));
  for (const char* op : {"a", "b", "c", "d"}) world->SetUs(op, 10);
  Timeline timeline;
  const StepEstimate one =
      Simulate(*world, world->Place({{"b", 1}, {"c", 1}, {"d", 1}}), {}, &timeline);
  EXPECT_EQ(timeline.transfers.size(), 1u);
  EXPECT_EQ(one.step_us, 10 + 2 + 10 + 2 + 30);
  Simulate(*world, world->Place({{"b", 1}, {"c", 2}, {"d", 1}}), {}, &timeline);
  EXPECT_EQ(timeline.transfers.size(), 2u);
}

TEST(Simulator, ALinkCarriesOneTensorAtATime) {
  auto world = Make({{"a", {"x"}}, {"b", {"x"}}, {"c", {"a"}}, {"d", {"b"}}});
  for (const char* op : {"a", "b", "c", "d"}) world->SetUs(op, 1);
  world->SetBytes("a", 100000);  // 100 us on the link.
  world->SetBytes("b", 50000);
  Timeline timeline;
  Simulate(*world, world->Place({{"c", 1}, {"d", 1}}), {}, &timeline);
  ASSERT_EQ(timeline.transfers.size(), 2u);
  // a ends at 1 and is copied until 3; b runs until 4 and is copied until 6, but waits for the link
  // until 103.
  EXPECT_EQ(timeline.transfers[0].start_us, 3);
  EXPECT_EQ(timeline.transfers[0].end_us, 113);  // Latency does not occupy the link.
  EXPECT_EQ(timeline.transfers[1].start_us, 103);
  EXPECT_EQ(timeline.transfers[1].end_us, 163);
  // Another direction or another pair is another link.
  auto wide = Make({{"a", {"x"}}, {"b", {"x"}}, {"c", {"a"}}, {"d", {"b"}}}, WorkerCpus(3));
  for (const char* op : {"a", "b", "c", "d"}) wide->SetUs(op, 1);
  wide->SetBytes("a", 100000);
  wide->SetBytes("b", 50000);
  Simulate(*wide, wide->Place({{"c", 1}, {"d", 2}}), {}, &timeline);
  EXPECT_EQ(timeline.transfers[1].start_us, 6);
}

TEST(Simulator, ADiamondOverlapsOnTwoDevices) {
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}, {"c", {"a"}}, {"d", {"b", "c"}}});
  world->SetUs("a", 10);
  world->SetUs("b", 100);
  world->SetUs("c", 100);
  world->SetUs("d", 10);
  EXPECT_EQ(Simulate(*world, world->legality.incoming).step_us, 220);
  // a 10, copy out 2; b until 112 here; there: 12 + 10 + 2 + 100 = 124, copy out 126, 136, copy in
  // 138, d 148.
  const StepEstimate split = Simulate(*world, world->Place({{"c", 1}}));
  EXPECT_EQ(split.step_us, 148);
  EXPECT_THAT(split.busy_us, ElementsAre(10 + 2 + 100 + 2 + 10, 2 + 100 + 2));
}

TEST(Simulator, ControlEdgesWaitAcrossDevices) {
  auto world = Make({{"a", {"x"}}, {"b", {"x", "^a"}}});
  world->SetUs("a", 10);
  world->SetUs("b", 5);
  EXPECT_EQ(Simulate(*world, world->legality.incoming).step_us, 15);
  EXPECT_EQ(Simulate(*world, world->Place({{"b", 1}})).step_us, 10 + 2 + 10 + 2 + 5);
}

TEST(Simulator, CopiedConstantsAreNotSent) {
  auto world = Make({{"a", {"x"}}});
  world->SetUs("a", 10);
  Timeline timeline;
  EXPECT_EQ(Simulate(*world, world->Place({{"a", 1}}), {}, &timeline).step_us, 10);
  EXPECT_TRUE(timeline.transfers.empty());
}

TEST(Simulator, CpusOfAProcessShareTheirCompute) {
  const auto run = [](const std::vector<std::string>& devices) {
    auto world = Make({{"a", {"x"}}, {"b", {"x"}}}, devices);
    world->SetUs("a", 10);
    world->SetUs("b", 10);
    return Simulate(*world, world->Place({{"b", 1}}));
  };
  EXPECT_EQ(run(LocalCpus(2)).step_us, 20);
  EXPECT_THAT(run(LocalCpus(2)).busy_us, ElementsAre(20));
  EXPECT_EQ(run(WorkerCpus(2)).step_us, 10);
  EXPECT_EQ(run({LocalDevice("CPU", 0), LocalDevice("GPU", 0)}).step_us, 10);
}

TEST(Simulator, PrioritiesChangeTheOrder) {
  // c behind a goes to the other device: a first is better.
  auto world = Make({{"b", {"x"}}, {"z", {"x"}}, {"c", {"z"}}});
  world->SetUs("b", 100);
  world->SetUs("z", 10);
  world->SetUs("c", 100);
  const Placement placement = world->Place({{"c", 1}});
  EXPECT_EQ(Simulate(*world, placement).step_us, 100 + 10 + 2 + 10 + 2 + 100);
  std::vector<int32_t> priority(world->graph.num_nodes(), 0);
  priority[world->graph.Find("z")] = 1;
  EXPECT_EQ(Simulate(*world, placement, priority).step_us, 10 + 2 + 10 + 2 + 100);
  priority[world->graph.Find("z")] = -(1 << 20);
  EXPECT_EQ(Simulate(*world, placement, priority).step_us, 224);
}

TEST(Simulator, PeakMemoryIsOfLiveTensors) {
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}, {"c", {"b"}}});
  world->SetBytes("x", 1);
  world->SetBytes("a", 100);
  world->SetBytes("b", 40);
  world->SetBytes("c", 30);
  // x is a constant of 4 bytes, which stays; a lives until b ends, b until c ends.
  EXPECT_THAT(Simulate(*world, world->legality.incoming).peak_bytes, ElementsAre(4 + 140, 0));
  // Sent away: a is gone from home when it has arrived.
  EXPECT_THAT(Simulate(*world, world->Place({{"b", 1}, {"c", 1}})).peak_bytes,
              ElementsAre(104, 140));
}

TEST(Simulator, OpsShareTheCoresOfTheirDevice) {
  const auto make = [](const std::string& figures) {
    auto world = Make({{"a", {"x"}}, {"b", {"x"}}, {"c", {"x"}}, {"d", {"a"}}}, WorkerCpus(2),
                      absl::StrCat(R"({"version":1,"devices":{"CPU":{)", figures, "}}}"));
    world->SetUs("a", 10);
    world->SetUs("b", 20);
    world->SetUs("c", 30);
    world->SetUs("d", 5);
    return world;
  };
  Timeline timeline;
  auto world = make(R"("threads":3)");
  EXPECT_EQ(Simulate(*world, world->legality.incoming, {}, &timeline).step_us, 65);
  // a, b and c at a third of the speed: a has run at 30, with 10 and 20 left of b and c. d takes
  // its place and is through at 45, when 5 and 15 are left; then two share, until b ends.
  const auto end = [&](const char* name) { return timeline.end_us[world->graph.Find(name)]; };
  EXPECT_NEAR(end("a"), 30, 1e-9);
  EXPECT_NEAR(end("d"), 45, 1e-9);
  EXPECT_NEAR(end("b"), 55, 1e-9);
  EXPECT_NEAR(end("c"), 65, 1e-9);
  world = make(R"("threads":3,"cores":3)");
  EXPECT_EQ(Simulate(*world, world->legality.incoming, {}, &timeline).step_us, 30);
  EXPECT_EQ(end("d"), 15);
  world = make(R"("threads":2,"cores":4)");  // c waits for a's thread, then d for b's.
  EXPECT_EQ(Simulate(*world, world->legality.incoming, {}, &timeline).step_us, 40);
  EXPECT_EQ(end("d"), 25);
}

TEST(Simulator, CopyingTakesTheCoreFromWhatRuns) {
  auto world = Make({{"a", {"x"}}, {"b", {"x"}}, {"c", {"a"}}}, WorkerCpus(2),
                    R"({"version":1,"devices":{"CPU":{"threads":2}},
                        "links":[{"source":"CPU","target":"CPU","scope":"remote",
                        "latency_us":10,"gb_per_s":1000,"busy_us":7}]})");
  world->SetUs("a", 10);
  world->SetUs("b", 50);
  world->SetUs("c", 1);
  world->SetBytes("a", 0);
  Timeline timeline;
  // a and b share until 20; b stands still until a is copied out at 27, and has 40 left.
  EXPECT_EQ(Simulate(*world, world->Place({{"c", 1}}), {}, &timeline).step_us, 67);
  EXPECT_EQ(timeline.start_us[world->graph.Find("c")], 44);
}

TEST(Simulator, SharedAndOverwrittenBuffersCountOnce) {
  GraphDef def;
  AddMatrix(def, "x", 1, 1, WorkerCpu(0));
  AddOp(def, "a", "Tanh", {"x"}, WorkerCpu(0));
  AddOp(def, "same", "Identity", {"a"}, WorkerCpu(0));  // Shares a's buffer,
  AddOp(def, "over", "Tanh", {"same"}, WorkerCpu(0));   // which over writes into,
  AddOp(def, "left", "Tanh", {"over"}, WorkerCpu(0));   // but left and right both read over:
  AddOp(def, "right", "Tanh", {"over"}, WorkerCpu(0));  // one of them has to make its own.
  AddOp(def, "end", "Add", {"left", "right"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2), false, {}, kRoundProfile);
  for (const char* op : {"a", "same", "over", "left", "right", "end"}) {
    world->SetUs(op, 10);
    world->SetBytes(op, 100);
  }
  EXPECT_THAT(Simulate(*world, world->legality.incoming).peak_bytes, ElementsAre(4 + 200, 0));
  // At the other device a's copy is handed on likewise.
  EXPECT_THAT(Simulate(*world, world->Place({{"same", 1}, {"over", 1}})).peak_bytes,
              ElementsAre(4 + 200, 100));
}

TEST(Simulator, FetchedTensorsLiveUntilTheEnd) {
  GraphDef def;
  AddMatrix(def, "x", 1, 1, WorkerCpu(0));
  for (const auto& [name, input] :
       {std::pair("a", "x"), std::pair("b", "a"), std::pair("c", "b")}) {
    AddOp(def, name, "Softmax", {input}, WorkerCpu(0));
  }
  auto item = MakeItem(def);
  item.fetch = {"a", "c"};
  auto world = MakeWorld(item, WorkerCpus(2), false, {}, kRoundProfile);
  for (const char* op : {"a", "b", "c"}) {
    world->SetUs(op, 10);
    world->SetBytes(op, 100);
  }
  // b cannot write into a, but c can write into b.
  EXPECT_THAT(Simulate(*world, world->legality.incoming).peak_bytes, ElementsAre(4 + 200, 0));
}

TEST(Simulator, SaysWhatDoesNotFit) {
  auto world = Make({{"a", {"x"}}}, WorkerCpus(2),
                    R"({"version":1,"devices":{"CPU":{"memory_bytes":1e9}}})");
  world->SetBytes("a", 2.5e9);
  EXPECT_EQ(WhyInfeasible(Simulate(*world, world->legality.incoming), world->devices),
            absl::StrCat(WorkerCpu(0), " needs 2.50 GB of its 1.00 GB"));
  world->SetBytes("a", 1);
  EXPECT_EQ(WhyInfeasible(Simulate(*world, world->legality.incoming), world->devices), "");
}

TEST(Simulator, TheLongestPathCountsTransfersButNoWaiting) {
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}, {"z", {"x"}}});
  world->SetUs("a", 10);
  world->SetUs("b", 5);
  world->SetUs("z", 27);
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  const auto [us, path] = simulator.LongestPath(world->Place({{"b", 1}}));
  EXPECT_EQ(us, 10 + 2 + 10 + 2 + 5);
  EXPECT_THAT(path,
              ElementsAre(world->graph.Find("x"), world->graph.Find("a"), world->graph.Find("b")));
  EXPECT_EQ(simulator.LongestPath(world->legality.incoming).first, 27);
}

TEST(SimulateAll, TheAnswerDoesNotDependOnTheThreads) {
  const auto world = MakeWorld(MakeItem(RandomGraph(200, 5, WorkerCpu(0))), WorkerCpus(3), true);
  std::vector<Placement> placements;
  std::vector<std::vector<int32_t>> priorities;
  for (int seed = 0; seed < 20; ++seed) {
    placements.push_back(RandomLegal(world->problem, seed));
    priorities.emplace_back(world->graph.num_nodes());
    for (int i = 0; i < world->graph.num_nodes(); ++i) priorities.back()[i] = i * seed % 7;
  }
  const auto run = [&](int threads) {
    return SimulateAll(world->graph, world->devices, world->legality, world->op_us, placements,
                       priorities, threads);
  };
  const std::vector<StepEstimate> one = run(1);
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  for (const int threads : {2, 5, 64}) {
    const std::vector<StepEstimate> many = run(threads);
    for (size_t k = 0; k < placements.size(); ++k) {
      EXPECT_EQ(many[k].step_us, one[k].step_us);
      EXPECT_EQ(many[k].busy_us, one[k].busy_us);
      EXPECT_EQ(many[k].peak_bytes, one[k].peak_bytes);
      EXPECT_EQ(one[k].step_us,
                simulator.Run(placements[k], priorities[k], nullptr, Track::kTime).step_us);
    }
  }
}

TEST(Simulator, OneDeviceTakesAsLongAsInGrapplersVirtualScheduler) {
  for (int seed = 0; seed < 5; ++seed) {
    auto item = MakeItem(RandomGraph(150, seed, WorkerCpu(0)));
    for (const auto& node : item.graph.node()) item.fetch.push_back(node.name());
    const auto world = MakeWorld(item, WorkerCpus(2), true, {}, kRoundProfile);
    tensorflow::DeviceProperties cpu;
    cpu.set_type("CPU");
    tensorflow::grappler::VirtualCluster cluster({{WorkerCpu(0), cpu}});
    tensorflow::grappler::FIFOManager ready;
    tensorflow::grappler::VirtualScheduler scheduler(
        /*use_static_shapes=*/true, /*use_aggressive_shape_inference=*/false, &cluster, &ready,
        std::make_unique<tensorflow::grappler::VirtualPlacer>(cluster.GetDevices()));
    ASSERT_TRUE(scheduler.Init(&item).ok());
    for (bool more = true; more;) {
      const int node = world->graph.Find(scheduler.GetCurrNode().name);
      tensorflow::grappler::Costs costs = tensorflow::grappler::Costs::ZeroCosts();
      if (node >= 0) {
        const float us = world->op_us[static_cast<size_t>(node) * 2];
        costs.execution_time =
            tensorflow::grappler::Costs::NanoSeconds(static_cast<int64_t>(std::lround(us * 1000)));
      }
      more = scheduler.MarkCurrNodeExecuted(costs);
    }
    const double theirs_us = static_cast<double>(scheduler.Summary().execution_time.count()) / 1000;
    // Theirs counts whole nanoseconds an op.
    EXPECT_NEAR(Simulate(*world, world->legality.incoming).step_us, theirs_us, 150 * 0.0005 + 1e-6);
  }
}

TEST(Simulator, MemoryLimitsMakeAPlacementInfeasible) {
  const char* const profile = R"({"version":1,"devices":{"CPU":{"memory_bytes":124}}})";
  auto world = Make({{"a", {"x"}}, {"b", {"a"}}}, WorkerCpus(2), profile);
  world->SetBytes("a", 100);
  world->SetBytes("b", 20);
  EXPECT_TRUE(Simulate(*world, world->legality.incoming).feasible);
  world->SetBytes("b", 21);
  EXPECT_FALSE(Simulate(*world, world->legality.incoming).feasible);
  world->SetBytes("b", 10);
  world->graph.persistent_bytes[world->graph.Find("b")] = 30;  // As a variable's.
  EXPECT_FALSE(Simulate(*world, world->legality.incoming).feasible);
}

TEST(Simulator, RunsDoNotDependOnEachOther) {
  const auto world = MakeWorld(MakeItem(RandomGraph(100, 3, WorkerCpu(0))), WorkerCpus(3), true);
  Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
  const Placement one = RandomLegal(world->problem, 1), two = RandomLegal(world->problem, 2);
  const StepEstimate first = simulator.Run(one);
  simulator.Run(two);
  const StepEstimate again = simulator.Run(one);
  EXPECT_EQ(first.step_us, again.step_us);
  EXPECT_EQ(first.peak_bytes, again.peak_bytes);
  EXPECT_EQ(first.busy_us, again.busy_us);
}

TEST(Bound, IsPathOrWork) {
  auto world = Make({{"a", {"x"}}, {"b", {"x"}}, {"c", {"a", "b"}}});
  world->SetUs("a", 10);
  world->SetUs("b", 30);
  world->SetUs("c", 0, 8);
  world->SetUs("c", 1, 6);  // The other device is faster for c.
  const LowerBound bound =
      Simulator(world->graph, world->devices, world->legality, world->op_us).Bound();
  EXPECT_EQ(bound.critical_path_us, 36);
  EXPECT_EQ(bound.work_us, (10 + 30 + 6) / 2.0);
  EXPECT_EQ(bound.us(), 36);
}

TEST(Bound, CountsOpsThatCannotMove) {
  GraphDef def;
  const std::string home = WorkerCpu(0);
  AddConst(def, "shape", tensorflow::Tensor(tensorflow::DT_INT32, {1}), home);
  for (const char* op : {"a", "b", "c"}) AddOp(def, op, "RandomUniform", {"shape"}, home);
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  for (const char* op : {"a", "b", "c"}) world->SetUs(op, 10);
  const LowerBound bound =
      Simulator(world->graph, world->devices, world->legality, world->op_us).Bound();
  EXPECT_EQ(bound.critical_path_us, 10);
  EXPECT_EQ(bound.work_us, 15);
  EXPECT_EQ(bound.us(), 30);
}

TEST(Bound, HoldsForRandomPlacements) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto world =
        MakeWorld(MakeItem(RandomGraph(60, seed, WorkerCpu(0))), WorkerCpus(3), true);
    Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
    for (uint64_t k = 0; k < 20; ++k) {
      const StepEstimate step = simulator.Run(RandomLegal(world->problem, k));
      EXPECT_GE(step.step_us, simulator.Bound().us() * (1 - 1e-9));
      for (const double busy_us : step.busy_us) EXPECT_GE(step.step_us, busy_us * (1 - 1e-9));
    }
  }
}

}  // namespace
}  // namespace grappler_go
