#include "cc/simulator.h"

#include <atomic>
#include <thread>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace grappler_go {
namespace {

constexpr int64_t kPriorityBase = int64_t{1} << 31;

constexpr auto kLaterKey = [](const auto& a, const auto& b) { return a.key > b.key; };
constexpr auto kLaterArrival = [](const auto& a, const auto& b) {
  return a.us > b.us || (a.us == b.us && a.sequence > b.sequence);
};

}  // namespace

std::string WhyInfeasible(const StepEstimate& estimate, const DeviceSet& devices) {
  std::string why;
  if (estimate.unfinished > 0) {
    why = absl::StrCat(estimate.unfinished,
                       " ops never run: a cluster waits for what it makes itself");
  }
  for (size_t d = 0; d < estimate.peak_bytes.size(); ++d) {
    const Device& device = devices.device(static_cast<int>(d));
    if (device.memory_bytes <= 0 || estimate.peak_bytes[d] <= device.memory_bytes) continue;
    absl::StrAppend(&why, why.empty() ? "" : "; ", device.name,
                    absl::StrFormat(" needs %.2f GB of its %.2f GB", estimate.peak_bytes[d] * 1e-9,
                                    device.memory_bytes * 1e-9));
  }
  return why;
}

Simulator::Simulator(const OpGraph& graph, const DeviceSet& devices, const Legality& legality,
                     absl::Span<const float> op_us)
    : graph_(graph),
      devices_(devices),
      legality_(legality),
      op_us_(op_us),
      buffers_(FindBuffers(graph)) {
  const int nodes = graph.num_nodes();
  const int tensors = graph.num_tensors();
  in_degree_.resize(nodes);
  first_use_.resize(nodes + 1);
  reads_.resize(tensors);
  bytes_.resize(tensors);
  replicable_.assign(legality.replicable.begin(), legality.replicable.end());
  for (int i = 0; i < nodes; ++i) {
    in_degree_[i] = graph.in_offsets[i + 1] - graph.in_offsets[i];
    first_use_[i] = graph.use_offsets[graph.tensor_offsets[i]];
    for (int t = graph.tensor_offsets[i]; t < graph.tensor_offsets[i + 1]; ++t) {
      reads_[t] = graph.use_offsets[t + 1] - graph.use_offsets[t] + (graph.Has(i, kFetch) ? 1 : 0);
      bytes_[t] = static_cast<float>(graph.tensor_bytes[t]);
    }
  }
  first_use_[nodes] = static_cast<int32_t>(graph.uses.size());
  executors_.resize(devices.num_executors());
  for (int d = 0; d < devices.size(); ++d) {
    const Device& device = devices.device(d);
    executor_of_.push_back(static_cast<int8_t>(device.executor));
    executors_[device.executor].threads = device.threads;
    executors_[device.executor].cores = device.cores;
    limited_ = limited_ || device.memory_bytes > 0;
  }
  link_free_us_.resize(devices.size() * devices.size());
}

void Simulator::SetClusters(const Clusters* clusters) {
  clusters_ = clusters;
  if (clusters == nullptr) return;
  const int nodes = graph_.num_nodes();
  first_op_.resize(nodes);
  for (int i = 0; i < nodes; ++i) {
    first_op_[i] = clusters->of[i] < 0 ? i : clusters->members[clusters->of[i]].front();
  }
  outer_in_degree_.assign(nodes, 0);
  for (int e = 0; e < graph_.num_edges(); ++e) {
    const int target = first_op_[graph_.edge_target[e]];
    if (first_op_[graph_.edge_source[e]] != target) ++outer_in_degree_[target];
  }
  inner_.assign(graph_.num_tensors(), 0);
  for (const std::vector<int32_t>& members : clusters->members) {
    for (const int32_t node : members) {
      for (int t = graph_.tensor_offsets[node]; t < graph_.tensor_offsets[node + 1]; ++t) {
        bool inner = !graph_.Has(node, kFetch);
        for (int u = graph_.use_offsets[t]; u < graph_.use_offsets[t + 1] && inner; ++u) {
          inner = first_op_[graph_.uses[u]] == members.front();
        }
        inner_[t] = inner && graph_.use_offsets[t] < graph_.use_offsets[t + 1] ? 1 : 0;
      }
    }
  }
}

void Simulator::Reset(bool memory) {
  now_us_ = 0;
  sequence_ = 0;
  dirty_ = 0;
  unfinished_ = graph_.num_nodes();
  const std::vector<int32_t>& in_degree = clusters_ == nullptr ? in_degree_ : outer_in_degree_;
  pending_.assign(in_degree.begin(), in_degree.end());
  instant_.clear();
  first_transfer_.assign(graph_.num_tensors(), -1);
  transfers_.clear();
  arrivals_.clear();
  std::fill(link_free_us_.begin(), link_free_us_.end(), 0.0);
  for (Executor& executor : executors_) {
    executor.clock = executor.updated_us = executor.busy_us = 0;
    executor.next_us = executor.copy_end_us = kNever;
    executor.running.clear();
    executor.copies.clear();
    executor.fifo.clear();
    executor.heap.clear();
    executor.copies_head = executor.fifo_head = 0;
  }
  if (timeline_ != nullptr) {
    timeline_->start_us.assign(graph_.num_nodes(), 0.0);
    timeline_->end_us.assign(graph_.num_nodes(), 0.0);
    timeline_->transfers.clear();
  }
  if (!memory) return;
  refs_.assign(reads_.begin(), reads_.end());
  storage_.resize(graph_.num_tensors());
  for (int t = 0; t < graph_.num_tensors(); ++t) {
    storage_[t] = buffers_.shared_edge[t] == kPersistentBuffer ? kPersistentBuffer : t;
  }
  live_bytes_.assign(devices_.size(), 0.0);
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    live_bytes_[placement_[i]] += graph_.persistent_bytes[i];
  }
  peak_bytes_ = live_bytes_;
}

void Simulator::Allocate(int device, double bytes) {
  live_bytes_[device] += bytes;
  peak_bytes_[device] = std::max(peak_bytes_[device], live_bytes_[device]);
}

// The owner of the buffer that `edge` reads at `home`.
int32_t Simulator::StorageOf(int edge, int home) const {
  const int32_t tensor = graph_.edge_tensor[edge];
  const int source = graph_.edge_source[edge];
  if (placement_[source] == home || replicable_[source]) return storage_[tensor];
  int32_t transfer = first_transfer_[tensor];
  while (transfer >= 0 && transfers_[transfer].target != home) transfer = transfers_[transfer].next;
  return transfer < 0 ? kPersistentBuffer : graph_.num_tensors() + transfer;
}

inline double Simulator::TimeOf(int node) const {
  if (clusters_ != nullptr && clusters_->of[node] >= 0) {
    return clusters_->cost[clusters_->of[node]].run_us;
  }
  return op_us_[static_cast<size_t>(node) * devices_.size() + placement_[node]];
}

// One of the inputs that `reader` waits for is there, made by `node`.
inline void Simulator::Satisfy(int node, int reader) {
  if (clusters_ != nullptr) {
    reader = first_op_[reader];
    if (reader == first_op_[node]) return;
  }
  if (--pending_[reader] == 0) MakeReady(reader);
}

inline void Simulator::MakeReady(int node) {
  const int device = placement_[node];
  if (TimeOf(node) <= 0) {
    instant_.push_back(node);
    return;
  }
  const int e = executor_of_[device];
  Executor& executor = executors_[e];
  if (priority_.empty()) {
    executor.fifo.push_back(node);
  } else {
    const uint64_t key = static_cast<uint64_t>(kPriorityBase - priority_[node]) << 32 |
                         static_cast<uint32_t>(sequence_++);
    executor.heap.push_back({key, node});
    std::push_heap(executor.heap.begin(), executor.heap.end(), kLaterKey);
  }
  dirty_ |= uint64_t{1} << e;
}

// Brings the executor's own time up to now.
inline void Simulator::Advance(Executor& executor) {
  if (!executor.running.empty()) {
    const double free = executor.cores - (executor.copy_end_us < kNever ? 1 : 0);
    const double rate = std::min(1.0, free / static_cast<double>(executor.running.size()));
    if (rate > 0) executor.clock += (now_us_ - executor.updated_us) * rate;
  }
  executor.updated_us = now_us_;
}

// Works out when the executor's next op or copy ends.
inline void Simulator::Schedule(Executor& executor) {
  executor.next_us = executor.copy_end_us;
  if (executor.running.empty()) return;
  const double free = executor.cores - (executor.copy_end_us < kNever ? 1 : 0);
  const double rate = std::min(1.0, free / static_cast<double>(executor.running.size()));
  if (rate <= 0) return;
  double end = executor.running.front().end;
  for (const Running& each : executor.running) end = std::min(end, each.end);
  executor.next_us = std::min(executor.next_us, now_us_ + (end - executor.clock) / rate);
}

template <bool kMemory>
inline void Simulator::Start(int node) {
  if (clusters_ == nullptr || clusters_->of[node] < 0) return StartOp<kMemory>(node);
  for (const int32_t member : clusters_->members[clusters_->of[node]]) StartOp<kMemory>(member);
}

template <bool kMemory>
inline void Simulator::Finish(int node) {
  if (clusters_ == nullptr || clusters_->of[node] < 0) return FinishOp<kMemory>(node);
  for (const int32_t member : clusters_->members[clusters_->of[node]]) FinishOp<kMemory>(member);
}

template <bool kMemory>
inline void Simulator::StartOp(int node) {
  if (timeline_ != nullptr) timeline_->start_us[node] = now_us_;
  if constexpr (!kMemory) return;
  const int home = placement_[node];
  const bool fused = clusters_ != nullptr && clusters_->of[node] >= 0;
  for (int t = graph_.tensor_offsets[node]; t < graph_.tensor_offsets[node + 1]; ++t) {
    if (fused) {  // A cluster's results are new; what stays inside is in no buffer.
      storage_[t] = inner_[t] ? kPersistentBuffer : t;
      if (!inner_[t]) Allocate(home, bytes_[t]);
      continue;
    }
    const int32_t shared = buffers_.shared_edge[t];
    if (shared == kPersistentBuffer || bytes_[t] == 0) continue;
    if (shared >= 0) {
      storage_[t] = StorageOf(shared, home);
      continue;
    }
    if (t == graph_.tensor_offsets[node] && buffers_.may_overwrite[node]) {
      for (int e = graph_.in_offsets[node]; e < graph_.in_offsets[node + 1]; ++e) {
        const int32_t s = StorageOf(e, home);
        if (s < 0 || refs_[s] != 1) continue;
        const int32_t owner =
            s < graph_.num_tensors() ? s : transfers_[s - graph_.num_tensors()].tensor;
        if (bytes_[owner] != bytes_[t]) continue;
        storage_[t] = s;
        break;
      }
      if (storage_[t] != t) continue;
    }
    Allocate(home, bytes_[t]);
  }
}

// Starts waiting ops on the free threads.
template <bool kMemory>
inline void Simulator::Fill(int e) {
  Executor& executor = executors_[e];
  Advance(executor);
  // While copying has the only core, nothing starts.
  if (executor.copy_end_us < kNever && executor.cores <= 1) return Schedule(executor);
  while (static_cast<int>(executor.running.size()) < executor.threads) {
    int32_t node;
    if (executor.fifo_head < executor.fifo.size()) {
      node = executor.fifo[executor.fifo_head++];
    } else if (!executor.heap.empty()) {
      node = executor.heap.front().node;
      std::pop_heap(executor.heap.begin(), executor.heap.end(), kLaterKey);
      executor.heap.pop_back();
    } else {
      break;
    }
    const double us = TimeOf(node);
    Start<kMemory>(node);
    executor.running.push_back({executor.clock + us, node});
    executor.busy_us += us;
  }
  Schedule(executor);
}

// Frees what the node read.
template <bool kMemory>
inline void Simulator::FreeInputs(int node) {
  if constexpr (!kMemory) return;
  const int home = placement_[node];
  for (int e = graph_.in_offsets[node]; e < graph_.in_offsets[node + 1]; ++e) {
    const int32_t s = StorageOf(e, home);
    if (s < 0 || --refs_[s] != 0) continue;
    live_bytes_[home] -=
        bytes_[s < graph_.num_tensors() ? s : transfers_[s - graph_.num_tensors()].tensor];
  }
}

// Hands the node's outputs on.
template <bool kMemory>
inline void Simulator::FinishOp(int node) {
  --unfinished_;
  if (timeline_ != nullptr) timeline_->end_us[node] = now_us_;
  const int home = placement_[node];
  const int begin = first_use_[node];
  const int end = first_use_[node + 1];
  if (!replicable_[node]) {
    int away = 0;
    for (int u = begin; u < end; ++u) away |= placement_[graph_.uses[u]] ^ home;
    if (away != 0) return FinishRemote<kMemory>(node);
  }
  if constexpr (kMemory) {
    for (int t = graph_.tensor_offsets[node]; t < graph_.tensor_offsets[node + 1]; ++t) {
      const int32_t s = storage_[t];
      if (s >= 0 && s != t) {
        refs_[s] += reads_[t];
      } else if (s == t && reads_[t] == 0) {
        live_bytes_[home] -= bytes_[t];
      }
    }
    FreeInputs<kMemory>(node);
  }
  for (int u = begin; u < end; ++u) Satisfy(node, graph_.uses[u]);
}

template <bool kMemory>
void Simulator::FinishRemote(int node) {
  const int home = placement_[node];
  for (int t = graph_.tensor_offsets[node]; t < graph_.tensor_offsets[node + 1]; ++t) {
    int32_t reads = reads_[t];
    for (int u = graph_.use_offsets[t]; u < graph_.use_offsets[t + 1]; ++u) {
      const int8_t target = placement_[graph_.uses[u]];
      if (target == home) continue;
      --reads;
      int32_t transfer = first_transfer_[t];
      while (transfer >= 0 && transfers_[transfer].target != target) {
        transfer = transfers_[transfer].next;
      }
      if (transfer < 0) {
        transfer = static_cast<int32_t>(transfers_.size());
        transfers_.push_back(
            {t, first_transfer_[t], 0, static_cast<int8_t>(home), target, false, 0, 0});
        first_transfer_[t] = transfer;
        if constexpr (kMemory) refs_.resize(graph_.num_tensors() + transfers_.size(), 0);
        ++reads;  // The sender holds the tensor, too.
      }
      if constexpr (kMemory) ++refs_[graph_.num_tensors() + transfer];
    }
    if constexpr (kMemory) {
      const int32_t s = storage_[t];
      if (s == t) {
        refs_[t] = reads;
        if (reads == 0) live_bytes_[home] -= bytes_[t];
      } else if (s >= 0) {
        refs_[s] += reads;
      }
    }
  }
  FreeInputs<kMemory>(node);
  for (int t = graph_.tensor_offsets[node]; t < graph_.tensor_offsets[node + 1]; ++t) {
    for (int32_t s = first_transfer_[t]; s >= 0; s = transfers_[s].next) Copy(home, s);
    for (int u = graph_.use_offsets[t]; u < graph_.use_offsets[t + 1]; ++u) {
      if (placement_[graph_.uses[u]] == home) Satisfy(node, graph_.uses[u]);
    }
  }
}

// Runs the ready ops that take no time, and what they make ready.
template <bool kMemory>
inline void Simulator::Drain() {
  while (!instant_.empty()) {
    const int node = instant_.back();
    instant_.pop_back();
    Start<kMemory>(node);
    Finish<kMemory>(node);
  }
}

// Copies a tensor out of or into `device`.
void Simulator::Copy(int device, int32_t t) {
  const Transfer& transfer = transfers_[t];
  const Link& link = devices_.link(transfer.source, transfer.target);
  const double us = link.busy_us + bytes_[transfer.tensor] * link.busy_us_per_byte;
  if (us <= 0) return transfer.arrived ? Deliver(t) : SendOff(t);
  const int e = executor_of_[device];
  Executor& executor = executors_[e];
  Advance(executor);
  executor.copies.push_back(t);
  executor.busy_us += us;
  if (executor.copy_end_us == kNever) executor.copy_end_us = now_us_ + us;
  dirty_ |= uint64_t{1} << e;
}

void Simulator::SendOff(int32_t t) {
  Transfer& transfer = transfers_[t];
  const Link& link = devices_.link(transfer.source, transfer.target);
  double& free_us = link_free_us_[transfer.source * devices_.size() + transfer.target];
  transfer.start_us = std::max(now_us_, free_us);
  free_us = transfer.start_us + bytes_[transfer.tensor] * link.us_per_byte;
  transfer.end_us = free_us + link.latency_us;
  Arrive(t, transfer.end_us, false);
}

void Simulator::Arrive(int32_t transfer, double us, bool woken) {
  arrivals_.push_back({us, sequence_++, transfer, woken});
  std::push_heap(arrivals_.begin(), arrivals_.end(), kLaterArrival);
}

// The readers of a transfer that has been copied in may run.
void Simulator::Deliver(int32_t transfer) {
  const int32_t tensor = transfers_[transfer].tensor;
  const int target = transfers_[transfer].target;
  for (int u = graph_.use_offsets[tensor]; u < graph_.use_offsets[tensor + 1]; ++u) {
    if (placement_[graph_.uses[u]] == target) {
      Satisfy(graph_.tensor_node[tensor], graph_.uses[u]);
    }
  }
}

template <bool kMemory>
void Simulator::Simulate() {
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    // The other ops of a cluster go with its first.
    if (pending_[i] == 0 && (clusters_ == nullptr || first_op_[i] == i)) MakeReady(i);
  }
  const int num_executors = static_cast<int>(executors_.size());
  while (true) {
    Drain<kMemory>();
    while (dirty_ != 0) {
      const int e = absl::countr_zero(dirty_);
      dirty_ &= dirty_ - 1;
      Fill<kMemory>(e);
    }
    int first = 0;
    for (int e = 1; e < num_executors; ++e) {
      if (executors_[e].next_us < executors_[first].next_us) first = e;
    }
    const double next_us = executors_[first].next_us;
    if (!arrivals_.empty() && arrivals_.front().us < next_us) {
      const Arrival arrival = arrivals_.front();
      std::pop_heap(arrivals_.begin(), arrivals_.end(), kLaterArrival);
      arrivals_.pop_back();
      now_us_ = arrival.us;
      Transfer& transfer = transfers_[arrival.transfer];
      const double wake_us = devices_.link(transfer.source, transfer.target).wake_us;
      if (!arrival.woken && wake_us > 0 &&
          !executors_[executor_of_[transfer.target]].running.empty()) {
        Arrive(arrival.transfer, now_us_ + wake_us, true);
        continue;
      }
      transfer.arrived = true;
      if constexpr (kMemory) {
        Allocate(transfer.target, bytes_[transfer.tensor]);
        const int32_t s = storage_[transfer.tensor];
        if (s >= 0 && --refs_[s] == 0) {
          live_bytes_[transfer.source] -=
              bytes_[s < graph_.num_tensors() ? s : transfers_[s - graph_.num_tensors()].tensor];
        }
      }
      Copy(transfer.target, arrival.transfer);
      continue;
    }
    if (next_us == kNever) break;
    now_us_ = next_us;
    Executor& executor = executors_[first];
    dirty_ |= uint64_t{1} << first;
    Advance(executor);
    if (executor.copy_end_us <= now_us_) {
      const int32_t done = executor.copies[executor.copies_head++];
      executor.copy_end_us = kNever;
      if (executor.copies_head < executor.copies.size()) {
        const Transfer& next = transfers_[executor.copies[executor.copies_head]];
        const Link& link = devices_.link(next.source, next.target);
        executor.copy_end_us = now_us_ + link.busy_us + bytes_[next.tensor] * link.busy_us_per_byte;
      }
      transfers_[done].arrived ? Deliver(done) : SendOff(done);
      continue;
    }
    size_t best = 0;
    for (size_t k = 1; k < executor.running.size(); ++k) {
      if (executor.running[k].end < executor.running[best].end) best = k;
    }
    const Running done = executor.running[best];
    // In order of their start, so that ties end as they began.
    executor.running.erase(executor.running.begin() + static_cast<int64_t>(best));
    executor.clock = std::max(executor.clock, done.end);
    Finish<kMemory>(done.node);
  }
}

StepEstimate Simulator::Run(absl::Span<const int8_t> placement, absl::Span<const int32_t> priority,
                            Timeline* timeline, Track track) {
  placement_ = placement;
  priority_ = priority;
  timeline_ = timeline;
  const bool memory = track == Track::kTimeAndMemory;
  Reset(memory);
  memory ? Simulate<true>() : Simulate<false>();
  StepEstimate estimate;
  estimate.step_us = now_us_;
  estimate.unfinished = unfinished_;
  estimate.feasible = unfinished_ == 0;
  for (const Executor& executor : executors_) estimate.busy_us.push_back(executor.busy_us);
  if (memory) {
    estimate.peak_bytes = peak_bytes_;
    for (int d = 0; d < devices_.size(); ++d) {
      const double limit = devices_.device(d).memory_bytes;
      if (limit > 0 && peak_bytes_[d] > limit) estimate.feasible = false;
    }
  }
  if (timeline_ != nullptr) {
    for (const Transfer& transfer : transfers_) {
      timeline_->transfers.push_back(
          {transfer.tensor, transfer.source, transfer.target, transfer.start_us, transfer.end_us});
    }
  }
  return estimate;
}

LowerBound Simulator::Bound() const {
  LowerBound bound;
  std::vector<double> ready(graph_.num_nodes(), 0.0);
  std::vector<double> fixed(devices_.num_executors(), 0.0);
  double persistent = 0;
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    double fastest = -1;
    int executor = -1;
    bool one_executor = true;
    for (int d = 0; d < devices_.size(); ++d) {
      if ((legality_.mask(i) & DeviceBit(d)) == 0) continue;
      const double us = op_us_[static_cast<size_t>(i) * devices_.size() + d];
      if (fastest < 0 || us < fastest) fastest = us;
      one_executor = one_executor && (executor < 0 || executor == devices_.device(d).executor);
      executor = devices_.device(d).executor;
    }
    if (one_executor) fixed[executor] += fastest;
    for (int e = graph_.in_offsets[i]; e < graph_.in_offsets[i + 1]; ++e) {
      ready[i] = std::max(ready[i], ready[graph_.edge_source[e]]);
    }
    ready[i] += fastest;
    bound.critical_path_us = std::max(bound.critical_path_us, ready[i]);
    bound.work_us += fastest;
    persistent += graph_.persistent_bytes[i];
  }
  double cores = 0;
  for (size_t e = 0; e < executors_.size(); ++e) {
    cores += executors_[e].cores;
    bound.fixed_us = std::max(bound.fixed_us, fixed[e] / executors_[e].cores);
  }
  bound.work_us /= cores;
  double memory = 0;
  bool all_limited = true;
  for (int d = 0; d < devices_.size(); ++d) {
    memory += devices_.device(d).memory_bytes;
    all_limited = all_limited && devices_.device(d).memory_bytes > 0;
  }
  if (all_limited) bound.memory_share = persistent / memory;
  return bound;
}

std::pair<double, std::vector<int32_t>> Simulator::LongestPath(
    absl::Span<const int8_t> placement) const {
  std::vector<double> end(graph_.num_nodes(), 0.0);
  std::vector<int32_t> before(graph_.num_nodes(), -1);
  int32_t last = -1;
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    double start = 0;
    for (int e = graph_.in_offsets[i]; e < graph_.in_offsets[i + 1]; ++e) {
      const int source = graph_.edge_source[e];
      double ready = end[source];
      if (placement[source] != placement[i] && !replicable_[source]) {
        ready += TransferUs(devices_.link(placement[source], placement[i]),
                            graph_.tensor_bytes[graph_.edge_tensor[e]]);
      }
      if (before[i] < 0 || ready > start) {
        start = ready;
        before[i] = source;
      }
    }
    end[i] = start + op_us_[static_cast<size_t>(i) * devices_.size() + placement[i]];
    if (last < 0 || end[i] > end[last]) last = i;
  }
  std::vector<int32_t> path;
  for (int32_t i = last; i >= 0; i = before[i]) path.push_back(i);
  std::reverse(path.begin(), path.end());
  return {last < 0 ? 0 : end[last], path};
}

std::vector<StepEstimate> SimulateAll(const OpGraph& graph, const DeviceSet& devices,
                                      const Legality& legality, absl::Span<const float> op_us,
                                      absl::Span<const Placement> placements,
                                      absl::Span<const std::vector<int32_t>> priorities,
                                      int threads) {
  std::vector<StepEstimate> estimates(placements.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    Simulator simulator(graph, devices, legality, op_us);
    for (size_t k = next.fetch_add(1); k < placements.size(); k = next.fetch_add(1)) {
      const absl::Span<const int32_t> priority = priorities.empty()
                                                     ? absl::Span<const int32_t>()
                                                     : priorities[priorities.size() == 1 ? 0 : k];
      estimates[k] = simulator.Run(placements[k], priority);
    }
  };
  size_t count = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  count = std::min(count, placements.size());
  std::vector<std::thread> workers;
  for (size_t w = 1; w < count; ++w) workers.emplace_back(work);
  if (count > 0) work();
  for (std::thread& worker : workers) worker.join();
  return estimates;
}

}  // namespace grappler_go
