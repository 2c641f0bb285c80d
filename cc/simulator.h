// Event-driven simulation of one step of a placed graph.
//
// An executor runs its ready ops one after the other, first come first served, as TensorFlow's does
// with one thread. A tensor goes once to each device that reads it; links carry one tensor at a
// time in each direction; copying burns compute at both ends before any other op gets it. Known
// weakness: loops run once.
#ifndef GRAPPLER_GO_CC_SIMULATOR_H_
#define GRAPPLER_GO_CC_SIMULATOR_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "cc/device_set.h"
#include "cc/legality.h"
#include "cc/op_graph.h"

namespace grappler_go {

struct TransferEvent {
  int32_t tensor;
  int8_t source, target;
  double start_us, end_us;  // On the link.
};

struct Timeline {
  std::vector<double> start_us, end_us;  // By node.
  std::vector<TransferEvent> transfers;
};

struct StepEstimate {
  double step_us = 0;
  bool feasible = true;            // Peak memory is within every device's limit.
  std::vector<double> busy_us;     // By executor: ops and copying.
  std::vector<double> peak_bytes;  // By device: persistent and live tensors.
};

// What bounds the step of any placement from below.
struct LowerBound {
  double critical_path_us = 0;  // Fastest device for each op, free transfers.
  double work_us = 0;           // All ops on their fastest device, split evenly over the executors.
  double fixed_us =
      0;  // The ops that can run on one executor only, on the one that has most of them.
  double us() const { return std::max({critical_path_us, work_us, fixed_us}); }
};

// Holds the buffers of one graph on one device set: many placements are simulated without
// allocation. Not thread-safe; one object a thread.
class Simulator {
 public:
  // `op_us` as from OpTimes. All arguments must outlive the simulator.
  Simulator(const OpGraph& graph, const DeviceSet& devices, const Legality& legality,
            absl::Span<const float> op_us);

  // Simulates one step. `placement` must be legal. With `priority` (by node, higher first; may be
  // empty) each ready queue is ordered by it. Fills `timeline` unless it is null.
  StepEstimate Run(absl::Span<const int8_t> placement, absl::Span<const int32_t> priority = {},
                   Timeline* timeline = nullptr);

  LowerBound Bound() const;

 private:
  struct Task {
    int32_t id;     // A node, or ~transfer for its copying at one end.
    int64_t order;  // Ready queues pop the smallest.
    double us;
  };
  struct Event {
    double us;
    int64_t sequence;
    int32_t id;  // >= 0: the executor that finishes its task; < 0: ~transfer that arrives.
  };
  struct Transfer {
    int32_t tensor;
    int32_t next;   // The next transfer of the same tensor, -1 = none.
    int32_t reads;  // Consumers that have not run yet.
    int8_t source, target;
    bool arrived;
    double start_us, end_us;
  };
  struct Executor {
    std::vector<Task> queue;  // Binary heap.
    Task running;
    bool busy = false;
    double busy_us = 0;
  };

  void Enqueue(int executor, const Task& task);
  void StartNext(int executor);
  void FinishNode(int node);
  void Deliver(int32_t transfer);
  void Release(int node);
  void AddReady(int node);
  void Allocate(int device, double bytes);

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const Legality& legality_;
  absl::Span<const float> op_us_;
  std::vector<int32_t> in_degree_;

  // State of a run.
  absl::Span<const int8_t> placement_;
  absl::Span<const int32_t> priority_;
  Timeline* timeline_ = nullptr;
  double now_us_ = 0;
  int64_t sequence_ = 0;
  std::vector<int32_t> pending_;         // By node: inputs still missing.
  std::vector<int32_t> local_reads_;     // By tensor: readers at home that have not run.
  std::vector<int32_t> first_transfer_;  // By tensor.
  std::vector<Transfer> transfers_;
  std::vector<Executor> executors_;
  std::vector<Event> events_;         // Binary heap.
  std::vector<double> link_free_us_;  // By source * devices + target.
  std::vector<double> live_bytes_, peak_bytes_;
};

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_SIMULATOR_H_
