// The pass that raises errors has no header: it is seen at work in a session.
#include "cc/grappler_go_pass.h"
#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs a graph in a session whose Grappler runs our pass with these string options.
absl::Status RunSum(const GraphDef& def, const std::map<std::string, std::string>& parameters,
                    bool fail_on_error, std::vector<tensorflow::Tensor>& outputs) {
  GrapplerGoPass();  // Keeps linkers from leaving out the library, where all passes register.
  tensorflow::SessionOptions options;
  (*options.config.mutable_device_count())["CPU"] = 2;
  (*options.config.mutable_device_count())["GPU"] = 0;
  auto& rewrite = *options.config.mutable_graph_options()->mutable_rewrite_options();
  rewrite.set_min_graph_nodes(-1);
  auto& optimizer = *rewrite.add_custom_optimizers();
  optimizer.set_name(kPassName);
  (*optimizer.mutable_parameter_map())["fail_on_error"].set_b(fail_on_error);
  for (const auto& [name, value] : parameters) {
    (*optimizer.mutable_parameter_map())[name].set_s(value);
  }
  std::unique_ptr<tensorflow::Session> session(tensorflow::NewSession(options));
  const absl::Status status = session->Create(def);
  return status.ok() ? session->Run({}, {"sum"}, {}, &outputs) : status;
}

TEST(FailPass, RaisesWhatFailOnErrorAskedFor) {
  const GraphDef def = TwoChains(4, 8, "");
  const std::pair<std::string, std::string> cases[] = {
      {"costs", "/no/such/costs"}, {"candidates", "magic"}, {"profile", "{"}};
  for (const auto& [field, value] : cases) {
    std::vector<tensorflow::Tensor> outputs;
    const absl::Status raised = RunSum(def, {{field, value}}, true, outputs);
    EXPECT_THAT(std::string(raised.message()),
                AllOf(HasSubstr("grappler_go"), HasSubstr(field == "profile" ? field : value)));
    const absl::Status passed = RunSum(def, {{field, value}}, false, outputs);
    EXPECT_TRUE(passed.ok()) << passed;
    ExpectEqual(outputs, Evaluate(def, {"sum"}));
  }
}

TEST(FailPass, KeepsTheStatusCode) {
  std::vector<tensorflow::Tensor> outputs;
  const GraphDef def = TwoChains(4, 8, "");
  EXPECT_EQ(RunSum(def, {{"costs", "/no/such/costs"}}, true, outputs).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(RunSum(def, {{"candidates", "magic"}}, true, outputs).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FailPass, LetsGoodGraphsPass) {
  std::vector<tensorflow::Tensor> outputs;
  const GraphDef def = TwoChains(4, 8, "");
  const absl::Status status = RunSum(def, {{"policy", "none"}}, true, outputs);
  EXPECT_TRUE(status.ok()) << status;
  ExpectEqual(outputs, Evaluate(def, {"sum"}));
}

}  // namespace
}  // namespace grappler_go
