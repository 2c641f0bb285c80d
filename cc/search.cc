#include "cc/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/platform/env.h"

namespace grappler_go {
namespace {

// Scopes beyond these are too light to matter as a whole.
constexpr size_t kMaxScopeBlocks = 128;
// Temperature of the annealing as a share of the step time: at the start of each stage, and what is
// left of it at the end.
constexpr double kStartTemperature = 0.0005;
constexpr double kCooling = 0.01;
// Every so many moves go to any device, the others to where a neighbour is.
constexpr uint64_t kUniformMoves = 2;
// A stage has at least so many evaluations a block, or is left out for coarser ones.
constexpr double kEvaluationsPerBlock = 1;
constexpr int kTriesPerEvaluation = 8;
// What all levels at once are left of the evaluations.
constexpr double kLastShare = 0.3;
constexpr size_t kMaxStages = 3;
// Levels from which runs are cut have at least so many blocks a device.
constexpr size_t kRunBlocks = 4;
constexpr size_t kMaxRunLevels = 4;

// Steps that do not fit into memory count so many times.
constexpr double kInfeasible = 10;

struct Traffic {
  int32_t a, b;  // Blocks, a < b.
  double us;     // Mean transfer time between them if they are parted.
};

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

// What it costs to part two movable blocks: the tensors between them, and the tensors that both
// read, which would have to be sent to two places (as weights are). A tensor counts once for each
// reading block.
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

}  // namespace

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
    // Small blocks with heavy traffic first, as a matching: each block is joined at most once a
    // level.
    const double floor_us = max_us / static_cast<double>(blocks.size());
    const auto gain = [&](const Traffic& t) {
      return t.us / (floor_us + work_us[t.a]) / (floor_us + work_us[t.b]);
    };
    std::sort(traffic.begin(), traffic.end(), [&](const Traffic& x, const Traffic& y) {
      const double gx = gain(x), gy = gain(y);
      return gx > gy || (gx == gy && std::make_pair(x.a, x.b) < std::make_pair(y.a, y.b));
    });
    std::vector<int32_t> joined(blocks.size(), -1);
    std::vector<std::vector<int32_t>> next;
    std::vector<double> next_us;
    for (const Traffic& t : traffic) {
      if (joined[t.a] >= 0 || joined[t.b] >= 0 || work_us[t.a] + work_us[t.b] > max_us) continue;
      joined[t.a] = joined[t.b] = static_cast<int32_t>(next.size());
      next.push_back(blocks[t.a]);
      next.back().insert(next.back().end(), blocks[t.b].begin(), blocks[t.b].end());
      next_us.push_back(work_us[t.a] + work_us[t.b]);
    }
    if (next.empty()) break;
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (joined[b] >= 0) continue;
      joined[b] = static_cast<int32_t>(next.size());
      next.push_back(blocks[b]);
      next_us.push_back(work_us[b]);
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

namespace {

// The state of a search: the current placement, and the best one seen.
class Walk {
 public:
  Walk(const Problem& problem, const Placement& start, absl::Span<const int32_t> priority,
       Simulator& simulator)
      : p_(problem), simulator_(simulator), priority_(priority), current_(start) {
    current_estimate_ = simulator.Run(start, priority);
    best_ = {start, current_estimate_, 1};
  }

  const SearchResult& best() const { return best_; }
  int evaluations() const { return best_.evaluations; }

  // Goes on from another placement, which counts as an evaluation.
  void Restart(const Placement& placement) {
    current_ = placement;
    current_estimate_ = simulator_.Run(current_, priority_);
    ++best_.evaluations;
    KeepIfBest();
  }

  // Goes on from the best placement.
  void Resume() {
    current_ = best_.placement;
    current_estimate_ = best_.estimate;
  }

  // The device of an op that one of the block's reads or that reads it.
  int8_t Neighbour(const std::vector<int32_t>& block, std::mt19937_64& random) const {
    const int32_t g = block[random() % block.size()];
    const auto members = p_.legality->members(g);
    const int32_t node = members[random() % members.size()];
    const OpGraph& graph = *p_.graph;
    const int inputs = graph.in_offsets[node + 1] - graph.in_offsets[node];
    const int first = graph.use_offsets[graph.tensor_offsets[node]];
    const int uses = graph.use_offsets[graph.tensor_offsets[node + 1]] - first;
    if (inputs + uses == 0) return current_[node];
    const int pick = static_cast<int>(random() % static_cast<uint64_t>(inputs + uses));
    const int other = pick < inputs ? graph.edge_source[graph.in_offsets[node] + pick]
                                    : graph.uses[first + pick - inputs];
    return current_[other];
  }

  // Moves the block to `device`, as far as that is legal, and keeps that if the step gets at most
  // `tolerance`, a share of it, slower.
  void Try(const std::vector<int32_t>& block, int8_t device, double tolerance) {
    undo_.clear();
    for (const int32_t g : block) {
      const int8_t had = current_[p_.legality->members(g).front()];
      if (had == device || (p_.legality->group_mask[g] & DeviceBit(device)) == 0) continue;
      undo_.emplace_back(g, had);
      SetGroup(g, device);
    }
    if (undo_.empty()) return;
    StepEstimate estimate = simulator_.Run(current_, priority_);
    ++best_.evaluations;
    const double allowed = (1 + tolerance) * Cost(current_estimate_);
    if (Cost(estimate) > allowed) {
      for (const auto& [g, had] : undo_) SetGroup(g, had);
      return;
    }
    current_estimate_ = std::move(estimate);
    KeepIfBest();
  }

 private:
  // The step time; what does not fit costs more the further it is from fitting.
  double Cost(const StepEstimate& estimate) const {
    if (estimate.feasible) return estimate.step_us;
    double over = 1;
    for (int d = 0; d < p_.devices->size(); ++d) {
      const double limit = p_.devices->device(d).memory_bytes;
      if (limit > 0) over += std::max(0.0, estimate.peak_bytes[d] / limit - 1);
    }
    return kInfeasible * over * estimate.step_us;
  }

  void KeepIfBest() {
    if (Cost(current_estimate_) >= Cost(best_.estimate)) return;
    best_.placement = current_;
    best_.estimate = current_estimate_;
  }

  void SetGroup(int g, int8_t device) {
    for (const int32_t i : p_.legality->members(g)) current_[i] = device;
  }

  const Problem& p_;
  Simulator& simulator_;
  absl::Span<const int32_t> priority_;
  Placement current_;
  StepEstimate current_estimate_;
  SearchResult best_;
  std::vector<std::pair<int32_t, int8_t>> undo_;  // Group and the device it had.
};

// The devices that a search moves blocks to.
std::vector<int8_t> Targets(const Problem& problem) {
  const std::vector<int> devices = ComputeDevices(*problem.devices);
  return {devices.begin(), devices.end()};
}

// The levels to anneal on, from coarse to fine, as fine as the evaluations allow.
std::vector<size_t> Stages(const BlockLevels& levels, int evaluations) {
  std::vector<size_t> fit;
  for (size_t level = levels.size(); level-- > 0;) {
    if (static_cast<double>(levels[level].size()) * kEvaluationsPerBlock <= evaluations) {
      fit.push_back(level);
    }
  }
  if (fit.empty()) fit.push_back(levels.size() - 1);
  std::vector<size_t> stages;
  const size_t count = std::min(kMaxStages, fit.size());
  for (size_t k = 0; k < count; ++k)
    stages.push_back(fit[k * (fit.size() - 1) / std::max<size_t>(1, count - 1)]);
  return stages;
}

}  // namespace

std::vector<Placement> SpreadRuns(const Problem& problem, const BlockLevels& levels) {
  const std::vector<int> devices = ComputeDevices(*problem.devices);
  std::vector<Placement> placements;
  for (size_t level = levels.size(); level-- > 0 && placements.size() < kMaxRunLevels;) {
    const auto& blocks = levels[level];
    if (blocks.size() < kRunBlocks * devices.size()) continue;
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
    placements.push_back(std::move(placement));
  }
  return placements;
}

SearchResult Search(const Problem& problem, const BlockLevels& levels,
                    absl::Span<const Placement> starts, absl::Span<const int32_t> priority,
                    int evaluations, uint64_t seed, uint64_t deadline_us, Simulator& simulator) {
  Walk walk(problem, starts.front(), priority, simulator);
  const auto late = [&] {
    return deadline_us > 0 && tensorflow::Env::Default()->NowMicros() > deadline_us;
  };
  for (size_t k = 1; k < starts.size() && walk.evaluations() < evaluations; ++k) {
    walk.Restart(starts[k]);
  }
  if (levels.empty()) return walk.best();
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(1e-12, 1.0);
  const std::vector<int8_t> targets = Targets(problem);
  // From coarse to fine, each level from the best placement of those before; then all at once.
  const std::vector<size_t> stages = Stages(levels, evaluations);
  for (size_t stage = 0; stage <= stages.size(); ++stage) {
    const bool last = stage == stages.size();
    const int begin = walk.evaluations();
    const int left = evaluations - begin;
    const int share = last ? left
                           : static_cast<int>((left - kLastShare * evaluations) /
                                              static_cast<double>(stages.size() - stage));
    walk.Resume();
    // Tries that change nothing cost nothing, but must come to an end.
    for (int tries = 0; tries < kTriesPerEvaluation * share; ++tries) {
      const double progress = static_cast<double>(walk.evaluations() - begin) / share;
      if (progress >= 1 || late()) break;
      const double temperature = kStartTemperature * std::pow(kCooling, progress);
      const auto& blocks = levels[last ? random() % levels.size() : stages[stage]];
      const std::vector<int32_t>& block = blocks[random() % blocks.size()];
      const int8_t device = random() % kUniformMoves == 0 ? targets[random() % targets.size()]
                                                          : walk.Neighbour(block, random);
      // An accepted rise of x has the probability exp(-x / temperature).
      walk.Try(block, device, -temperature * std::log(uniform(random)));
    }
  }
  return walk.best();
}

}  // namespace grappler_go
