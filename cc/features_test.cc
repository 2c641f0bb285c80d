#include "cc/features.h"

#include <cmath>

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;

// The column of a feature by its name.
int Column(absl::Span<const FeatureSpec> specs, absl::string_view name) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no feature " << name;
  return 0;
}

TEST(FeatureTable, ListsAllColumnsAndTheVersion) {
  const std::vector<std::string> table = FeatureTable();
  EXPECT_EQ(table.size(), NodeFeatures().size() + EdgeFeatures().size() + DeviceFeatures().size() +
                              NodeDeviceFeatures().size() + LinkFeatures().size() + 1);
  EXPECT_EQ(table.front(), absl::StrCat("node/", NodeFeatures()[0].name));
  EXPECT_EQ(table.back(), absl::StrCat("version/", kFeatureVersion));
  for (size_t i = 1; i < table.size(); ++i) {
    EXPECT_EQ(std::count(table.begin(), table.end(), table[i]), 1) << table[i];
  }
}

TEST(ExtractFeatures, ArraysHaveTheirShapesAndAreFinite) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto world =
        MakeWorld(MakeItem(RandomGraph(60, seed, LocalDevice("CPU", 0))),
                  {LocalDevice("CPU", 0), LocalDevice("GPU", 0), WorkerCpu(0)}, true);
    const Features f = ExtractFeatures(world->problem);
    const size_t n = 60, d = 3, e = f.edge_source.size();
    EXPECT_EQ(f.node.size(), n * NodeFeatures().size());
    EXPECT_EQ(f.op_type.size(), n);
    EXPECT_EQ(f.edge_target.size(), e);
    EXPECT_EQ(f.edge.size(), e * EdgeFeatures().size());
    EXPECT_EQ(f.device.size(), d * DeviceFeatures().size());
    EXPECT_EQ(f.link.size(), d * d * LinkFeatures().size());
    EXPECT_EQ(f.node_device.size(), n * d * NodeDeviceFeatures().size());
    EXPECT_EQ(f.mask.size(), n * d);
    for (const auto* values : {&f.node, &f.edge, &f.device, &f.node_device, &f.link}) {
      for (const float value : *values) {
        EXPECT_TRUE(std::isfinite(value) && std::abs(value) < 20) << value;
      }
    }
    for (size_t k = 0; k < e; ++k) EXPECT_LT(f.edge_source[k], f.edge_target[k]);
    for (int i = 0; i < 60; ++i) {
      for (int k = 0; k < 3; ++k) {
        EXPECT_EQ(f.mask[i * 3 + k], (world->legality.mask(i) & DeviceBit(k)) != 0 ? 1 : 0);
      }
    }
  }
}

TEST(ExtractFeatures, AreWhatTheTableSays) {
  GraphDef def;
  const std::string home = WorkerCpu(0);
  AddOp(def, "arg", "_Arg", {}, home);
  AddOp(def, "a", "Tanh", {"arg"}, home);
  AddOp(def, "b", "Mul", {"a", "a"}, home);
  AddOp(def, "c", "Tanh", {"arg", "^a"}, home);
  auto world = MakeWorld(MakeItem(def), WorkerCpus(2));
  world->SetUs("a", 10);
  world->SetUs("b", 20);
  world->SetUs("c", 10);
  world->SetBytes("a", 999);
  world->graph.work[world->graph.Find("b")].elementwise_ops = 99;
  const Features f = ExtractFeatures(world->problem);
  const auto node = [&](const char* op, const char* feature) {
    return f.node[static_cast<size_t>(world->graph.Find(op)) * NodeFeatures().size() +
                  Column(NodeFeatures(), feature)];
  };
  EXPECT_FLOAT_EQ(node("b", "log_elementwise_ops"), 0.2);
  EXPECT_FLOAT_EQ(node("a", "log_output_bytes"), 0.3);
  EXPECT_FLOAT_EQ(node("b", "in_degree"), std::log2(3.0) / 4);
  EXPECT_FLOAT_EQ(node("a", "out_degree"), std::log2(4.0) / 4);  // b twice, and c waits for it.
  EXPECT_FLOAT_EQ(node("b", "level"), 1);
  EXPECT_FLOAT_EQ(node("a", "level"), 0.5);
  EXPECT_FLOAT_EQ(node("a", "upward_rank"), 1);
  EXPECT_FLOAT_EQ(node("b", "upward_rank"), 20.0 / 30);
  EXPECT_FLOAT_EQ(node("b", "downward_rank"), 10.0 / 30);
  EXPECT_NEAR(node("b", "slack"), 0, 1e-6);
  EXPECT_FLOAT_EQ(node("c", "slack"), 1 - 10.0 / 30 - 10.0 / 30);
  EXPECT_FLOAT_EQ(node("b", "group_time_share"), 0.5);
  EXPECT_FLOAT_EQ(node("b", "log_time_share"), std::log10(1e-6 + 2) / 6);
  EXPECT_EQ(node("arg", "movable"), 0);
  EXPECT_EQ(node("a", "movable"), 1);

  // arg->a, arg->c, a->b once though it is read twice, a->c.
  EXPECT_EQ(f.edge_source.size(), 4u);
  const int control = Column(EdgeFeatures(), "is_control");
  float controls = 0;
  for (size_t e = 0; e < 4; ++e) controls += f.edge[e * EdgeFeatures().size() + control];
  EXPECT_EQ(controls, 1);

  const auto device = [&](int d, const char* feature) {
    return f.device[d * DeviceFeatures().size() + Column(DeviceFeatures(), feature)];
  };
  EXPECT_EQ(device(0, "is_gpu"), 0);
  EXPECT_EQ(device(0, "relative_matmul"), 1);
  EXPECT_EQ(device(0, "incoming_time_share"), 1);
  EXPECT_EQ(device(1, "incoming_time_share"), 0);
  EXPECT_FLOAT_EQ(device(0, "parallelism"), 40.0 / 30 / 2);
  const auto node_device = [&](const char* op, int d, const char* feature) {
    return f.node_device[static_cast<size_t>(world->graph.Find(op) * 2 + d) *
                             NodeDeviceFeatures().size() +
                         Column(NodeDeviceFeatures(), feature)];
  };
  EXPECT_EQ(node_device("a", 0, "is_incoming"), 1);
  EXPECT_EQ(node_device("a", 1, "is_incoming"), 0);
  EXPECT_FLOAT_EQ(node_device("a", 0, "fixed_input_share"),
                  0.5);  // One byte more than 0, of one more.
  EXPECT_EQ(node_device("a", 1, "fixed_input_share"), 0);
}

// Which of two equal devices has the lower number shows nowhere.
TEST(ExtractFeatures, EqualDevicesLookAlike) {
  GraphDef def = RandomGraph(40, 2, WorkerCpu(0));
  const auto one = MakeWorld(MakeItem(def), WorkerCpus(2), true);
  for (auto& node : *def.mutable_node()) node.set_device(WorkerCpu(1));
  const auto two = MakeWorld(MakeItem(def), WorkerCpus(2), true);
  const Features a = ExtractFeatures(one->problem), b = ExtractFeatures(two->problem);
  EXPECT_EQ(a.node, b.node);
  EXPECT_EQ(a.edge, b.edge);
  EXPECT_EQ(a.link, b.link);
  const size_t width = NodeDeviceFeatures().size();
  for (size_t row = 0; row < 40; ++row) {
    for (size_t d = 0; d < 2; ++d) {
      for (size_t k = 0; k < width; ++k) {
        EXPECT_EQ(a.node_device[(row * 2 + d) * width + k],
                  b.node_device[(row * 2 + 1 - d) * width + k]);
      }
    }
  }
}

TEST(ExtractFeatures, OneDeviceAndAnEmptyGraphAreFine) {
  const auto one = MakeWorld(MakeItem(RandomGraph(10, 0, WorkerCpu(0))), WorkerCpus(1), true);
  for (const float value : ExtractFeatures(one->problem).edge) EXPECT_TRUE(std::isfinite(value));
  const auto empty = MakeWorld(MakeItem(GraphDef()), WorkerCpus(2), true);
  const Features f = ExtractFeatures(empty->problem);
  EXPECT_TRUE(f.node.empty());
  for (const float value : f.device) EXPECT_TRUE(std::isfinite(value));
}

TEST(OpTypeBucket, IsStableAndInRange) {
  for (const char* op : {"MatMul", "Add", "NoSuchOp", ""}) {
    EXPECT_GE(OpTypeBucket(op), 0);
    EXPECT_LT(OpTypeBucket(op), kOpTypeBuckets);
    EXPECT_EQ(OpTypeBucket(op), OpTypeBucket(std::string(op)));
  }
  EXPECT_NE(OpTypeBucket("MatMul"), OpTypeBucket("Add"));
}

}  // namespace
}  // namespace grappler_go
