#include "cc/critical_chain.h"

#include <algorithm>

namespace grappler_go {
namespace {

// When the last input of `node` was there, as far as idle links tell, and who made it.
struct Ready {
  double us = 0;
  int32_t source = -1;
  bool remote = false;
};

Ready ReadyTime(const Problem& p, const Placement& placement, const Timeline& timeline, int node) {
  Ready ready;
  for (int e = p.graph->in_offsets[node]; e < p.graph->in_offsets[node + 1]; ++e) {
    const int source = p.graph->edge_source[e];
    const bool remote = placement[source] != placement[node] && !p.legality->replicable[source];
    double us = timeline.end_us[source];
    if (remote) {
      us += TransferUs(p.devices->link(placement[source], placement[node]),
                       p.graph->tensor_bytes[p.graph->edge_tensor[e]]);
    }
    if (ready.source < 0 || us > ready.us) ready = {us, source, remote};
  }
  return ready;
}

}  // namespace

std::vector<ChainLink> CriticalChain(const Problem& p, const Placement& placement,
                                     const Timeline& timeline) {
  std::vector<ChainLink> chain;
  const int nodes = p.graph->num_nodes();
  if (nodes == 0) return chain;
  // The ops that take time, by executor in the order of their ends.
  std::vector<std::vector<int32_t>> ended(p.devices->num_executors());
  const auto executor = [&](int node) { return p.devices->device(placement[node]).executor; };
  int32_t last = 0;
  for (int i = 0; i < nodes; ++i) {
    if (timeline.end_us[i] > timeline.start_us[i]) ended[executor(i)].push_back(i);
    if (timeline.end_us[i] >= timeline.end_us[last]) last = i;
  }
  for (std::vector<int32_t>& each : ended) {
    std::sort(each.begin(), each.end(), [&](int32_t a, int32_t b) {
      return timeline.end_us[a] < timeline.end_us[b] ||
             (timeline.end_us[a] == timeline.end_us[b] && a < b);
    });
  }
  for (int32_t node = last; node >= 0;) {
    const double start = timeline.start_us[node];
    const Ready ready = ReadyTime(p, placement, timeline, node);
    ChainLink link{node, ready.source, false, ready.remote, 0};
    // Ready before it started: the op that ended last before that had its thread.
    if (timeline.end_us[node] > start && ready.us < start) {
      const auto& line = ended[executor(node)];
      const auto after =
          std::upper_bound(line.begin(), line.end(), start,
                           [&](double us, int32_t other) { return us < timeline.end_us[other]; });
      if (after != line.begin()) {
        const int32_t holder = *std::prev(after);
        // Where copying held the device, or the link was busy, the input is still the reason.
        if (timeline.end_us[holder] > ready.us || ready.source < 0) {
          link.before = holder;
          link.for_device = true;
          link.for_transfer = false;
        }
      }
    }
    link.us = timeline.end_us[node] - (link.before < 0 ? 0 : timeline.end_us[link.before]);
    chain.push_back(link);
    node = link.before;
  }
  return chain;
}

}  // namespace grappler_go
