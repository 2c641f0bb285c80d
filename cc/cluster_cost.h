// What a fused group of ops costs as one XLA cluster.
#ifndef GRAPPLER_GO_CC_CLUSTER_COST_H_
#define GRAPPLER_GO_CC_CLUSTER_COST_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "cc/device_set.h"
#include "cc/op_graph.h"

namespace grappler_go {

struct ClusterCost {
  double run_us = 0;      // One launch, and the slower of arithmetic and memory traffic.
  double compile_us = 0;  // Once for each set of shapes.
};

// The cost of `members` (ascending) as one cluster on `device`. Only tensors that cross its border
// count as memory traffic: what stays inside stays in registers and caches.
ClusterCost EstimateCluster(const OpGraph& graph, absl::Span<const int32_t> members,
                            const Device& device);

// Ops grouped into clusters, for the simulator.
struct Clusters {
  std::vector<int32_t> of;  // By node: cluster, -1 = none.
  // By cluster.
  std::vector<std::vector<int32_t>> members;  // Ascending.
  std::vector<ClusterCost> cost;
};

// Numbers the clusters of `fusion` (by node: any number, -1 = none) in the order of their first
// ops, and estimates each on the device of its first op.
Clusters MakeClusters(const OpGraph& graph, const DeviceSet& devices,
                      absl::Span<const int8_t> placement, absl::Span<const int32_t> fusion);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_CLUSTER_COST_H_
