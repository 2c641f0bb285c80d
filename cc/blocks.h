// Blocks of colocation groups that planners move as one, and what it costs to part them.
#ifndef GRAPPLER_GO_CC_BLOCKS_H_
#define GRAPPLER_GO_CC_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "cc/heuristics.h"

namespace grappler_go {

struct Traffic {
  int32_t a, b;  // Blocks, a < b.
  double us;     // Mean transfer time between them if they are parted.
};

// What it costs to part two movable blocks: the tensors between them, and the tensors that both
// read, which would have to be sent to two places (as weights are). A tensor counts once for each
// reading block. `block_of` by group, -1 = in none.
std::vector<Traffic> BlockTraffic(const Problem& problem, const std::vector<int32_t>& block_of);

// Nested blocks of movable groups: level 0 has each group by itself, each next level joins pairs
// that are dear to part (heaviest traffic for their compute), and the last holds the scopes of the
// ops' names. By level: the blocks, each a list of groups.
using BlockLevels = std::vector<std::vector<std::vector<int32_t>>>;
BlockLevels Coarsen(const Problem& problem);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_BLOCKS_H_
