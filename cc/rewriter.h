// Writes a plan into a GraphDef.
#ifndef GRAPPLER_GO_CC_REWRITER_H_
#define GRAPPLER_GO_CC_REWRITER_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "cc/plan.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace grappler_go {

// Whether an earlier run of the pass has decided this graph.
bool IsPlanned(const tensorflow::GraphDef& graph);

// The graph with the plan in it: every op gets `device`, `_go_device`, `_go_fusion` and
// `_go_priority`; ops of a cluster get `_XlaCompile` and `_XlaScope`; priorities become control
// inputs; constants that are read on several devices are copied to each. `graph` is the GraphDef
// that the problem's OpGraph was made from. `preserve` names ops that must stay where they are and
// under their names. Fails, with nothing written, if the plan is not legal.
absl::StatusOr<tensorflow::GraphDef> Rewrite(const tensorflow::GraphDef& graph,
                                             const Problem& problem, const Plan& plan,
                                             const absl::flat_hash_set<std::string>& preserve);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_REWRITER_H_
