#include "cc/blocks.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace grappler_go {
namespace {

// Scopes beyond these are too light to matter as a whole.
constexpr size_t kMaxScopeBlocks = 128;
// A block of the next level joins at most so many of this one.
constexpr int32_t kMaxJoined = 4;
// A level that is hardly smaller than the one before is the last.
constexpr double kMinShrink = 0.95;

double MeanTransferUs(const DeviceSet& devices, double bytes) {
  double us = 0;
  int links = 0;
  for (int s = 0; s < devices.size(); ++s) {
    for (int t = 0; t < devices.size(); ++t) {
      if (s == t) continue;
      us += TransferUs(devices.link(s, t), bytes);
      ++links;
    }
  }
  return links == 0 ? 0 : us / links;
}

// Blocks of groups whose ops share a part of their name ("layer_1" of
// "gradients/layer_1/step_3/MatMul"): what the author of the model thought of as one thing, its
// gradients included. The heaviest first.
std::vector<std::vector<int32_t>> ScopeBlocks(const Problem& p,
                                              const std::vector<int32_t>& block_of,
                                              const std::vector<double>& work_us) {
  std::map<absl::string_view, std::vector<int32_t>> by_scope;
  int movable = 0;
  for (int g = 0; g < p.legality->num_groups(); ++g) {
    if (block_of[g] < 0) continue;
    ++movable;
    for (const int32_t i : p.legality->members(g)) {
      const std::vector<absl::string_view> parts = absl::StrSplit(p.graph->name(i), '/');
      for (size_t k = 0; k + 1 < parts.size(); ++k) {
        std::vector<int32_t>& groups = by_scope[parts[k]];
        if (groups.empty() || groups.back() != g) groups.push_back(g);
      }
    }
  }
  std::vector<std::pair<double, const std::vector<int32_t>*>> heaviest;
  for (const auto& [scope, groups] : by_scope) {
    if (groups.size() < 2 || static_cast<int>(groups.size()) == movable) continue;
    double us = 0;
    for (const int32_t g : groups) us += work_us[block_of[g]];
    heaviest.emplace_back(us, &groups);
  }
  std::stable_sort(heaviest.begin(), heaviest.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::vector<int32_t>> blocks;
  for (const auto& [us, groups] : heaviest) {
    if (blocks.size() == kMaxScopeBlocks) break;
    blocks.push_back(*groups);
  }
  return blocks;
}

// Blocks joined into larger ones, no heavier than max_us each: which one each block is in, numbered
// by first block. Half as many if that can be had.
class Joiner {
 public:
  Joiner(const std::vector<double>& work_us, double max_us)
      : work_us_(work_us), max_us_(max_us), size_(work_us.size(), 1), count_(work_us.size()) {
    parent_.resize(work_us.size());
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  bool Enough() const { return 2 * count_ <= parent_.size(); }

  int32_t Find(int32_t b) {
    while (parent_[b] != b) b = parent_[b] = parent_[parent_[b]];
    return b;
  }

  void Join(int32_t x, int32_t y) {
    x = Find(x);
    y = Find(y);
    if (x == y || work_us_[x] + work_us_[y] > max_us_ || size_[x] + size_[y] > kMaxJoined) return;
    if (y < x) std::swap(x, y);
    parent_[y] = x;
    work_us_[x] += work_us_[y];
    size_[x] += size_[y];
    --count_;
  }

  std::vector<int32_t> Numbered() {
    std::vector<int32_t> number(parent_.size(), -1), joined(parent_.size());
    int32_t next = 0;
    for (size_t b = 0; b < parent_.size(); ++b) {
      int32_t& of_root = number[Find(static_cast<int32_t>(b))];
      if (of_root < 0) of_root = next++;
      joined[b] = of_root;
    }
    return joined;
  }

 private:
  std::vector<double> work_us_;
  double max_us_;
  std::vector<int32_t> parent_, size_;
  size_t count_;
};

std::vector<int32_t> Joined(std::vector<Traffic>& traffic, const std::vector<double>& work_us,
                            double max_us) {
  const size_t blocks = work_us.size();
  // Small blocks with heavy traffic first.
  const double floor_us = max_us / static_cast<double>(blocks);
  const auto gain = [&](const Traffic& t) {
    return t.us / (floor_us + work_us[t.a]) / (floor_us + work_us[t.b]);
  };
  std::sort(traffic.begin(), traffic.end(), [&](const Traffic& x, const Traffic& y) {
    const double gx = gain(x), gy = gain(y);
    return gx > gy || (gx == gy && std::make_pair(x.a, x.b) < std::make_pair(y.a, y.b));
  });
  Joiner joiner(work_us, max_us);
  for (const Traffic& t : traffic) {
    if (joiner.Enough()) break;
    joiner.Join(t.a, t.b);
  }
  // The many leaves of one hub, which is full, join each other.
  std::vector<std::pair<double, int32_t>> hub(blocks, {0.0, -1});
  for (const Traffic& t : traffic) {
    hub[t.a] = std::max(hub[t.a], {t.us, t.b});
    hub[t.b] = std::max(hub[t.b], {t.us, t.a});
  }
  std::vector<int32_t> last(blocks, -1);  // By hub: its last leaf.
  for (size_t b = 0; b < blocks && !joiner.Enough(); ++b) {
    if (hub[b].second < 0) continue;
    int32_t& before = last[hub[b].second];
    if (before >= 0) joiner.Join(before, static_cast<int32_t>(b));
    before = static_cast<int32_t>(b);
  }
  return joiner.Numbered();
}

}  // namespace

std::vector<Traffic> BlockTraffic(const Problem& p, const std::vector<int32_t>& block_of) {
  absl::flat_hash_map<int64_t, double> weights;
  const double latency_us = MeanTransferUs(*p.devices, 0);
  const double us_per_byte = (MeanTransferUs(*p.devices, 1e6) - latency_us) * 1e-6;
  const auto add = [&](int a, int b, double us) {
    if (a >= 0 && b >= 0 && a != b) {
      weights[static_cast<int64_t>(std::min(a, b)) << 32 | std::max(a, b)] += us;
    }
  };
  const auto block = [&](int node) { return block_of[p.legality->group[node]]; };
  for (int t = 0; t < p.graph->num_tensors(); ++t) {
    const int producer = p.graph->tensor_node[t];
    if (p.legality->replicable[producer]) continue;
    const double us = latency_us + p.graph->tensor_bytes[t] * us_per_byte;
    int previous = -1;
    for (int u = p.graph->use_offsets[t]; u < p.graph->use_offsets[t + 1]; ++u) {
      const int reader = block(p.graph->uses[u]);
      if (reader < 0 || reader == previous) continue;
      add(block(producer), reader, us);
      add(previous, reader, us);
      previous = reader;
    }
  }
  std::vector<Traffic> traffic;
  traffic.reserve(weights.size());
  for (const auto& [key, us] : weights) {
    traffic.push_back(
        {static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffff), us});
  }
  return traffic;
}

BlockLevels Coarsen(const Problem& problem) {
  const int num_devices = problem.devices->size();
  std::vector<int32_t> block_of(problem.legality->num_groups(), -1);
  std::vector<std::vector<int32_t>> blocks;
  std::vector<double> work_us;
  for (int g = 0; g < problem.legality->num_groups(); ++g) {
    const auto members = problem.legality->members(g);
    if (!problem.legality->movable(g) || problem.legality->replicable[members.front()]) continue;
    block_of[g] = static_cast<int32_t>(blocks.size());
    blocks.push_back({g});
    double us = 0;
    for (const int32_t i : members) us += problem.op_us[static_cast<size_t>(i) * num_devices];
    work_us.push_back(us);
  }
  BlockLevels levels;
  if (blocks.empty()) return levels;
  levels.push_back(blocks);
  std::vector<std::vector<int32_t>> scopes = ScopeBlocks(problem, block_of, work_us);
  // No block takes more than a device's share of the compute.
  const double max_us = std::accumulate(work_us.begin(), work_us.end(), 0.0) /
                        static_cast<double>(ComputeDevices(*problem.devices).size());
  std::vector<Traffic> traffic = BlockTraffic(problem, block_of);
  while (blocks.size() > 1) {
    const std::vector<int32_t> joined = Joined(traffic, work_us, max_us);
    const auto count = static_cast<size_t>(*absl::c_max_element(joined)) + 1;
    if (static_cast<double>(count) > kMinShrink * static_cast<double>(blocks.size())) break;
    std::vector<std::vector<int32_t>> next(count);
    std::vector<double> next_us(count, 0.0);
    for (size_t b = 0; b < blocks.size(); ++b) {
      std::vector<int32_t>& into = next[joined[b]];
      into.insert(into.end(), blocks[b].begin(), blocks[b].end());
      next_us[joined[b]] += work_us[b];
    }
    absl::flat_hash_map<int64_t, double> merged;
    for (const Traffic& t : traffic) {
      const int32_t a = joined[t.a], b = joined[t.b];
      if (a != b) merged[static_cast<int64_t>(std::min(a, b)) << 32 | std::max(a, b)] += t.us;
    }
    traffic.clear();
    for (const auto& [key, us] : merged) {
      traffic.push_back(
          {static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffff), us});
    }
    blocks = std::move(next);
    work_us = std::move(next_us);
    levels.push_back(blocks);
  }
  if (!scopes.empty()) levels.push_back(std::move(scopes));
  return levels;
}

}  // namespace grappler_go
