// Groups ops into XLA clusters: what gains by staying in registers and caches, and by one launch in
// place of many.
#ifndef GRAPPLER_GO_CC_FUSION_H_
#define GRAPPLER_GO_CC_FUSION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cc/heuristics.h"

namespace grappler_go {

// What a cluster may hold.
enum class FusionScope : uint8_t {
  kLight,  // All but dense products and convolutions, for which TensorFlow has kernels of its own.
  kAll,
};

struct FusionOptions {
  FusionScope scope = FusionScope::kLight;
  double expected_steps = 1000;  // A cluster is compiled once and runs so often.
};

// Clusters for a placement: by node, -1 = none. Ops on one device are joined along the tensors
// between them, the largest first, unless that closes a cycle through the cluster; of these
// clusters stay those that save more time over the expected steps than they take to compile. Small
// constants need no cluster, they are copied into their readers'.
std::vector<int32_t> Fuse(const Problem& problem, const Placement& placement,
                          const FusionOptions& options);

// OK, or what is wrong with clusters: an op that XLA does not compile, one device for each, a
// cluster that waits for what it makes itself.
absl::Status CheckFusion(const Problem& problem, const Placement& placement,
                         absl::Span<const int32_t> fusion);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_FUSION_H_
