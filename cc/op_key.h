// What the cost of an op depends on, as a text that is the same in every graph and process.
#ifndef GRAPPLER_GO_CC_OP_KEY_H_
#define GRAPPLER_GO_CC_OP_KEY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace grappler_go {

// "FAMILY#SIZES": the family is the op type, the attributes that its kernel depends on, and the
// types and ranks of its inputs and outputs; the sizes are their dimensions, "?" where not known.
std::string OpKey(const tensorflow::NodeDef& node,
                  const std::vector<tensorflow::OpInfo::TensorProperties>& inputs,
                  const std::vector<tensorflow::OpInfo::TensorProperties>& outputs);

// The family of a key: ops of one family differ in their sizes alone.
absl::string_view KeyFamily(absl::string_view key);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_OP_KEY_H_
