// The stamping pass has no header: it is taken from TensorFlow's registry, and then seen at work in
// a session.
#include "cc/grappler_go_pass.h"
#include "cc/legality.h"
#include "cc/test_util.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace grappler_go {
namespace {

using ::tensorflow::FunctionDef;
using ::tensorflow::FunctionLibraryDefinition;
using ::tensorflow::Graph;
using ::tensorflow::GraphDef;
using ::tensorflow::OpRegistry;
using ::tensorflow::OptimizationPassRegistry;
using ::tensorflow::SessionOptions;

SessionOptions WithPass(const std::string& name) {
  GrapplerGoPass();  // Keeps linkers from leaving out the library, where all passes register.
  SessionOptions options;
  options.config.mutable_graph_options()
      ->mutable_rewrite_options()
      ->add_custom_optimizers()
      ->set_name(name);
  return options;
}

// The graph after the passes of our phase before placement.
GraphDef Stamp(const GraphDef& def, const SessionOptions* session_options,
               FunctionLibraryDefinition* library = nullptr) {
  auto graph = std::make_unique<Graph>(OpRegistry::Global());
  const absl::Status converted =
      tensorflow::ConvertGraphDefToGraph(tensorflow::GraphConstructorOptions(), def, graph.get());
  EXPECT_TRUE(converted.ok()) << converted;
  tensorflow::GraphOptimizationPassOptions options;
  options.session_options = session_options;
  options.graph = &graph;
  options.flib_def = library;
  const auto& groups = OptimizationPassRegistry::Global()->groups();
  const auto& phases = groups.at(OptimizationPassRegistry::PRE_PLACEMENT);
  for (const auto& pass : phases.at(1000)) {
    const absl::Status status = pass->Run(options);
    EXPECT_TRUE(status.ok()) << status;
  }
  GraphDef out;
  graph->ToGraphDef(&out);
  return out;
}

std::string StampOf(const GraphDef& def, const std::string& name) {
  const auto& attr = FindNode(def, name)->attr();
  return attr.contains(kUserDeviceAttr) ? attr.at(kUserDeviceAttr).s() : "none";
}

GraphDef Requests() {
  GraphDef def;
  AddMatrix(def, "x", 2, 2);
  AddOp(def, "asked", "Tanh", {"x"}, "/device:CPU:1");
  AddOp(def, "free", "Tanh", {"x"});
  auto& stamped = AddOp(def, "stamped", "Tanh", {"x"}, "/device:CPU:2");
  (*stamped.mutable_attr())[kUserDeviceAttr].set_s("/device:CPU:3");
  return def;
}

TEST(UserDevicePass, KeepsTheRequestInAnAttribute) {
  const SessionOptions options = WithPass(kPassName);
  const GraphDef out = Stamp(Requests(), &options);
  EXPECT_EQ(StampOf(out, "asked"), "/device:CPU:1");
  EXPECT_EQ(StampOf(out, "free"), "none");
  EXPECT_EQ(StampOf(out, "stamped"), "/device:CPU:3");
  EXPECT_EQ(FindNode(out, "asked")->device(), "/device:CPU:1");
}

TEST(UserDevicePass, ActsOnlyWhereThePassIsEnabled) {
  const SessionOptions other = WithPass("another");
  const SessionOptions none;
  for (const SessionOptions* options :
       {&other, &none, static_cast<const SessionOptions*>(nullptr)}) {
    EXPECT_EQ(StampOf(Stamp(Requests(), options), "asked"), "none");
  }
}

TEST(UserDevicePass, StampsFunctionBodies) {
  FunctionDef asked;
  asked.mutable_signature()->set_name("asked");
  GraphDef body = Requests();
  for (auto& node : *body.mutable_node()) *asked.add_node_def() = node;
  FunctionDef free = asked;
  free.mutable_signature()->set_name("free");
  for (auto& node : *free.mutable_node_def()) node.clear_device();
  tensorflow::FunctionDefLibrary functions;
  *functions.add_function() = asked;
  *functions.add_function() = free;
  FunctionLibraryDefinition library(OpRegistry::Global(), functions);
  const SessionOptions options = WithPass(kPassName);
  Stamp(GraphDef(), &options, &library);
  const FunctionDef* stamped = library.Find("asked");
  ASSERT_NE(stamped, nullptr);
  EXPECT_EQ(stamped->node_def(1).attr().at(kUserDeviceAttr).s(), "/device:CPU:1");
  EXPECT_FALSE(stamped->node_def(2).attr().contains(kUserDeviceAttr));
  EXPECT_EQ(stamped->node_def(3).attr().at(kUserDeviceAttr).s(), "/device:CPU:3");
  EXPECT_EQ(library.Find("free")->DebugString(), free.DebugString());
}

// A session with four CPU devices whose Grappler runs nothing but our pass, with random plans.
std::map<std::string, std::string> DevicesInASession(const GraphDef& def, bool override_devices,
                                                     const std::string& fetch) {
  SessionOptions options = WithPass(kPassName);
  (*options.config.mutable_device_count())["CPU"] = 4;
  (*options.config.mutable_device_count())["GPU"] = 0;
  // Identical chains stay two.
  options.config.mutable_graph_options()->mutable_optimizer_options()->set_opt_level(
      tensorflow::OptimizerOptions::L0);
  auto& rewrite = *options.config.mutable_graph_options()->mutable_rewrite_options();
  rewrite.set_min_graph_nodes(-1);
  rewrite.add_optimizers("grappler_go");
  auto& parameters = *rewrite.mutable_custom_optimizers(0)->mutable_parameter_map();
  parameters["policy"].set_s("none");
  parameters["candidates"].set_s("random");
  parameters["keep_default"].set_b(false);
  parameters["search"].set_i(0);
  parameters["samples"].set_i(1);
  parameters["fail_on_error"].set_b(true);
  parameters["override_user_devices"].set_b(override_devices);
  std::unique_ptr<tensorflow::Session> session(tensorflow::NewSession(options));
  std::map<std::string, std::string> devices;
  EXPECT_TRUE(session->Create(def).ok());
  tensorflow::Tensor input(tensorflow::DT_FLOAT, tensorflow::TensorShape({8, 8}));
  input.flat<float>().setConstant(0.5f);
  const std::vector<std::pair<std::string, tensorflow::Tensor>> feeds = {{"w", input}};
  tensorflow::RunOptions run_options;
  run_options.set_output_partition_graphs(true);
  tensorflow::RunMetadata metadata;
  std::vector<tensorflow::Tensor> outputs;
  const absl::Status status = session->Run(run_options, feeds, {fetch}, {}, &outputs, &metadata);
  EXPECT_TRUE(status.ok()) << status;
  ExpectEqual(outputs, Evaluate(def, {fetch}, 4, feeds));
  for (const GraphDef& graph : metadata.partition_graphs()) {
    for (const auto& node : graph.node()) devices[node.name()] = node.device();
  }
  return devices;
}

TEST(UserDevicePass, ASessionObeysTheUserAndMovesTheRest) {
  GraphDef def = TwoChains(6, 8, "");
  def.mutable_node(0)->Clear();  // What is fed cannot be folded away.
  GraphDef fed;
  *def.mutable_node(0) = AddOp(fed, "w", "Placeholder");
  for (auto& node : *def.mutable_node()) {
    if (absl::StartsWith(node.name(), "left")) node.set_device("/device:CPU:3");
  }
  const auto obeyed = DevicesInASession(def, false, "sum");
  const auto overridden = DevicesInASession(def, true, "sum");
  int moved = 0, moved_by_override = 0;
  for (int i = 0; i < 6; ++i) {
    const std::string left = absl::StrCat("left", i), right = absl::StrCat("right", i);
    EXPECT_EQ(obeyed.at(left), LocalDevice("CPU", 3));
    moved += obeyed.at(right) != LocalDevice("CPU", 0) ? 1 : 0;
    moved_by_override += overridden.at(left) != LocalDevice("CPU", 3) ? 1 : 0;
  }
  EXPECT_GT(moved, 0);
  EXPECT_GT(moved_by_override, 0);
}

}  // namespace
}  // namespace grappler_go
