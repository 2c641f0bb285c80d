#include "cc/cost_model.h"

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

TEST(ReadMeasuredCosts, ErrorsNameFileFieldAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"[", "not a JSON object"},
      {"{}", "'version' is 0"},
      {R"({"version":3,"ops":{}})", "'version' is 3"},
      {R"({"version":"x","ops":{}})", "'version' is not a number"},
      {R"({"version":1})", "'ops' is not an object"},
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
