#include "cc/simulator.h"

#include <algorithm>

namespace grappler_go {
namespace {

// Copying goes before any op, and ops keep their order of arrival within a priority.
constexpr int64_t kCopyOrder = INT64_MIN / 2;
constexpr int64_t kPriorityStep = int64_t{1} << 36;

}  // namespace

Simulator::Simulator(const OpGraph& graph, const DeviceSet& devices, const Legality& legality,
                     absl::Span<const float> op_us)
    : graph_(graph), devices_(devices), legality_(legality), op_us_(op_us) {
  in_degree_.resize(graph.num_nodes());
  for (int i = 0; i < graph.num_nodes(); ++i) {
    in_degree_[i] = graph.in_offsets[i + 1] - graph.in_offsets[i];
  }
  pending_.resize(graph.num_nodes());
  local_reads_.resize(graph.num_tensors());
  first_transfer_.resize(graph.num_tensors());
  executors_.resize(devices.num_executors());
  link_free_us_.resize(devices.size() * devices.size());
}

void Simulator::Enqueue(int e, const Task& task) {
  Executor& executor = executors_[e];
  executor.queue.push_back(task);
  std::push_heap(executor.queue.begin(), executor.queue.end(),
                 [](const Task& a, const Task& b) { return a.order > b.order; });
  if (!executor.busy) StartNext(e);
}

void Simulator::StartNext(int e) {
  Executor& executor = executors_[e];
  if (executor.queue.empty()) {
    executor.busy = false;
    return;
  }
  std::pop_heap(executor.queue.begin(), executor.queue.end(),
                [](const Task& a, const Task& b) { return a.order > b.order; });
  executor.running = executor.queue.back();
  executor.queue.pop_back();
  executor.busy = true;
  executor.busy_us += executor.running.us;
  const int32_t id = executor.running.id;
  if (id >= 0) {
    for (int t = graph_.tensor_offsets[id]; t < graph_.tensor_offsets[id + 1]; ++t) {
      Allocate(placement_[id], graph_.tensor_bytes[t]);
    }
    if (timeline_ != nullptr) timeline_->start_us[id] = now_us_;
  }
  events_.push_back({now_us_ + executor.running.us, sequence_++, e});
  std::push_heap(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return a.us > b.us || (a.us == b.us && a.sequence > b.sequence);
  });
}

void Simulator::Allocate(int device, double bytes) {
  live_bytes_[device] += bytes;
  peak_bytes_[device] = std::max(peak_bytes_[device], live_bytes_[device]);
}

void Simulator::AddReady(int node) {
  const int device = placement_[node];
  const int64_t order = (priority_.empty() ? 0 : -priority_[node] * kPriorityStep) + sequence_++;
  Enqueue(devices_.device(device).executor,
          {node, order, op_us_[static_cast<size_t>(node) * devices_.size() + device]});
}

void Simulator::Release(int node) {
  if (--pending_[node] == 0) AddReady(node);
}

// Frees what the node read, and hands its outputs to the readers at home and to the links.
void Simulator::FinishNode(int node) {
  const int home = placement_[node];
  for (int e = graph_.in_offsets[node]; e < graph_.in_offsets[node + 1]; ++e) {
    const int32_t tensor = graph_.edge_tensor[e];
    const int source = graph_.edge_source[e];
    if (placement_[source] == home || legality_.replicable[source]) {
      if (--local_reads_[tensor] == 0)
        live_bytes_[placement_[source]] -= graph_.tensor_bytes[tensor];
      continue;
    }
    int32_t transfer = first_transfer_[tensor];
    while (transfer >= 0 && transfers_[transfer].target != home)
      transfer = transfers_[transfer].next;
    if (transfer >= 0 && --transfers_[transfer].reads == 0) {
      live_bytes_[home] -= graph_.tensor_bytes[tensor];
    }
  }
  for (int t = graph_.tensor_offsets[node]; t < graph_.tensor_offsets[node + 1]; ++t) {
    int32_t local = 0;
    for (int u = graph_.use_offsets[t]; u < graph_.use_offsets[t + 1]; ++u) {
      const int reader = graph_.uses[u];
      const int target = placement_[reader];
      if (target == home || legality_.replicable[node]) {
        ++local;
        continue;
      }
      int32_t transfer = first_transfer_[t];
      while (transfer >= 0 && transfers_[transfer].target != target) {
        transfer = transfers_[transfer].next;
      }
      if (transfer < 0) {
        transfer = static_cast<int32_t>(transfers_.size());
        transfers_.push_back({t, first_transfer_[t], 0, static_cast<int8_t>(home),
                              static_cast<int8_t>(target), false, 0, 0});
        first_transfer_[t] = transfer;
      }
      ++transfers_[transfer].reads;
    }
    int32_t sends = 0;
    for (int32_t s = first_transfer_[t]; s >= 0; s = transfers_[s].next) ++sends;
    local_reads_[t] = local + sends;
    if (local_reads_[t] == 0) live_bytes_[home] -= graph_.tensor_bytes[t];
  }
  for (int t = graph_.tensor_offsets[node]; t < graph_.tensor_offsets[node + 1]; ++t) {
    for (int32_t s = first_transfer_[t]; s >= 0; s = transfers_[s].next) {
      const Link& link = devices_.link(home, transfers_[s].target);
      const double busy_us = link.busy_us + graph_.tensor_bytes[t] * link.busy_us_per_byte;
      Enqueue(devices_.device(home).executor, {~s, kCopyOrder + sequence_++, busy_us});
    }
    for (int u = graph_.use_offsets[t]; u < graph_.use_offsets[t + 1]; ++u) {
      const int reader = graph_.uses[u];
      if (placement_[reader] == home || legality_.replicable[node]) Release(reader);
    }
  }
}

// A transfer that has been copied in: its readers may run.
void Simulator::Deliver(int32_t transfer) {
  const int32_t tensor = transfers_[transfer].tensor;
  const int target = transfers_[transfer].target;
  for (int u = graph_.use_offsets[tensor]; u < graph_.use_offsets[tensor + 1]; ++u) {
    if (placement_[graph_.uses[u]] == target) Release(graph_.uses[u]);
  }
}

StepEstimate Simulator::Run(absl::Span<const int8_t> placement, absl::Span<const int32_t> priority,
                            Timeline* timeline) {
  const int num_devices = devices_.size();
  placement_ = placement;
  priority_ = priority;
  timeline_ = timeline;
  now_us_ = 0;
  sequence_ = 0;
  std::copy(in_degree_.begin(), in_degree_.end(), pending_.begin());
  std::fill(first_transfer_.begin(), first_transfer_.end(), -1);
  std::fill(link_free_us_.begin(), link_free_us_.end(), 0.0);
  transfers_.clear();
  events_.clear();
  for (Executor& executor : executors_) {
    executor.queue.clear();
    executor.busy = false;
    executor.busy_us = 0;
  }
  live_bytes_.assign(num_devices, 0.0);
  if (timeline_ != nullptr) {
    timeline_->start_us.assign(graph_.num_nodes(), 0.0);
    timeline_->end_us.assign(graph_.num_nodes(), 0.0);
    timeline_->transfers.clear();
  }
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    // A constant's tensor is its persistent buffer: counted once, as a tensor.
    if (!graph_.Has(i, kConst)) live_bytes_[placement[i]] += graph_.persistent_bytes[i];
  }
  peak_bytes_ = live_bytes_;
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    if (pending_[i] == 0) AddReady(i);
  }
  const auto later = [](const Event& a, const Event& b) {
    return a.us > b.us || (a.us == b.us && a.sequence > b.sequence);
  };
  while (!events_.empty()) {
    std::pop_heap(events_.begin(), events_.end(), later);
    const Event event = events_.back();
    events_.pop_back();
    now_us_ = event.us;
    if (event.id < 0) {  // A transfer leaves the link: the far end copies it in.
      Transfer& transfer = transfers_[~event.id];
      transfer.arrived = true;
      const double bytes = graph_.tensor_bytes[transfer.tensor];
      const Link& link = devices_.link(transfer.source, transfer.target);
      Allocate(transfer.target, bytes);
      if (--local_reads_[transfer.tensor] == 0) live_bytes_[transfer.source] -= bytes;
      Enqueue(devices_.device(transfer.target).executor,
              {event.id, kCopyOrder + sequence_++, link.busy_us + bytes * link.busy_us_per_byte});
      continue;
    }
    const Task done = executors_[event.id].running;
    if (done.id >= 0) {
      if (timeline_ != nullptr) timeline_->end_us[done.id] = now_us_;
      FinishNode(done.id);
    } else if (transfers_[~done.id].arrived) {
      Deliver(~done.id);
    } else {  // Copied out: on to the link.
      Transfer& transfer = transfers_[~done.id];
      const Link& link = devices_.link(transfer.source, transfer.target);
      double& free_us = link_free_us_[transfer.source * num_devices + transfer.target];
      const double carry_us = graph_.tensor_bytes[transfer.tensor] * link.us_per_byte;
      transfer.start_us = std::max(now_us_, free_us);
      free_us = transfer.start_us + carry_us;
      transfer.end_us = free_us + link.latency_us;
      events_.push_back({transfer.end_us, sequence_++, done.id});
      std::push_heap(events_.begin(), events_.end(), later);
    }
    StartNext(event.id);
  }
  StepEstimate estimate;
  estimate.step_us = now_us_;
  for (const Executor& executor : executors_) estimate.busy_us.push_back(executor.busy_us);
  estimate.peak_bytes = peak_bytes_;
  for (int d = 0; d < num_devices; ++d) {
    const double limit = devices_.device(d).memory_bytes;
    if (limit > 0 && peak_bytes_[d] > limit) estimate.feasible = false;
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
  }
  bound.work_us /= devices_.num_executors();
  bound.fixed_us = *std::max_element(fixed.begin(), fixed.end());
  return bound;
}

}  // namespace grappler_go
