// Event-driven simulation of one step of a placed graph.
//
// An executor runs up to `threads` ready ops at once, which share its cores; the others wait, first
// come first served, as in TensorFlow's executor, or by priority. Ops of no time run at once. A
// tensor goes once to each device that reads it; links carry one tensor at a time in each
// direction; copying takes the cores from the ops at both ends. A cluster of fused ops runs as one.
// Known weakness: a loop's ops run once each, for as long as all their iterations take
// (trip_count.h).
#ifndef GRAPPLER_GO_CC_SIMULATOR_H_
#define GRAPPLER_GO_CC_SIMULATOR_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "cc/buffers.h"
#include "cc/cluster_cost.h"
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
  bool feasible = true;            // All ops ran, and no device's peak is above its limit.
  int unfinished = 0;              // Ops that never ran, for a cycle through a cluster.
  std::vector<double> busy_us;     // By executor: ops and copying.
  std::vector<double> peak_bytes;  // By device: persistent and live tensors. Empty if not tracked.
};

// Why the step is infeasible, in words: each device over its limit, or ops that never ran. "" if it
// is not.
std::string WhyInfeasible(const StepEstimate& estimate, const DeviceSet& devices);

// What bounds the step of any placement from below.
struct LowerBound {
  double critical_path_us = 0;  // Fastest device for each op, free transfers.
  double work_us = 0;           // All ops on their fastest device, split evenly over the cores.
  // The ops that can run on one executor only, on the one that has most of them.
  double fixed_us = 0;
  // Persistent memory over what all devices have, 0 where one has no limit. Above 1, nothing fits.
  double memory_share = 0;
  double us() const { return std::max({critical_path_us, work_us, fixed_us}); }
};

enum class Track : uint8_t {
  kTimeAndMemory,
  kTime,  // No peak memory, so no feasibility: a third quicker.
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
                   Timeline* timeline = nullptr, Track track = Track::kTimeAndMemory);

  // Fuses ops from the next run on; null = none. The clusters must outlive those runs, and each be
  // on one device in them.
  void SetClusters(const Clusters* clusters);

  LowerBound Bound() const;

  // The longest path of a placement, transfers included, as if nothing ever waited for a device or
  // a link: its length in microseconds, and its ops.
  std::pair<double, std::vector<int32_t>> LongestPath(absl::Span<const int8_t> placement) const;

  // Whether some device has a memory limit, so that a placement may not fit.
  bool limited() const { return limited_; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Running {
    double end;  // In the executor's own time, which runs slower where ops share cores.
    int32_t node;
  };
  struct Waiting {
    uint64_t key;  // Ready queues by priority pop the smallest.
    int32_t node;
  };
  struct Executor {
    int threads = 1;
    double cores = 1;
    double clock = 0;             // Own time, up to `updated_us`.
    double updated_us = 0;        //
    double next_us = kNever;      // When the first running op or copy ends.
    double copy_end_us = kNever;  // Of the copy under way.
    double busy_us = 0;
    std::vector<Running> running;
    std::vector<int32_t> copies;  // Queue: transfers to copy, from `copies_head` on.
    size_t copies_head = 0;
    std::vector<int32_t> fifo;  // Queue: ready nodes, from `fifo_head` on.
    size_t fifo_head = 0;
    std::vector<Waiting> heap;
  };
  struct Arrival {
    double us;
    int64_t sequence;
    int32_t transfer;
    bool woken;  // The receiver's wait is over.
  };
  struct Transfer {
    int32_t tensor;
    int32_t next;  // The next transfer of the same tensor, -1 = none.
    int32_t reads;
    int8_t source, target;
    bool arrived;
    double start_us, end_us;
  };

  template <bool kMemory>
  void Simulate();
  void Reset(bool memory);
  void MakeReady(int node);
  double TimeOf(int node) const;
  void Satisfy(int node, int reader);
  template <bool kMemory>
  void Fill(int executor);
  template <bool kMemory>
  void Start(int node);
  template <bool kMemory>
  void StartOp(int node);
  template <bool kMemory>
  void Finish(int node);
  template <bool kMemory>
  void FinishOp(int node);
  template <bool kMemory>
  void FinishRemote(int node);
  template <bool kMemory>
  void FreeInputs(int node);
  template <bool kMemory>
  void Drain();
  template <bool kMemory>
  void EndCopy(int32_t transfer);
  void Advance(Executor& executor);
  void Schedule(Executor& executor);
  void Copy(int device, int32_t transfer);
  void SendOff(int32_t transfer);
  void Arrive(int32_t transfer, double us, bool woken);
  void Deliver(int32_t transfer);
  int32_t StorageOf(int edge, int home) const;
  void Allocate(int device, double bytes);

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const Legality& legality_;
  absl::Span<const float> op_us_;
  const Buffers buffers_;
  bool limited_ = false;

  // Of the graph.
  std::vector<int32_t> in_degree_, reads_;  // By node, by tensor; a fetch counts as a read.
  std::vector<int32_t> first_use_;          // [nodes + 1] into graph_.uses.
  std::vector<uint8_t> replicable_;         // By node.
  std::vector<float> bytes_;                // By tensor: of its own buffer.
  std::vector<int8_t> executor_of_;         // By device.

  // Of the clusters; a cluster counts as its first op.
  const Clusters* clusters_ = nullptr;
  std::vector<int32_t> first_op_;         // By node: of its cluster, itself where it has none.
  std::vector<int32_t> outer_in_degree_;  // By first op: edges from outside.
  std::vector<uint8_t> inner_;            // By tensor: all its readers are in its op's cluster.

  // State of a run.
  absl::Span<const int8_t> placement_;
  absl::Span<const int32_t> priority_;
  Timeline* timeline_ = nullptr;
  double now_us_ = 0;
  int64_t sequence_ = 0;
  int unfinished_ = 0;
  uint64_t dirty_ = 0;                   // Executors that may have more to run.
  std::vector<int32_t> pending_;         // By node: inputs still missing.
  std::vector<int32_t> instant_;         // Stack of ready ops of no time.
  std::vector<int32_t> storage_;         // By tensor: the tensor or transfer that owns its buffer.
  std::vector<int32_t> refs_;            // By tensor, then by transfer: reads still to come.
  std::vector<int32_t> first_transfer_;  // By tensor.
  std::vector<Transfer> transfers_;
  std::vector<Executor> executors_;
  std::vector<Arrival> arrivals_;     // Binary heap.
  std::vector<double> link_free_us_;  // By source * devices + target.
  std::vector<double> live_bytes_, peak_bytes_;
};

// Many placements of one graph, on `threads` threads (0 = one a core). `priorities` has as many
// entries, or one for all, or none. The answer does not depend on the number of threads.
std::vector<StepEstimate> SimulateAll(const OpGraph& graph, const DeviceSet& devices,
                                      const Legality& legality, absl::Span<const float> op_us,
                                      absl::Span<const Placement> placements,
                                      absl::Span<const std::vector<int32_t>> priorities,
                                      int threads = 0);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_SIMULATOR_H_
