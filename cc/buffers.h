// Which tensors own memory: some ops hand on their input's buffer, others may write into it.
#ifndef GRAPPLER_GO_CC_BUFFERS_H_
#define GRAPPLER_GO_CC_BUFFERS_H_

#include <cstdint>
#include <vector>

#include "cc/op_graph.h"

namespace grappler_go {

inline constexpr int32_t kOwnBuffer = -1;
inline constexpr int32_t kPersistentBuffer = -2;  // A variable's or a constant's: no step memory.

struct Buffers {
  // By tensor: kOwnBuffer, kPersistentBuffer, or the edge whose tensor it shares the buffer with,
  // as Identity and Reshape do.
  std::vector<int32_t> shared_edge;
  // By node: whether its first output may be written into an input of the same size that nobody
  // else reads, as element-wise ops do.
  std::vector<bool> may_overwrite;
};

Buffers FindBuffers(const OpGraph& graph);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_BUFFERS_H_
