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

// A cached measurement.
struct CachedCost {
  double us = 0;
  double size = 0;  // WorkSize of the op that was measured.
};

// Measured compute times in microseconds, on devices of one type.
struct MeasuredCosts {
  std::string device_type;
  absl::flat_hash_map<std::string, double> op_us = {};      // By the op's name, of this graph.
  absl::flat_hash_map<std::string, CachedCost> cache = {};  // By OpKey, of any graph.
};

// Reads {"version":2,"device_type":"CPU","ops":{NAME:us},"cache":{KEY:{"us","size"}}}, of which one
// of "ops" and "cache" may be absent; or version 1, which has "ops" alone.
absl::StatusOr<MeasuredCosts> ReadMeasuredCosts(const std::string& path);

// Where the time of an op is from.
enum class CostSource : uint8_t { kFree, kAnalytical, kScaled, kInterpolated, kCached, kMeasured };
absl::string_view CostSourceName(CostSource source);

// How much there is to do, in one number: operations and bytes.
double WorkSize(const Work& work);

// The roofline estimate: a fixed cost, and the slower of arithmetic and memory traffic.
double AnalyticalUs(const Work& work, const Device& device);

// The compute time of each op on each device, in microseconds: [node * devices.size() + device].
// Measured where `measured` has the op by its name; else cached by its key; else interpolated
// between cached sizes of its family; else analytical, scaled by the median of measured to
// analytical times among ops of the same type. Devices of another type than was measured get the
// analytical ratio to it. What is not measured by its name counts as often as its loop runs
// (trip_count.h). `measured` may be null. Fills `sources`, by node, unless it is null.
std::vector<float> OpTimes(const OpGraph& graph, const DeviceSet& devices,
                           const MeasuredCosts* measured,
                           std::vector<CostSource>* sources = nullptr);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_COST_MODEL_H_
