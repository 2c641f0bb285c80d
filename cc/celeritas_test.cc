#include "cc/celeritas.h"

#include <set>

#include "cc/test_util.h"

namespace grappler_go {
namespace {

TEST(CriticalOrder, IsTopologicalAndStaysOnAPath) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto world = MakeWorld(MakeItem(RandomGraph(60, seed, WorkerCpu(0))), WorkerCpus(2));
    const std::vector<int32_t> order = CriticalOrder(world->problem);
    std::vector<int> position(world->graph.num_nodes(), -1);
    for (size_t k = 0; k < order.size(); ++k) position[order[k]] = static_cast<int>(k);
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), position.size());
    for (int e = 0; e < world->graph.num_edges(); ++e) {
      EXPECT_LT(position[world->graph.edge_source[e]], position[world->graph.edge_target[e]]);
    }
  }
  // Of two chains, the longer one goes first, and to its end.
  tensorflow::GraphDef def;
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  AddOp(def, "a1", "Tanh", {"arg"}, WorkerCpu(0));
  AddOp(def, "a2", "Tanh", {"a1"}, WorkerCpu(0));
  AddOp(def, "b1", "Tanh", {"arg"}, WorkerCpu(0));
  AddOp(def, "b2", "Tanh", {"b1"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->SetUs("b2", 7);
  std::vector<std::string> names;
  for (const int32_t node : CriticalOrder(world->problem)) names.push_back(world->graph.name(node));
  EXPECT_THAT(names, ::testing::ElementsAre("arg", "b1", "b2", "a1", "a2"));
}

TEST(CutOrder, CutsWhereLeastIsAlive) {
  tensorflow::GraphDef def;
  std::string last = "c0";
  AddOp(def, "c0", "_Arg", {}, WorkerCpu(0));
  for (int k = 1; k < 8; ++k) {
    AddOp(def, absl::StrCat("c", k), "Tanh", {last}, WorkerCpu(0));
    last = absl::StrCat("c", k);
  }
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  const double bytes[8] = {9, 9, 1, 9, 9, 9, 2, 9};
  for (int k = 0; k < 8; ++k) {
    world->SetBytes(absl::StrCat("c", k), bytes[k]);
    world->SetUs(absl::StrCat("c", k), 1);
  }
  const std::vector<int32_t> order = CriticalOrder(world->problem);
  // Runs of at most four: 2 cuts at least, and the cheapest are behind c2 and c6.
  EXPECT_THAT(CutOrder(world->problem, order, 4), ::testing::ElementsAre(0, 3, 7));
  // All in one run cuts nothing; runs of one cut everywhere.
  EXPECT_THAT(CutOrder(world->problem, order, 8), ::testing::ElementsAre(0));
  EXPECT_EQ(CutOrder(world->problem, order, 0.5).size(), 8u);
}

TEST(CutOrder, IsTheBestOfAllCuts) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    tensorflow::GraphDef def;
    AddOp(def, "n0", "_Arg", {}, WorkerCpu(0));
    for (int k = 1; k < 10; ++k) {
      const uint64_t read = random() % static_cast<uint64_t>(k);
      AddOp(def, absl::StrCat("n", k), "Tanh", {absl::StrCat("n", read)}, WorkerCpu(0));
    }
    auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
    for (int k = 0; k < 10; ++k) {
      world->SetBytes(absl::StrCat("n", k), static_cast<double>(1 + random() % 9));
      world->SetUs(absl::StrCat("n", k), static_cast<double>(1 + random() % 3));
    }
    const std::vector<int32_t> order = CriticalOrder(world->problem);
    const OpGraph& graph = world->graph;
    std::vector<int> position(10);
    for (int k = 0; k < 10; ++k) position[order[k]] = k;
    const auto cost = [&](const std::vector<int32_t>& starts, double limit) {
      double bytes = 0;
      for (size_t r = 0; r < starts.size(); ++r) {
        const int end = r + 1 < starts.size() ? starts[r + 1] : 10;
        double us = 0;
        for (int k = starts[r]; k < end; ++k) us += FastestUs(world->problem, order[k]);
        if (us > limit && end - starts[r] > 1) return 1e9;
        if (r == 0) continue;
        for (int t = 0; t < graph.num_tensors(); ++t) {
          int last = position[graph.tensor_node[t]];
          for (int u = graph.use_offsets[t]; u < graph.use_offsets[t + 1]; ++u) {
            last = std::max(last, position[graph.uses[u]]);
          }
          if (position[graph.tensor_node[t]] < starts[r] && last >= starts[r]) {
            bytes += graph.tensor_bytes[t];
          }
        }
      }
      return bytes;
    };
    const double limit = 6;
    double best = 1e9;
    for (int mask = 0; mask < 512; ++mask) {
      std::vector<int32_t> starts = {0};
      for (int k = 1; k < 10; ++k) {
        if ((mask >> (k - 1) & 1) != 0) starts.push_back(k);
      }
      best = std::min(best, cost(starts, limit));
    }
    EXPECT_DOUBLE_EQ(cost(CutOrder(world->problem, order, limit), limit), best) << seed;
  }
}

}  // namespace
}  // namespace grappler_go
