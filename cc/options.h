// The settings of the pass, as they come through the optimizer's parameter map.
#ifndef GRAPPLER_GO_CC_OPTIONS_H_
#define GRAPPLER_GO_CC_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/map.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace grappler_go {

struct Options {
  // Planners that may propose: policy, critical_path, m_etf, heft, celeritas, m_topo,
  // single_device, random.
  std::vector<std::string> candidates = {"policy",    "critical_path", "m_etf",        "heft",
                                         "celeritas", "m_topo",        "single_device"};
  bool keep_default =
      true;  // Keep the incoming graph unless a candidate is predicted better by `margin`.
  double margin = 0.05;  // A share of the incoming step time.
  int samples = 16;      // Placements drawn from the policy, and of `random`.
  int search = -1;  // Simulated steps of local search from the best proposal; -1 = by graph size.
  int64_t seed = 0;
  std::string policy;  // A SavedModel; "" = the one shipped beside the library, "none" = no policy.
  std::string profile;  // Device profile, JSON text; "" = built-in figures.
  std::string costs;    // File of measured op costs; "" = analytical.
  bool override_user_devices = false;
  bool move_state = false;  // For graphs that have not run yet.
  bool fail_on_error = false;
  int64_t optimize_timeout_ms = 60000;  // 0 = no limit.
  std::string report;                   // Directory for one JSON a graph; "" = none.
  bool save_graphs = false;             // Beside each report, the graph it is about.
  std::string plan;  // File of a plan to apply to the graph that it was made for; "" = none.
  std::vector<std::string> tasks = {"placement", "scheduling"};  // And fusion.
  int64_t expected_steps = 1000;  // Over which compiling a cluster must pay.
};

using ParameterMap = google::protobuf::Map<std::string, tensorflow::AttrValue>;

// Reads the parameter map; unknown names, wrong types and values out of range are errors that name
// the field.
absl::StatusOr<Options> ReadOptions(const ParameterMap& parameters);

// The policy directory to load: options.policy, or the one shipped beside this library where that
// exists; "" = none.
std::string PolicyDirectory(const Options& options);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_OPTIONS_H_
