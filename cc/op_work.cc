#include "cc/op_work.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/match.h"
#include "cc/op_key.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/costs/op_context.h"
#include "tensorflow/core/grappler/costs/op_level_cost_estimator.h"
#include "tensorflow/core/grappler/costs/utils.h"

namespace grappler_go {
namespace {

using tensorflow::DeviceProperties;
using tensorflow::NodeDef;
using tensorflow::OpInfo;
using tensorflow::grappler::Costs;
using tensorflow::grappler::GraphProperties;
using tensorflow::grappler::OpContext;
using tensorflow::grappler::OpLevelCostEstimator;

// A device that does one operation and moves one byte a nanosecond: the estimator's times on it are
// counts.
DeviceProperties CountingDevice() {
  DeviceProperties device;
  device.set_type("CPU");
  device.set_num_cores(1000);
  device.set_frequency(1);
  device.set_bandwidth(1000000);
  return device;
}

}  // namespace

bool IsMatmulLike(absl::string_view op) {
  return absl::StrContains(op, "MatMul") || absl::StrContains(op, "Conv2D") ||
         absl::StrContains(op, "Conv3D") || absl::StrContains(op, "DepthwiseConv") ||
         op == "Einsum" || op == "XlaEinsum" || op == "Conv" || absl::StrContains(op, "FusedConv");
}

double TensorBytes(const OpInfo::TensorProperties& properties, double unknown_dim, bool& known) {
  const int size = tensorflow::DataTypeSize(tensorflow::BaseType(properties.dtype()));
  double bytes = size > 0 ? size : 16;  // Strings and handles: a pointer and a length.
  known = !properties.shape().unknown_rank();
  if (!known) return bytes * unknown_dim;
  for (const auto& dim : properties.shape().dim()) {
    known = known && dim.size() >= 0;
    bytes *= dim.size() >= 0 ? static_cast<double>(dim.size()) : unknown_dim;
  }
  return bytes;
}

void EstimateWork(const tensorflow::grappler::GrapplerItem& item, const GraphProperties& properties,
                  bool cost_keys, OpGraph& graph) {
  const OpLevelCostEstimator estimator;
  const DeviceProperties device = CountingDevice();
  std::unordered_map<std::string, const NodeDef*> name_to_node;
  name_to_node.reserve(graph.num_nodes());
  for (const NodeDef* node : graph.nodes) name_to_node[node->name()] = node;
  if (cost_keys) graph.cost_key.resize(graph.num_nodes());
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const NodeDef& node = *graph.nodes[i];
    Work& work = graph.work[i];
    if (graph.traits[i] & (kConst | kBoundary | kFeed | kUnknownOp)) continue;
    if (!properties.HasInputProperties(node.name())) continue;
    if (cost_keys) {
      graph.cost_key[i] = OpKey(node, properties.GetInputProperties(node.name()),
                                properties.GetOutputProperties(node.name()));
    }
    OpContext context;
    context.name = node.name();
    context.function_library = &item.graph.library();
    context.op_info = tensorflow::grappler::BuildOpInfoWithoutDevice(
        node, name_to_node, properties.GetInputProperties(node.name()));
    for (const auto& output : properties.GetOutputProperties(node.name())) {
      *context.op_info.add_outputs() = output;
    }
    *context.op_info.mutable_device() = device;
    const Costs costs = estimator.PredictCosts(context);
    const double operations = std::max<double>(0, static_cast<double>(costs.compute_time.count()));
    (IsMatmulLike(node.op()) ? work.matmul_flops : work.elementwise_ops) = operations;
    work.bytes = std::max<double>(0, static_cast<double>(costs.memory_time.count()));
  }
}

}  // namespace grappler_go
