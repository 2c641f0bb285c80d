#include "cc/op_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cc/cost_graph.h"
#include "cc/op_work.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"

namespace grappler_go {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::OpDef;
using tensorflow::grappler::GraphProperties;
using tensorflow::grappler::GrapplerItem;

// A batch dimension that is only known at run time counts as this many.
constexpr double kUnknownDim = 32;

// An input of a NodeDef: "node", "node:2" or "^node".
struct Input {
  absl::string_view node;
  int port = 0;  // -1 = control.
};

Input ParseInput(absl::string_view text) {
  if (absl::StartsWith(text, "^")) return {text.substr(1), -1};
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon != absl::string_view::npos && absl::SimpleAtoi(text.substr(colon + 1), &port) &&
      port >= 0) {
    return {text.substr(0, colon), port};
  }
  return {text, 0};
}

bool IsBoundary(const std::string& op) {
  static const auto* const kOps =
      new absl::flat_hash_set<absl::string_view>{"_Arg",
                                                 "_DeviceArg",
                                                 "_Retval",
                                                 "_DeviceRetval",
                                                 "_Send",
                                                 "_Recv",
                                                 "_HostSend",
                                                 "_HostRecv",
                                                 "Placeholder",
                                                 "PlaceholderV2",
                                                 "_ParallelConcatStart",
                                                 "_XlaRecvAtHost",
                                                 "_XlaSendFromHost",
                                                 "_ListToArray",
                                                 "_ArrayToList",
                                                 "FakeParam",
                                                 "PlaceholderWithDefault"};
  return kOps->contains(op);
}

bool IsControlFlow(const std::string& op) {
  static const auto* const kOps = new absl::flat_hash_set<absl::string_view>{
      "Switch",  "RefSwitch", "_SwitchN", "Merge",   "RefMerge",      "_XlaMerge",
      "Enter",   "RefEnter",  "Exit",     "RefExit", "NextIteration", "RefNextIteration",
      "LoopCond"};
  return kOps->contains(op);
}

// Stateful ops whose state is born and dies within one step: it may live on any device, with its
// users.
bool LivesForOneStep(const std::string& op) {
  return op == "TemporaryVariable" || op == "DestroyTemporaryVariable" ||
         (absl::StartsWith(op, "TensorArray") && absl::EndsWith(op, "V3"));
}

bool IsEnter(const std::string& op) { return op == "Enter" || op == "RefEnter"; }
bool IsExit(const std::string& op) { return op == "Exit" || op == "RefExit"; }
bool IsMerge(const std::string& op) {
  return op == "Merge" || op == "RefMerge" || op == "_XlaMerge";
}
bool IsNextIteration(const std::string& op) {
  return op == "NextIteration" || op == "RefNextIteration";
}

bool IsXla(const NodeDef& node) {
  for (const char* name : {"_XlaCompile", "_XlaMustCompile", "_xla_compile_id", "_XlaCluster",
                           "_tpu_replicate", "_xla_outside_compilation"}) {
    const auto it = node.attr().find(name);
    if (it != node.attr().end() && (it->second.b() || !it->second.s().empty())) return true;
  }
  return false;
}

// The edges of one node before numbering: positions in the GraphDef.
struct RawEdge {
  int32_t source;
  int32_t port;  // -1 = control.
};

// The in-edges of all nodes by position in the GraphDef; a back edge of a loop is marked by source
// -1.
absl::StatusOr<std::vector<std::vector<RawEdge>>> ReadEdges(
    const GraphDef& def, const absl::flat_hash_map<absl::string_view, int32_t>& position,
    const std::vector<int32_t>& name_rank) {
  std::vector<std::vector<RawEdge>> edges(def.node_size());
  for (int i = 0; i < def.node_size(); ++i) {
    const NodeDef& node = def.node(i);
    size_t first_control = 0;
    for (const std::string& text : node.input()) {
      const Input input = ParseInput(text);
      const auto source = position.find(input.node);
      if (source == position.end()) {
        return absl::InvalidArgumentError(absl::StrCat("node '", node.name(), "' has the input '",
                                                       text, "', which is not in the graph"));
      }
      const bool back = IsMerge(node.op()) && IsNextIteration(def.node(source->second).op());
      if (!back) edges[i].push_back({source->second, input.port});
      if (!back && input.port >= 0) first_control = edges[i].size();
    }
    // Control inputs are a set: one canonical order, each once.
    const auto begin = edges[i].begin() + static_cast<int64_t>(first_control);
    std::sort(begin, edges[i].end(), [&](const RawEdge& a, const RawEdge& b) {
      return name_rank[a.source] < name_rank[b.source];
    });
    edges[i].erase(std::unique(begin, edges[i].end(),
                               [](const RawEdge& a, const RawEdge& b) {
                                 return a.source == b.source && a.port == b.port;
                               }),
                   edges[i].end());
  }
  return edges;
}

// The level of each node: edges on the longest path from a root; an error names a node of a cycle.
absl::StatusOr<std::vector<int32_t>> Levels(const GraphDef& def,
                                            const std::vector<std::vector<RawEdge>>& edges) {
  const int n = def.node_size();
  std::vector<int32_t> offsets(n + 1, 0), pending(n), level(n, 0), ready;
  for (int i = 0; i < n; ++i) {
    pending[i] = static_cast<int32_t>(edges[i].size());
    for (const RawEdge& edge : edges[i]) ++offsets[edge.source + 1];
  }
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<int32_t> targets(offsets[n]), fill(offsets.begin(), offsets.end() - 1);
  for (int i = 0; i < n; ++i) {
    for (const RawEdge& edge : edges[i]) targets[fill[edge.source]++] = i;
    if (pending[i] == 0) ready.push_back(i);
  }
  for (size_t next = 0; next < ready.size(); ++next) {
    const int node = ready[next];
    for (int e = offsets[node]; e < offsets[node + 1]; ++e) {
      const int target = targets[e];
      level[target] = std::max(level[target], level[node] + 1);
      if (--pending[target] == 0) ready.push_back(target);
    }
  }
  if (static_cast<int>(ready.size()) < n) {
    // Each node that never got ready waits for another such node: walking back ends up in a cycle.
    int node = static_cast<int>(
        std::find_if(pending.begin(), pending.end(), [](int count) { return count > 0; }) -
        pending.begin());
    std::vector<bool> seen(n, false);
    while (!seen[node]) {
      seen[node] = true;
      node = std::find_if(edges[node].begin(), edges[node].end(), [&](const RawEdge& edge) {
               return pending[edge.source] > 0;
             })->source;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has a cycle at node '", def.node(node).name(), "'"));
  }
  return level;
}

struct NodeTypes {
  tensorflow::DataTypeVector outputs;
  bool known = false;
};

NodeTypes OutputTypes(const NodeDef& node, const OpDef* op_def) {
  NodeTypes types;
  types.known =
      op_def != nullptr && tensorflow::OutputTypesForNode(node, *op_def, &types.outputs).ok();
  return types;
}

EdgeKind KindOf(DataType type) {
  if (tensorflow::IsRefType(type)) return EdgeKind::kReference;
  if (type == tensorflow::DT_RESOURCE) return EdgeKind::kResource;
  if (type == tensorflow::DT_VARIANT) return EdgeKind::kVariant;
  return EdgeKind::kData;
}

// The frame of each node from its inputs: Enter opens one, Exit closes it.
void AssignFrames(OpGraph& graph) {
  std::map<std::pair<int32_t, std::string>, int32_t> frames;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    int32_t frame = -1;
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1]; ++e) {
      const int source = graph.edge_source[e];
      int32_t from = graph.frame[source];
      if (IsExit(graph.op(source)) && from >= 0) from = graph.frame_parent[from];
      frame = std::max(frame, from);
    }
    if (IsEnter(graph.op(i))) {
      const auto name = graph.nodes[i]->attr().find("frame_name");
      const std::string frame_name = name == graph.nodes[i]->attr().end() ? "" : name->second.s();
      const auto [it, is_new] = frames.emplace(std::make_pair(frame, frame_name),
                                               static_cast<int32_t>(graph.frame_parent.size()));
      if (is_new) graph.frame_parent.push_back(frame);
      frame = it->second;
    }
    graph.frame[i] = frame;
  }
}

double AttrTensorBytes(const NodeDef& node) {
  const auto value = node.attr().find("value");
  if (value == node.attr().end()) return 0;
  const tensorflow::TensorShapeProto& shape = value->second.tensor().tensor_shape();
  double bytes = std::max(1, tensorflow::DataTypeSize(value->second.tensor().dtype()));
  for (const auto& dim : shape.dim())
    bytes *= static_cast<double>(std::max<int64_t>(0, dim.size()));
  return bytes;
}

double VariableBytes(const NodeDef& node) {
  const auto shape = node.attr().find("shape");
  const auto dtype = node.attr().find("dtype");
  if (shape == node.attr().end() || dtype == node.attr().end()) return 0;
  double bytes = std::max(1, tensorflow::DataTypeSize(dtype->second.type()));
  if (shape->second.shape().unknown_rank()) return 0;
  for (const auto& dim : shape->second.shape().dim()) {
    bytes *= dim.size() >= 0 ? static_cast<double>(dim.size()) : kUnknownDim;
  }
  return bytes;
}

double PersistentBytes(const NodeDef& node) {
  if (node.op() == "Const") return AttrTensorBytes(node);
  if (node.op() == "VarHandleOp" || node.op() == "VariableV2" || node.op() == "Variable") {
    return VariableBytes(node);
  }
  return DeclaredPersistentBytes(node);
}

}  // namespace

bool IsFunctionCall(const NodeDef& node, const absl::flat_hash_set<absl::string_view>& functions) {
  if (functions.contains(node.op())) return true;
  for (const auto& [name, value] : node.attr()) {
    if (value.value_case() == tensorflow::AttrValue::kFunc) return true;
    if (value.value_case() == tensorflow::AttrValue::kList && value.list().func_size() > 0) {
      return true;
    }
  }
  return false;
}

int OutermostFrame(const OpGraph& graph, int frame) {
  while (frame >= 0 && graph.frame_parent[frame] >= 0) frame = graph.frame_parent[frame];
  return frame;
}

int OpGraph::Find(absl::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? -1 : it->second;
}

absl::StatusOr<OpGraph> OpGraph::Create(const GrapplerItem& item, bool infer_shapes,
                                        bool cost_keys) {
  const GraphDef& def = item.graph;
  const int n = def.node_size();
  absl::flat_hash_map<absl::string_view, int32_t> position;
  position.reserve(n);
  for (int i = 0; i < n; ++i) {
    if (!position.emplace(def.node(i).name(), i).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two nodes are named '", def.node(i).name(), "'"));
    }
  }
  std::vector<int32_t> by_name(n), name_rank(n);
  std::iota(by_name.begin(), by_name.end(), 0);
  std::sort(by_name.begin(), by_name.end(),
            [&](int a, int b) { return def.node(a).name() < def.node(b).name(); });
  for (int r = 0; r < n; ++r) name_rank[by_name[r]] = r;

  const auto raw = ReadEdges(def, position, name_rank);
  if (!raw.ok()) return raw.status();
  const auto levels = Levels(def, *raw);
  if (!levels.ok()) return levels.status();

  OpGraph graph;
  graph.graph_index.resize(n);
  std::iota(graph.graph_index.begin(), graph.graph_index.end(), 0);
  std::sort(graph.graph_index.begin(), graph.graph_index.end(), [&](int a, int b) {
    return std::make_pair((*levels)[a], name_rank[a]) < std::make_pair((*levels)[b], name_rank[b]);
  });
  std::vector<int32_t> rank(n);
  for (int i = 0; i < n; ++i) rank[graph.graph_index[i]] = i;

  absl::flat_hash_set<absl::string_view> functions;
  for (const auto& function : def.library().function()) {
    functions.insert(function.signature().name());
  }
  absl::flat_hash_set<absl::string_view> feeds, fetches;
  for (const auto& [name, tensor] : item.feed) feeds.insert(ParseInput(name).node);
  for (const std::string& name : item.fetch) fetches.insert(ParseInput(name).node);

  graph.nodes.resize(n);
  graph.traits.assign(n, 0);
  graph.frame.assign(n, -1);
  graph.level.resize(n);
  graph.work.resize(n);
  graph.persistent_bytes.resize(n);
  graph.index_.reserve(n);
  std::vector<NodeTypes> types(n);
  std::vector<int32_t> num_outputs(n, 0);  // By topological rank; from types and from uses.
  std::vector<bool> signals(n, false);
  for (int i = 0; i < n; ++i) {
    const NodeDef& node = def.node(graph.graph_index[i]);
    graph.nodes[i] = &node;
    graph.level[i] = (*levels)[graph.graph_index[i]];
    graph.index_[node.name()] = i;
    graph.persistent_bytes[i] = PersistentBytes(node);
    uint32_t traits = 0;
    const OpDef* op_def = nullptr;
    const bool call = IsFunctionCall(node, functions);
    if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op_def).ok()) op_def = nullptr;
    if (op_def == nullptr && !call) traits |= kUnknownOp;
    if (op_def != nullptr && op_def->is_stateful() && !LivesForOneStep(node.op())) {
      traits |= kStateful;
    }
    if (call) traits |= kFunctionCall;
    if (node.op() == "Const") traits |= kConst;
    if (IsBoundary(node.op())) traits |= kBoundary;
    if (IsControlFlow(node.op())) traits |= kControlFlow;
    if (IsXla(node)) traits |= kXla;
    if (feeds.contains(node.name())) traits |= kFeed;
    if (fetches.contains(node.name())) traits |= kFetch;
    graph.traits[i] = traits;
    types[i] = OutputTypes(node, op_def);
    num_outputs[i] = static_cast<int32_t>(types[i].outputs.size());
  }
  int64_t num_edges = 0;
  for (int i = 0; i < n; ++i) {
    for (const RawEdge& edge : (*raw)[i]) {
      const int source = rank[edge.source];
      if (edge.port < 0) {
        signals[source] = true;
      } else if (types[source].known && edge.port >= num_outputs[source]) {
        return absl::InvalidArgumentError(
            absl::StrCat("node '", def.node(i).name(), "' reads output ", edge.port, " of '",
                         graph.name(source), "', which has ", num_outputs[source]));
      } else if (edge.port >= 4096) {
        return absl::InvalidArgumentError(
            absl::StrCat("node '", def.node(i).name(), "' reads output ", edge.port, " of '",
                         graph.name(source), "', an op that is not registered"));
      } else {
        num_outputs[source] = std::max(num_outputs[source], edge.port + 1);
      }
      ++num_edges;
    }
  }
  graph.tensor_offsets.resize(n + 1, 0);
  for (int i = 0; i < n; ++i) {
    graph.tensor_offsets[i + 1] =
        graph.tensor_offsets[i] + num_outputs[i] + static_cast<int>(signals[i]);
  }
  const int num_tensors = graph.tensor_offsets[n];
  graph.tensor_node.resize(num_tensors);
  graph.tensor_bytes.assign(num_tensors, 0);
  for (int i = 0; i < n; ++i) {
    for (int t = graph.tensor_offsets[i]; t < graph.tensor_offsets[i + 1]; ++t) {
      graph.tensor_node[t] = i;
    }
  }
  graph.in_offsets.reserve(n + 1);
  graph.in_offsets.push_back(0);
  graph.edge_source.reserve(num_edges);
  graph.edge_target.reserve(num_edges);
  graph.edge_tensor.reserve(num_edges);
  graph.edge_kind.reserve(num_edges);
  for (int i = 0; i < n; ++i) {
    for (const RawEdge& edge : (*raw)[graph.graph_index[i]]) {
      const int source = rank[edge.source];
      const bool control = edge.port < 0;
      graph.edge_source.push_back(source);
      graph.edge_target.push_back(i);
      graph.edge_tensor.push_back(control ? graph.tensor_offsets[source + 1] - 1
                                          : graph.tensor_offsets[source] + edge.port);
      graph.edge_kind.push_back(control               ? EdgeKind::kControl
                                : types[source].known ? KindOf(types[source].outputs[edge.port])
                                                      : EdgeKind::kData);
    }
    graph.in_offsets.push_back(graph.num_edges());
  }
  graph.use_offsets.assign(num_tensors + 1, 0);
  for (const int32_t tensor : graph.edge_tensor) ++graph.use_offsets[tensor + 1];
  std::partial_sum(graph.use_offsets.begin(), graph.use_offsets.end(), graph.use_offsets.begin());
  graph.uses.resize(graph.num_edges());
  std::vector<int32_t> fill(graph.use_offsets.begin(), graph.use_offsets.end() - 1);
  for (int e = 0; e < graph.num_edges(); ++e) {
    graph.uses[fill[graph.edge_tensor[e]]++] = graph.edge_target[e];
  }
  AssignFrames(graph);

  GraphProperties properties(item);
  const bool inferred = infer_shapes && properties
                                            .InferStatically(/*assume_valid_feeds=*/true,
                                                             /*aggressive_shape_inference=*/false,
                                                             /*include_input_tensor_values=*/true,
                                                             /*include_output_tensor_values=*/false)
                                            .ok();
  graph.static_shape.assign(num_tensors, true);  // Control signals have none.
  for (int i = 0; i < n; ++i) {
    const auto* outputs = inferred && properties.HasOutputProperties(graph.name(i))
                              ? &properties.GetOutputProperties(graph.name(i))
                              : nullptr;
    for (int port = 0; port < num_outputs[i]; ++port) {
      bool known = false;
      double bytes = 4 * kUnknownDim;
      if (HasDeclaredCosts(*graph.nodes[i])) {
        bytes = DeclaredOutputBytes(*graph.nodes[i], port);
        known = true;
      } else if (outputs != nullptr && port < static_cast<int>(outputs->size())) {
        bytes = TensorBytes((*outputs)[port], kUnknownDim, known);
      } else if (graph.Has(i, kConst)) {
        bytes = AttrTensorBytes(*graph.nodes[i]);
        known = true;
      }
      graph.num_unknown_shapes += known ? 0 : 1;
      graph.tensor_bytes[graph.tensor_offsets[i] + port] = bytes;
      graph.static_shape[graph.tensor_offsets[i] + port] = known;
    }
  }
  if (inferred) EstimateWork(item, properties, cost_keys, graph);
  for (int i = 0; i < n; ++i) {
    if (HasDeclaredCosts(*graph.nodes[i])) graph.work[i] = {};  // Nothing is known but times.
  }
  return graph;
}

}  // namespace grappler_go
