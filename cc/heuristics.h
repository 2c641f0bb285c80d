// Placements without learning: what the policy is trained on, compared with and backed up by.
#ifndef GRAPPLER_GO_CC_HEURISTICS_H_
#define GRAPPLER_GO_CC_HEURISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "cc/device_set.h"
#include "cc/legality.h"
#include "cc/op_graph.h"

namespace grappler_go {

// One graph on one device set, as all planners see it. Does not own.
struct Problem {
  const OpGraph* graph;
  const DeviceSet* devices;
  const Legality* legality;
  absl::Span<const float> op_us;  // As from OpTimes.
};

// The time of an op on the fastest device that is legal for it.
double FastestUs(const Problem& problem, int node);

// The longest time from the start of each op to the end of the step, on fastest devices and free
// links: [nodes].
std::vector<double> UpwardRank(const Problem& problem);

// Priorities by the longest remaining path (UpwardRank), in equal steps of it: [nodes], higher goes
// first.
std::vector<int32_t> CriticalPathPriorities(const Problem& problem);

// Each group on `device` where it may run there, where it came from elsewhere.
Placement SingleDevice(const Problem& problem, int device);

// Each group on a legal device drawn uniformly.
Placement RandomLegal(const Problem& problem, uint64_t seed);

// List scheduling: ops in the order of their upward rank (longest remaining path first), each on
// the device that finishes it first, transfers weighed by `transfer_weight` (above 1 = shy of
// transfers). Groups go with their first op. Devices whose memory is full of variables are passed
// over.
Placement CriticalPath(const Problem& problem, double transfer_weight);

// m-ETF (Baechi): of all ready ops and devices, the pair that starts first is scheduled next;
// memory-aware. Since it does not ask when an op ends, it looks at the devices that compute, and at
// others only for what may not, or no longer, go there.
Placement EarliestTaskFirst(const Problem& problem, double transfer_weight);

// The longest time from the start of each op to the end of the step over mean compute and mean
// transfer times: [nodes].
std::vector<double> MeanUpwardRank(const Problem& problem, double transfer_weight);

// HEFT (Topcuoglu et al. 2002): ops in the order of their upward rank over mean compute and mean
// transfer times, each on the device that finishes it first, in gaps of the schedule too.
// Memory-aware as the others.
Placement Heft(const Problem& problem, double transfer_weight);

// m-TOPO (Baechi): the topological order cut into runs of equal memory, a device each. An op's
// memory is what it keeps and what it puts out. What a device keeps stays below its limit, as long
// as some device has room.
Placement TopologicalCut(const Problem& problem);

// The devices that a model is spread over: the GPUs where there are any, else all.
std::vector<int> ComputeDevices(const DeviceSet& devices);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_HEURISTICS_H_
