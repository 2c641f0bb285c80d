// How often loops run, where that can be told before the step.
#ifndef GRAPPLER_GO_CC_TRIP_COUNT_H_
#define GRAPPLER_GO_CC_TRIP_COUNT_H_

#include <vector>

#include "cc/op_graph.h"

namespace grappler_go {

// How often each op runs in a step, by node: 1 outside loops, the product of the trip counts of the
// loops around it inside. A loop is counted where it adds a constant to a counter that starts at a
// constant, until a comparison with a constant fails; of several comparisons, all of which must
// hold, the first to fail counts. 1 for a loop that cannot be counted.
std::vector<double> RunsPerStep(const OpGraph& graph);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_TRIP_COUNT_H_
