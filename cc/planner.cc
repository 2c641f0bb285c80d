#include "cc/planner.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cc/celeritas.h"
#include "cc/fusion.h"
#include "cc/partition.h"
#include "cc/policy.h"
#include "cc/search.h"
#include "tensorflow/core/platform/env.h"

namespace grappler_go {
namespace {

// How shy of transfers the list schedulers are tried: the schedule that they build is finer than
// what executes.
constexpr double kTransferWeights[] = {1, 2, 4, 8};
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
  } else if (source == "heft") {
    for (const double weight : kTransferWeights) placements.push_back(Heft(problem, weight));
  } else if (source == "celeritas") {
    for (const double weight : kTransferWeights) placements.push_back(Celeritas(problem, weight));
  } else if (source == "m_topo") {
    placements.push_back(TopologicalCut(problem));
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

int SearchEvaluations(const Problem& problem, const Options& options) {
  if (options.search >= 0) return options.search;
  return static_cast<int>(
      std::min<int64_t>(kMaxSearchEvaluations, kSearchOps / (1 + problem.graph->num_nodes())));
}

bool Better(const StepEstimate& a, const StepEstimate& b) {
  return a.feasible != b.feasible ? a.feasible : a.step_us < b.step_us;
}

std::string Milliseconds(double us) { return absl::StrFormat("%.3g ms", us * 1e-3); }

// All proposals so far, and the best of them.
struct Proposals {
  std::vector<Start> all;
  std::string source;  // Of the best; "" = there is none.
  size_t best = 0;

  void Add(const std::string& from, Placement placement, const StepEstimate& estimate) {
    all.push_back({std::move(placement), estimate});
    if (!source.empty() && !Better(estimate, *all[best].estimate)) return;
    source = from;
    best = all.size() - 1;
  }
};

// A plan slower than this is not worth a change.
double NeededUs(const Choice& choice, const Options& options) {
  return choice.incoming.step_us * (1 - options.margin);
}

// Takes the plan in the file at `path` if it is of this graph.
absl::Status TakeStored(const Problem& problem, const std::string& path, Simulator& simulator,
                        Choice& choice) {
  std::string json;
  const absl::Status read = tensorflow::ReadFileToString(tensorflow::Env::Default(), path, &json);
  if (!read.ok()) return read;
  absl::StatusOr<Plan> plan = ReadPlan(json, problem);
  if (absl::IsNotFound(plan.status())) {
    choice.reason = absl::StrCat(path, " is of another graph: ", plan.status().message());
    return absl::OkStatus();
  }
  const absl::Status legal = plan.ok() ? CheckPlan(problem, *plan) : plan.status();
  if (!legal.ok()) return absl::Status(legal.code(), absl::StrCat(path, ": ", legal.message()));
  const Clusters clusters =
      MakeClusters(*problem.graph, *problem.devices, plan->device, plan->fusion);
  simulator.SetClusters(&clusters);
  choice.predicted = simulator.Run(plan->device, plan->priority);
  simulator.SetClusters(nullptr);
  choice.plan = *std::move(plan);
  choice.applied = true;
  choice.reason =
      absl::StrCat(path, " is predicted at ", Milliseconds(choice.predicted.step_us),
                   " a step, the incoming graph at ", Milliseconds(choice.incoming.step_us));
  return absl::OkStatus();
}

bool Late(uint64_t deadline_us) {
  return deadline_us > 0 && tensorflow::Env::Default()->NowMicros() > deadline_us;
}

// Simulates what the planners propose. Past the deadline, no more are asked.
absl::Status ProposeAll(const Problem& problem, const Options& options,
                        const std::vector<int32_t>& priority, uint64_t deadline_us,
                        Simulator& simulator, Proposals& proposals, Choice& choice) {
  for (const std::string& source : options.candidates) {
    if (Late(deadline_us)) return absl::OkStatus();
    absl::StatusOr<std::vector<Placement>> placements = Propose(source, problem, options);
    if (!placements.ok()) return placements.status();
    CandidateResult result{source};
    StepEstimate source_best;
    for (Placement& placement : *placements) {
      const StepEstimate estimate = simulator.Run(placement, priority);
      if (result.tried++ == 0 || Better(estimate, source_best)) source_best = estimate;
      proposals.Add(source, std::move(placement), estimate);
      if (Late(deadline_us)) break;
    }
    result.step_us = source_best.step_us;
    result.feasible = result.tried > 0 && source_best.feasible;
    choice.candidates.push_back(result);
  }
  return absl::OkStatus();
}

// Searches from the proposals, the incoming graph, whose locality no list scheduler may have kept,
// runs of blocks and partitions.
void SearchOn(const Problem& problem, const Options& options, const std::vector<int32_t>& priority,
              uint64_t deadline_us, Simulator& simulator, Proposals& proposals, Choice& choice) {
  const int evaluations = SearchEvaluations(problem, options);
  if (evaluations == 0 || Late(deadline_us)) return;
  const BlockLevels levels = Coarsen(problem);
  std::vector<Start> starts = proposals.all;
  starts.push_back({problem.legality->incoming, std::nullopt});
  for (Placement& runs : SpreadRuns(problem, levels)) {
    starts.push_back({std::move(runs), std::nullopt});
  }
  for (Placement& parts : Partitions(problem, levels)) {
    starts.push_back({std::move(parts), std::nullopt});
  }
  SearchResult searched = Search(problem, levels, starts, priority, evaluations,
                                 static_cast<uint64_t>(options.seed), deadline_us, simulator);
  choice.candidates.push_back(
      {"search", searched.evaluations, searched.estimate.step_us, searched.estimate.feasible});
  proposals.Add("search", std::move(searched.placement), searched.estimate);
}

// Takes the best plan if it is worth it.
void Decide(const Options& options, const std::vector<int32_t>& priority, Proposals proposals,
            Choice& choice) {
  if (proposals.source.empty()) {
    choice.reason = "no planner made a proposal";
    return;
  }
  Start& best = proposals.all[proposals.best];
  const bool gain = !choice.incoming.feasible || best.estimate->step_us < NeededUs(choice, options);
  if (!best.estimate->feasible) {
    choice.reason = "no plan fits into the devices' memory";
  } else if (gain || !options.keep_default) {
    choice.plan = {proposals.source, std::move(best.placement), {}, priority};
    choice.predicted = *best.estimate;
    choice.applied = true;
    choice.reason = absl::StrCat(
        choice.plan.source, " is predicted at ", Milliseconds(choice.predicted.step_us),
        " a step, the incoming graph at ", Milliseconds(choice.incoming.step_us));
  } else {
    choice.reason = absl::StrCat(
        "the best plan (", proposals.source, ") is predicted at ",
        Milliseconds(best.estimate->step_us), " a step, the incoming graph at ",
        Milliseconds(choice.incoming.step_us), ": no gain above ", options.margin * 100, "%");
  }
}

// Places and orders. Where the incoming graph stays, it stays the choice.
absl::Status PlaceAndOrder(const Problem& problem, const Options& options, uint64_t deadline_us,
                           Simulator& simulator, Choice& choice) {
  if (options.keep_default && choice.incoming.feasible &&
      choice.bound.us() >= NeededUs(choice, options)) {
    choice.reason =
        absl::StrCat("the incoming graph is predicted at ", Milliseconds(choice.incoming.step_us),
                     " a step, and no placement can be below ", Milliseconds(choice.bound.us()));
    return absl::OkStatus();
  }
  std::vector<int32_t> priority;
  if (absl::c_linear_search(options.tasks, "scheduling")) {
    priority = CriticalPathPriorities(problem);
  }
  Proposals proposals;
  const absl::Status proposed =
      ProposeAll(problem, options, priority, deadline_us, simulator, proposals, choice);
  if (!proposed.ok()) return proposed;
  if (proposals.source.empty() && Late(deadline_us)) {
    return absl::DeadlineExceededError("planning took longer than optimize_timeout_ms");
  }
  SearchOn(problem, options, priority, deadline_us, simulator, proposals, choice);
  Decide(options, priority, std::move(proposals), choice);
  return absl::OkStatus();
}

// Fuses what the placement has on one device: each scope is a candidate.
void FuseOn(const Problem& problem, const Options& options, uint64_t deadline_us,
            Simulator& simulator, Choice& choice) {
  const double apart_us = choice.predicted.step_us;
  for (const FusionScope scope : {FusionScope::kLight, FusionScope::kAll}) {
    if (Late(deadline_us)) return;
    const FusionOptions fusing{scope, static_cast<double>(options.expected_steps)};
    std::vector<int32_t> fusion = Fuse(problem, choice.plan.device, fusing);
    CandidateResult result{scope == FusionScope::kLight ? "fusion_light" : "fusion_all", 1};
    const Clusters clusters =
        MakeClusters(*problem.graph, *problem.devices, choice.plan.device, fusion);
    simulator.SetClusters(&clusters);
    const StepEstimate estimate = simulator.Run(choice.plan.device, choice.plan.priority);
    simulator.SetClusters(nullptr);
    result.step_us = estimate.step_us;
    result.feasible = estimate.feasible;
    choice.candidates.push_back(result);
    const double needed_us = (1 - options.margin) * apart_us;
    if (!estimate.feasible || estimate.step_us >= choice.predicted.step_us ||
        (options.keep_default && estimate.step_us > needed_us)) {
      continue;
    }
    choice.plan.fusion = std::move(fusion);
    choice.predicted = estimate;
  }
  if (choice.plan.fusion.empty()) return;
  choice.reason = absl::StrCat(choice.reason, choice.reason.empty() ? "" : "; ", "with clusters ",
                               Milliseconds(choice.predicted.step_us), " a step");
  choice.plan.source = choice.applied ? absl::StrCat(choice.plan.source, "+fusion") : "fusion";
  choice.applied = true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanningContext>> PlanningContext::Create(
    const tensorflow::grappler::GrapplerItem& item, DeviceSet devices,
    const LegalityOptions& legality_options, const std::string& costs_path, bool cost_keys) {
  std::unique_ptr<PlanningContext> context(new PlanningContext());
  context->devices_ = std::move(devices);
  MeasuredCosts measured;
  if (!costs_path.empty()) {
    absl::StatusOr<MeasuredCosts> read = ReadMeasuredCosts(costs_path);
    if (!read.ok()) return read.status();
    measured = *std::move(read);
  }
  absl::StatusOr<OpGraph> graph =
      OpGraph::Create(item, /*infer_shapes=*/true, cost_keys || !measured.cache.empty());
  if (!graph.ok()) return graph.status();
  context->graph_ = *std::move(graph);
  absl::StatusOr<Legality> legality =
      Legality::Create(context->graph_, context->devices_, legality_options);
  if (!legality.ok()) return legality.status();
  context->legality_ = *std::move(legality);
  context->op_us_ = OpTimes(context->graph_, context->devices_,
                            costs_path.empty() ? nullptr : &measured, &context->cost_sources_);
  context->problem_ = {&context->graph_, &context->devices_, &context->legality_, context->op_us_};
  return context;
}

absl::StatusOr<Choice> Choose(const Problem& problem, const Options& options,
                              uint64_t deadline_us) {
  if (!options.policy.empty() && options.policy != "none" &&
      absl::c_linear_search(options.candidates, "policy")) {
    // Asked for by name: a broken one is an error even where there is nothing to decide.
    const absl::Status loads = Policy::Load(options.policy).status();
    if (!loads.ok()) return loads;
  }
  Simulator simulator(*problem.graph, *problem.devices, *problem.legality, problem.op_us);
  Choice choice;
  choice.bound = simulator.Bound();
  choice.incoming = simulator.Run(problem.legality->incoming);
  choice.plan = {"default", problem.legality->incoming, {}, {}};
  choice.predicted = choice.incoming;
  if (!options.plan.empty()) {
    const absl::Status taken = TakeStored(problem, options.plan, simulator, choice);
    if (!taken.ok()) return taken;
    return choice;
  }
  const auto decides = [&](const char* task) { return absl::c_linear_search(options.tasks, task); };
  if (decides("placement") || decides("scheduling")) {
    const absl::Status placed = PlaceAndOrder(problem, options, deadline_us, simulator, choice);
    if (!placed.ok()) return placed;
  }
  if (decides("fusion")) FuseOn(problem, options, deadline_us, simulator, choice);
  return choice;
}

}  // namespace grappler_go
