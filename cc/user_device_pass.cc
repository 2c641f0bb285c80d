// Keeps what the user asked for with tf.device where Grappler can see it.
//
// Grappler runs after the placer, when every op has a device and nobody can tell which of them a
// user asked for. This pass runs before the placer, and copies each requested device into an
// attribute. It acts only in sessions and functions whose config names the grappler_go optimizer.
#include "cc/grappler_go_pass.h"
#include "cc/legality.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/public/session_options.h"

namespace grappler_go {
namespace {

using tensorflow::Graph;
using tensorflow::GraphOptimizationPass;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;

bool IsEnabled(const GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr) return false;
  const auto& rewrite = options.session_options->config.graph_options().rewrite_options();
  for (const auto& optimizer : rewrite.custom_optimizers()) {
    if (optimizer.name() == kPassName) return true;
  }
  return false;
}

// Grappler inlines functions later: their bodies are stamped too.
absl::Status StampLibrary(tensorflow::FunctionLibraryDefinition& library) {
  for (const std::string& name : library.ListFunctionNames()) {
    const tensorflow::core::RefCountPtr<tensorflow::FunctionRecord> record =
        library.FindRecord(name);
    if (record == nullptr) continue;
    bool asked = false;
    for (const auto& node : record->fdef().node_def()) {
      asked = asked || (!node.device().empty() && !node.attr().contains(kUserDeviceAttr));
    }
    if (!asked) continue;
    tensorflow::FunctionDef stamped = record->fdef();
    for (auto& node : *stamped.mutable_node_def()) {
      if (!node.device().empty() && !node.attr().contains(kUserDeviceAttr)) {
        (*node.mutable_attr())[kUserDeviceAttr].set_s(node.device());
      }
    }
    const absl::Status status = library.ReplaceFunction(name, stamped);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

class UserDevicePass : public GraphOptimizationPass {
 public:
  absl::Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr || !IsEnabled(options)) {
      return absl::OkStatus();
    }
    for (Node* node : (*options.graph)->op_nodes()) {
      if (!node->requested_device().empty() && node->attrs().Find(kUserDeviceAttr) == nullptr) {
        node->AddAttr(kUserDeviceAttr, node->requested_device());
      }
    }
    return options.flib_def == nullptr ? absl::OkStatus() : StampLibrary(*options.flib_def);
  }
};

}  // namespace
}  // namespace grappler_go

namespace tensorflow {
using GrapplerGoUserDevicePass = ::grappler_go::UserDevicePass;
// After all passes that lower control flow and inline calls (phases up to a few hundred).
REGISTER_OPTIMIZATION(OptimizationPassRegistry::PRE_PLACEMENT, 1000, GrapplerGoUserDevicePass);
}  // namespace tensorflow
