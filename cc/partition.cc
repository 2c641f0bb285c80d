#include "cc/partition.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace grappler_go {
namespace {

// Levels from which runs are cut have at least so many blocks a device.
constexpr size_t kRunBlocks = 4;
constexpr size_t kMaxRunLevels = 4;
// By how much a device may be above its share of the compute.
constexpr double kTolerances[] = {0.03, 0.15, 0.5, 1};
constexpr int kMaxPasses = 8;

// A partition of a level's blocks over devices, with the loads that it makes.
class Partition {
 public:
  Partition(const Problem& problem, const BlockLevels& levels, std::vector<int> devices,
            double tolerance)
      : p_(problem), levels_(levels), devices_(std::move(devices)) {
    group_us_.resize(p_.legality->num_groups(), 0.0);
    double total_us = 0;
    for (const auto& block : levels.front()) {
      for (const int32_t g : block) {
        for (const int32_t i : p_.legality->members(g)) group_us_[g] += FastestUs(p_, i);
        total_us += group_us_[g];
      }
    }
    limit_us_ = (1 + tolerance) * total_us / static_cast<double>(devices_.size());
  }

  // Moves blocks of `level` while that parts less, from the placement as it is.
  void Refine(size_t level, Placement& placement) const {
    const auto& blocks = levels_[level];
    std::vector<int32_t> block_of(p_.legality->num_groups(), -1);
    std::vector<double> us(blocks.size(), 0.0);
    std::vector<int> part(blocks.size(), -1);
    std::vector<double> load(devices_.size(), 0.0);
    for (size_t b = 0; b < blocks.size(); ++b) {
      const int device = placement[p_.legality->members(blocks[b].front()).front()];
      part[b] =
          static_cast<int>(std::find(devices_.begin(), devices_.end(), device) - devices_.begin());
      if (part[b] == static_cast<int>(devices_.size())) part[b] = -1;
      for (const int32_t g : blocks[b]) {
        block_of[g] = static_cast<int32_t>(b);
        us[b] += group_us_[g];
      }
      if (part[b] >= 0) load[part[b]] += us[b];
    }
    const std::vector<Traffic> traffic = BlockTraffic(p_, block_of);
    std::vector<int32_t> first(blocks.size() + 1, 0);
    for (const Traffic& t : traffic) {
      ++first[t.a + 1];
      ++first[t.b + 1];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<std::pair<int32_t, double>> other(2 * traffic.size());
    std::vector<int32_t> fill(first.begin(), first.end() - 1);
    for (const Traffic& t : traffic) {
      other[fill[t.a]++] = {t.b, t.us};
      other[fill[t.b]++] = {t.a, t.us};
    }
    std::vector<double> pull(devices_.size());
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      bool moved = false;
      for (size_t b = 0; b < blocks.size(); ++b) {
        if (part[b] < 0) continue;
        std::fill(pull.begin(), pull.end(), 0.0);
        for (int k = first[b]; k < first[b + 1]; ++k) {
          if (part[other[k].first] >= 0) pull[part[other[k].first]] += other[k].second;
        }
        const bool heavy = load[part[b]] > limit_us_;
        int best = part[b];
        for (size_t d = 0; d < devices_.size(); ++d) {
          if (static_cast<int>(d) == part[b] || !Legal(blocks[b], devices_[d])) continue;
          const bool fits = load[d] + us[b] <= limit_us_;
          // An overfull device gives away what is pulled elsewhere most, or loses least.
          const bool better = pull[d] > pull[best] ||
                              (pull[d] == pull[best] && load[d] + us[b] < load[best]) ||
                              (heavy && best == part[b] && load[d] + us[b] < load[part[b]]);
          if (fits && better) best = static_cast<int>(d);
        }
        if (best == part[b]) continue;
        load[part[b]] -= us[b];
        load[best] += us[b];
        part[b] = best;
        moved = true;
      }
      if (!moved) break;
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (part[b] < 0) continue;
      for (const int32_t g : blocks[b]) {
        if ((p_.legality->group_mask[g] & DeviceBit(devices_[part[b]])) == 0) continue;
        for (const int32_t i : p_.legality->members(g)) {
          placement[i] = static_cast<int8_t>(devices_[part[b]]);
        }
      }
    }
  }

 private:
  bool Legal(const std::vector<int32_t>& block, int device) const {
    return std::any_of(block.begin(), block.end(), [&](int32_t g) {
      return (p_.legality->group_mask[g] & DeviceBit(device)) != 0;
    });
  }

  const Problem& p_;
  const BlockLevels& levels_;
  std::vector<int> devices_;
  std::vector<double> group_us_;
  double limit_us_ = 0;
};

// The blocks of one level in topological order, cut into runs of equal compute.
Placement RunsOf(const Problem& problem, const std::vector<std::vector<int32_t>>& blocks,
                 const std::vector<int>& devices) {
  struct Run {
    double position = 0, us = 0;
    const std::vector<int32_t>* block;
  };
  std::vector<Run> runs;
  double total_us = 0;
  for (const std::vector<int32_t>& block : blocks) {
    Run run{0, 0, &block};
    int ops = 0;
    for (const int32_t g : block) {
      for (const int32_t i : problem.legality->members(g)) {
        run.position += i;
        run.us += FastestUs(problem, i);
        ++ops;
      }
    }
    run.position /= ops;
    total_us += run.us;
    runs.push_back(run);
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Run& a, const Run& b) { return a.position < b.position; });
  Placement placement = problem.legality->incoming;
  double done_us = 0;
  for (const Run& run : runs) {
    const double middle = total_us > 0 ? (done_us + run.us / 2) / total_us : 0;
    const size_t k = std::min(devices.size() - 1,
                              static_cast<size_t>(middle * static_cast<double>(devices.size())));
    done_us += run.us;
    for (const int32_t g : *run.block) {
      if ((problem.legality->group_mask[g] & DeviceBit(devices[k])) == 0) continue;
      for (const int32_t i : problem.legality->members(g)) {
        placement[i] = static_cast<int8_t>(devices[k]);
      }
    }
  }
  return placement;
}

// The blocks dealt out, the heaviest first, each to the device with the least compute so far.
Placement Dealt(const Problem& problem, const std::vector<std::vector<int32_t>>& blocks,
                const std::vector<int>& devices) {
  std::vector<std::pair<double, size_t>> heaviest;
  for (size_t b = 0; b < blocks.size(); ++b) {
    double us = 0;
    for (const int32_t g : blocks[b]) {
      for (const int32_t i : problem.legality->members(g)) us += FastestUs(problem, i);
    }
    heaviest.emplace_back(-us, b);
  }
  std::sort(heaviest.begin(), heaviest.end());
  std::vector<double> load(devices.size(), 0.0);
  Placement placement = problem.legality->incoming;
  for (const auto& [us, b] : heaviest) {
    const size_t k = std::min_element(load.begin(), load.end()) - load.begin();
    load[k] -= us;
    for (const int32_t g : blocks[b]) {
      if ((problem.legality->group_mask[g] & DeviceBit(devices[k])) == 0) continue;
      for (const int32_t i : problem.legality->members(g)) {
        placement[i] = static_cast<int8_t>(devices[k]);
      }
    }
  }
  return placement;
}

// Levels that are coarse, but not too coarse to cut runs from; the coarsest first.
std::vector<size_t> RunLevels(const BlockLevels& levels, size_t devices) {
  std::vector<size_t> chosen;
  for (size_t level = levels.size(); level-- > 0 && chosen.size() < kMaxRunLevels;) {
    size_t groups = 0;
    for (const auto& block : levels[level]) groups += block.size();
    // Scopes overlap: they are no partition.
    if (groups != levels.front().size()) continue;
    if (levels[level].size() >= kRunBlocks * devices) chosen.push_back(level);
  }
  return chosen;
}

}  // namespace

std::vector<Placement> SpreadRuns(const Problem& problem, const BlockLevels& levels) {
  const std::vector<int> devices = ComputeDevices(*problem.devices);
  std::vector<Placement> placements;
  for (const size_t level : RunLevels(levels, devices.size())) {
    placements.push_back(RunsOf(problem, levels[level], devices));
  }
  return placements;
}

std::vector<Placement> Partitions(const Problem& problem, const BlockLevels& levels) {
  const std::vector<int> devices = ComputeDevices(*problem.devices);
  std::vector<Placement> placements;
  for (const size_t coarse : RunLevels(levels, devices.size())) {
    for (const double tolerance : kTolerances) {
      const Partition partition(problem, levels, devices, tolerance);
      for (Placement placement :
           {RunsOf(problem, levels[coarse], devices), Dealt(problem, levels[coarse], devices)}) {
        for (size_t level = coarse + 1; level-- > 0;) partition.Refine(level, placement);
        placements.push_back(std::move(placement));
      }
    }
  }
  return placements;
}

}  // namespace grappler_go
