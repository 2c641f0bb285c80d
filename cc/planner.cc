#include "cc/planner.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cc/cost_model.h"
#include "cc/policy.h"
#include "cc/search.h"
#include "tensorflow/core/platform/env.h"

namespace grappler_go {
namespace {

// How shy of transfers the list schedulers are tried: the schedule that they build is finer than
// what executes.
constexpr double kTransferWeights[] = {1, 2, 4, 8};
// Levels of priority that a schedule distinguishes.
constexpr int kPriorityLevels = 20;
// Simulated ops that the search may spend by default: a few seconds.
constexpr int64_t kSearchOps = 12'000'000;
constexpr int kMaxSearchEvaluations = 20000;

absl::StatusOr<std::vector<Placement>> Propose(const std::string& source, const Problem& problem,
                                               const Options& options) {
  std::vector<Placement> placements;
  if (source == "policy") {
    const std::string directory = PolicyDirectory(options);
    if (directory.empty()) return placements;
    const absl::StatusOr<std::shared_ptr<const Policy>> policy = Policy::Load(directory);
    if (!policy.ok()) return policy.status();
    const absl::StatusOr<std::vector<float>> logits = (*policy)->Score(problem);
    if (!logits.ok()) return logits.status();
    return Sample(problem, *logits, options.samples, static_cast<uint64_t>(options.seed));
  }
  if (source == "critical_path") {
    for (const double weight : kTransferWeights)
      placements.push_back(CriticalPath(problem, weight));
  } else if (source == "m_etf") {
    for (const double weight : kTransferWeights) {
      placements.push_back(EarliestTaskFirst(problem, weight));
    }
  } else if (source == "single_device") {
    for (int d = 0; d < problem.devices->size(); ++d)
      placements.push_back(SingleDevice(problem, d));
  } else if (source == "random") {
    for (int k = 0; k < options.samples; ++k) {
      placements.push_back(RandomLegal(problem, static_cast<uint64_t>(options.seed) + k));
    }
  }
  return placements;
}

// Priorities by the longest remaining path, in equal steps of it.
std::vector<int32_t> CriticalPathPriorities(const Problem& problem) {
  const std::vector<double> rank = UpwardRank(problem);
  const double longest = rank.empty() ? 0 : *absl::c_max_element(rank);
  std::vector<int32_t> priority(rank.size(), 0);
  for (size_t i = 0; i < rank.size() && longest > 0; ++i) {
    priority[i] = static_cast<int32_t>(rank[i] / longest * (kPriorityLevels - 1));
  }
  return priority;
}

int SearchEvaluations(const Problem& problem, const Options& options) {
  if (options.search >= 0) return options.search;
  return static_cast<int>(
      std::min<int64_t>(kMaxSearchEvaluations, kSearchOps / (1 + problem.graph->num_nodes())));
}

bool Better(const StepEstimate& a, const StepEstimate& b) {
  return a.feasible != b.feasible ? a.feasible : a.step_us < b.step_us;
}

absl::Status CheckDeadline(uint64_t deadline_us) {
  if (deadline_us == 0 || tensorflow::Env::Default()->NowMicros() <= deadline_us) {
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError("planning took longer than optimize_timeout_ms");
}

std::string Milliseconds(double us) { return absl::StrFormat("%.3g ms", us * 1e-3); }

}  // namespace

absl::StatusOr<std::unique_ptr<PlanningContext>> PlanningContext::Create(
    const tensorflow::grappler::GrapplerItem& item, DeviceSet devices,
    const LegalityOptions& legality_options, const std::string& costs_path) {
  std::unique_ptr<PlanningContext> context(new PlanningContext());
  context->devices_ = std::move(devices);
  absl::StatusOr<OpGraph> graph = OpGraph::Create(item);
  if (!graph.ok()) return graph.status();
  context->graph_ = *std::move(graph);
  absl::StatusOr<Legality> legality =
      Legality::Create(context->graph_, context->devices_, legality_options);
  if (!legality.ok()) return legality.status();
  context->legality_ = *std::move(legality);
  MeasuredCosts measured;
  if (!costs_path.empty()) {
    absl::StatusOr<MeasuredCosts> read = ReadMeasuredCosts(costs_path);
    if (!read.ok()) return read.status();
    measured = *std::move(read);
  }
  context->op_us_ =
      OpTimes(context->graph_, context->devices_, costs_path.empty() ? nullptr : &measured);
  context->problem_ = {&context->graph_, &context->devices_, &context->legality_, context->op_us_};
  return context;
}

absl::StatusOr<Choice> Choose(const Problem& problem, const Options& options,
                              uint64_t deadline_us) {
  Simulator simulator(*problem.graph, *problem.devices, *problem.legality, problem.op_us);
  if (!options.policy.empty() && options.policy != "none" &&
      absl::c_linear_search(options.candidates, "policy")) {
    // Asked for by name: a broken one is an error even where there is nothing to decide.
    const absl::Status loads = Policy::Load(options.policy).status();
    if (!loads.ok()) return loads;
  }
  Choice choice;
  choice.bound = simulator.Bound();
  choice.incoming = simulator.Run(problem.legality->incoming);
  const double needed_us = choice.incoming.step_us * (1 - options.margin);
  choice.plan = {"default", problem.legality->incoming, {}, {}};
  choice.predicted = choice.incoming;
  if (options.keep_default && choice.incoming.feasible && choice.bound.us() >= needed_us) {
    choice.reason =
        absl::StrCat("the incoming graph is predicted at ", Milliseconds(choice.incoming.step_us),
                     " a step, and no placement can be below ", Milliseconds(choice.bound.us()));
    return choice;
  }
  StepEstimate best;
  bool found = false;
  Plan plan;
  std::vector<int32_t> priority;
  if (absl::c_linear_search(options.tasks, "scheduling")) {
    priority = CriticalPathPriorities(problem);
  }
  for (const std::string& source : options.candidates) {
    const absl::StatusOr<std::vector<Placement>> placements = Propose(source, problem, options);
    if (!placements.ok()) return placements.status();
    CandidateResult result{source};
    StepEstimate source_best;
    for (const Placement& placement : *placements) {
      const absl::Status in_time = CheckDeadline(deadline_us);
      if (!in_time.ok()) return in_time;
      const StepEstimate estimate = simulator.Run(placement, priority);
      if (result.tried++ == 0 || Better(estimate, source_best)) source_best = estimate;
      if (!found || Better(estimate, best)) {
        found = true;
        best = estimate;
        plan = {source, placement, {}, priority};
      }
    }
    result.step_us = source_best.step_us;
    result.feasible = result.tried > 0 && source_best.feasible;
    choice.candidates.push_back(result);
  }
  const int evaluations = SearchEvaluations(problem, options);
  if (evaluations > 0) {
    // From the best proposal, and from the incoming graph, whose locality no list scheduler may
    // have kept.
    const BlockLevels levels = Coarsen(problem);
    CandidateResult result{"search"};
    StepEstimate source_best;
    std::vector<std::pair<std::string, Placement>> starts = {
        {"search", problem.legality->incoming}};
    if (found && plan.device != starts.front().second) {
      starts.emplace_back(absl::StrCat(plan.source, "+search"), plan.device);
    }
    for (const auto& [source, start] : starts) {
      const SearchResult searched =
          Search(problem, levels, start, priority, evaluations / static_cast<int>(starts.size()),
                 static_cast<uint64_t>(options.seed), deadline_us, simulator);
      if (result.tried == 0 || Better(searched.estimate, source_best)) {
        source_best = searched.estimate;
      }
      result.tried += searched.evaluations;
      if (!found || Better(searched.estimate, best)) {
        found = true;
        best = searched.estimate;
        plan = {source, searched.placement, {}, priority};
      }
    }
    const absl::Status in_time = CheckDeadline(deadline_us);
    if (!in_time.ok()) return in_time;
    result.step_us = source_best.step_us;
    result.feasible = source_best.feasible;
    choice.candidates.push_back(result);
  }
  const bool gain =
      found && best.feasible && (!choice.incoming.feasible || best.step_us < needed_us);
  if (found && best.feasible && (gain || !options.keep_default)) {
    choice.plan = std::move(plan);
    choice.predicted = best;
    choice.applied = true;
    choice.reason =
        absl::StrCat(choice.plan.source, " is predicted at ", Milliseconds(best.step_us),
                     " a step, the incoming graph at ", Milliseconds(choice.incoming.step_us));
    return choice;
  }
  if (!found) {
    choice.reason = "no planner made a proposal";
  } else if (!best.feasible) {
    choice.reason = "no plan fits into the devices' memory";
  } else {
    choice.reason = absl::StrCat("the best plan (", plan.source, ") is predicted at ",
                                 Milliseconds(best.step_us), " a step, the incoming graph at ",
                                 Milliseconds(choice.incoming.step_us), ": no gain above ",
                                 options.margin * 100, "%");
  }
  return choice;
}

}  // namespace grappler_go
