#include "cc/blocks.h"

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

TEST(Coarsen, LevelsArePartitionsOfTheMovableGroups) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto world =
        MakeWorld(MakeItem(RandomGraph(80, seed, WorkerCpu(0))), WorkerCpus(2), true);
    std::vector<int32_t> movable;
    for (int g = 0; g < world->legality.num_groups(); ++g) {
      if (world->legality.movable(g) &&
          !world->legality.replicable[world->legality.members(g).front()]) {
        movable.push_back(g);
      }
    }
    const BlockLevels levels = Coarsen(world->problem);
    ASSERT_FALSE(levels.empty());
    EXPECT_EQ(levels.front().size(), movable.size());
    size_t before = movable.size() + 1;
    for (const auto& level : levels) {
      EXPECT_LT(level.size(), before);
      before = level.size();
      std::vector<int32_t> groups;
      for (const auto& block : level) groups.insert(groups.end(), block.begin(), block.end());
      std::sort(groups.begin(), groups.end());
      EXPECT_EQ(groups, movable);
    }
  }
}

TEST(Coarsen, JoinsWhatIsDearToPart) {
  auto world = EightOps(0);
  for (const char* op : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    world->SetUs(op, 10);
    world->SetBytes(op, 10);
  }
  world->SetBytes("a", 1e6);  // a and c belong together.
  const BlockLevels levels = Coarsen(world->problem);
  ASSERT_GE(levels.size(), 2u);
  const int a = world->legality.group[world->graph.Find("a")];
  const int c = world->legality.group[world->graph.Find("c")];
  for (const auto& block : levels[1]) {
    EXPECT_EQ(std::count(block.begin(), block.end(), a), std::count(block.begin(), block.end(), c));
  }
}

// A hub that all others feed: a matching would join one of them a level.
TEST(Coarsen, HalvesStars) {
  tensorflow::GraphDef def;
  AddOp(def, "arg", "_Arg", {}, WorkerCpu(0));
  std::vector<std::string> leaves;
  for (int k = 0; k < 64; ++k) {
    leaves.push_back(absl::StrCat("leaf", k));
    AddOp(def, leaves.back(), "Tanh", {"arg"}, WorkerCpu(0));
  }
  AddOp(def, "hub", "AddN", leaves, WorkerCpu(0));
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  const BlockLevels levels = Coarsen(world->problem);
  ASSERT_GE(levels.size(), 4u);
  EXPECT_LE(levels.size(), 10u);
  for (size_t k = 1; k < 4; ++k) EXPECT_LE(levels[k].size(), levels[k - 1].size() * 0.6);
}

}  // namespace
}  // namespace grappler_go
