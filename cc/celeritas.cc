#include "cc/celeritas.h"

#include <algorithm>
#include <utility>

#include "cc/schedule.h"

namespace grappler_go {
namespace {

// Runs a device gets on average; finer runs balance better and cut more.
constexpr int kRunsPerDevice = 32;

}  // namespace

std::vector<int32_t> CriticalOrder(const Problem& problem) {
  const OpGraph& graph = *problem.graph;
  const std::vector<double> rank = UpwardRank(problem);
  std::vector<int32_t> pending(graph.num_nodes());
  for (int i = 0; i < graph.num_nodes(); ++i) {
    pending[i] = graph.in_offsets[i + 1] - graph.in_offsets[i];
  }
  // A stack: what became ready last goes on, the longest remaining path of it first.
  std::vector<int32_t> ready, order;
  const auto shorter = [&](int a, int b) {
    return rank[a] < rank[b] || (rank[a] == rank[b] && a > b);
  };
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (pending[i] == 0) ready.push_back(i);
  }
  std::sort(ready.begin(), ready.end(), shorter);
  order.reserve(graph.num_nodes());
  while (!ready.empty()) {
    const int32_t node = ready.back();
    ready.pop_back();
    order.push_back(node);
    const size_t first = ready.size();
    for (int t = graph.tensor_offsets[node]; t < graph.tensor_offsets[node + 1]; ++t) {
      for (int u = graph.use_offsets[t]; u < graph.use_offsets[t + 1]; ++u) {
        if (--pending[graph.uses[u]] == 0) ready.push_back(graph.uses[u]);
      }
    }
    std::sort(ready.begin() + static_cast<int64_t>(first), ready.end(), shorter);
  }
  return order;
}

std::vector<int32_t> CutOrder(const Problem& problem, const std::vector<int32_t>& order,
                              double limit_us) {
  const OpGraph& graph = *problem.graph;
  const int n = static_cast<int>(order.size());
  std::vector<int32_t> position(graph.num_nodes());
  for (int k = 0; k < n; ++k) position[order[k]] = k;
  // The bytes alive between positions k - 1 and k: what a cut there sends on. A tensor that crosses
  // several cuts counts at each, as if handed on from run to run.
  std::vector<double> alive(n + 1, 0.0), us(n);
  for (int t = 0; t < graph.num_tensors(); ++t) {
    const int node = graph.tensor_node[t];
    if (problem.legality->replicable[node]) continue;
    int last = position[node];
    for (int u = graph.use_offsets[t]; u < graph.use_offsets[t + 1]; ++u) {
      last = std::max(last, position[graph.uses[u]]);
    }
    alive[position[node] + 1] += graph.tensor_bytes[t];
    alive[last + 1] -= graph.tensor_bytes[t];
  }
  for (int k = 0; k < n; ++k) {
    alive[k + 1] += alive[k];
    us[k] = FastestUs(problem, order[k]);
  }
  // best[k]: the least bytes cut if a run starts at k, all before it being cut; by a window of the
  // last starts that a run up to here may have.
  std::vector<double> best(n + 1, 0.0);
  std::vector<int32_t> previous(n + 1, 0);
  std::vector<std::pair<double, int32_t>> window;  // Ascending in best; a queue from `head` on.
  size_t head = 0;
  int first = 0;
  double run_us = 0;
  for (int k = 0; k < n; ++k) {
    const double cost = k == 0 ? 0 : best[k];
    while (window.size() > head && window.back().first >= cost) window.pop_back();
    window.emplace_back(cost, k);
    run_us += us[k];
    while (first < k && run_us > limit_us) run_us -= us[first++];
    while (window[head].second < first) ++head;
    // A run from that start to k ends here; the next one starts at k + 1.
    best[k + 1] = window[head].first + std::max(0.0, alive[k + 1]);
    previous[k + 1] = window[head].second;
  }
  std::vector<int32_t> starts;
  for (int32_t k = n; k > 0; k = previous[k]) starts.push_back(previous[k]);
  std::reverse(starts.begin(), starts.end());
  return starts;
}

Placement Celeritas(const Problem& problem, double transfer_weight) {
  const OpGraph& graph = *problem.graph;
  const std::vector<int32_t> order = CriticalOrder(problem);
  const std::vector<int> devices = ComputeDevices(*problem.devices);
  double total_us = 0;
  for (int i = 0; i < graph.num_nodes(); ++i) total_us += FastestUs(problem, i);
  const std::vector<int32_t> starts =
      CutOrder(problem, order, total_us / (static_cast<double>(devices.size()) * kRunsPerDevice));
  Schedule schedule(problem, transfer_weight);
  for (size_t r = 0; r < starts.size(); ++r) {
    const int begin = starts[r];
    const int end = r + 1 < starts.size() ? starts[r + 1] : static_cast<int>(order.size());
    // The run goes where its ops, one after the other, would be done first.
    int best = -1;
    std::pair<bool, double> best_key;  // What has room for all of the run comes first.
    for (const int d : devices) {
      double us = schedule.FreeUs(d);
      bool room = true;
      for (int k = begin; k < end; ++k) {
        const int32_t node = order[k];
        if (problem.legality->replicable[node]) continue;
        const bool may = (schedule.Choices(node) & DeviceBit(d)) != 0;
        // Inputs of the same run are not placed yet: they count as there.
        if (may) us = std::max(us, schedule.DataReadyUs(node, d)) + schedule.OpUs(node, d);
        room = room && (may || !problem.legality->movable(problem.legality->group[node]));
      }
      const std::pair<bool, double> key(!room, us);
      if (best < 0 || key < best_key) {
        best = d;
        best_key = key;
      }
    }
    for (int k = begin; k < end; ++k) {
      const int32_t node = order[k];
      if (problem.legality->replicable[node]) continue;
      const DeviceMask choices = schedule.Choices(node);
      schedule.Place(
          node, (choices & DeviceBit(best)) != 0 ? best : schedule.FirstToFinish(node, choices));
    }
  }
  return std::move(schedule).Finish();
}

}  // namespace grappler_go
