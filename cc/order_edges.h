// Control edges that make TensorFlow's executor follow priorities.
#ifndef GRAPPLER_GO_CC_ORDER_EDGES_H_
#define GRAPPLER_GO_CC_ORDER_EDGES_H_

#include <utility>
#include <vector>

#include "cc/plan.h"

namespace grappler_go {

// The executor has no priorities, so the expensive ops of each device are chained in the order in
// which the simulator, which has, starts them: (before, after) pairs. All edges follow simulated
// time, as data edges do, so no cycle can arise, whatever the devices. Ops in loops and behind a
// Switch, whose run is conditional, and ops that no fetch needs are left out. Empty for a plan
// without priorities.
std::vector<std::pair<int, int>> OrderEdges(const Problem& problem, const Plan& plan);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_ORDER_EDGES_H_
