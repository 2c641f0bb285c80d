// Raises what `fail_on_error` asked for.
//
// TensorFlow logs an optimizer's error and goes on without it, so the optimizer leaves the error in
// the graph. This pass runs after Grappler, where an error still ends the call, and before anything
// of the graph has run.
#include "absl/status/status.h"
#include "cc/grappler_go_pass.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

namespace grappler_go {
namespace {

class FailPass : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) return absl::OkStatus();
    for (const tensorflow::Node* node : (*options.graph)->op_nodes()) {
      std::string message;
      if (!tensorflow::TryGetNodeAttr(node->attrs(), kErrorAttr, &message)) continue;
      int64_t code = 0;
      tensorflow::TryGetNodeAttr(node->attrs(), kErrorCodeAttr, &code);
      return absl::Status(static_cast<absl::StatusCode>(code), message);
    }
    return absl::OkStatus();
  }
};

}  // namespace
}  // namespace grappler_go

namespace tensorflow {
using GrapplerGoFailPass = ::grappler_go::FailPass;
// Before XLA's passes of this group, which rewrite the graph.
REGISTER_OPTIMIZATION(OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, GrapplerGoFailPass);
}  // namespace tensorflow
