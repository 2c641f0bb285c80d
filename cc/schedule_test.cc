#include "cc/schedule.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;

// "a" is read by "b", "c" and "d"; 1000 bytes of it.
std::unique_ptr<World> OneProducer() {
  GraphDef def;
  AddOp(def, "a", "_Arg", {}, WorkerCpu(0));
  for (const char* op : {"b", "c", "d"}) AddOp(def, op, "Tanh", {"a"}, WorkerCpu(0));
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->SetUs("a", 3);
  world->SetBytes("a", 1000);
  return world;
}

TEST(Schedule, SendsATensorOnceToADevice) {
  const auto world = OneProducer();
  const auto node = [&](const char* name) { return world->graph.Find(name); };
  Schedule schedule(world->problem, 1);
  schedule.Place(node("a"), 0);
  EXPECT_EQ(schedule.FreeUs(0), 3);
  EXPECT_EQ(schedule.DataReadyUs(node("b"), 0), 3);
  // 2 us of copying at each end, 10 us on the way and 1 us for the bytes.
  EXPECT_EQ(schedule.DataReadyUs(node("b"), 1), 18);
  schedule.Place(node("b"), 1);
  EXPECT_EQ(schedule.FreeUs(0), 5);
  EXPECT_EQ(schedule.FreeUs(1), 19);
  EXPECT_EQ(schedule.DataReadyUs(node("c"), 1), 18);
  schedule.Place(node("c"), 1);
  EXPECT_EQ(schedule.FreeUs(0), 5);
  EXPECT_EQ(schedule.FreeUs(1), 20);
  EXPECT_EQ(schedule.EndUs(), 20);
}

TEST(Schedule, WeighsTransfers) {
  const auto world = OneProducer();
  Schedule schedule(world->problem, 2);
  schedule.Place(world->graph.Find("a"), 0);
  EXPECT_EQ(schedule.DataReadyUs(world->graph.Find("b"), 1), 3 + 2 * 15);
}

TEST(Schedule, FirstToFinishAsksForTheEndNotTheStart) {
  auto world = OneProducer();
  const int b = world->graph.Find("b");
  Schedule schedule(world->problem, 1);
  schedule.Place(world->graph.Find("a"), 0);
  world->SetUs("b", 0, 21);  // From 3 to 24, or from 18 to 23.
  world->SetUs("b", 1, 5);
  EXPECT_EQ(schedule.FirstToFinish(b, DeviceBit(0) | DeviceBit(1)), 1);
  EXPECT_EQ(schedule.FirstToFinish(b, DeviceBit(0)), 0);
  world->SetUs("b", 1, 6);
  EXPECT_EQ(schedule.FirstToFinish(b, DeviceBit(0) | DeviceBit(1)), 0);  // Equal: home.
}

TEST(Schedule, PassesOverDevicesThatAreFull) {
  auto world = OneProducer();
  world->graph.persistent_bytes[world->graph.Find("a")] = 30;  // Cannot move.
  for (const char* op : {"b", "c", "d"}) world->graph.persistent_bytes[world->graph.Find(op)] = 50;
  for (int d = 0; d < 2; ++d) world->devices.SetMemoryLimit(d, 100);
  const auto choices = [&](const Schedule& schedule, const char* op) {
    return schedule.Choices(world->graph.Find(op));
  };
  Schedule schedule(world->problem, 1);
  EXPECT_EQ(choices(schedule, "a"), DeviceBit(0));
  EXPECT_EQ(choices(schedule, "b"), DeviceBit(0) | DeviceBit(1));
  schedule.Place(world->graph.Find("a"), 0);
  schedule.Place(world->graph.Find("b"), 0);  // 80 of 100 bytes.
  EXPECT_EQ(choices(schedule, "c"), DeviceBit(1));
  schedule.Place(world->graph.Find("c"), 1);
  EXPECT_EQ(choices(schedule, "d"), DeviceBit(1));  // Just fits.
  world->graph.persistent_bytes[world->graph.Find("d")] = 51;
  Schedule tight(world->problem, 1);
  for (const auto& [op, device] : std::map<std::string, int>{{"a", 0}, {"b", 0}, {"c", 1}}) {
    tight.Place(world->graph.Find(op), device);
  }
  EXPECT_EQ(choices(tight, "d"), DeviceBit(0) | DeviceBit(1));  // Nothing fits: all that is legal.
}

TEST(Schedule, KeepsRoomForWhatCannotMove) {
  auto world = OneProducer();
  world->graph.persistent_bytes[world->graph.Find("a")] = 60;
  world->graph.persistent_bytes[world->graph.Find("b")] = 50;
  for (int d = 0; d < 2; ++d) world->devices.SetMemoryLimit(d, 100);
  // Before "a" is scheduled.
  EXPECT_EQ(Schedule(world->problem, 1).Choices(world->graph.Find("b")), DeviceBit(1));
}

TEST(Schedule, GroupsGoWithTheirFirstOpAndTheRestStaysHome) {
  GraphDef def;
  AddOp(def, "a", "_Arg", {}, WorkerCpu(0));
  for (const char* op : {"b", "c", "d"}) AddOp(def, op, "Tanh", {"a"}, WorkerCpu(0));
  Colocate(*def.mutable_node(2), "b");
  const auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  Schedule schedule(world->problem, 1);
  schedule.Place(world->graph.Find("a"), 0);
  schedule.Place(world->graph.Find("b"), 1);
  EXPECT_EQ(schedule.Choices(world->graph.Find("c")), DeviceBit(1));
  EXPECT_EQ(std::move(schedule).Finish(), world->Place({{"b", 1}, {"c", 1}}));
}

// An independent account of the schedule: by executor the intervals taken, by op its device and
// end.
struct Account {
  std::vector<std::vector<std::pair<double, double>>> taken;
  std::vector<double> end_us;
  std::vector<int> device;

  // The first time from `ready` on at which `us` fit between what is taken; at the end of it all
  // where gaps are not for use.
  double Start(int executor, double ready, double us, bool gaps) const {
    std::vector<double> starts = {ready};
    for (const auto& [begin, end] : taken[executor]) starts.push_back(std::max(ready, end));
    std::sort(starts.begin(), starts.end());
    if (!gaps) return starts.back();
    for (const double start : starts) {
      bool free = true;
      for (const auto& [begin, end] : taken[executor]) {
        free = free && (end <= start || begin >= start + us);
      }
      if (free) return start;
    }
    return starts.back();
  }
};

TEST(Schedule, AgreesWithASimpleAccount) {
  // Transfers that take no compute, so that only ops do.
  const char* const kProfile =
      R"({"version":1,"links":[{"source":"CPU","target":"CPU","scope":"remote",
          "latency_us":16,"gb_per_s":1}]})";
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto world = MakeWorld(MakeItem(RandomGraph(40, seed, WorkerCpu(0))), WorkerCpus(3), false, {},
                           kProfile);
    std::mt19937_64 random(seed);
    const OpGraph& graph = world->graph;
    for (int i = 0; i < graph.num_nodes(); ++i) {
      for (int d = 0; d < 3; ++d) {
        world->SetUs(graph.name(i), d, static_cast<double>(1 + random() % 16));
      }
    }
    for (const bool gaps : {false, true}) {
      Schedule schedule(world->problem, 1,
                        gaps ? Schedule::Slots::kInsert : Schedule::Slots::kAppend);
      Account account{std::vector<std::vector<std::pair<double, double>>>(3),
                      std::vector<double>(graph.num_nodes(), 0.0),
                      std::vector<int>(graph.num_nodes(), -1)};
      for (int i = 0; i < graph.num_nodes(); ++i) {
        if (world->legality.replicable[i]) continue;
        const DeviceMask choices = schedule.Choices(i);
        int device = static_cast<int>(random() % 3);
        while ((choices & DeviceBit(device)) == 0) device = (device + 1) % 3;
        double ready = 0;
        for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1]; ++e) {
          const int source = graph.edge_source[e];
          if (world->legality.replicable[source]) continue;
          ready =
              std::max(ready, account.end_us[source] + (account.device[source] == device ? 0 : 16));
        }
        ASSERT_EQ(schedule.DataReadyUs(i, device), ready);
        const double us = schedule.OpUs(i, device);
        const double start = account.Start(device, ready, us, gaps);
        ASSERT_EQ(schedule.StartUs(i, device), start) << "seed " << seed << " " << graph.name(i);
        account.device[i] = device;
        account.end_us[i] = start + us;
        account.taken[device].emplace_back(start, start + us);
        schedule.Place(i, device);
      }
      EXPECT_EQ(schedule.EndUs(), *std::max_element(account.end_us.begin(), account.end_us.end()));
      EXPECT_EQ(Words(world->legality.Check(graph, world->devices, std::move(schedule).Finish())),
                "");
    }
  }
}

}  // namespace
}  // namespace grappler_go
