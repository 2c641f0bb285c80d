#include "cc/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "cc/critical_chain.h"
#include "tensorflow/core/platform/env.h"

namespace grappler_go {
namespace {

// Temperature of the annealing as a share of the step time: at the start of each stage, where there
// are no more than so many evaluations a block; with more it rises as their square. What is left of
// it at the end.
constexpr double kStartTemperature = 0.0005;
constexpr double kPlenty = 10;
constexpr double kMaxTemperature = 0.05;
constexpr double kCooling = 0.01;
// The share of moves that are made at what the step waits for.
constexpr double kChainMoves = 0.5;
// Every so many moves go to any device, the others to where a neighbour is.
constexpr uint64_t kUniformMoves = 2;
// A stage has at least so many evaluations a block, or is left out for coarser ones.
constexpr double kEvaluationsPerBlock = 1;
constexpr int kTriesPerEvaluation = 8;
// The best starts that the first stage anneals from, each with its part of it.
constexpr size_t kStarts = 3;
// What all levels at once are left of the evaluations.
constexpr double kLastShare = 0.3;
constexpr size_t kMaxStages = 3;
// A step that does not fit into memory counts so many times, and each device's excess over its
// limit, as a share of that, as many times more.
constexpr double kInfeasible = 1.5;
constexpr double kExcess = 20;

// What the search goes by: the step time; what does not fit costs more the further it is from
// fitting. A slow step that fits may cost more than one that almost fits, and leads nowhere.
double Cost(const StepEstimate& estimate, const DeviceSet& devices) {
  if (estimate.feasible) return estimate.step_us;
  double factor = kInfeasible;
  for (size_t d = 0; d < estimate.peak_bytes.size(); ++d) {
    const double limit = devices.device(static_cast<int>(d)).memory_bytes;
    if (limit > 0) factor += kExcess * std::max(0.0, estimate.peak_bytes[d] / limit - 1);
  }
  return factor * estimate.step_us;
}

// What the search answers with: what fits before what does not.
bool Better(const StepEstimate& a, const StepEstimate& b, const DeviceSet& devices) {
  return a.feasible != b.feasible ? a.feasible : Cost(a, devices) < Cost(b, devices);
}

// The blocks of each level that a group is in.
class BlockIndex {
 public:
  BlockIndex(const BlockLevels& levels, int num_groups) {
    for (const auto& blocks : levels) {
      std::vector<int32_t> offsets(num_groups + 1, 0);
      for (const auto& block : blocks) {
        for (const int32_t g : block) ++offsets[g + 1];
      }
      for (int g = 0; g < num_groups; ++g) offsets[g + 1] += offsets[g];
      std::vector<int32_t> of(offsets.back());
      std::vector<int32_t> fill(offsets.begin(), offsets.end() - 1);
      for (size_t b = 0; b < blocks.size(); ++b) {
        for (const int32_t g : blocks[b]) of[fill[g]++] = static_cast<int32_t>(b);
      }
      offsets_.push_back(std::move(offsets));
      of_.push_back(std::move(of));
    }
  }

  // A block of `level` with `group` in it, -1 = none.
  int32_t Draw(size_t level, int group, std::mt19937_64& random) const {
    const int32_t begin = offsets_[level][group], count = offsets_[level][group + 1] - begin;
    return count == 0 ? -1 : of_[level][begin + random() % static_cast<uint64_t>(count)];
  }

 private:
  std::vector<std::vector<int32_t>> offsets_, of_;  // By level.
};

// The state of an annealing: the current placement, and the best one seen.
class Walk {
 public:
  Walk(const Problem& problem, absl::Span<const int32_t> priority, Simulator& simulator,
       SearchResult& best)
      : p_(problem), simulator_(simulator), priority_(priority), best_(best) {}

  // Goes on from a placement that was simulated before, which is not an evaluation more.
  void Start(double cost, const Placement& placement) {
    if (cost < lowest_cost_) {
      lowest_ = placement;
      lowest_cost_ = cost;
    }
    GoTo(placement);
  }

  // Goes on from the placement of the lowest cost.
  void Resume() { GoTo(lowest_); }

  int8_t device(int node) const { return current_[node]; }

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

  // A link of what the step waits for, drawn by its share of the step.
  const ChainLink& DrawLink(std::mt19937_64& random) {
    if (chain_.empty()) {
      chain_ = CriticalChain(p_, current_, timeline_);
      chain_us_.clear();
      double us = 0;
      for (const ChainLink& link : chain_) chain_us_.push_back(us += std::max(0.0, link.us));
    }
    const double at = std::uniform_real_distribution<double>(0, chain_us_.back())(random);
    const auto it = std::upper_bound(chain_us_.begin(), chain_us_.end() - 1, at);
    return chain_[it - chain_us_.begin()];
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
    StepEstimate estimate = simulator_.Run(current_, priority_, &tried_);
    ++best_.evaluations;
    const double cost = Cost(estimate, *p_.devices);
    if (cost > (1 + tolerance) * cost_) {
      for (const auto& [g, had] : undo_) SetGroup(g, had);
      return;
    }
    cost_ = cost;
    std::swap(timeline_, tried_);
    chain_.clear();
    if (cost < lowest_cost_) {
      lowest_cost_ = cost;
      lowest_ = current_;
    }
    if (!Better(estimate, best_.estimate, *p_.devices)) return;
    best_.placement = current_;
    best_.estimate = std::move(estimate);
  }

 private:
  void GoTo(const Placement& placement) {
    current_ = placement;
    cost_ = Cost(simulator_.Run(current_, priority_, &timeline_), *p_.devices);
    chain_.clear();
  }

  void SetGroup(int g, int8_t device) {
    for (const int32_t i : p_.legality->members(g)) current_[i] = device;
  }

  const Problem& p_;
  Simulator& simulator_;
  absl::Span<const int32_t> priority_;
  SearchResult& best_;
  Placement current_;
  double cost_ = 0;
  Placement lowest_;  // Of the lowest cost so far.
  double lowest_cost_ = std::numeric_limits<double>::infinity();
  Timeline timeline_, tried_;     // Of the current placement, and of the last one tried.
  std::vector<ChainLink> chain_;  // Of the current placement; empty = to be made.
  std::vector<double> chain_us_;  // Running sums.
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

struct Candidate {
  double cost;
  Placement placement;
};

// One search: its problem, its draws and what it has found.
class Searcher {
 public:
  Searcher(const Problem& problem, const BlockLevels& levels, absl::Span<const int32_t> priority,
           int evaluations, uint64_t seed, uint64_t deadline_us, Simulator& simulator)
      : p_(problem),
        levels_(levels),
        priority_(priority),
        budget_(evaluations),
        deadline_us_(deadline_us),
        simulator_(simulator),
        random_(seed),
        index_(levels, problem.legality->num_groups()),
        targets_(Targets(problem)),
        walk_(problem, priority, simulator, best_) {}

  // Simulates the starts, as far as they are not, and keeps the best of them.
  void Begin(absl::Span<const Start> starts) {
    for (size_t k = 0; k < starts.size(); ++k) {
      if (starts[k].estimate) {
        Offer(starts[k].placement, *starts[k].estimate);
      } else if (k == 0 || (!Spent() && !Late())) {
        Simulate(starts[k].placement);
      }
    }
  }

  // From coarse to fine: the first level from each of the starts, the next from the best placement
  // of those before; then all levels at once.
  void Anneal() {
    const std::vector<size_t> stages = Stages(levels_, budget_);
    for (size_t k = 0; k < starts_.size(); ++k) {
      walk_.Start(starts_[k].cost, starts_[k].placement);
      const double left = (1 - kLastShare) * budget_ - best_.evaluations;
      const double parts =
          static_cast<double>((stages.size() - 1) * starts_.size() + starts_.size() - k);
      AnnealOn(stages.front(), static_cast<int>(left / parts));
    }
    for (size_t stage = 1; stage < stages.size(); ++stage) {
      walk_.Resume();
      const double left = (1 - kLastShare) * budget_ - best_.evaluations;
      AnnealOn(stages[stage], static_cast<int>(left / static_cast<double>(stages.size() - stage)));
    }
    walk_.Resume();
    AnnealOn(kAllLevels, budget_ - best_.evaluations);
  }

  SearchResult Result() && { return std::move(best_); }

 private:
  static constexpr size_t kAllLevels = std::numeric_limits<size_t>::max();

  // Anneals with so many evaluations from where the walk is.
  void AnnealOn(size_t level, int share) {
    std::uniform_real_distribution<double> uniform(1e-12, 1.0);
    const int begin = best_.evaluations;
    const size_t blocks = level == kAllLevels ? levels_.front().size() : levels_[level].size();
    const double plenty = share / static_cast<double>(blocks) / kPlenty;
    const double start =
        std::clamp(kStartTemperature * plenty * plenty, kStartTemperature, kMaxTemperature);
    // Tries that change nothing cost nothing, but must come to an end.
    for (int tries = 0; tries < kTriesPerEvaluation * share; ++tries) {
      const double progress = static_cast<double>(best_.evaluations - begin) / share;
      if (progress >= 1 || Late()) break;
      const double temperature = start * std::pow(kCooling, progress);
      const size_t on = level == kAllLevels ? random_() % levels_.size() : level;
      // An accepted rise of x has the probability exp(-x / temperature).
      const double tolerance = -temperature * std::log(uniform(random_));
      uniform(random_) < kChainMoves ? MoveAtChain(on, tolerance) : Move(on, tolerance);
    }
  }

  bool Spent() const { return best_.evaluations >= budget_; }
  bool Late() const {
    return deadline_us_ > 0 && tensorflow::Env::Default()->NowMicros() > deadline_us_;
  }

  void Simulate(Placement placement) {
    const StepEstimate estimate = simulator_.Run(placement, priority_);
    ++best_.evaluations;
    Offer(std::move(placement), estimate);
  }

  void Offer(Placement placement, const StepEstimate& estimate) {
    const double cost = Cost(estimate, *p_.devices);
    if (best_.placement.empty() || Better(estimate, best_.estimate, *p_.devices)) {
      best_.placement = placement;
      best_.estimate = estimate;
    }
    for (const Candidate& each : starts_) {
      if (each.cost == cost) return;  // The same plan, most likely.
    }
    const auto after =
        std::upper_bound(starts_.begin(), starts_.end(), cost,
                         [](double us, const Candidate& each) { return us < each.cost; });
    starts_.insert(after, {cost, std::move(placement)});
    if (starts_.size() > kStarts) starts_.pop_back();
  }

  int8_t AnyOrNeighbour(const std::vector<int32_t>& block) {
    return random_() % kUniformMoves == 0 ? targets_[random_() % targets_.size()]
                                          : walk_.Neighbour(block, random_);
  }

  void Move(size_t level, double tolerance) {
    const std::vector<int32_t>& block = levels_[level][random_() % levels_[level].size()];
    walk_.Try(block, AnyOrNeighbour(block), tolerance);
  }

  // Mends what the step waits for: joins the ends of a transfer, or takes one of two ops that want
  // the same device elsewhere.
  void MoveAtChain(size_t level, double tolerance) {
    const ChainLink link = walk_.DrawLink(random_);
    const bool latter = link.before < 0 || random_() % 2 == 0;
    const int32_t node = latter ? link.node : link.before;
    const int32_t b = index_.Draw(level, p_.legality->group[node], random_);
    if (b < 0) return;
    const std::vector<int32_t>& block = levels_[level][b];
    const int8_t device =
        link.for_transfer ? walk_.device(latter ? link.before : link.node) : AnyOrNeighbour(block);
    walk_.Try(block, device, tolerance);
  }

  const Problem& p_;
  const BlockLevels& levels_;
  absl::Span<const int32_t> priority_;
  int budget_;
  uint64_t deadline_us_;
  Simulator& simulator_;
  std::mt19937_64 random_;
  BlockIndex index_;
  std::vector<int8_t> targets_;
  SearchResult best_;
  std::vector<Candidate> starts_;  // The cheapest first.
  Walk walk_;
};

}  // namespace

SearchResult Search(const Problem& problem, const BlockLevels& levels,
                    absl::Span<const Start> starts, absl::Span<const int32_t> priority,
                    int evaluations, uint64_t seed, uint64_t deadline_us, Simulator& simulator) {
  Searcher searcher(problem, levels, priority, evaluations, seed, deadline_us, simulator);
  searcher.Begin(starts);
  if (!levels.empty()) searcher.Anneal();
  return std::move(searcher).Result();
}

}  // namespace grappler_go
