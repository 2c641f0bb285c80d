// Local search in the simulator: improves the best of the proposed placements by moving blocks of
// ops.
#ifndef GRAPPLER_GO_CC_SEARCH_H_
#define GRAPPLER_GO_CC_SEARCH_H_

#include <cstdint>
#include <vector>

#include "cc/heuristics.h"
#include "cc/simulator.h"

namespace grappler_go {

// Nested blocks of movable groups: level 0 has each group by itself, each next level joins pairs
// that are dear to part (heaviest traffic for their compute), and the last holds the scopes of the
// ops' names. By level: the blocks, each a list of groups.
using BlockLevels = std::vector<std::vector<std::vector<int32_t>>>;
BlockLevels Coarsen(const Problem& problem);

struct SearchResult {
  Placement placement;
  StepEstimate estimate;
  int evaluations = 0;
};

// Placements to start from: the blocks of several levels in topological order, cut into runs of
// equal compute, a device each. What is dear to part is in one block, so a layer and its gradient
// stay together. None where a level has too few blocks.
std::vector<Placement> SpreadRuns(const Problem& problem, const BlockLevels& levels);

// Simulated annealing from the best of `starts` (at least one), from coarse blocks to fine ones,
// `evaluations` simulated steps in all: a block goes to where a neighbour is, or to any device.
// Deterministic by `seed`. Stops early past `deadline_us` (0 = none). The result is never worse
// than a start that was evaluated. Steps are simulated with `priority` (may be empty).
SearchResult Search(const Problem& problem, const BlockLevels& levels,
                    absl::Span<const Placement> starts, absl::Span<const int32_t> priority,
                    int evaluations, uint64_t seed, uint64_t deadline_us, Simulator& simulator);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_SEARCH_H_
