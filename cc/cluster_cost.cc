#include "cc/cluster_cost.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace grappler_go {

ClusterCost EstimateCluster(const OpGraph& graph, absl::Span<const int32_t> members,
                            const Device& device) {
  const auto inside = [&](int node) { return absl::c_binary_search(members, node); };
  double compute_us = 0, bytes = 0;
  absl::flat_hash_set<int32_t> read;  // A tensor is read once, however many members use it.
  for (const int32_t node : members) {
    const Work& work = graph.work[node];
    compute_us += work.matmul_flops * 1e-3 / device.matmul_gflops +
                  work.elementwise_ops * 1e-3 / device.elementwise_gops;
    for (int e = graph.in_offsets[node]; e < graph.in_offsets[node + 1]; ++e) {
      const int32_t tensor = graph.edge_tensor[e];
      if (!inside(graph.edge_source[e]) && read.insert(tensor).second) {
        bytes += graph.tensor_bytes[tensor];
      }
    }
    for (int t = graph.tensor_offsets[node]; t < graph.tensor_offsets[node + 1]; ++t) {
      bool leaves = graph.Has(node, kFetch);
      for (int u = graph.use_offsets[t]; u < graph.use_offsets[t + 1] && !leaves; ++u) {
        leaves = !inside(graph.uses[u]);
      }
      if (leaves) bytes += graph.tensor_bytes[t];
    }
  }
  return {
      device.xla_launch_us + std::max(compute_us, bytes * 1e-3 / device.memory_gb_per_s),
      device.xla_compile_us + device.xla_compile_us_per_op * static_cast<double>(members.size())};
}

Clusters MakeClusters(const OpGraph& graph, const DeviceSet& devices,
                      absl::Span<const int8_t> placement, absl::Span<const int32_t> fusion) {
  Clusters clusters;
  clusters.of.assign(graph.num_nodes(), -1);
  absl::flat_hash_map<int32_t, int32_t> number;
  for (int i = 0; i < static_cast<int>(fusion.size()); ++i) {
    if (fusion[i] < 0) continue;
    const auto [it, fresh] =
        number.try_emplace(fusion[i], static_cast<int32_t>(clusters.members.size()));
    if (fresh) clusters.members.emplace_back();
    clusters.of[i] = it->second;
    clusters.members[it->second].push_back(i);
  }
  for (const std::vector<int32_t>& members : clusters.members) {
    clusters.cost.push_back(
        EstimateCluster(graph, members, devices.device(placement[members.front()])));
  }
  return clusters;
}

}  // namespace grappler_go
