#include "cc/order_edges.h"

#include <algorithm>

#include "cc/cluster_cost.h"
#include "cc/compilable.h"
#include "cc/simulator.h"

namespace grappler_go {
namespace {

// Ops below this share of the step are cheaper to run in any order than to order.
constexpr double kExpensiveShare = 1e-3;

// Ops that the results need. Others may belong to another step (initialisers, savers), and must not
// be tied to this one.
std::vector<bool> Needed(const OpGraph& graph) {
  std::vector<bool> needed(graph.num_nodes(), false);
  for (int i = graph.num_nodes() - 1; i >= 0; --i) {
    needed[i] = needed[i] || graph.Has(i, kFetch) || graph.op(i) == "_Retval";
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1] && needed[i]; ++e) {
      needed[graph.edge_source[e]] = true;
    }
  }
  return needed;
}

bool HasEdge(const OpGraph& graph, int before, int after) {
  for (int e = graph.in_offsets[after]; e < graph.in_offsets[after + 1]; ++e) {
    if (graph.edge_source[e] == before) return true;
  }
  return false;
}

}  // namespace

std::vector<std::pair<int, int>> OrderEdges(const Problem& problem, const Plan& plan) {
  std::vector<std::pair<int, int>> edges;
  if (plan.priority.empty()) return edges;
  const OpGraph& graph = *problem.graph;
  Simulator simulator(graph, *problem.devices, *problem.legality, problem.op_us);
  const Clusters clusters = MakeClusters(graph, *problem.devices, plan.device, plan.fusion);
  if (!plan.fusion.empty()) simulator.SetClusters(&clusters);
  Timeline timeline;
  const double step_us = simulator.Run(plan.device, plan.priority, &timeline).step_us;
  const std::vector<bool> conditional = Conditional(graph);
  const std::vector<bool> needed = Needed(graph);
  std::vector<std::vector<int>> expensive(problem.devices->size());
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const double us = timeline.end_us[i] - timeline.start_us[i];
    // A cluster counts as its first op.
    if (plan.fusion_of(i) >= 0 && clusters.members[clusters.of[i]].front() != i) continue;
    if (us >= kExpensiveShare * step_us && us > 0 && needed[i] && !conditional[i] &&
        !(graph.traits[i] & (kBoundary | kFeed | kConst))) {
      expensive[plan.device[i]].push_back(i);
    }
  }
  for (std::vector<int>& ops : expensive) {
    std::stable_sort(ops.begin(), ops.end(),
                     [&](int a, int b) { return timeline.start_us[a] < timeline.start_us[b]; });
    for (size_t k = 1; k < ops.size(); ++k) {
      if (!HasEdge(graph, ops[k - 1], ops[k])) edges.emplace_back(ops[k - 1], ops[k]);
    }
  }
  return edges;
}

}  // namespace grappler_go
