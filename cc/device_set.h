// The devices that a graph may run on, what they can do, and the links between them.
#ifndef GRAPPLER_GO_CC_DEVICE_SET_H_
#define GRAPPLER_GO_CC_DEVICE_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace grappler_go {

// A set of devices is a bit mask in the hot loops.
using DeviceMask = uint64_t;
inline constexpr int kMaxDevices = 64;
inline constexpr DeviceMask DeviceBit(int device) { return DeviceMask{1} << device; }

struct Device {
  std::string name;  // Full name, "/job:worker/replica:0/task:1/device:CPU:0".
  std::string type;  // "CPU" or "GPU".
  double matmul_gflops = 0;
  double elementwise_gops = 0;
  double memory_gb_per_s = 0;
  double launch_us = 0;       // Fixed cost of one op.
  double memory_bytes = 0;    // Limit; 0 = not known, so none.
  int threads = 1;            // Ops that run at once.
  double cores = 1;           // Ops that run at full speed at once; more of them share these.
  double xla_launch_us = 0;   // Fixed cost of one run of an XLA cluster.
  double xla_compile_us = 0;  // Fixed cost of compiling a cluster,
  double xla_compile_us_per_op = 0;  // and what each of its ops adds.
  int task = 0;                      // Devices with one number live in one process.
  int executor =
      0;  // Devices with one number share their compute, as all CPU devices of a process do.
};

// A directed link. A tensor of b bytes arrives latency_us + b * us_per_byte after it was sent, and
// the copying takes busy_us + b * busy_us_per_byte of compute from each end. Where the receiver
// computes, it takes the tensor up wake_us later: the thread that waits for it must get the core.
struct Link {
  double latency_us = 0;
  double us_per_byte = 0;
  double busy_us = 0;
  double busy_us_per_byte = 0;
  double wake_us = 0;
};

// The time from the end of a tensor's producer to its arrival, the copying at both ends included,
// with all idle.
inline double TransferUs(const Link& link, double bytes) {
  return 2 * link.busy_us + link.latency_us +
         bytes * (link.us_per_byte + 2 * link.busy_us_per_byte);
}

// Immutable. Devices are in a canonical order: job, replica, task, CPU before GPU, number.
class DeviceSet {
 public:
  // Builds the set from full device names; types other than CPU and GPU are left out.
  // `profile_json` overrides the built-in figures, field by field; "" = none. Errors: no usable
  // device, more than kMaxDevices, a bad name or profile.
  static absl::StatusOr<DeviceSet> Create(const std::vector<std::string>& names,
                                          absl::string_view profile_json);

  int size() const { return static_cast<int>(devices_.size()); }
  const Device& device(int index) const { return devices_[index]; }
  const Link& link(int source, int target) const { return links_[source * size() + target]; }
  int num_executors() const { return num_executors_; }

  // Sets the memory limit of `device` where the profile gives none.
  void SetMemoryLimit(int device, double bytes);

  // The index of the device with this full name (in any of TensorFlow's spellings), or -1.
  int Find(absl::string_view name) const;

  // All devices that `spec` allows ("/job:worker/task:1", "/device:GPU:*", "/cpu:0"; "" = all); an
  // error for a spec that TensorFlow cannot parse.
  absl::StatusOr<DeviceMask> Matching(absl::string_view spec) const;

  // The device on which TensorFlow's placer puts an unconstrained op with kernels for `types`: the
  // first GPU of the first task, else its first CPU.
  int DefaultDevice(DeviceMask allowed) const;

 private:
  std::vector<Device> devices_;
  std::vector<tensorflow::DeviceNameUtils::ParsedName> parsed_;
  std::vector<Link> links_;  // [source * size + target]
  absl::flat_hash_map<std::string, int> index_;
  int num_executors_ = 0;
};

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_DEVICE_SET_H_
