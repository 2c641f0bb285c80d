#include "cc/search.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "tensorflow/core/platform/env.h"

namespace grappler_go {
namespace {

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
// Steps that do not fit into memory count so many times.
constexpr double kInfeasible = 10;

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
