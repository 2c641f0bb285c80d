// TensorFlow's own fused products, taken apart again: XLA has no kernels for them.
#ifndef GRAPPLER_GO_CC_UNFUSE_H_
#define GRAPPLER_GO_CC_UNFUSE_H_

#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"

namespace grappler_go {

// The nodes that do together what a `_FusedMatMul` does, in topological order; the last has its
// name. Empty for any other op, and for what is not known to be the same.
std::vector<tensorflow::NodeDef> Unfused(const tensorflow::NodeDef& node);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_UNFUSE_H_
