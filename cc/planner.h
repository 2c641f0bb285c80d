// Collects candidate plans, simulates them all and takes the best.
#ifndef GRAPPLER_GO_CC_PLANNER_H_
#define GRAPPLER_GO_CC_PLANNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cc/cost_model.h"
#include "cc/heuristics.h"
#include "cc/options.h"
#include "cc/plan.h"
#include "cc/simulator.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace grappler_go {

// A graph read for planning: owns what a Problem points to.
class PlanningContext {
 public:
  // `item` must outlive the context. `costs_path` names a file of measured op times; "" = none.
  // With `cost_keys` the graph has them, needed or not.
  static absl::StatusOr<std::unique_ptr<PlanningContext>> Create(
      const tensorflow::grappler::GrapplerItem& item, DeviceSet devices,
      const LegalityOptions& legality_options, const std::string& costs_path,
      bool cost_keys = false);

  const Problem& problem() const { return problem_; }
  // Where each op's time is from, by node.
  const std::vector<CostSource>& cost_sources() const { return cost_sources_; }

 private:
  PlanningContext() = default;
  DeviceSet devices_;
  OpGraph graph_;
  Legality legality_;
  std::vector<float> op_us_;
  std::vector<CostSource> cost_sources_;
  Problem problem_;
};

struct CandidateResult {
  std::string source;
  int tried = 0;          // Placements of this source.
  double step_us = 0;     // Of its best.
  bool feasible = false;  // Whether any was within the memory limits.
};

struct Choice {
  Plan plan;             // The best candidate, or the incoming placement.
  bool applied = false;  // Whether the plan should be written.
  std::string reason;    // Why, in words.
  StepEstimate incoming, predicted;
  LowerBound bound;
  std::vector<CandidateResult> candidates;
};

// Deadline in microseconds since the epoch, 0 = none; past it the best so far is taken, or the
// choice fails with DeadlineExceeded where there is none yet. A policy that was asked for by name
// and is missing or broken is an error; the shipped one, where absent, is passed over.
absl::StatusOr<Choice> Choose(const Problem& problem, const Options& options, uint64_t deadline_us);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_PLANNER_H_
