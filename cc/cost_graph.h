// Ops whose costs are declared instead of estimated: how a cost graph, or any other list of
// profiled ops, becomes a GraphDef that is planned and simulated as every graph is.
//
// Such an op is a GrapplerGoWork (cost_graph.cc), written by grappler_go/cost_graph.py. Its times
// and sizes are attributes. An output that nobody reads is memory that the op needs while it runs.
// It has kernels for CPU and GPU, so legality lets it move, and the kernel label "cpu_only" or
// "gpu_only" (the attribute `_kernel`) keeps it on devices of one type. Known weakness: it can be
// planned, not run.
#ifndef GRAPPLER_GO_CC_COST_GRAPH_H_
#define GRAPPLER_GO_CC_COST_GRAPH_H_

#include <string>

#include "tensorflow/core/framework/node_def.pb.h"

namespace grappler_go {

inline constexpr char kDeclaredOp[] = "GrapplerGoWork";

// Whether the costs of `node` are declared.
inline bool HasDeclaredCosts(const tensorflow::NodeDef& node) { return node.op() == kDeclaredOp; }

// Sets `us` to the declared compute time on a device of this type ("CPU", "GPU"); false, and `us`
// as it was, where none is declared.
bool DeclaredUs(const tensorflow::NodeDef& node, const std::string& device_type, double* us);

// The declared size of output `port` in bytes; 0 where none is declared.
double DeclaredOutputBytes(const tensorflow::NodeDef& node, int port);

// The declared memory that the op keeps across steps, in bytes; 0 where none is declared.
double DeclaredPersistentBytes(const tensorflow::NodeDef& node);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_COST_GRAPH_H_
