// What the tests share: small graphs, problems with hand-set costs, evaluation, a policy without
// training.
#ifndef GRAPPLER_GO_CC_TEST_UTIL_H_
#define GRAPPLER_GO_CC_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/cost_model.h"
#include "cc/device_set.h"
#include "cc/heuristics.h"
#include "cc/legality.h"
#include "cc/op_graph.h"
#include "cc/simulator.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/lib/strings/proto_serialization.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"
#include "tensorflow/core/public/session.h"

namespace grappler_go {

// "/job:worker/replica:0/task:1/device:CPU:0": processes of their own, or one process with many
// devices.
inline std::string WorkerCpu(int task) {
  return absl::StrCat("/job:worker/replica:0/task:", task, "/device:CPU:0");
}
inline std::string LocalDevice(absl::string_view type, int id) {
  return absl::StrCat("/job:localhost/replica:0/task:0/device:", type, ":", id);
}
inline std::vector<std::string> WorkerCpus(int n) {
  std::vector<std::string> names;
  for (int task = 0; task < n; ++task) names.push_back(WorkerCpu(task));
  return names;
}
inline std::vector<std::string> LocalCpus(int n) {
  std::vector<std::string> names;
  for (int id = 0; id < n; ++id) names.push_back(LocalDevice("CPU", id));
  return names;
}

// Links between workers with round figures: 10 us and 1 us for 1000 bytes, 2 us of copying at each
// end.
inline constexpr char kRoundProfile[] =
    R"({"version":1,"devices":{"CPU":{"matmul_gflops":1,"elementwise_gops":1,"memory_gb_per_s":1,"launch_us":1,"threads":1}},
        "links":[{"source":"CPU","target":"CPU","scope":"remote","latency_us":10,"gb_per_s":1,"busy_us":2}]})";

// The error's words, "" for OK.
inline std::string Words(const absl::Status& status) { return std::string(status.message()); }
template <typename T>
std::string Words(const absl::StatusOr<T>& result) {
  return Words(result.status());
}

// Adds a node with all its attributes set: type attributes to `type`, "N" to the number of data
// inputs, the others to their defaults. Unregistered ops get no attributes.
inline tensorflow::NodeDef& AddOp(tensorflow::GraphDef& graph, const std::string& name,
                                  const std::string& op,
                                  const std::vector<std::string>& inputs = {},
                                  const std::string& device = "",
                                  tensorflow::DataType type = tensorflow::DT_FLOAT) {
  tensorflow::NodeDef& node = *graph.add_node();
  node.set_name(name);
  node.set_op(op);
  node.set_device(device);
  int data_inputs = 0;
  for (const std::string& input : inputs) {
    node.add_input(input);
    data_inputs += input[0] == '^' ? 0 : 1;
  }
  const tensorflow::OpDef* op_def = nullptr;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(op, &op_def).ok()) return node;
  for (const auto& attr : op_def->attr()) {
    if (attr.has_default_value()) {
      (*node.mutable_attr())[attr.name()] = attr.default_value();
    } else if (attr.type() == "type") {
      (*node.mutable_attr())[attr.name()].set_type(type);
    } else if (attr.type() == "int" && attr.name() == "N") {
      (*node.mutable_attr())[attr.name()].set_i(data_inputs);
    }
  }
  return node;
}

inline tensorflow::NodeDef& AddConst(tensorflow::GraphDef& graph, const std::string& name,
                                     const tensorflow::Tensor& value,
                                     const std::string& device = "") {
  tensorflow::NodeDef& node = AddOp(graph, name, "Const", {}, device, value.dtype());
  value.AsProtoTensorContent((*node.mutable_attr())["value"].mutable_tensor());
  return node;
}

// A [rows, columns] float constant with small, unlike values.
inline tensorflow::NodeDef& AddMatrix(tensorflow::GraphDef& graph, const std::string& name,
                                      int rows, int columns, const std::string& device = "") {
  tensorflow::Tensor value(tensorflow::DT_FLOAT, tensorflow::TensorShape({rows, columns}));
  auto flat = value.flat<float>();
  for (int64_t i = 0; i < flat.size(); ++i) {
    flat(i) = 0.01f * static_cast<float>((i * 7 + static_cast<int64_t>(name.size()) * 3) % 23 - 11);
  }
  return AddConst(graph, name, value, device);
}

inline void Colocate(tensorflow::NodeDef& node, const std::string& with) {
  (*node.mutable_attr())["_class"].mutable_list()->add_s(absl::StrCat("loc:@", with));
}

inline void SetShape(tensorflow::NodeDef& node, const std::vector<int>& dims) {
  auto* shape = (*node.mutable_attr())["shape"].mutable_shape();
  shape->Clear();
  for (const int dim : dims) shape->add_dim()->set_size(dim);
}

// A random graph of float [8, 8] matrices that can be run: constants, element-wise ops, matrix
// products, some of them colocated or tied by control edges. Node i is "n<i>".
inline tensorflow::GraphDef RandomGraph(int num_nodes, uint64_t seed,
                                        const std::string& device = "") {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
  tensorflow::GraphDef graph;
  for (int i = 0; i < num_nodes; ++i) {
    const std::string name = absl::StrCat("n", i);
    const auto input = [&] { return absl::StrCat("n", below(static_cast<uint64_t>(i))); };
    if (i < 2 || below(8) == 0) {
      AddMatrix(graph, name, 8, 8, device);
      continue;
    }
    const char* const ops[] = {"Add", "Mul", "MatMul", "Tanh", "Relu", "Identity"};
    const std::string op = ops[below(6)];
    std::vector<std::string> inputs = {input()};
    if (op == "Add" || op == "Mul" || op == "MatMul") inputs.push_back(input());
    if (below(5) == 0) inputs.push_back(absl::StrCat("^", input()));
    tensorflow::NodeDef& node = AddOp(graph, name, op, inputs, device);
    if (below(6) == 0) Colocate(node, input());
  }
  return graph;
}

inline void Shuffle(tensorflow::GraphDef& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = graph.node_size() - 1; i > 0; --i) {
    graph.mutable_node()->SwapElements(i,
                                       static_cast<int>(random() % static_cast<uint64_t>(i + 1)));
  }
}

inline const tensorflow::NodeDef* FindNode(const tensorflow::GraphDef& graph,
                                           const std::string& name) {
  for (const auto& node : graph.node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

inline std::string Bytes(const tensorflow::GraphDef& graph) {
  std::string bytes;
  tensorflow::SerializeToStringDeterministic(graph, &bytes);
  return bytes;
}

inline tensorflow::grappler::GrapplerItem MakeItem(const tensorflow::GraphDef& graph,
                                                   const std::vector<std::string>& fetch = {}) {
  tensorflow::grappler::GrapplerItem item;
  item.id = "test";
  item.graph = graph;
  item.fetch = fetch;
  return item;
}

// A problem that owns all that it points to. Not movable.
struct World {
  tensorflow::grappler::GrapplerItem item;
  DeviceSet devices;
  OpGraph graph;
  Legality legality;
  std::vector<float> op_us;
  Problem problem;

  // Sets the time of an op on all devices; its first output's size in bytes.
  void SetUs(const std::string& name, double us) {
    for (int d = 0; d < devices.size(); ++d) SetUs(name, d, us);
  }
  void SetUs(const std::string& name, int device, double us) {
    op_us[static_cast<size_t>(graph.Find(name) * devices.size() + device)] = static_cast<float>(us);
  }
  void SetBytes(const std::string& name, double bytes) {
    graph.tensor_bytes[graph.tensor_offsets[graph.Find(name)]] = bytes;
  }
  // A placement from the devices of some ops; the others are where they came from.
  Placement Place(const std::map<std::string, int>& wanted) const {
    Placement placement = legality.incoming;
    for (const auto& [name, device] : wanted) {
      placement[graph.Find(name)] = static_cast<int8_t>(device);
    }
    return placement;
  }
  Rule RuleOf(const std::string& name) const { return legality.rule[graph.Find(name)]; }
  bool Movable(const std::string& name) const {
    return legality.movable(legality.group[graph.Find(name)]);
  }
};

// With `infer_shapes` off, ops take 1 us, all tensors have 0 bytes and the test sets what it wants.
inline std::unique_ptr<World> MakeWorld(const tensorflow::grappler::GrapplerItem& item,
                                        const std::vector<std::string>& devices,
                                        bool infer_shapes = false,
                                        const LegalityOptions& options = {},
                                        const std::string& profile = kRoundProfile) {
  auto world = std::make_unique<World>();
  world->item = item;
  absl::StatusOr<DeviceSet> set = DeviceSet::Create(devices, profile);
  EXPECT_TRUE(set.ok()) << set.status();
  if (!set.ok()) return nullptr;
  world->devices = *std::move(set);
  absl::StatusOr<OpGraph> graph = OpGraph::Create(world->item, infer_shapes);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return nullptr;
  world->graph = *std::move(graph);
  absl::StatusOr<Legality> legality = Legality::Create(world->graph, world->devices, options);
  EXPECT_TRUE(legality.ok()) << legality.status();
  if (!legality.ok()) return nullptr;
  world->legality = *std::move(legality);
  world->op_us = OpTimes(world->graph, world->devices, nullptr);
  if (!infer_shapes) {
    std::fill(world->graph.tensor_bytes.begin(), world->graph.tensor_bytes.end(), 0.0);
  }
  world->problem = {&world->graph, &world->devices, &world->legality, world->op_us};
  return world;
}

// The best of all legal placements of a small problem, by simulation.
inline std::pair<Placement, double> BruteForce(const Problem& problem) {
  Simulator simulator(*problem.graph, *problem.devices, *problem.legality, problem.op_us);
  const Legality& legality = *problem.legality;
  std::pair<Placement, double> best = {legality.incoming, simulator.Run(legality.incoming).step_us};
  Placement placement = legality.incoming;
  const auto visit = [&](auto& self, int g) -> void {
    if (g == legality.num_groups()) {
      const StepEstimate step = simulator.Run(placement);
      if (step.feasible && step.step_us < best.second) best = {placement, step.step_us};
      return;
    }
    for (int d = 0; d < problem.devices->size(); ++d) {
      if ((legality.group_mask[g] & DeviceBit(d)) == 0) continue;
      for (const int32_t i : legality.members(g)) placement[i] = static_cast<int8_t>(d);
      self(self, g + 1);
      if (legality.replicable[legality.members(g).front()])
        break;  // Copied to wherever it is read.
    }
  };
  visit(visit, 0);
  return best;
}

// Two chains of `length` matrix products that meet in "sum", all on the first worker: two devices
// pay.
inline tensorflow::GraphDef TwoChains(int length, int size, const std::string& device) {
  tensorflow::GraphDef graph;
  AddMatrix(graph, "w", size, size, device);
  std::string left = "w", right = "w";
  for (int i = 0; i < length; ++i) {
    AddOp(graph, absl::StrCat("left", i), "MatMul", {left, "w"}, device);
    AddOp(graph, absl::StrCat("right", i), "MatMul", {right, "w"}, device);
    left = absl::StrCat("left", i);
    right = absl::StrCat("right", i);
  }
  AddOp(graph, "sum", "Add", {left, right}, device);
  return graph;
}

// Evaluates the fetches in a session with `num_cpus` logical CPU devices whose own optimisers are
// off.
inline std::vector<tensorflow::Tensor> Evaluate(
    const tensorflow::GraphDef& graph, const std::vector<std::string>& fetches, int num_cpus = 4,
    const std::vector<std::pair<std::string, tensorflow::Tensor>>& feeds = {}) {
  tensorflow::SessionOptions options;
  (*options.config.mutable_device_count())["CPU"] = num_cpus;
  (*options.config.mutable_device_count())["GPU"] = 0;
  options.config.set_use_per_session_threads(true);
  options.config.set_inter_op_parallelism_threads(2);
  auto& graph_options = *options.config.mutable_graph_options();
  graph_options.mutable_optimizer_options()->set_opt_level(tensorflow::OptimizerOptions::L0);
  graph_options.mutable_rewrite_options()->set_disable_meta_optimizer(true);
  std::unique_ptr<tensorflow::Session> session(tensorflow::NewSession(options));
  std::vector<tensorflow::Tensor> outputs;
  absl::Status status = session->Create(graph);
  if (status.ok()) status = session->Run(feeds, fetches, {}, &outputs);
  EXPECT_TRUE(status.ok()) << status;
  return outputs;
}

inline void ExpectEqual(const std::vector<tensorflow::Tensor>& a,
                        const std::vector<tensorflow::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].dtype(), b[i].dtype());
    ASSERT_EQ(a[i].shape(), b[i].shape());
    if (a[i].dtype() == tensorflow::DT_STRING) {
      for (int64_t k = 0; k < a[i].NumElements(); ++k) {
        EXPECT_EQ(a[i].flat<tensorflow::tstring>()(k), b[i].flat<tensorflow::tstring>()(k));
      }
    } else {
      EXPECT_EQ(a[i].tensor_data(), b[i].tensor_data()) << "output " << i;
    }
  }
}

// A new empty folder for one test.
inline std::string NewFolder() {
  static int count = 0;
  const std::string folder = tensorflow::io::JoinPath(
      ::testing::TempDir(), absl::StrCat("grappler_go_test_", getpid(), "_", count++));
  EXPECT_TRUE(tensorflow::Env::Default()->RecursivelyCreateDir(folder).ok());
  return folder;
}

inline std::string WriteFile(const std::string& folder, const std::string& name,
                             const std::string& text) {
  const std::string path = tensorflow::io::JoinPath(folder, name);
  EXPECT_TRUE(tensorflow::WriteStringToFile(tensorflow::Env::Default(), path, text).ok());
  return path;
}

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_TEST_UTIL_H_
