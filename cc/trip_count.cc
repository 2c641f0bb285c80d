#include "cc/trip_count.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/framework/tensor.h"

namespace grappler_go {
namespace {

using tensorflow::NodeDef;

// Loops longer than this are taken for a fault of the count.
constexpr double kMaxTrips = 1e7;
// So many ops are looked through for a constant, or for a comparison.
constexpr int kMaxDepth = 16;

struct Output {
  int node = -1;
  int port = 0;
};

// The output that a node's data input reads; -1 for none.
Output InputOf(const OpGraph& graph, int node, int input) {
  const NodeDef& def = *graph.nodes[node];
  if (input >= def.input_size() || def.input(input).empty() || def.input(input)[0] == '^') {
    return {};
  }
  const std::string& text = def.input(input);
  const size_t colon = text.rfind(':');
  Output output;
  output.node = graph.Find(absl::string_view(text).substr(0, colon));
  if (colon != std::string::npos) output.port = std::atoi(text.c_str() + colon + 1);
  return output;
}

bool PassesOn(const std::string& op) {
  return op == "Identity" || op == "Enter" || op == "RefEnter" || op == "Cast" || op == "Snapshot";
}

// The scalar that an output is in every iteration.
std::optional<double> Constant(const OpGraph& graph, Output output) {
  for (int depth = 0; depth < kMaxDepth && output.node >= 0; ++depth) {
    const NodeDef& node = *graph.nodes[output.node];
    if (node.op() == "Const") {
      tensorflow::Tensor value;
      const auto attr = node.attr().find("value");
      if (attr == node.attr().end() || !value.FromProto(attr->second.tensor()) ||
          value.NumElements() != 1) {
        return std::nullopt;
      }
      switch (value.dtype()) {
        case tensorflow::DT_INT32:
          return value.flat<int32_t>()(0);
        case tensorflow::DT_INT64:
          return static_cast<double>(value.flat<int64_t>()(0));
        case tensorflow::DT_FLOAT:
          return value.flat<float>()(0);
        default:
          return std::nullopt;
      }
    }
    if (!PassesOn(node.op())) return std::nullopt;
    output = InputOf(graph, output.node, 0);
  }
  return std::nullopt;
}

// The Merge behind an output, -1 if there is none.
int MergeBehind(const OpGraph& graph, Output output) {
  for (int depth = 0; depth < kMaxDepth && output.node >= 0; ++depth) {
    const std::string& op = graph.op(output.node);
    if (op == "Merge") return output.node;
    if (op != "Identity" && op != "Switch") return -1;
    output = InputOf(graph, output.node, 0);
  }
  return -1;
}

struct Counter {
  double start = 0, step = 0;
};

// The counter that a Merge holds: a constant at first, then its own value and a constant.
std::optional<Counter> CounterOf(const OpGraph& graph, int merge) {
  std::optional<double> start, step;
  for (int input = 0; input < 2; ++input) {
    const Output from = InputOf(graph, merge, input);
    if (from.node < 0) return std::nullopt;
    const std::string& op = graph.op(from.node);
    if (op == "Enter" || op == "RefEnter") {
      start = Constant(graph, from);
      continue;
    }
    if (op != "NextIteration") return std::nullopt;
    Output next = InputOf(graph, from.node, 0);
    while (next.node >= 0 && graph.op(next.node) == "Identity") {
      next = InputOf(graph, next.node, 0);
    }
    if (next.node < 0) return std::nullopt;
    const std::string& sum = graph.op(next.node);
    if (sum != "Add" && sum != "AddV2" && sum != "Sub") return std::nullopt;
    const Output left = InputOf(graph, next.node, 0), right = InputOf(graph, next.node, 1);
    if (MergeBehind(graph, left) == merge) {
      step = Constant(graph, right);
    } else if (sum != "Sub" && MergeBehind(graph, right) == merge) {
      step = Constant(graph, left);
    }
    if (step && sum == "Sub") step = -*step;
  }
  if (!start || !step || *step == 0) return std::nullopt;
  return Counter{*start, *step};
}

// Iterations until the comparison fails.
std::optional<double> TripsOf(const OpGraph& graph, int comparison) {
  const std::string& op = graph.op(comparison);
  const bool less = op == "Less" || op == "LessEqual";
  if (!less && op != "Greater" && op != "GreaterEqual") return std::nullopt;
  bool rising = less;
  Output left = InputOf(graph, comparison, 0), right = InputOf(graph, comparison, 1);
  int merge = MergeBehind(graph, left);
  Output limit = right;
  if (merge < 0) {  // limit > counter
    merge = MergeBehind(graph, right);
    limit = left;
    rising = !rising;
  }
  const std::optional<double> end = Constant(graph, limit);
  if (merge < 0 || !end) return std::nullopt;
  const std::optional<Counter> counter = CounterOf(graph, merge);
  if (!counter || (counter->step > 0) != rising) return std::nullopt;
  const double distance = (*end - counter->start) / counter->step;
  const bool inclusive = op == "LessEqual" || op == "GreaterEqual";
  return std::max(0.0, inclusive ? std::floor(distance) + 1 : std::ceil(distance));
}

// Iterations until a condition fails, of which all parts must hold.
std::optional<double> TripsOfCondition(const OpGraph& graph, Output condition, int depth = 0) {
  if (condition.node < 0 || depth > kMaxDepth) return std::nullopt;
  const std::string& op = graph.op(condition.node);
  if (op == "Identity") {
    return TripsOfCondition(graph, InputOf(graph, condition.node, 0), depth + 1);
  }
  if (op != "LogicalAnd") return TripsOf(graph, condition.node);
  std::optional<double> least;
  for (int input = 0; input < 2; ++input) {
    const auto trips = TripsOfCondition(graph, InputOf(graph, condition.node, input), depth + 1);
    if (trips) least = least ? std::min(*least, *trips) : *trips;
  }
  return least;
}

}  // namespace

std::vector<double> RunsPerStep(const OpGraph& graph) {
  std::vector<double> trips(graph.frame_parent.size(), 1.0);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (graph.op(i) != "LoopCond" || graph.frame[i] < 0) continue;
    const std::optional<double> count = TripsOfCondition(graph, InputOf(graph, i, 0));
    if (count && *count <= kMaxTrips) trips[graph.frame[i]] = *count;
  }
  std::vector<double> runs(graph.num_nodes(), 1.0);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    for (int frame = graph.frame[i]; frame >= 0; frame = graph.frame_parent[frame]) {
      runs[i] *= trips[frame];
    }
  }
  return runs;
}

}  // namespace grappler_go
