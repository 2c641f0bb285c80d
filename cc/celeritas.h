// One-shot placement after Celeritas (Xu et al. 2022, arXiv 2208.00184): an order in which what is
// critical stays together, neighbours in it fused by dynamic programming, fused runs placed.
//
// From the paper: the order by critical path, fusion as an optimal cut of that order, placement of
// fused ops by earliest start with adjustment to memory. Ours: the cut bounds a run's compute and
// counts each tensor once, and the runs are scheduled by finish time with the costs of all their
// ops.
#ifndef GRAPPLER_GO_CC_CELERITAS_H_
#define GRAPPLER_GO_CC_CELERITAS_H_

#include <cstdint>
#include <vector>

#include "cc/heuristics.h"

namespace grappler_go {

// All ops in a topological order that goes on with the reader of the op before that has the longest
// remaining path, as long as one is ready.
std::vector<int32_t> CriticalOrder(const Problem& problem);

// The first position of each run of `order`: of all cuts into runs of at most `limit_us` of compute
// (or one op), one with the least bytes between runs.
std::vector<int32_t> CutOrder(const Problem& problem, const std::vector<int32_t>& order,
                              double limit_us);

Placement Celeritas(const Problem& problem, double transfer_weight);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_CELERITAS_H_
