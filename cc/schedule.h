// The growing schedule that list schedulers share: when executors are free, where tensors have
// arrived, which devices groups were given.
#ifndef GRAPPLER_GO_CC_SCHEDULE_H_
#define GRAPPLER_GO_CC_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "cc/heuristics.h"

namespace grappler_go {

class Schedule {
 public:
  enum class Slots : uint8_t {
    kAppend,  // Ops run in the order in which they are placed.
    kInsert,  // An op may run in a gap between ops that were placed before it.
  };

  // Transfers are weighed by `transfer_weight`: above 1 = shy of transfers.
  Schedule(const Problem& problem, double transfer_weight, Slots slots = Slots::kAppend);

  // Devices on which `node` may still be scheduled: its group's device, or those with room for its
  // group, or all legal ones where none has room. Groups that cannot move have taken theirs from
  // the start.
  DeviceMask Choices(int node) const;

  // When the inputs of `node` are on `device`, all of them being scheduled.
  double DataReadyUs(int node, int device) const;

  // When the executor of `device` has run all that was placed on it.
  double FreeUs(int device) const;

  // When `node` would start on `device`.
  double StartUs(int node, int device) const;

  double OpUs(int node, int device) const {
    return p_.op_us[static_cast<size_t>(node) * num_devices_ + device];
  }

  // The device of `among` on which `node` would end first; home among equals.
  int FirstToFinish(int node, DeviceMask among) const;

  // Schedules `node` on `device`, its transfers with their copying at both ends included.
  void Place(int node, int device);

  // The time at which all is done.
  double EndUs() const;

  Placement Finish() &&;

 private:
  struct Slot {
    double start, end;
  };
  double SendUs(int32_t tensor, int from, int to) const;
  double EarliestUs(int executor, double ready_us, double us) const;
  double Occupy(int executor, double ready_us, double us);

  const Problem& p_;
  int num_devices_;
  double weight_;
  Slots slots_;
  Placement placement_;
  std::vector<double> end_us_, executor_free_us_, memory_bytes_;
  std::vector<std::vector<Slot>> taken_;  // By executor, in order of time.
  std::vector<int8_t> group_device_;
  std::vector<double> group_bytes_;
  std::vector<float> arrival_us_;  // [tensor * devices + device], -1 = not sent there.
};

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_SCHEDULE_H_
