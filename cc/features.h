// What the policy sees: one declarative table drives extraction, the network's inputs and the check
// of a policy.
//
// All figures are dimensionless: times relative to the graph's lower bound or total, sizes as
// logarithms, so that a policy carries over between graphs and machines. No feature tells one of
// several equal devices from another by its number.
#ifndef GRAPPLER_GO_CC_FEATURES_H_
#define GRAPPLER_GO_CC_FEATURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cc/heuristics.h"

namespace grappler_go {

inline constexpr int kFeatureVersion = 1;
inline constexpr int kOpTypeBuckets = 1024;

struct FeatureSpec {
  absl::string_view name;
  absl::string_view meaning;
};

// The columns of each array, in order.
absl::Span<const FeatureSpec> NodeFeatures();
absl::Span<const FeatureSpec> EdgeFeatures();
absl::Span<const FeatureSpec> DeviceFeatures();
absl::Span<const FeatureSpec> NodeDeviceFeatures();
absl::Span<const FeatureSpec> LinkFeatures();

// "node/log_flops", ..., "version/1": what a policy's `feature_table` signature must return.
std::vector<std::string> FeatureTable();

// Row-major arrays; the leading dimensions are nodes, edges (one a pair of ops), devices, nodes x
// devices and devices x devices.
struct Features {
  std::vector<float> node, edge, device, node_device, link;
  std::vector<float> mask;  // [nodes x devices], 1 = legal.
  std::vector<int32_t> op_type, edge_source, edge_target;
};

Features ExtractFeatures(const Problem& problem);

// A stable bucket in 0..kOpTypeBuckets-1 for an op type, known or not.
int OpTypeBucket(absl::string_view op);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_FEATURES_H_
