// The decisions for one graph: where each op runs, what it is fused with, in which order it goes.
#ifndef GRAPPLER_GO_CC_PLAN_H_
#define GRAPPLER_GO_CC_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/heuristics.h"

namespace grappler_go {

inline constexpr int kPlanVersion = 1;
inline constexpr char kDeviceAttr[] = "_go_device";
inline constexpr char kFusionAttr[] = "_go_fusion";
inline constexpr char kPriorityAttr[] = "_go_priority";

struct Plan {
  std::string source;             // Which planner made it: "policy", "m_etf", ...
  Placement device;               // By node.
  std::vector<int32_t> fusion;    // By node: XLA cluster, -1 = none. Empty = none at all.
  std::vector<int32_t> priority;  // By node: higher goes first. Empty = as TensorFlow does.

  int fusion_of(int node) const { return fusion.empty() ? -1 : fusion[node]; }
  int priority_of(int node) const { return priority.empty() ? 0 : priority[node]; }
};

// Reads the "devices" and "nodes" of a plan in JSON (see report.h) for this graph. Ops that the
// plan does not name stay where they are. Errors: NotFound for a name that the graph does not have,
// else InvalidArgument, such as for a device that the set does not have.
absl::StatusOr<Plan> ReadPlan(absl::string_view json, const Problem& problem);

// OK, or what is wrong: the placement's legality, and clusters that span devices.
absl::Status CheckPlan(const Problem& problem, const Plan& plan);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_PLAN_H_
