#include "cc/heuristics.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "cc/schedule.h"

namespace grappler_go {

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
    schedule.Place(node, schedule.FirstToFinish(node, schedule.Choices(node)));
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
  DeviceMask compute = 0;
  for (const int d : ComputeDevices(*problem.devices)) compute |= DeviceBit(d);
  // The devices in whose heaps each op is. Those it may have change as memory fills up and as its
  // group is placed.
  std::vector<DeviceMask> offered(graph.num_nodes(), 0);
  const auto offer = [&](int node) {
    const DeviceMask choices = schedule.Choices(node);
    const DeviceMask wanted = (choices & compute) != 0 ? choices & compute : choices;
    for (int d = 0; d < num_devices; ++d) {
      if ((wanted & ~offered[node] & DeviceBit(d)) == 0) continue;
      push(waiting[d], {schedule.DataReadyUs(node, d), node});
      offered[node] |= DeviceBit(d);
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
    if (!problem.legality->replicable[i] && pending[i] == 0) offer(i);
  }
  int idle_rounds = 0;
  while (remaining > 0) {
    int best = -1, best_node = -1;
    double best_us = std::numeric_limits<double>::infinity();
    for (int d = 0; d < num_devices; ++d) {
      const double free_us = schedule.FreeUs(d);
      const auto stale = [&](int node) {
        return done[node] || (schedule.Choices(node) & DeviceBit(d)) == 0;
      };
      // Drops an op that may no longer run here; others are offered it instead.
      const auto drop = [&](int node) {
        if (done[node]) return;
        offered[node] &= ~DeviceBit(d);
        offer(node);
      };
      while (!waiting[d].empty() &&
             (stale(waiting[d].front().node) || waiting[d].front().key <= free_us)) {
        const int node = waiting[d].front().node;
        pop(waiting[d]);
        if (stale(node)) {
          drop(node);
        } else {
          push(ready[d], {-rank[node], node});
        }
      }
      while (!ready[d].empty() && stale(ready[d].front().node)) {
        const int node = ready[d].front().node;
        pop(ready[d]);
        drop(node);
      }
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
    if (best < 0) {
      // What is left was just offered to a device seen before; if not, it stays home.
      if (++idle_rounds > 1) break;
      continue;
    }
    idle_rounds = 0;
    --remaining;
    schedule.Place(best_node, best);
    done[best_node] = true;
    for (int t = graph.tensor_offsets[best_node]; t < graph.tensor_offsets[best_node + 1]; ++t) {
      for (int u = graph.use_offsets[t]; u < graph.use_offsets[t + 1]; ++u) {
        if (--pending[graph.uses[u]] == 0) offer(graph.uses[u]);
      }
    }
  }
  return std::move(schedule).Finish();
}

namespace {

// Levels of priority that a schedule distinguishes.
constexpr int kPriorityLevels = 20;

// Mean over the legal devices.
double MeanUs(const Problem& p, int node) {
  double us = 0;
  int devices = 0;
  for (int d = 0; d < p.devices->size(); ++d) {
    if ((p.legality->mask(node) & DeviceBit(d)) == 0) continue;
    us += p.op_us[static_cast<size_t>(node) * p.devices->size() + d];
    ++devices;
  }
  return us / devices;
}

// Mean over the pairs of unlike devices: fixed time, and time a byte.
std::pair<double, double> MeanTransfer(const std::vector<int>& among, const DeviceSet& devices) {
  double fixed_us = 0, us_per_byte = 0;
  int pairs = 0;
  for (const int s : among) {
    for (const int t : among) {
      if (s == t) continue;
      fixed_us += TransferUs(devices.link(s, t), 0);
      us_per_byte +=
          (TransferUs(devices.link(s, t), 1e6) - TransferUs(devices.link(s, t), 0)) * 1e-6;
      ++pairs;
    }
  }
  return pairs == 0 ? std::make_pair(0.0, 0.0)
                    : std::make_pair(fixed_us / pairs, us_per_byte / pairs);
}

}  // namespace

std::vector<int32_t> CriticalPathPriorities(const Problem& problem) {
  const std::vector<double> rank = UpwardRank(problem);
  const double longest = rank.empty() ? 0 : *std::max_element(rank.begin(), rank.end());
  std::vector<int32_t> priority(rank.size(), 0);
  for (size_t i = 0; i < rank.size() && longest > 0; ++i) {
    priority[i] = static_cast<int32_t>(rank[i] / longest * (kPriorityLevels - 1));
  }
  return priority;
}

std::vector<int> ComputeDevices(const DeviceSet& devices) {
  std::vector<int> gpus, all;
  for (int d = 0; d < devices.size(); ++d) {
    all.push_back(d);
    if (devices.device(d).type == "GPU") gpus.push_back(d);
  }
  return gpus.empty() ? all : gpus;
}

std::vector<double> MeanUpwardRank(const Problem& problem, double transfer_weight) {
  const OpGraph& graph = *problem.graph;
  const auto [fixed_us, us_per_byte] =
      MeanTransfer(ComputeDevices(*problem.devices), *problem.devices);
  std::vector<double> rank(graph.num_nodes(), 0.0);
  for (int i = graph.num_nodes() - 1; i >= 0; --i) {
    rank[i] += MeanUs(problem, i);
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1]; ++e) {
      const int source = graph.edge_source[e];
      const double transfer_us =
          problem.legality->replicable[source]
              ? 0
              : transfer_weight *
                    (fixed_us + us_per_byte * graph.tensor_bytes[graph.edge_tensor[e]]);
      rank[source] = std::max(rank[source], transfer_us + rank[i]);
    }
  }
  return rank;
}

Placement Heft(const Problem& problem, double transfer_weight) {
  const std::vector<double> rank = MeanUpwardRank(problem, transfer_weight);
  std::vector<int32_t> order(rank.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank[a] > rank[b]; });
  Schedule schedule(problem, transfer_weight, Schedule::Slots::kInsert);
  for (const int32_t node : order) {
    if (problem.legality->replicable[node]) continue;
    schedule.Place(node, schedule.FirstToFinish(node, schedule.Choices(node)));
  }
  return std::move(schedule).Finish();
}

Placement TopologicalCut(const Problem& problem) {
  const OpGraph& graph = *problem.graph;
  const std::vector<int> devices = ComputeDevices(*problem.devices);
  std::vector<double> bytes(problem.legality->num_groups(), 0.0);
  std::vector<double> kept(problem.legality->num_groups(), 0.0);  // Across steps.
  double total = 0, largest = 0;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    double own = graph.persistent_bytes[i];
    for (int t = graph.tensor_offsets[i]; t < graph.tensor_offsets[i + 1]; ++t) {
      own += graph.tensor_bytes[t];
    }
    bytes[problem.legality->group[i]] += own;
    kept[problem.legality->group[i]] += graph.persistent_bytes[i];
    total += own;
    largest = std::max(largest, own);
  }
  const double cap = total / static_cast<double>(devices.size()) + largest;
  Placement placement = problem.legality->incoming;
  const int num_devices = problem.devices->size();
  std::vector<double> used(num_devices, 0.0), used_kept(num_devices, 0.0);
  const auto take = [&](int g, int device) {
    used[device] += bytes[g];
    used_kept[device] += kept[g];
    for (const int32_t member : problem.legality->members(g)) {
      placement[member] = static_cast<int8_t>(device);
    }
  };
  std::vector<bool> placed(problem.legality->num_groups(), false);
  for (int g = 0; g < problem.legality->num_groups(); ++g) {
    if (problem.legality->movable(g)) continue;
    placed[g] = true;
    take(g, placement[problem.legality->members(g).front()]);
  }
  const auto fits = [&](int g, int device) {
    const double limit = problem.devices->device(device).memory_bytes;
    return (problem.legality->group_mask[g] & DeviceBit(device)) != 0 &&
           (limit <= 0 || used_kept[device] + kept[g] <= limit);
  };
  size_t current = 0;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const int g = problem.legality->group[i];
    if (placed[g]) continue;
    placed[g] = true;
    // On to the next device when this one has its share, unless that one is fuller still.
    while (current + 1 < devices.size() && used[devices[current]] + bytes[g] > cap &&
           used[devices[current + 1]] < used[devices[current]]) {
      ++current;
    }
    if ((problem.legality->group_mask[g] & DeviceBit(devices[current])) == 0) {
      take(g, placement[i]);
      continue;
    }
    const auto begin = devices.begin() + static_cast<int64_t>(current);
    const auto room = [&](int device) { return fits(g, device); };
    const auto later = std::find_if(begin, devices.end(), room);
    if (later != devices.end()) {
      current = static_cast<size_t>(later - devices.begin());
      take(g, *later);
      continue;
    }
    // What the last devices cannot keep goes where room was left before.
    const auto before = std::find_if(devices.begin(), begin, room);
    take(g, before != begin ? *before : *begin);
  }
  return placement;
}

}  // namespace grappler_go
