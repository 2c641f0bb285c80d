#include "cc/partition.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace grappler_go {
namespace {

// Levels from which runs are cut have at least so many blocks a device.
constexpr size_t kRunBlocks = 4;
constexpr size_t kMaxRunLevels = 4;
// Each of them has so many times the blocks of the next coarser one.
constexpr size_t kRunLevelRatio = 2;
// By how much a device may be above its share of the compute.
constexpr double kTolerances[] = {0.03, 0.15, 0.5, 1};
// And above its share of the memory, where that is short.
constexpr double kMemoryTolerance = 0.1;
// A scope counts as a layer from this share of a device's share on.
constexpr double kHeavyScope = 0.2;
// Memory is short where all that ops keep and put out would fill this share of the devices.
constexpr double kShortMemory = 0.5;
constexpr int kMaxPasses = 8;

// What a group weighs in a partition.
struct Weights {
  std::vector<double> us, bytes;  // By group. No bytes where memory is not short.
};

// Compute on the fastest devices; and memory, if it may be short: what ops keep and put out.
Weights GroupWeights(const Problem& p, const std::vector<int>& devices) {
  Weights weights;
  weights.us.assign(p.legality->num_groups(), 0.0);
  weights.bytes.assign(p.legality->num_groups(), 0.0);
  double total = 0, limits = 0;
  bool limited = true;
  for (const int d : devices) {
    limits += p.devices->device(d).memory_bytes;
    limited = limited && p.devices->device(d).memory_bytes > 0;
  }
  for (int i = 0; i < p.graph->num_nodes(); ++i) {
    const int32_t g = p.legality->group[i];
    weights.us[g] += FastestUs(p, i);
    if (p.legality->replicable[i]) continue;
    double bytes = p.graph->persistent_bytes[i];
    for (int t = p.graph->tensor_offsets[i]; t < p.graph->tensor_offsets[i + 1]; ++t) {
      bytes += p.graph->tensor_bytes[t];
    }
    weights.bytes[g] += bytes;
    total += bytes;
  }
  if (!limited || total < kShortMemory * limits) weights.bytes.clear();
  return weights;
}

void Put(const Problem& problem, const std::vector<int32_t>& block, int device,
         Placement& placement) {
  for (const int32_t g : block) {
    if ((problem.legality->group_mask[g] & DeviceBit(device)) == 0) continue;
    for (const int32_t i : problem.legality->members(g)) {
      placement[i] = static_cast<int8_t>(device);
    }
  }
}

// The blocks of one level and what it costs to part them, both ways of each pair.
struct LevelGraph {
  struct Neighbour {
    int32_t block;
    double us;
  };
  std::vector<int32_t> first;  // [blocks + 1] into neighbours.
  std::vector<Neighbour> neighbours;
};

LevelGraph MakeLevelGraph(const Problem& problem, const std::vector<std::vector<int32_t>>& blocks) {
  std::vector<int32_t> block_of(problem.legality->num_groups(), -1);
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (const int32_t g : blocks[b]) block_of[g] = static_cast<int32_t>(b);
  }
  const std::vector<Traffic> traffic = BlockTraffic(problem, block_of);
  LevelGraph graph;
  graph.first.assign(blocks.size() + 1, 0);
  for (const Traffic& t : traffic) {
    ++graph.first[t.a + 1];
    ++graph.first[t.b + 1];
  }
  std::partial_sum(graph.first.begin(), graph.first.end(), graph.first.begin());
  graph.neighbours.resize(2 * traffic.size());
  std::vector<int32_t> fill(graph.first.begin(), graph.first.end() - 1);
  for (const Traffic& t : traffic) {
    graph.neighbours[fill[t.a]++] = {t.b, t.us};
    graph.neighbours[fill[t.b]++] = {t.a, t.us};
  }
  return graph;
}

// Partitions of blocks over devices, from coarse levels to fine ones.
class Partitioner {
 public:
  Partitioner(const Problem& problem, const BlockLevels& levels, const std::vector<int>& devices,
              const Weights& weights)
      : p_(problem), levels_(levels), devices_(devices), weights_(weights) {
    for (const auto& block : levels.front()) {
      for (const int32_t g : block) {
        total_.us += weights.us[g];
        if (!weights.bytes.empty()) total_.bytes += weights.bytes[g];
      }
    }
    graphs_.resize(levels.size());
  }

  // From the coarse level to the finest: moves blocks while that parts less, no device getting more
  // than its share of the compute and `tolerance`.
  Placement Refined(size_t coarse, double tolerance, Placement placement) {
    limit_.us = (1 + tolerance) * total_.us / static_cast<double>(devices_.size());
    limit_.bytes = (1 + kMemoryTolerance) * total_.bytes / static_cast<double>(devices_.size());
    for (size_t level = coarse + 1; level-- > 0;) Refine(level, placement);
    return placement;
  }

 private:
  struct Load {
    double us = 0, bytes = 0;
    void Add(const Load& other, double sign) {
      us += sign * other.us;
      bytes += sign * other.bytes;
    }
  };

  const LevelGraph& GraphOf(size_t level) {
    if (graphs_[level].first.empty()) graphs_[level] = MakeLevelGraph(p_, levels_[level]);
    return graphs_[level];
  }

  Load WeightOf(const std::vector<int32_t>& block) const {
    Load weight;
    for (const int32_t g : block) {
      weight.us += weights_.us[g];
      if (!weights_.bytes.empty()) weight.bytes += weights_.bytes[g];
    }
    return weight;
  }

  // How full a device with this load is, 1 = to the limit.
  double Full(const Load& load) const {
    const double us = limit_.us > 0 ? load.us / limit_.us : 0;
    return limit_.bytes > 0 ? std::max(us, load.bytes / limit_.bytes) : us;
  }

  bool Legal(const std::vector<int32_t>& block, int device) const {
    return std::any_of(block.begin(), block.end(), [&](int32_t g) {
      return (p_.legality->group_mask[g] & DeviceBit(device)) != 0;
    });
  }

  void Refine(size_t level, Placement& placement) {
    const auto& blocks = levels_[level];
    const LevelGraph& graph = GraphOf(level);
    std::vector<Load> weight(blocks.size());
    std::vector<int> part(blocks.size(), -1);
    std::vector<Load> load(devices_.size());
    for (size_t b = 0; b < blocks.size(); ++b) {
      const int device = placement[p_.legality->members(blocks[b].front()).front()];
      const auto at = std::find(devices_.begin(), devices_.end(), device);
      weight[b] = WeightOf(blocks[b]);
      if (at == devices_.end()) continue;
      part[b] = static_cast<int>(at - devices_.begin());
      load[part[b]].Add(weight[b], 1);
    }
    std::vector<double> pull(devices_.size());
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      bool moved = false;
      for (size_t b = 0; b < blocks.size(); ++b) {
        if (part[b] < 0) continue;
        std::fill(pull.begin(), pull.end(), 0.0);
        for (int k = graph.first[b]; k < graph.first[b + 1]; ++k) {
          const int there = part[graph.neighbours[k].block];
          if (there >= 0) pull[there] += graph.neighbours[k].us;
        }
        const bool heavy = Full(load[part[b]]) > 1;
        int best = part[b];
        for (size_t d = 0; d < devices_.size(); ++d) {
          if (static_cast<int>(d) == part[b] || !Legal(blocks[b], devices_[d])) continue;
          Load with = load[d];
          with.Add(weight[b], 1);
          // An overfull device gives away what is pulled elsewhere most, or loses least.
          const bool better = pull[d] > pull[best] ||
                              (pull[d] == pull[best] && Full(with) < Full(load[best])) ||
                              (heavy && best == part[b] && Full(with) < Full(load[part[b]]));
          if (Full(with) <= 1 && better) best = static_cast<int>(d);
        }
        if (best == part[b]) continue;
        load[part[b]].Add(weight[b], -1);
        load[best].Add(weight[b], 1);
        part[b] = best;
        moved = true;
      }
      if (!moved) break;
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (part[b] >= 0) Put(p_, blocks[b], devices_[part[b]], placement);
    }
  }

  const Problem& p_;
  const BlockLevels& levels_;
  const std::vector<int>& devices_;
  const Weights& weights_;
  Load total_, limit_;
  std::vector<LevelGraph> graphs_;  // By level; made when needed.
};

// A block, and its share of all compute, or of all memory, or of a mix of the two.
struct Share {
  double position = 0, share = 0;  // Position: the mean in topological order.
  const std::vector<int32_t>* block;
};

// `memory_share`: how much memory counts against compute, 0 to 1.
std::vector<Share> Shares(const Problem& problem, const std::vector<std::vector<int32_t>>& blocks,
                          const Weights& weights, double memory_share) {
  const auto total = [](const std::vector<double>& all) {
    return std::max(1e-9, std::accumulate(all.begin(), all.end(), 0.0));
  };
  const double total_us = total(weights.us), total_bytes = total(weights.bytes);
  std::vector<Share> shares;
  double sum = 0;
  for (const std::vector<int32_t>& block : blocks) {
    Share share{0, 0, &block};
    int ops = 0;
    for (const int32_t g : block) {
      for (const int32_t i : problem.legality->members(g)) {
        share.position += i;
        ++ops;
      }
      share.share += (1 - memory_share) * weights.us[g] / total_us;
      if (memory_share > 0) share.share += memory_share * weights.bytes[g] / total_bytes;
    }
    share.position /= ops;
    sum += share.share;
    shares.push_back(share);
  }
  for (Share& share : shares) share.share /= std::max(1e-9, sum);
  return shares;
}

// The blocks in topological order, cut into runs of equal shares.
Placement RunsOf(const Problem& problem, std::vector<Share> shares,
                 const std::vector<int>& devices) {
  std::stable_sort(shares.begin(), shares.end(),
                   [](const Share& a, const Share& b) { return a.position < b.position; });
  Placement placement = problem.legality->incoming;
  double done = 0;
  for (const Share& share : shares) {
    const double middle = done + share.share / 2;
    const size_t k = std::min(devices.size() - 1,
                              static_cast<size_t>(middle * static_cast<double>(devices.size())));
    done += share.share;
    Put(problem, *share.block, devices[k], placement);
  }
  return placement;
}

// The blocks dealt out, the heaviest first, each to the device with the least so far.
Placement Dealt(const Problem& problem, std::vector<Share> shares,
                const std::vector<int>& devices) {
  std::stable_sort(shares.begin(), shares.end(),
                   [](const Share& a, const Share& b) { return a.share > b.share; });
  std::vector<double> load(devices.size(), 0.0);
  Placement placement = problem.legality->incoming;
  for (const Share& share : shares) {
    const size_t k = std::min_element(load.begin(), load.end()) - load.begin();
    load[k] += share.share;
    Put(problem, *share.block, devices[k], placement);
  }
  return placement;
}

// The scopes of the ops' names, such as layers, that are heavy but no heavier than a device's share
// and a tolerance, each op in one: the heaviest first. `scopes` may overlap.
std::vector<std::vector<int32_t>> HeavyScopes(const std::vector<std::vector<int32_t>>& scopes,
                                              const Weights& weights, double share_us,
                                              double tolerance) {
  std::vector<bool> taken(weights.us.size(), false);
  std::vector<std::vector<int32_t>> heavy;
  for (const std::vector<int32_t>& scope : scopes) {
    double us = 0;
    std::vector<int32_t> rest;
    for (const int32_t g : scope) {
      if (taken[g]) continue;
      rest.push_back(g);
      us += weights.us[g];
    }
    if (us < kHeavyScope * share_us || us > (1 + tolerance) * share_us) continue;
    for (const int32_t g : rest) taken[g] = true;
    heavy.push_back(std::move(rest));
  }
  return heavy;
}

// How much memory counts against compute in the first cut.
std::vector<double> MemoryShares(const Weights& weights) {
  if (weights.bytes.empty()) return {0.0};
  return {0.0, 0.5, 1.0};
}

// Levels that are coarse, but not too coarse to cut runs from; the coarsest first.
std::vector<size_t> RunLevels(const BlockLevels& levels, size_t devices) {
  std::vector<size_t> chosen;
  for (size_t level = levels.size(); level-- > 0 && chosen.size() < kMaxRunLevels;) {
    size_t groups = 0;
    for (const auto& block : levels[level]) groups += block.size();
    // Scopes overlap: they are no partition.
    if (groups != levels.front().size()) continue;
    const size_t size = levels[level].size();
    if (size < kRunBlocks * devices) continue;
    if (chosen.empty() || size >= kRunLevelRatio * levels[chosen.back()].size())
      chosen.push_back(level);
  }
  return chosen;
}

}  // namespace

std::vector<Placement> SpreadRuns(const Problem& problem, const BlockLevels& levels) {
  const std::vector<int> devices = ComputeDevices(*problem.devices);
  const Weights weights = GroupWeights(problem, devices);
  std::vector<Placement> placements;
  for (const size_t level : RunLevels(levels, devices.size())) {
    for (const double memory : MemoryShares(weights)) {
      placements.push_back(
          RunsOf(problem, Shares(problem, levels[level], weights, memory), devices));
    }
  }
  return placements;
}

std::vector<Placement> Partitions(const Problem& problem, const BlockLevels& levels) {
  const std::vector<int> devices = ComputeDevices(*problem.devices);
  const Weights weights = GroupWeights(problem, devices);
  const std::vector<size_t> coarse_levels = RunLevels(levels, devices.size());
  Partitioner partitioner(problem, levels, devices, weights);
  std::vector<Placement> placements;
  for (const size_t coarse : coarse_levels) {
    for (const double memory : MemoryShares(weights)) {
      const std::vector<Share> shares = Shares(problem, levels[coarse], weights, memory);
      for (const Placement& start :
           {RunsOf(problem, shares, devices), Dealt(problem, shares, devices)}) {
        for (const double tolerance : kTolerances) {
          placements.push_back(partitioner.Refined(coarse, tolerance, start));
        }
      }
    }
  }
  // Layers, as an expert would place them: a device each, the rest where it is pulled.
  if (coarse_levels.empty()) return placements;
  const double share_us = std::accumulate(weights.us.begin(), weights.us.end(), 0.0) /
                          static_cast<double>(devices.size());
  for (const double tolerance : kTolerances) {
    const auto layers = HeavyScopes(levels.back(), weights, share_us, tolerance);
    if (layers.size() < 2) continue;
    const std::vector<Share> shares = Shares(problem, layers, weights, 0);
    for (const Placement& start :
         {RunsOf(problem, shares, devices), Dealt(problem, shares, devices)}) {
      placements.push_back(partitioner.Refined(coarse_levels.back(), tolerance, start));
    }
  }
  return placements;
}

}  // namespace grappler_go
