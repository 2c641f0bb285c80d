// Arithmetic and memory traffic of single ops, by Grappler's own estimator.
#ifndef GRAPPLER_GO_CC_OP_WORK_H_
#define GRAPPLER_GO_CC_OP_WORK_H_

#include "cc/op_graph.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace grappler_go {

// Whether the op's time goes into dense products (MatMul, Conv2D, Einsum and their gradients).
bool IsMatmulLike(absl::string_view op);

// Fills `graph.work`, and with `cost_keys` `graph.cost_key`, from the inferred shapes. Ops without
// an estimate get their traffic only.
void EstimateWork(const tensorflow::grappler::GrapplerItem& item,
                  const tensorflow::grappler::GraphProperties& properties, bool cost_keys,
                  OpGraph& graph);

// The size in bytes of a tensor with these properties; unknown dimensions count as `unknown_dim`.
// Sets `known` to whether the shape was fully known.
double TensorBytes(const tensorflow::OpInfo::TensorProperties& properties, double unknown_dim,
                   bool& known);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_OP_WORK_H_
