#include "cc/schedule.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/numeric/bits.h"

namespace grappler_go {

Schedule::Schedule(const Problem& problem, double transfer_weight, Slots slots)
    : p_(problem),
      num_devices_(problem.devices->size()),
      weight_(transfer_weight),
      slots_(slots),
      placement_(problem.legality->incoming),
      end_us_(problem.graph->num_nodes(), 0.0),
      executor_free_us_(problem.devices->num_executors(), 0.0),
      memory_bytes_(num_devices_, 0.0),
      taken_(problem.devices->num_executors()),
      group_device_(problem.legality->num_groups(), -1),
      group_bytes_(problem.legality->num_groups(), 0.0),
      arrival_us_(static_cast<size_t>(problem.graph->num_tensors()) * num_devices_, -1.0f) {
  for (int i = 0; i < p_.graph->num_nodes(); ++i) {
    group_bytes_[p_.legality->group[i]] += p_.graph->persistent_bytes[i];
  }
  for (int g = 0; g < p_.legality->num_groups(); ++g) {
    if (p_.legality->movable(g)) continue;
    group_device_[g] = static_cast<int8_t>(absl::countr_zero(p_.legality->group_mask[g]));
    memory_bytes_[group_device_[g]] += group_bytes_[g];
  }
}

DeviceMask Schedule::Choices(int node) const {
  const int g = p_.legality->group[node];
  if (group_device_[g] >= 0) return DeviceBit(group_device_[g]);
  DeviceMask room = 0;
  for (int d = 0; d < num_devices_; ++d) {
    const double limit = p_.devices->device(d).memory_bytes;
    if (limit <= 0 || memory_bytes_[d] + group_bytes_[g] <= limit) room |= DeviceBit(d);
  }
  const DeviceMask mask = p_.legality->group_mask[g];
  return (mask & room) != 0 ? mask & room : mask;
}

double Schedule::DataReadyUs(int node, int device) const {
  double ready = 0;
  for (int e = p_.graph->in_offsets[node]; e < p_.graph->in_offsets[node + 1]; ++e) {
    const int source = p_.graph->edge_source[e];
    if (p_.legality->replicable[source]) continue;
    const int from = placement_[source];
    double us = end_us_[source];
    if (from != device) {
      const int32_t tensor = p_.graph->edge_tensor[e];
      const float sent = arrival_us_[static_cast<size_t>(tensor) * num_devices_ + device];
      us = sent >= 0 ? sent : us + weight_ * SendUs(tensor, from, device);
    }
    ready = std::max(ready, us);
  }
  return ready;
}

double Schedule::FreeUs(int device) const {
  return executor_free_us_[p_.devices->device(device).executor];
}

double Schedule::StartUs(int node, int device) const {
  return EarliestUs(p_.devices->device(device).executor, DataReadyUs(node, device),
                    OpUs(node, device));
}

int Schedule::FirstToFinish(int node, DeviceMask among) const {
  int best = -1;
  double best_us = std::numeric_limits<double>::infinity();
  for (int d = 0; d < num_devices_; ++d) {
    if ((among & DeviceBit(d)) == 0) continue;
    const double us = StartUs(node, d) + OpUs(node, d);
    if (us < best_us || (us == best_us && d == p_.legality->incoming[node])) {
      best = d;
      best_us = us;
    }
  }
  return best;
}

void Schedule::Place(int node, int device) {
  const int g = p_.legality->group[node];
  if (group_device_[g] < 0) {
    group_device_[g] = static_cast<int8_t>(device);
    memory_bytes_[device] += group_bytes_[g];
  }
  const double ready = DataReadyUs(node, device);
  const int target = p_.devices->device(device).executor;
  for (int e = p_.graph->in_offsets[node]; e < p_.graph->in_offsets[node + 1]; ++e) {
    const int source = p_.graph->edge_source[e];
    const int from = placement_[source];
    if (from == device || p_.legality->replicable[source]) continue;
    const int32_t tensor = p_.graph->edge_tensor[e];
    float& arrival = arrival_us_[static_cast<size_t>(tensor) * num_devices_ + device];
    if (arrival >= 0) continue;
    arrival = static_cast<float>(end_us_[source] + weight_ * SendUs(tensor, from, device));
    const Link& link = p_.devices->link(from, device);
    const double busy_us = link.busy_us + p_.graph->tensor_bytes[tensor] * link.busy_us_per_byte;
    if (busy_us <= 0) continue;
    Occupy(p_.devices->device(from).executor, end_us_[source], busy_us);
    Occupy(target, std::max(0.0, arrival - busy_us), busy_us);
  }
  placement_[node] = static_cast<int8_t>(device);
  const double us = OpUs(node, device);
  end_us_[node] = Occupy(target, ready, us) + us;
}

double Schedule::EndUs() const {
  return end_us_.empty() ? 0 : *std::max_element(end_us_.begin(), end_us_.end());
}

Placement Schedule::Finish() && {
  // Constants that are copied to their readers, and groups none of whose ops was scheduled, stay.
  for (int g = 0; g < p_.legality->num_groups(); ++g) {
    if (group_device_[g] < 0) continue;
    for (const int32_t i : p_.legality->members(g)) placement_[i] = group_device_[g];
  }
  return std::move(placement_);
}

double Schedule::SendUs(int32_t tensor, int from, int to) const {
  return TransferUs(p_.devices->link(from, to), p_.graph->tensor_bytes[tensor]);
}

// The earliest time from `ready_us` on at which the executor has `us` to spare.
double Schedule::EarliestUs(int executor, double ready_us, double us) const {
  if (slots_ == Slots::kAppend) return std::max(ready_us, executor_free_us_[executor]);
  const std::vector<Slot>& taken = taken_[executor];
  auto slot = std::lower_bound(taken.begin(), taken.end(), ready_us,
                               [](const Slot& each, double at) { return each.end <= at; });
  double start = ready_us;
  for (; slot != taken.end() && start + us > slot->start; ++slot) {
    start = std::max(start, slot->end);
  }
  return start;
}

// Takes `us` of the executor from `ready_us` on; returns when they start.
double Schedule::Occupy(int executor, double ready_us, double us) {
  double& free_us = executor_free_us_[executor];
  if (slots_ == Slots::kAppend) {
    const double start = std::max(ready_us, free_us);
    // What was copied in an idle time has no slot of its own: all of it counts at the end.
    free_us = start + us;
    return start;
  }
  const double start = EarliestUs(executor, ready_us, us);
  free_us = std::max(free_us, start + us);
  if (us <= 0) return start;
  std::vector<Slot>& taken = taken_[executor];
  auto next = std::lower_bound(taken.begin(), taken.end(), start,
                               [](const Slot& each, double at) { return each.start < at; });
  // Slots that touch are one.
  const bool joins_next = next != taken.end() && next->start <= start + us;
  if (next != taken.begin() && (next - 1)->end >= start) {
    (next - 1)->end = joins_next ? next->end : start + us;
    if (joins_next) taken.erase(next);
  } else if (joins_next) {
    next->start = start;
  } else {
    taken.insert(next, {start, start + us});
  }
  return start;
}

}  // namespace grappler_go
