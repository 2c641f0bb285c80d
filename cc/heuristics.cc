#include "cc/heuristics.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace grappler_go {
namespace {

// The growing schedule that list schedulers share: when executors are free, where tensors have
// arrived, which devices groups were given.
class Schedule {
 public:
  Schedule(const Problem& problem, double transfer_weight)
      : p_(problem),
        num_devices_(problem.devices->size()),
        weight_(transfer_weight),
        placement_(problem.legality->incoming),
        end_us_(problem.graph->num_nodes(), 0.0),
        executor_free_us_(problem.devices->num_executors(), 0.0),
        memory_bytes_(num_devices_, 0.0),
        group_device_(problem.legality->num_groups(), -1),
        group_bytes_(problem.legality->num_groups(), 0.0),
        arrival_us_(static_cast<size_t>(problem.graph->num_tensors()) * num_devices_, -1.0f) {
    for (int i = 0; i < p_.graph->num_nodes(); ++i) {
      group_bytes_[p_.legality->group[i]] += p_.graph->persistent_bytes[i];
    }
  }

  // Devices on which `node` may still be scheduled: its group's device, or those with room for its
  // group.
  DeviceMask Choices(int node) const {
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

  // When the inputs of `node` are on `device`, all of them being scheduled.
  double DataReadyUs(int node, int device) const {
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

  double FreeUs(int device) const { return executor_free_us_[p_.devices->device(device).executor]; }

  double OpUs(int node, int device) const {
    return p_.op_us[static_cast<size_t>(node) * num_devices_ + device];
  }

  // Schedules `node` on `device`, its transfers with their copying at both ends included.
  void Place(int node, int device) {
    const int g = p_.legality->group[node];
    if (group_device_[g] < 0) {
      group_device_[g] = static_cast<int8_t>(device);
      memory_bytes_[device] += group_bytes_[g];
    }
    const double ready = DataReadyUs(node, device);
    double& target_free = executor_free_us_[p_.devices->device(device).executor];
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
      executor_free_us_[p_.devices->device(from).executor] += busy_us;
      target_free += busy_us;
    }
    placement_[node] = static_cast<int8_t>(device);
    end_us_[node] = std::max(ready, target_free) + OpUs(node, device);
    target_free = end_us_[node];
  }

  Placement Finish() && {
    // Constants that are copied to their readers, and groups none of whose ops was scheduled, stay.
    for (int g = 0; g < p_.legality->num_groups(); ++g) {
      if (group_device_[g] < 0) continue;
      for (const int32_t i : p_.legality->members(g)) placement_[i] = group_device_[g];
    }
    return std::move(placement_);
  }

 private:
  double SendUs(int32_t tensor, int from, int to) const {
    return TransferUs(p_.devices->link(from, to), p_.graph->tensor_bytes[tensor]);
  }

  const Problem& p_;
  int num_devices_;
  double weight_;
  Placement placement_;
  std::vector<double> end_us_, executor_free_us_, memory_bytes_;
  std::vector<int8_t> group_device_;
  std::vector<double> group_bytes_;
  std::vector<float> arrival_us_;  // [tensor * devices + device], -1 = not sent there.
};

}  // namespace

double FastestUs(const Problem& problem, int node) {
  const int num_devices = problem.devices->size();
  double fastest = std::numeric_limits<double>::infinity();
  for (int d = 0; d < num_devices; ++d) {
    if ((problem.legality->mask(node) & DeviceBit(d)) == 0) continue;
    fastest = std::min<double>(fastest, problem.op_us[static_cast<size_t>(node) * num_devices + d]);
  }
  return fastest;
}

std::vector<double> UpwardRank(const Problem& problem) {
  const OpGraph& graph = *problem.graph;
  std::vector<double> rank(graph.num_nodes(), 0.0);
  for (int i = graph.num_nodes() - 1; i >= 0; --i) {
    rank[i] += FastestUs(problem, i);
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1]; ++e) {
      double& source = rank[graph.edge_source[e]];
      source = std::max(source, rank[i]);
    }
  }
  return rank;
}

Placement SingleDevice(const Problem& problem, int device) {
  Placement placement = problem.legality->incoming;
  for (int i = 0; i < problem.graph->num_nodes(); ++i) {
    if ((problem.legality->mask(i) & DeviceBit(device)) != 0) {
      placement[i] = static_cast<int8_t>(device);
    }
  }
  return placement;
}

Placement RandomLegal(const Problem& problem, uint64_t seed) {
  std::mt19937_64 random(seed);
  Placement placement(problem.graph->num_nodes());
  for (int g = 0; g < problem.legality->num_groups(); ++g) {
    const DeviceMask mask = problem.legality->group_mask[g];
    int choices[kMaxDevices];
    int n = 0;
    for (int d = 0; d < problem.devices->size(); ++d) {
      if ((mask & DeviceBit(d)) != 0) choices[n++] = d;
    }
    const int device = choices[random() % static_cast<uint64_t>(n)];
    for (const int32_t i : problem.legality->members(g)) placement[i] = static_cast<int8_t>(device);
  }
  return placement;
}

Placement CriticalPath(const Problem& problem, double transfer_weight) {
  const OpGraph& graph = *problem.graph;
  const std::vector<double> rank = UpwardRank(problem);
  // Ranks never grow along an edge, and ties keep the topological order: sources come first.
  std::vector<int32_t> order(graph.num_nodes());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank[a] > rank[b]; });
  Schedule schedule(problem, transfer_weight);
  for (const int32_t node : order) {
    if (problem.legality->replicable[node]) continue;
    const DeviceMask choices = schedule.Choices(node);
    int best = -1;
    double best_us = std::numeric_limits<double>::infinity();
    const int home = problem.legality->incoming[node];
    for (int d = 0; d < problem.devices->size(); ++d) {
      if ((choices & DeviceBit(d)) == 0) continue;
      const double us =
          std::max(schedule.FreeUs(d), schedule.DataReadyUs(node, d)) + schedule.OpUs(node, d);
      if (us < best_us || (us == best_us && d == home)) {
        best = d;
        best_us = us;
      }
    }
    schedule.Place(node, best);
  }
  return std::move(schedule).Finish();
}

Placement EarliestTaskFirst(const Problem& problem, double transfer_weight) {
  const OpGraph& graph = *problem.graph;
  const int num_devices = problem.devices->size();
  const std::vector<double> rank = UpwardRank(problem);
  Schedule schedule(problem, transfer_weight);
  // By device: ops whose data will be there later (earliest first), and ops that could start as
  // soon as the executor is free (longest remaining path first). Entries of scheduled ops are
  // dropped when they surface.
  struct Entry {
    double key;
    int32_t node;
    bool operator<(const Entry& other) const {
      return key > other.key || (key == other.key && node > other.node);
    }
  };
  std::vector<std::vector<Entry>> waiting(num_devices), ready(num_devices);
  std::vector<int32_t> pending(graph.num_nodes());
  std::vector<bool> done(graph.num_nodes(), false);
  const auto push = [](std::vector<Entry>& heap, Entry entry) {
    heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end());
  };
  const auto pop = [](std::vector<Entry>& heap) {
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
  };
  const auto add = [&](int node) {
    const DeviceMask choices = schedule.Choices(node);
    for (int d = 0; d < num_devices; ++d) {
      if ((choices & DeviceBit(d)) != 0) push(waiting[d], {schedule.DataReadyUs(node, d), node});
    }
  };
  int remaining = 0;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (problem.legality->replicable[i]) continue;
    ++remaining;
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1]; ++e) {
      if (!problem.legality->replicable[graph.edge_source[e]]) ++pending[i];
    }
  }
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (!problem.legality->replicable[i] && pending[i] == 0) add(i);
  }
  for (; remaining > 0; --remaining) {
    int best = -1, best_node = -1;
    double best_us = std::numeric_limits<double>::infinity();
    for (int d = 0; d < num_devices; ++d) {
      const double free_us = schedule.FreeUs(d);
      const auto stale = [&](int node) {
        return done[node] || (schedule.Choices(node) & DeviceBit(d)) == 0;
      };
      while (!waiting[d].empty() &&
             (stale(waiting[d].front().node) || waiting[d].front().key <= free_us)) {
        const int node = waiting[d].front().node;
        pop(waiting[d]);
        if (!stale(node)) push(ready[d], {-rank[node], node});
      }
      while (!ready[d].empty() && stale(ready[d].front().node)) pop(ready[d]);
      const bool now = !ready[d].empty();
      if (!now && waiting[d].empty()) continue;
      const int node = now ? ready[d].front().node : waiting[d].front().node;
      const double start_us = now ? free_us : waiting[d].front().key;
      // Between devices that could start at once, home saves the transfer.
      if (start_us < best_us ||
          (start_us == best_us && best_node == node && d == problem.legality->incoming[node])) {
        best = d;
        best_node = node;
        best_us = start_us;
      }
    }
    if (best < 0)
      break;  // Memory moved a group's choices away from every heap: the rest stays home.
    schedule.Place(best_node, best);
    done[best_node] = true;
    for (int t = graph.tensor_offsets[best_node]; t < graph.tensor_offsets[best_node + 1]; ++t) {
      for (int u = graph.use_offsets[t]; u < graph.use_offsets[t + 1]; ++u) {
        if (--pending[graph.uses[u]] == 0) add(graph.uses[u]);
      }
    }
  }
  return std::move(schedule).Finish();
}

}  // namespace grappler_go
