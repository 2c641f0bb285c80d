// A choice as JSON: the plan, what was predicted and why. Python reads it, and ReadPlan reads its
// plan back.
#ifndef GRAPPLER_GO_CC_REPORT_H_
#define GRAPPLER_GO_CC_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/planner.h"

namespace grappler_go {

// {"version", "graph", "fetch", "feed", "source", "applied", "reason", "incoming_step_us",
// "predicted_step_us", "lower_bound_us",
//  "devices": [name], "ops_per_device": [count], "peak_bytes": [bytes], "candidates": [{"source",
//  "tried", "step_us", "feasible"}], "nodes": [{"name", "op", "device", "fusion", "priority",
//  "rule", "incoming_device", "start_us", "end_us", "incoming_start_us", "incoming_end_us"}],
//  "critical_path": [{"node", "us"}], from the step's end to its start (see critical_chain.h),
//  "transfers": [{"name", "source", "target", "bytes", "start_us", "end_us"}]}; nodes in
//  topological order, devices as indices, times simulated.
std::string ReportJson(const Problem& problem, const Choice& choice,
                       const tensorflow::grappler::GrapplerItem& item);

// Writes `json` to a new file DIRECTORY/GRAPH_ID.N.json, aside first and then renamed, and `graph`
// before it to GRAPH_ID.N.pb unless it is null. Creates the directory.
absl::Status WriteReport(const std::string& directory, absl::string_view graph_id,
                         const std::string& json, const tensorflow::GraphDef* graph);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_REPORT_H_
