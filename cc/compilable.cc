#include "cc/compilable.h"

#include <algorithm>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/unfuse.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace grappler_go {
namespace {

using tensorflow::NodeDef;
using tensorflow::XlaOpRegistry;

// XLA's name for a device type, "" if it does not compile for it.
std::string CompilationDevice(const std::string& type) {
  const XlaOpRegistry::DeviceRegistration* registration = nullptr;
  if (!XlaOpRegistry::GetCompilationDevice(type, &registration)) return "";
  return registration->compilation_device_name;
}

bool IsIntegerDivision(const NodeDef& node) {
  if (!absl::StrContains(node.op(), "Div") && !absl::StrContains(node.op(), "Mod")) return false;
  const auto type = node.attr().find("T");
  return type != node.attr().end() && tensorflow::DataTypeIsInteger(type->second.type());
}

// Ops whose results XLA does not repeat: it draws other random numbers from the same seed, clamps
// an index or answers with NaN where TensorFlow reports bad input, and signs vectors otherwise.
bool Differs(const NodeDef& node) {
  for (const char* part :
       {"Random",        "Multinomial", "TruncatedNormal", "Categorical",   "Dropout",
        "Gather",        "Scatter",     "Segment",         "SparseSoftmax", "Lookup",
        "CheckNumerics", "TensorList",  "Cholesky",        "Matrix",        "Eig",
        "Svd",           "Qr",          "DynamicStitch",   "Bincount",      "NonMaxSuppression"}) {
    if (absl::StrContains(node.op(), part)) return true;
  }
  return IsIntegerDivision(node);
}

bool HasKernel(const std::string& device, const NodeDef& node,
               absl::flat_hash_map<std::string, bool>& asked) {
  const auto [it, fresh] = asked.try_emplace(absl::StrCat(device, ";", KernelKey(node)), false);
  if (fresh) {
    it->second =
        tensorflow::FindKernelDef(tensorflow::DeviceType(device), node, nullptr, nullptr).ok();
  }
  return it->second;
}

bool PlainEdges(const OpGraph& graph, int node) {
  for (int e = graph.in_offsets[node]; e < graph.in_offsets[node + 1]; ++e) {
    if (graph.edge_kind[e] != EdgeKind::kData && graph.edge_kind[e] != EdgeKind::kControl) {
      return false;
    }
  }
  return true;
}

bool StaticShapes(const OpGraph& graph, int node) {
  for (int t = graph.tensor_offsets[node]; t < graph.tensor_offsets[node + 1]; ++t) {
    if (!graph.static_shape[t]) return false;
  }
  for (int e = graph.in_offsets[node]; e < graph.in_offsets[node + 1]; ++e) {
    if (!graph.static_shape[graph.edge_tensor[e]]) return false;
  }
  return true;
}

// Whether the inputs that XLA must know when it compiles are constants.
bool ConstantsAreConstant(const OpGraph& graph, int node) {
  const tensorflow::OpDef* op = nullptr;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(graph.op(node), &op).ok()) return false;
  std::vector<int> inputs;
  if (!XlaOpRegistry::CompileTimeConstantInputs(*graph.nodes[node], *op, &inputs).ok()) {
    return false;
  }
  return std::all_of(inputs.begin(), inputs.end(), [&](int input) {
    const int e = graph.in_offsets[node] + input;
    return e < graph.in_offsets[node + 1] && graph.Has(graph.edge_source[e], kConst);
  });
}

}  // namespace

std::vector<bool> Conditional(const OpGraph& graph) {
  std::vector<bool> conditional(graph.num_nodes(), false);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    conditional[i] = graph.frame[i] >= 0 || graph.Has(i, kControlFlow);
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1] && !conditional[i]; ++e) {
      conditional[i] = conditional[graph.edge_source[e]];
    }
  }
  return conditional;
}

std::vector<bool> Compilable(const Problem& problem, const Placement& placement) {
  constexpr uint32_t kNever =
      kConst | kStateful | kFeed | kBoundary | kFunctionCall | kControlFlow | kUnknownOp | kXla;
  const OpGraph& graph = *problem.graph;
  XlaOpRegistry::RegisterCompilationKernels();
  std::vector<std::string> compiler;
  for (int d = 0; d < problem.devices->size(); ++d) {
    compiler.push_back(CompilationDevice(problem.devices->device(d).type));
  }
  const std::vector<bool> conditional = Conditional(graph);
  absl::flat_hash_map<std::string, bool> has_kernel;
  std::vector<bool> compilable(graph.num_nodes(), false);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const NodeDef& node = *graph.nodes[i];
    const std::string& device = compiler[placement[i]];
    if ((graph.traits[i] & kNever) != 0 || conditional[i] || device.empty() ||
        problem.legality->rule[i] == Rule::kForeignDevice || Differs(node) ||
        !PlainEdges(graph, i) || !StaticShapes(graph, i)) {
      continue;
    }
    if (const std::vector<NodeDef> parts = Unfused(node); !parts.empty()) {
      compilable[i] = absl::c_all_of(
          parts, [&](const NodeDef& part) { return HasKernel(device, part, has_kernel); });
      continue;
    }
    compilable[i] = HasKernel(device, node, has_kernel) && ConstantsAreConstant(graph, i);
  }
  return compilable;
}

}  // namespace grappler_go
