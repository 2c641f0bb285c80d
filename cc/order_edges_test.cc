#include "cc/order_edges.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;
using ::testing::IsEmpty;
using ::testing::Not;

Plan RandomPlan(const World& world, uint64_t seed) {
  std::mt19937_64 random(seed);
  Plan plan;
  plan.device = RandomLegal(world.problem, seed);
  for (int i = 0; i < world.graph.num_nodes(); ++i) {
    plan.priority.push_back(static_cast<int32_t>(random() % 21) - 10);
  }
  return plan;
}

// Whether the graph with the edges added has an order in which every op comes after all that it
// waits for.
bool IsAcyclic(const OpGraph& graph, const std::vector<std::pair<int, int>>& edges) {
  std::vector<std::vector<int>> next(graph.num_nodes());
  std::vector<int> pending(graph.num_nodes(), 0), ready;
  const auto add = [&](int before, int after) {
    next[before].push_back(after);
    ++pending[after];
  };
  for (int e = 0; e < graph.num_edges(); ++e) add(graph.edge_source[e], graph.edge_target[e]);
  for (const auto& [before, after] : edges) add(before, after);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (pending[i] == 0) ready.push_back(i);
  }
  for (size_t k = 0; k < ready.size(); ++k) {
    for (const int after : next[ready[k]]) {
      if (--pending[after] == 0) ready.push_back(after);
    }
  }
  return static_cast<int>(ready.size()) == graph.num_nodes();
}

TEST(OrderEdges, FollowPriorities) {
  GraphDef def;
  AddMatrix(def, "x", 2, 2, WorkerCpu(0));
  for (const char* op : {"a", "b", "c"}) AddOp(def, op, "Tanh", {"x"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def, {"a", "b", "c"}), WorkerCpus(2));
  const int a = world->graph.Find("a"), b = world->graph.Find("b"), c = world->graph.Find("c");
  Plan plan;
  plan.device = world->legality.incoming;
  EXPECT_THAT(OrderEdges(world->problem, plan), IsEmpty());
  plan.priority.assign(world->graph.num_nodes(), 0);
  plan.priority[b] = 2;
  plan.priority[c] = 1;
  EXPECT_THAT(OrderEdges(world->problem, plan),
              ::testing::ElementsAre(std::make_pair(b, c), std::make_pair(c, a)));
  // Ops on different devices are not ordered.
  plan.device = world->Place({{"b", 1}});
  EXPECT_THAT(OrderEdges(world->problem, plan), ::testing::ElementsAre(std::make_pair(c, a)));
}

TEST(OrderEdges, LeaveOutOpsOfAnotherStep) {
  GraphDef def;
  AddMatrix(def, "x", 2, 2, WorkerCpu(0));
  for (const char* op : {"a", "b", "init"}) AddOp(def, op, "Tanh", {"x"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def, {"a", "b"}), WorkerCpus(2));
  Plan plan;
  plan.device = world->legality.incoming;
  plan.priority.assign(world->graph.num_nodes(), 0);
  EXPECT_THAT(
      OrderEdges(world->problem, plan),
      ::testing::ElementsAre(std::make_pair(world->graph.Find("a"), world->graph.Find("b"))));
  // Without fetches nobody knows what belongs to one step.
  world = MakeWorld(MakeItem(def), WorkerCpus(2));
  EXPECT_THAT(OrderEdges(world->problem, plan), IsEmpty());
}

TEST(OrderEdges, LeaveOutCheapOpsAndEdgesThatAreThere) {
  GraphDef def;
  AddMatrix(def, "x", 2, 2, WorkerCpu(0));
  AddOp(def, "a", "Tanh", {"x"}, WorkerCpu(0));
  AddOp(def, "b", "Tanh", {"a"}, WorkerCpu(0));
  AddOp(def, "cheap", "Tanh", {"x"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def, {"b", "cheap"}), WorkerCpus(2));
  world->SetUs("a", 1e5);
  world->SetUs("b", 1e5);
  Plan plan;
  plan.device = world->legality.incoming;
  plan.priority.assign(world->graph.num_nodes(), 0);
  EXPECT_THAT(OrderEdges(world->problem, plan), IsEmpty());
}

TEST(OrderEdges, LeaveOutConditionalOps) {
  GraphDef def;
  const std::string home = WorkerCpu(0);
  AddMatrix(def, "x", 2, 2, home);
  AddConst(def, "p", tensorflow::Tensor(true), home);
  AddOp(def, "switch", "Switch", {"x", "p"}, home);
  AddOp(def, "left", "Tanh", {"switch:0"}, home);
  AddOp(def, "right", "Tanh", {"switch:1"}, home);
  AddOp(def, "merge", "Merge", {"left", "right"}, home);
  AddOp(def, "after", "Tanh", {"merge"}, home);
  AddOp(def, "a", "Tanh", {"x"}, home);
  AddOp(def, "b", "Tanh", {"x"}, home);
  const auto world = MakeWorld(MakeItem(def, {"after", "a", "b"}), WorkerCpus(2));
  Plan plan;
  plan.device = world->legality.incoming;
  plan.priority.assign(world->graph.num_nodes(), 0);
  EXPECT_THAT(
      OrderEdges(world->problem, plan),
      ::testing::ElementsAre(std::make_pair(world->graph.Find("a"), world->graph.Find("b"))));
}

TEST(OrderEdges, NeverMakeACycle) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const GraphDef def =
        RandomGraph(60, seed, seed % 2 == 0 ? WorkerCpu(0) : LocalDevice("CPU", 0));
    std::vector<std::string> fetch;
    for (const auto& node : def.node()) fetch.push_back(node.name());
    const auto world =
        MakeWorld(MakeItem(def, fetch), seed % 2 == 0 ? WorkerCpus(3) : LocalCpus(3), true);
    for (uint64_t k = 0; k < 10; ++k) {
      const Plan plan = RandomPlan(*world, seed * 100 + k);
      const auto edges = OrderEdges(world->problem, plan);
      EXPECT_THAT(edges, Not(IsEmpty()));
      EXPECT_TRUE(IsAcyclic(world->graph, edges)) << "graph " << seed << " plan " << k;
      for (const auto& [before, after] : edges) {
        EXPECT_EQ(plan.device[before], plan.device[after]);
      }
    }
  }
}

TEST(OrderEdges, WithOpsThatTakeNoTime) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const GraphDef def = RandomGraph(60, seed, WorkerCpu(0));
    std::vector<std::string> fetch;
    for (const auto& node : def.node()) fetch.push_back(node.name());
    auto world = MakeWorld(MakeItem(def, fetch), WorkerCpus(2), true);
    for (int i = 0; i < 60; i += 2) world->SetUs(world->graph.name(i), 0);
    const Plan plan = RandomPlan(*world, seed);
    EXPECT_TRUE(IsAcyclic(world->graph, OrderEdges(world->problem, plan)));
  }
}

}  // namespace
}  // namespace grappler_go
