#include "cc/cost_graph.h"

#include <memory>
#include <string>
#include <vector>

#include "cc/test_util.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace grappler_go {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A byte takes 1 us on every link, after 5 us; between GPUs 2 us. GPUs have 200 bytes.
constexpr char kUnitProfile[] =
    R"({"version":1,"devices":{"GPU":{"memory_bytes":200}},"links":[
        {"source":"CPU","target":"CPU","scope":"remote","latency_us":5,"gb_per_s":0.001},
        {"source":"CPU","target":"GPU","scope":"local","latency_us":5,"gb_per_s":0.001},
        {"source":"GPU","target":"CPU","scope":"local","latency_us":5,"gb_per_s":0.001},
        {"source":"GPU","target":"GPU","scope":"local","latency_us":5,"gb_per_s":0.0005}]})";

NodeDef& AddDeclared(GraphDef& graph, const std::string& name,
                     const std::vector<std::string>& inputs, float us_cpu, float us_gpu,
                     const std::vector<float>& output_bytes) {
  NodeDef& node = AddOp(graph, name, kDeclaredOp, inputs);
  tensorflow::SetAttrValue(static_cast<int64_t>(inputs.size()),
                           &(*node.mutable_attr())["num_inputs"]);
  tensorflow::SetAttrValue(static_cast<int64_t>(output_bytes.size()),
                           &(*node.mutable_attr())["num_outputs"]);
  tensorflow::SetAttrValue(us_cpu, &(*node.mutable_attr())["us_cpu"]);
  tensorflow::SetAttrValue(us_gpu, &(*node.mutable_attr())["us_gpu"]);
  tensorflow::SetAttrValue(output_bytes, &(*node.mutable_attr())["output_bytes"]);
  return node;
}

std::unique_ptr<World> MakeDeclaredWorld(const GraphDef& graph,
                                         const std::vector<std::string>& devices) {
  return MakeWorld(MakeItem(graph), devices, /*infer_shapes=*/true, {}, kUnitProfile);
}

StepEstimate StepOf(const World& world, const Placement& placement) {
  EXPECT_TRUE(world.legality.Check(world.graph, world.devices, placement).ok());
  Simulator simulator(world.graph, world.devices, world.legality, world.op_us);
  return simulator.Run(placement);
}

TEST(CostGraphTest, DeclaredTimesAreRead) {
  GraphDef graph;
  const NodeDef both = AddDeclared(graph, "both", {}, 3, 0.5, {});
  const NodeDef gpu = AddDeclared(graph, "gpu", {}, -1, 2, {});
  const NodeDef other = AddOp(graph, "other", "NoOp");
  double us = 7;
  EXPECT_TRUE(DeclaredUs(both, "CPU", &us));
  EXPECT_EQ(us, 3);
  EXPECT_TRUE(DeclaredUs(both, "GPU", &us));
  EXPECT_EQ(us, 0.5);
  EXPECT_FALSE(DeclaredUs(gpu, "CPU", &us));
  EXPECT_FALSE(DeclaredUs(other, "CPU", &us));
  EXPECT_EQ(us, 0.5);
}

TEST(CostGraphTest, SizesAreRead) {
  GraphDef graph;
  NodeDef& node = AddDeclared(graph, "a", {}, 1, 1, {4, 0.25});
  EXPECT_EQ(DeclaredPersistentBytes(node), 0);
  (*node.mutable_attr())["persistent_bytes"].set_i(17185374208);
  EXPECT_EQ(DeclaredOutputBytes(node, 0), 4);
  EXPECT_EQ(DeclaredOutputBytes(node, 1), 0.25);
  EXPECT_EQ(DeclaredOutputBytes(node, 2), 0);
  EXPECT_EQ(DeclaredPersistentBytes(node), 17185374208.0);
  const auto world = MakeDeclaredWorld(graph, WorkerCpus(2));
  EXPECT_THAT(world->graph.tensor_bytes, ElementsAre(4, 0.25));
  EXPECT_THAT(world->graph.persistent_bytes, ElementsAre(17185374208.0));
  EXPECT_EQ(world->graph.num_unknown_shapes, 0);
}

TEST(CostGraphTest, OpTimesAreThoseDeclared) {
  GraphDef graph;
  AddDeclared(graph, "a", {}, 3, 0.5, {});
  const auto world = MakeDeclaredWorld(graph, {LocalDevice("CPU", 0), LocalDevice("GPU", 0)});
  EXPECT_THAT(world->op_us, ElementsAre(3, 0.5));
}

TEST(CostGraphTest, AChainOverTwoDevices) {
  GraphDef graph;
  AddDeclared(graph, "a", {}, 10, 1, {3});
  AddDeclared(graph, "b", {"a"}, 20, 2, {});
  const auto workers = MakeDeclaredWorld(graph, WorkerCpus(2));
  EXPECT_EQ(StepOf(*workers, workers->Place({{"a", 0}, {"b", 0}})).step_us, 30);
  // 10, 5 + 3 on the link, 20.
  EXPECT_EQ(StepOf(*workers, workers->Place({{"a", 0}, {"b", 1}})).step_us, 38);
  const auto gpus = MakeDeclaredWorld(
      graph, {LocalDevice("CPU", 0), LocalDevice("GPU", 0), LocalDevice("GPU", 1)});
  // 10, 5 + 3, 2.
  EXPECT_EQ(StepOf(*gpus, gpus->Place({{"a", 0}, {"b", 2}})).step_us, 20);
  // 1, 5 + 2 * 3, 2.
  EXPECT_EQ(StepOf(*gpus, gpus->Place({{"a", 1}, {"b", 2}})).step_us, 14);
}

TEST(CostGraphTest, AForkOverTwoDevices) {
  GraphDef graph;
  AddDeclared(graph, "a", {}, 10, -1, {4});
  AddDeclared(graph, "b", {"a"}, 30, -1, {1});
  AddDeclared(graph, "c", {"a"}, 20, -1, {6});
  AddDeclared(graph, "d", {"b", "c"}, 7, -1, {});
  const auto world = MakeDeclaredWorld(graph, WorkerCpus(2));
  // c: 10 + 5 + 4 = 19 to 39, its output arrives at 39 + 5 + 6 = 50; b is done at 40.
  EXPECT_EQ(StepOf(*world, world->Place({{"a", 0}, {"b", 0}, {"c", 1}, {"d", 0}})).step_us, 57);
  // b's output is the smaller: it arrives at 49 + 5 + 1 = 55.
  EXPECT_EQ(StepOf(*world, world->Place({{"a", 0}, {"b", 1}, {"c", 0}, {"d", 0}})).step_us, 62);
}

TEST(CostGraphTest, OpsMayMoveUnlessTheirLabelSaysOtherwise) {
  GraphDef graph;
  AddDeclared(graph, "free", {}, 1, 1, {});
  for (const char* type : {"cpu_only", "gpu_only"}) {
    NodeDef& node = AddDeclared(graph, type, {}, 1, 1, {});
    tensorflow::SetAttrValue(type, &(*node.mutable_attr())["_kernel"]);
  }
  AddDeclared(graph, "beside", {}, 1, 1, {});
  Colocate(*graph.mutable_node(3), "cpu_only");
  const auto world = MakeDeclaredWorld(
      graph, {LocalDevice("CPU", 0), LocalDevice("GPU", 0), LocalDevice("GPU", 1)});
  const auto mask = [&](const std::string& name) {
    return world->legality.mask(world->graph.Find(name));
  };
  EXPECT_EQ(mask("free"), 0b111);
  EXPECT_EQ(mask("cpu_only"), 0b001);
  EXPECT_EQ(mask("gpu_only"), 0b110);
  EXPECT_EQ(mask("beside"), 0b001);
  EXPECT_FALSE(world->graph.Has(world->graph.Find("free"), kUnknownOp));
}

TEST(CostGraphTest, MemoryIsWhatIsKeptAndWhatIsLive) {
  GraphDef graph;
  // An output that nobody reads is gone once the op has run.
  NodeDef& a = AddDeclared(graph, "a", {}, 1, 1, {4, 50});
  (*a.mutable_attr())["persistent_bytes"].set_i(100);
  NodeDef& b = AddDeclared(graph, "b", {"a"}, 1, 1, {60});
  (*b.mutable_attr())["persistent_bytes"].set_i(40);
  const auto world = MakeDeclaredWorld(
      graph, {LocalDevice("CPU", 0), LocalDevice("GPU", 0), LocalDevice("GPU", 1)});
  const StepEstimate together = StepOf(*world, world->Place({{"a", 1}, {"b", 1}}));
  // While b runs: 140 kept, 4 read and 60 made.
  EXPECT_THAT(together.peak_bytes, ElementsAre(0, 204, 0));
  EXPECT_FALSE(together.feasible);
  const StepEstimate apart = StepOf(*world, world->Place({{"a", 1}, {"b", 2}}));
  EXPECT_THAT(apart.peak_bytes, ElementsAre(0, 154, 104));
  EXPECT_TRUE(apart.feasible);
}

TEST(CostGraphTest, RunningOneIsAnError) {
  GraphDef graph;
  AddDeclared(graph, "a", {}, 1, 1, {4});
  tensorflow::SessionOptions options;
  options.config.mutable_graph_options()->mutable_rewrite_options()->set_disable_meta_optimizer(
      true);
  std::unique_ptr<tensorflow::Session> session(tensorflow::NewSession(options));
  ASSERT_TRUE(session->Create(graph).ok());
  std::vector<tensorflow::Tensor> outputs;
  const absl::Status status = session->Run({}, {"a:0"}, {}, &outputs);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Words(status), HasSubstr("op 'a' stands for one of a cost graph"));
}

}  // namespace
}  // namespace grappler_go
