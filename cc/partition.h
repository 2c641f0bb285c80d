// Placements that balance compute and part what is cheap to part, without simulating: where
// searches start.
#ifndef GRAPPLER_GO_CC_PARTITION_H_
#define GRAPPLER_GO_CC_PARTITION_H_

#include <vector>

#include "cc/blocks.h"
#include "cc/heuristics.h"

namespace grappler_go {

// The blocks of several levels in topological order, cut into runs of equal compute, a device each.
// What is dear to part is in one block, so a layer and its gradient stay together. None where a
// level has too few blocks.
std::vector<Placement> SpreadRuns(const Problem& problem, const BlockLevels& levels);

// Multilevel partitions (after Karypis and Kumar 1998): from a first cut of a coarse level, blocks
// go from level to finer level where most of their traffic is, as long as no device gets more than
// its share of compute and a tolerance; and of memory, where that may be short. First cuts are
// runs, blocks dealt out by weight, and layers by the ops' names. One for each of several
// tolerances and coarse levels.
std::vector<Placement> Partitions(const Problem& problem, const BlockLevels& levels);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_PARTITION_H_
