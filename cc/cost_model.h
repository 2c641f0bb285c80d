// Times of ops and transfers on given devices.
#ifndef GRAPPLER_GO_CC_COST_MODEL_H_
#define GRAPPLER_GO_CC_COST_MODEL_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "cc/device_set.h"
#include "cc/op_graph.h"

namespace grappler_go {

// Measured compute time of ops by name, in microseconds, on devices of one type.
struct MeasuredCosts {
  std::string device_type;
  absl::flat_hash_map<std::string, double> op_us;
};

// Reads {"version":1,"device_type":"CPU","ops":{"name":us}}.
absl::StatusOr<MeasuredCosts> ReadMeasuredCosts(const std::string& path);

// The roofline estimate: a fixed cost, and the slower of arithmetic and memory traffic.
double AnalyticalUs(const Work& work, const Device& device);

// The compute time of each op on each device, in microseconds: [node * devices.size() + device].
// Measured where `measured` has the op (scaled by the analytical ratio to devices of another type);
// otherwise analytical, scaled by the median of measured to analytical times among ops of the same
// kind. `measured` may be null.
std::vector<float> OpTimes(const OpGraph& graph, const DeviceSet& devices,
                           const MeasuredCosts* measured);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_COST_MODEL_H_
