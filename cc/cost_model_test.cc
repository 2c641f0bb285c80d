#include "cc/cost_model.h"

#include <cmath>

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A GPU at ten times the CPU's figures, but with a dearer launch.
constexpr char kProfile[] =
    R"({"version":1,"devices":{
        "CPU":{"matmul_gflops":1,"elementwise_gops":1,"memory_gb_per_s":1,"launch_us":1},
        "GPU":{"matmul_gflops":10,"elementwise_gops":10,"memory_gb_per_s":10,"launch_us":5}}})";

std::unique_ptr<World> TwoProducts() {
  tensorflow::GraphDef def;
  SetShape(AddOp(def, "x", "Placeholder"), {1, 1});
  AddMatrix(def, "w", 1, 1);
  AddOp(def, "small", "MatMul", {"x", "w"});
  AddOp(def, "large", "MatMul", {"x", "w"});
  AddOp(def, "sum", "Add", {"small", "large"});
  auto world =
      MakeWorld(MakeItem(def), {LocalDevice("CPU", 0), LocalDevice("GPU", 0)}, false, {}, kProfile);
  world->graph.work[world->graph.Find("small")] = {9000, 0, 0};  // 9 us on the CPU, 0.9 on the GPU.
  world->graph.work[world->graph.Find("large")] = {99000, 0, 0};
  world->graph.work[world->graph.Find("sum")] = {0, 1000, 4000};  // Bound by its memory traffic.
  return world;
}

float TimeOf(const World& world, const std::vector<float>& times, const std::string& name,
             int device) {
  return times[static_cast<size_t>(world.graph.Find(name) * world.devices.size() + device)];
}

TEST(AnalyticalUs, IsARoofline) {
  Device device;
  device.matmul_gflops = 2;     // 2000 flops a microsecond.
  device.elementwise_gops = 1;  // 1000.
  device.memory_gb_per_s = 4;   // 4000 bytes.
  device.launch_us = 3;
  EXPECT_DOUBLE_EQ(AnalyticalUs({0, 0, 0}, device), 3);
  EXPECT_DOUBLE_EQ(AnalyticalUs({4000, 0, 0}, device), 3 + 2);
  EXPECT_DOUBLE_EQ(AnalyticalUs({4000, 5000, 0}, device), 3 + 2 + 5);
  EXPECT_DOUBLE_EQ(AnalyticalUs({4000, 5000, 4000}, device), 3 + 7);
  EXPECT_DOUBLE_EQ(AnalyticalUs({4000, 5000, 40000}, device), 3 + 10);
}

TEST(OpTimes, AreAnalyticalWithoutMeasurements) {
  const auto world = TwoProducts();
  const std::vector<float> times = OpTimes(world->graph, world->devices, nullptr);
  ASSERT_EQ(times.size(), 10u);
  EXPECT_FLOAT_EQ(TimeOf(*world, times, "small", 0), 10);
  EXPECT_FLOAT_EQ(TimeOf(*world, times, "small", 1), 5.9);
  EXPECT_FLOAT_EQ(TimeOf(*world, times, "sum", 0), 5);
  EXPECT_EQ(TimeOf(*world, times, "x", 0), 0);  // Fed, and not run.
  EXPECT_EQ(TimeOf(*world, times, "w", 0), 0);
}

TEST(OpTimes, FollowMeasurements) {
  const auto world = TwoProducts();
  const MeasuredCosts measured{"CPU", {{"small", 20}, {"elsewhere", 7}}};
  const std::vector<float> times = OpTimes(world->graph, world->devices, &measured);
  EXPECT_FLOAT_EQ(TimeOf(*world, times, "small", 0), 20);
  EXPECT_FLOAT_EQ(TimeOf(*world, times, "small", 1), 2 * 5.9);  // By the analytical ratio.
  EXPECT_FLOAT_EQ(TimeOf(*world, times, "large", 0), 2 * 100);  // As other ops of its kind.
  EXPECT_FLOAT_EQ(TimeOf(*world, times, "sum", 0), 5);          // No such op was measured.
}

TEST(OpTimes, MeasurementsOnATypeThatIsAbsentAreIgnored) {
  const auto world = TwoProducts();
  const MeasuredCosts measured{"TPU", {{"small", 20}}};
  EXPECT_EQ(OpTimes(world->graph, world->devices, &measured),
            OpTimes(world->graph, world->devices, nullptr));
}

TEST(OpTimes, AMeasuredZeroIsAMeasurement) {
  const auto world = TwoProducts();
  const MeasuredCosts measured{"CPU", {{"small", 0}}};
  EXPECT_EQ(TimeOf(*world, OpTimes(world->graph, world->devices, &measured), "small", 0), 0);
}

TEST(OpTimes, CachedCostsHoldInOtherGraphs) {
  const auto products = [](const std::vector<int>& rows, const std::string& prefix) {
    tensorflow::GraphDef def;
    AddMatrix(def, prefix + "w", 64, 64);
    for (const int n : rows) {
      const std::string x = absl::StrCat(prefix, "x", n);
      SetShape(AddOp(def, x, "Placeholder"), {n, 64});
      AddOp(def, absl::StrCat(prefix, n), "MatMul", {x, prefix + "w"});
    }
    AddOp(def, prefix + "tanh", "Tanh", {absl::StrCat(prefix, rows[0])});
    return MakeItem(def);
  };
  const auto seen_item = products({64, 256}, "a");
  const auto seen = OpGraph::Create(seen_item, true, true);
  ASSERT_TRUE(seen.ok()) << seen.status();
  MeasuredCosts measured{"CPU"};
  const auto remember = [&](const std::string& name, double us) {
    const int node = seen->Find(name);
    measured.cache[seen->cost_key[node]] = {us, WorkSize(seen->work[node])};
  };
  remember("a64", 10);
  remember("a256", 160);

  const auto item = products({16, 64, 128, 256, 512}, "b");
  const auto graph = OpGraph::Create(item, true, true);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto devices = DeviceSet::Create({LocalDevice("CPU", 0), LocalDevice("GPU", 0)}, kProfile);
  ASSERT_TRUE(devices.ok());
  std::vector<CostSource> sources;
  const std::vector<float> times = OpTimes(*graph, *devices, &measured, &sources);
  const auto us = [&](const std::string& name) {
    return times[static_cast<size_t>(graph->Find(name)) * 2];
  };
  const auto source = [&](const std::string& name) { return sources[graph->Find(name)]; };
  EXPECT_FLOAT_EQ(us("b64"), 10);
  EXPECT_EQ(source("b64"), CostSource::kCached);
  EXPECT_FLOAT_EQ(us("b256"), 160);
  const auto size = [&](const std::string& name) {
    return WorkSize(graph->work[graph->Find(name)]);
  };
  // Between the two on a straight line of the logarithms.
  EXPECT_NEAR(std::log(us("b128") / 10) / std::log(16),
              std::log(size("b128") / size("b64")) / std::log(size("b256") / size("b64")), 1e-5);
  EXPECT_EQ(source("b128"), CostSource::kInterpolated);
  EXPECT_FLOAT_EQ(us("b16"), 10);
  EXPECT_FLOAT_EQ(us("b512"), 160 * size("b512") / size("b256"));
  EXPECT_EQ(source("btanh"), CostSource::kAnalytical);
  EXPECT_EQ(source("bw"), CostSource::kFree);
  // Another type of device by the analytical ratio.
  const Work& work = graph->work[graph->Find("b64")];
  EXPECT_FLOAT_EQ(
      times[static_cast<size_t>(graph->Find("b64")) * 2 + 1],
      10 * AnalyticalUs(work, devices->device(1)) / AnalyticalUs(work, devices->device(0)));
  // A measurement by name goes first.
  measured.op_us["b64"] = 77;
  EXPECT_FLOAT_EQ(OpTimes(*graph, *devices, &measured, &sources)[graph->Find("b64") * 2], 77);
  EXPECT_EQ(source("b64"), CostSource::kMeasured);
}

absl::StatusOr<MeasuredCosts> Read(const std::string& text) {
  return ReadMeasuredCosts(WriteFile(NewFolder(), "costs.json", text));
}

TEST(ReadMeasuredCosts, Reads) {
  const auto costs = Read(R"({"version":1,"device_type":"GPU","ops":{"a/b":1.5,"c":0}})");
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->device_type, "GPU");
  EXPECT_EQ(costs->op_us.size(), 2u);
  EXPECT_EQ(costs->op_us.at("a/b"), 1.5);
}

TEST(ReadMeasuredCosts, ReadsACache) {
  const auto costs =
      Read(R"({"version":2,"device_type":"CPU","cache":{"K#2":{"us":3,"size":9,"n":4}}})");
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->cache.at("K#2").us, 3);
  EXPECT_EQ(costs->cache.at("K#2").size, 9);
  EXPECT_TRUE(costs->op_us.empty());
}

TEST(ReadMeasuredCosts, ErrorsNameFileFieldAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"[", "not a JSON object"},
      {"{}", "'version' is 0"},
      {R"({"version":3,"ops":{}})", "'version' is 3"},
      {R"({"version":"x","ops":{}})", "'version' is not a number"},
      {R"({"version":1})", "'ops' is not an object"},
      {R"({"version":2,"cache":[]})", "'cache' is not an object"},
      {R"({"version":2,"cache":{"k":{"us":1}}})", "cache['k'].size"},
      {R"({"version":2,"cache":{"k":{"us":-1,"size":1}}})", "cache['k'].us"},
      {R"({"version":2,"cache":{"k":7}})", "cache['k'].us"},
      {R"({"version":1,"ops":[1]})", "'ops' is not an object"},
      {R"({"version":1,"device_type":3,"ops":{}})", "'device_type' is not a string"},
      {R"({"version":1,"ops":{"a":"fast"}})", "ops['a']"},
      {R"({"version":1,"ops":{"a":-1}})", "ops['a']"},
      {R"({"version":1,"ops":{"a":null}})", "ops['a']"},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(Words(Read(text)), AllOf(HasSubstr("costs.json"), HasSubstr(words))) << text;
  }
  EXPECT_THAT(Words(ReadMeasuredCosts("/no/such/file")), HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace grappler_go
