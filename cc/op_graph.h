// A TensorFlow graph as flat arrays in a canonical topological order: what every later stage reads.
#ifndef GRAPPLER_GO_CC_OP_GRAPH_H_
#define GRAPPLER_GO_CC_OP_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace grappler_go {

// What an op is, as far as where it may run depends on it.
enum OpTrait : uint32_t {
  kConst = 1 << 0,
  kStateful = 1 << 1,  // Its state outlives the step.
  kFeed = 1 << 2,
  kFetch = 1 << 3,
  kBoundary = 1 << 4,      // _Arg, _Retval, _Send, _Recv, Placeholder: tied to its caller.
  kFunctionCall = 1 << 5,  // Runs a function of the library, whose body stays with it.
  kControlFlow = 1 << 6,   // Switch, Merge, Enter, Exit, NextIteration, LoopCond.
  kUnknownOp = 1 << 7,     // Not in the op registry.
  kXla = 1 << 8,           // Already in an XLA or TPU computation.
};

// How an edge constrains its two ends.
enum class EdgeKind : uint8_t { kData, kControl, kResource, kVariant, kReference };

// The compute of one op, independent of the device.
struct Work {
  double matmul_flops = 0;     // Of dense products and convolutions.
  double elementwise_ops = 0;  // Of all else.
  double bytes = 0;            // Read and written.
};

// Nodes, tensors and edges are numbered 0..n-1. Node i precedes node j where i has an edge to j and
// i < j, except for the back edges of loops, which are left out of the edge arrays. The order
// depends on names and structure alone, never on the order of the nodes in the GraphDef.
//
// A node's data outputs are its tensors, one each; where others wait for it through control edges,
// its last tensor is the control signal (0 bytes). A tensor's consumers are edges.
class OpGraph {
 public:
  // Reads `item.graph`. The item must outlive the result, which points to its nodes. With
  // `infer_shapes` off, all sizes are estimates; with `cost_keys` on, those are filled. Errors:
  // duplicate names, unknown inputs, a cycle outside loops.
  static absl::StatusOr<OpGraph> Create(const tensorflow::grappler::GrapplerItem& item,
                                        bool infer_shapes = true, bool cost_keys = false);

  int num_nodes() const { return static_cast<int>(nodes.size()); }
  int num_tensors() const { return static_cast<int>(tensor_bytes.size()); }
  int num_edges() const { return static_cast<int>(edge_source.size()); }

  bool Has(int node, OpTrait trait) const { return (traits[node] & trait) != 0; }
  const std::string& name(int node) const { return nodes[node]->name(); }
  const std::string& op(int node) const { return nodes[node]->op(); }
  // The node's number by its name, or -1.
  int Find(absl::string_view name) const;

  // By node.
  std::vector<const tensorflow::NodeDef*> nodes;
  std::vector<int32_t> graph_index;  // Position in the GraphDef.
  std::vector<uint32_t> traits;      // OpTrait bits.
  std::vector<int32_t> frame;        // Innermost loop frame, -1 = none.
  std::vector<int32_t> level;        // Edges on the longest path from a root.
  std::vector<Work> work;
  std::vector<double> persistent_bytes;  // Variables and constants: live across steps.
  std::vector<std::string> cost_key;     // As from OpKey, "" for ops of no cost; or empty.
  std::vector<int32_t> in_offsets;      // [nodes + 1] into edges: a node's in-edges are contiguous.
  std::vector<int32_t> tensor_offsets;  // [nodes + 1] into tensors.

  // By edge, grouped by target in input order, control edges last.
  std::vector<int32_t> edge_source;
  std::vector<int32_t> edge_target;
  std::vector<int32_t> edge_tensor;
  std::vector<EdgeKind> edge_kind;

  // By tensor.
  std::vector<int32_t> tensor_node;
  std::vector<double> tensor_bytes;
  std::vector<bool> static_shape;    // The shape is known before the step.
  std::vector<int32_t> use_offsets;  // [tensors + 1] into uses.
  std::vector<int32_t> uses;         // Consumer nodes, ascending within a tensor.

  // By frame: the frame around it, -1 = none.
  std::vector<int32_t> frame_parent;

  // Tensors wider than memory or of unknown shape got an estimate; how many.
  int num_unknown_shapes = 0;

 private:
  absl::flat_hash_map<absl::string_view, int32_t> index_;
};

// The outermost frame around `frame`, -1 for -1.
int OutermostFrame(const OpGraph& graph, int frame);

// Whether `node` runs a function: it has an attribute that names one, or its op is in `functions`.
bool IsFunctionCall(const tensorflow::NodeDef& node,
                    const absl::flat_hash_set<absl::string_view>& functions);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_OP_GRAPH_H_
