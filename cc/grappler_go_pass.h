// The Grappler optimizer "grappler_go".
#ifndef GRAPPLER_GO_CC_GRAPPLER_GO_PASS_H_
#define GRAPPLER_GO_CC_GRAPPLER_GO_PASS_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "cc/options.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"

namespace grappler_go {

inline constexpr char kPassName[] = "grappler_go";
// With `fail_on_error`, what went wrong and its absl::StatusCode, on every node; fail_pass.cc
// raises it.
inline constexpr char kErrorAttr[] = "_go_error";
inline constexpr char kErrorCodeAttr[] = "_go_error_code";

// Reads the graph, lets the planners decide, and writes the best plan if it is predicted to pay.
// Any failure leaves the graph as it was and is logged once; with `fail_on_error` it is raised, by
// way of marks in the graph, because TensorFlow drops the status that an optimizer returns. A
// second run changes nothing. Leaves alone: bodies of library functions and of tf.data's (they run
// where their caller is), graphs that it has planned, and whatever one device or no movable op
// leaves without a choice.
class GrapplerGoPass : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  absl::Status Init(
      const tensorflow::RewriterConfig_CustomGraphOptimizer* config = nullptr) override;
  std::string name() const override { return kPassName; }
  bool UsesFunctionLibrary() const override { return true; }
  absl::Status Optimize(tensorflow::grappler::Cluster* cluster,
                        const tensorflow::grappler::GrapplerItem& item,
                        tensorflow::GraphDef* optimized) override;

 private:
  // Whether the graph was rewritten into `optimized`.
  absl::StatusOr<bool> TryOptimize(tensorflow::grappler::Cluster* cluster,
                                   const tensorflow::grappler::GrapplerItem& item,
                                   tensorflow::GraphDef* optimized);

  Options options_;
  absl::Status init_status_;
  // Graphs that were decided to stay. Grappler calls one optimizer several times a graph, and a
  // decision holds.
  absl::flat_hash_set<std::string> kept_;
};

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_GRAPPLER_GO_PASS_H_
