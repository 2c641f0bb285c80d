#include "cc/grappler_go_pass.h"

#include "cc/json.h"
#include "cc/plan.h"
#include "cc/test_policy.h"
#include "cc/test_util.h"
#include "tensorflow/core/grappler/clusters/virtual_cluster.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/grappler/utils/functions.h"

namespace grappler_go {
namespace {

using ::tensorflow::DeviceProperties;
using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;
using ::tensorflow::RewriterConfig_CustomGraphOptimizer;
using ::tensorflow::grappler::GrapplerItem;
using ::tensorflow::grappler::VirtualCluster;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Processors so slow that two of them pay for two chains of small products.
constexpr char kSlowProfile[] = R"({"version":1,"devices":{"CPU":{"matmul_gflops":0.001}}})";

VirtualCluster Cluster(const std::vector<std::string>& names) {
  std::unordered_map<std::string, DeviceProperties> devices;
  for (const std::string& name : names) {
    devices[name].set_type(absl::StrContains(name, "GPU") ? "GPU" : "CPU");
  }
  return VirtualCluster(devices);
}

using Config = RewriterConfig_CustomGraphOptimizer;

Config Defaults() {
  Config config;
  config.set_name(kPassName);
  (*config.mutable_parameter_map())["policy"].set_s("none");
  (*config.mutable_parameter_map())["profile"].set_s(kSlowProfile);
  (*config.mutable_parameter_map())["search"].set_i(200);
  return config;
}

GraphDef Optimize(const Config& config, const GrapplerItem& item,
                  const std::vector<std::string>& devices = WorkerCpus(2),
                  uint64_t deadline_us = 0) {
  GrapplerGoPass pass;
  EXPECT_TRUE(pass.Init(&config).ok());
  pass.set_deadline_usec(deadline_us);
  VirtualCluster cluster = Cluster(devices);
  GraphDef out;
  const absl::Status status = pass.Optimize(&cluster, item, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

GrapplerItem Chains() { return MakeItem(TwoChains(4, 16, WorkerCpu(0)), {"sum"}); }

int OpsOn(const GraphDef& graph, const std::string& device) {
  int count = 0;
  for (const NodeDef& node : graph.node()) count += node.device() == device ? 1 : 0;
  return count;
}

TEST(GrapplerGoPass, IsRegistered) {
  const auto pass =
      tensorflow::grappler::CustomGraphOptimizerRegistry::CreateByNameOrNull("grappler_go");
  ASSERT_NE(pass, nullptr);
  EXPECT_EQ(pass->name(), "grappler_go");
  EXPECT_TRUE(pass->Init(nullptr).ok());
}

TEST(GrapplerGoPass, SplitsTwoChainsAndIsIdempotent) {
  const GrapplerItem item = Chains();
  const GraphDef out = Optimize(Defaults(), item);
  EXPECT_GE(OpsOn(out, WorkerCpu(0)), 4);
  EXPECT_GE(OpsOn(out, WorkerCpu(1)), 4);
  EXPECT_EQ(FindNode(out, "left0")->device(), FindNode(out, "left3")->device());
  EXPECT_NE(FindNode(out, "left0")->device(), FindNode(out, "right0")->device());
  GrapplerItem again = MakeItem(out, {"sum"});
  EXPECT_EQ(Bytes(Optimize(Defaults(), again)), Bytes(out));
}

TEST(GrapplerGoPass, EvaluatesToTheSame) {
  const GrapplerItem item = MakeItem(TwoChains(4, 16, LocalDevice("CPU", 0)), {"sum"});
  Config config = Defaults();
  (*config.mutable_parameter_map())["candidates"].set_s("random");
  (*config.mutable_parameter_map())["keep_default"].set_b(false);
  (*config.mutable_parameter_map())["search"].set_i(0);
  for (int seed = 0; seed < 3; ++seed) {
    (*config.mutable_parameter_map())["seed"].set_i(seed);
    const GraphDef out = Optimize(config, item, LocalCpus(4));
    EXPECT_LT(OpsOn(out, LocalDevice("CPU", 0)), out.node_size());
    ExpectEqual(Evaluate(item.graph, {"sum"}), Evaluate(out, {"sum"}));
  }
}

TEST(GrapplerGoPass, ShuffledNodesGetTheSamePlan) {
  GrapplerItem item = Chains();
  const GraphDef want = Optimize(Defaults(), item);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Shuffle(item.graph, seed);
    const GraphDef out = Optimize(Defaults(), item);
    ASSERT_EQ(out.node_size(), want.node_size());
    for (const NodeDef& node : want.node()) {
      ASSERT_NE(FindNode(out, node.name()), nullptr) << node.name();
      EXPECT_EQ(FindNode(out, node.name())->device(), node.device()) << node.name();
    }
  }
}

TEST(GrapplerGoPass, LeavesWhatItMustNotTouch) {
  const GrapplerItem item = Chains();
  EXPECT_EQ(Bytes(Optimize(Defaults(), item, WorkerCpus(1))), Bytes(item.graph)) << "one device";
  for (const char* id : {"__inference_Dataset_map_fn_12", "__inference_initialize_variables_7"}) {
    GrapplerItem named = Chains();
    named.id = id;
    EXPECT_EQ(Bytes(Optimize(Defaults(), named)), Bytes(named.graph)) << id;
  }
  tensorflow::grappler::GrapplerFunctionItem body;
  body.id = "body";
  body.graph = item.graph;
  EXPECT_EQ(Bytes(Optimize(Defaults(), body)), Bytes(item.graph)) << "function body";
  GraphDef pinned;
  AddOp(pinned, "a", "_Arg", {}, WorkerCpu(0));
  AddOp(pinned, "r", "_Retval", {"a"}, WorkerCpu(0));
  EXPECT_EQ(Bytes(Optimize(Defaults(), MakeItem(pinned))), Bytes(pinned)) << "nothing movable";
  GraphDef chain;
  AddMatrix(chain, "x", 4, 4, WorkerCpu(0));
  for (int i = 0; i < 5; ++i) {
    AddOp(chain, absl::StrCat("y", i), "Tanh", {i == 0 ? "x" : absl::StrCat("y", i - 1)},
          WorkerCpu(0));
  }
  EXPECT_EQ(Bytes(Optimize(Defaults(), MakeItem(chain, {"y4"}))), Bytes(chain)) << "no gain";
  EXPECT_EQ(Bytes(Optimize(Defaults(), MakeItem(GraphDef()))), "") << "empty";
}

TEST(GrapplerGoPass, RespectsTheUsersDevice) {
  GrapplerItem item = Chains();
  for (NodeDef& node : *item.graph.mutable_node()) {
    (*node.mutable_attr())[kUserDeviceAttr].set_s(WorkerCpu(0));
  }
  EXPECT_EQ(Bytes(Optimize(Defaults(), item)), Bytes(item.graph));
  Config config = Defaults();
  (*config.mutable_parameter_map())["override_user_devices"].set_b(true);
  EXPECT_GE(OpsOn(Optimize(config, item), WorkerCpu(1)), 4);
}

TEST(GrapplerGoPass, PlansVirtualGpus) {
  GrapplerItem item = MakeItem(TwoChains(4, 512, LocalDevice("GPU", 0)), {"sum"});
  AddConst(item.graph, "text", tensorflow::Tensor("x"), LocalDevice("CPU", 0));
  AddOp(item.graph, "upper", "StringUpper", {"text"}, LocalDevice("CPU", 0));
  Config config = Defaults();
  (*config.mutable_parameter_map())["profile"].set_s(
      R"({"version":1,"devices":{"CPU":{"matmul_gflops":0.1},"GPU":{"matmul_gflops":10}}})");
  const GraphDef out =
      Optimize(config, item, {LocalDevice("CPU", 0), LocalDevice("GPU", 0), LocalDevice("GPU", 1)});
  EXPECT_GE(OpsOn(out, LocalDevice("GPU", 0)), 4);
  EXPECT_GE(OpsOn(out, LocalDevice("GPU", 1)), 4);
  EXPECT_EQ(FindNode(out, "upper")->device(), LocalDevice("CPU", 0));
}

TEST(GrapplerGoPass, AsksThePolicy) {
  Config config = Defaults();
  (*config.mutable_parameter_map())["policy"].set_s(SavePolicy(TestPolicy()));
  (*config.mutable_parameter_map())["candidates"].set_s("policy");
  (*config.mutable_parameter_map())["keep_default"].set_b(false);
  (*config.mutable_parameter_map())["samples"].set_i(1);
  (*config.mutable_parameter_map())["search"].set_i(0);
  const GrapplerItem item = Chains();
  EXPECT_EQ(OpsOn(Optimize(config, item), WorkerCpu(1)), item.graph.node_size());
}

TEST(GrapplerGoPass, WritesAReport) {
  Config config = Defaults();
  const std::string folder = NewFolder() + "/reports";
  (*config.mutable_parameter_map())["report"].set_s(folder);
  Optimize(config, Chains());
  std::vector<std::string> files;
  ASSERT_TRUE(tensorflow::Env::Default()->GetChildren(folder, &files).ok());
  ASSERT_EQ(files.size(), 1u);
  const auto report = ReadJsonFile(folder + "/" + files[0], "report");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->fields().at("graph").string_value(), "test");
  EXPECT_TRUE(report->fields().at("applied").bool_value());
}

struct Failure {
  std::string name;
  Config config;
  GrapplerItem item;
  uint64_t deadline_us;
  std::string words;
};

std::vector<Failure> Failures() {
  std::vector<Failure> failures;
  const auto add = [&](const std::string& name, const std::string& words) -> Failure& {
    failures.push_back({name, Defaults(), Chains(), 0, words});
    return failures.back();
  };
  const auto option = [&](const std::string& field, const std::string& value,
                          const std::string& words) {
    (*add(field + "=" + value, words).config.mutable_parameter_map())[field].set_s(value);
  };
  option("colour", "red", "unknown option 'colour'");
  option("candidates", "magic", "'magic'");
  option("profile", "{", "device profile");
  option("profile", R"({"version":1,"devices":{"CPU":{"launch_us":-3}}})", "'launch_us' is -3");
  option("policy", "/no/such/policy", "/no/such/policy");
  option("costs", "/no/such/costs", "/no/such/costs");
  option("report", WriteFile(NewFolder(), "file", "") + "/folder", "cannot write a report");
  const std::string corrupt = NewFolder();
  WriteFile(corrupt, "saved_model.pb", "garbage");
  option("policy", corrupt, corrupt);
  std::vector<std::string> other = FeatureTable();
  other[0] = "node/colour";
  option("policy", SavePolicy(TestPolicy(other)), "node/colour");
  auto& cycle = add("cycle", "cycle at node 'left0'").item.graph;
  cycle.mutable_node(1)->add_input("^left0");
  add("dangling", "'gone'").item.graph.mutable_node(1)->set_input(0, "gone");
  AddMatrix(add("duplicate", "two nodes are named 'w'").item.graph, "w", 2, 2);
  add("deadline", "optimize_timeout_ms").deadline_us = 1;
  Failure& timeout = add("timeout", "optimize_timeout_ms");
  timeout.item = MakeItem(RandomGraph(3000, 1, WorkerCpu(0)), {"n2999"});
  (*timeout.config.mutable_parameter_map())["optimize_timeout_ms"].set_i(1);
  (*timeout.config.mutable_parameter_map())["keep_default"].set_b(false);
  return failures;
}

TEST(GrapplerGoPass, AFailureLeavesTheGraphByteIdentical) {
  for (const Failure& failure : Failures()) {
    const GraphDef out = Optimize(failure.config, failure.item, WorkerCpus(2), failure.deadline_us);
    EXPECT_EQ(Bytes(out), Bytes(failure.item.graph)) << failure.name;
  }
}

TEST(GrapplerGoPass, FailOnErrorMarksTheGraphWithTheCause) {
  for (Failure& failure : Failures()) {
    (*failure.config.mutable_parameter_map())["fail_on_error"].set_b(true);
    GraphDef out = Optimize(failure.config, failure.item, WorkerCpus(2), failure.deadline_us);
    ASSERT_EQ(out.node_size(), failure.item.graph.node_size()) << failure.name;
    for (NodeDef& node : *out.mutable_node()) {
      ASSERT_TRUE(node.attr().contains(kErrorAttr)) << failure.name;
      EXPECT_THAT(node.attr().at(kErrorAttr).s(),
                  AllOf(HasSubstr("grappler_go: 'test'"), HasSubstr(failure.words)))
          << failure.name;
      EXPECT_NE(node.attr().at(kErrorCodeAttr).i(), 0);
      node.mutable_attr()->erase(kErrorAttr);
      node.mutable_attr()->erase(kErrorCodeAttr);
    }
    EXPECT_EQ(Bytes(out), Bytes(failure.item.graph)) << failure.name;
  }
}

TEST(GrapplerGoPass, NoClusterIsAFailure) {
  GrapplerGoPass pass;
  const GrapplerItem item = Chains();
  GraphDef out;
  EXPECT_TRUE(pass.Optimize(nullptr, item, &out).ok());
  EXPECT_EQ(Bytes(out), Bytes(item.graph));
}

}  // namespace
}  // namespace grappler_go
