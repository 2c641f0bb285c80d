// Local search in the simulator: improves the best of the proposed placements by moving blocks of
// ops.
#ifndef GRAPPLER_GO_CC_SEARCH_H_
#define GRAPPLER_GO_CC_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/blocks.h"
#include "cc/heuristics.h"
#include "cc/simulator.h"

namespace grappler_go {

struct SearchResult {
  Placement placement;
  StepEstimate estimate;
  int evaluations = 0;
};

// A placement to start from; with its estimate where it was simulated before, which is then free.
struct Start {
  Placement placement;
  std::optional<StepEstimate> estimate;
};

// Simulated annealing from the best of `starts` (at least one), from coarse blocks to fine ones,
// `evaluations` simulated steps in all. A move takes a block to where a neighbour is, or to any
// device; half of the moves are made at what the step waits for (see critical_chain.h).
// Deterministic by `seed`. Stops early past `deadline_us` (0 = none). The result is never worse
// than a start that was evaluated. Steps are simulated with `priority` (may be empty).
SearchResult Search(const Problem& problem, const BlockLevels& levels,
                    absl::Span<const Start> starts, absl::Span<const int32_t> priority,
                    int evaluations, uint64_t seed, uint64_t deadline_us, Simulator& simulator);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_SEARCH_H_
