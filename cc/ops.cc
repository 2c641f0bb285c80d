// TensorFlow ops through which Python reaches the C++ of the pass: one implementation for the pass,
// training and the benchmark. Python wraps them in grappler_go.OpGraph.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/celeritas.h"
#include "cc/features.h"
#include "cc/grappler_go_pass.h"
#include "cc/planner.h"
#include "cc/policy.h"
#include "cc/report.h"
#include "cc/rewriter.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/platform/env.h"

namespace grappler_go {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

// A graph opened for planning, with the item that it was read from.
class OpenGraph : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "grappler_go graph"; }
  const Problem& problem() const { return context->problem(); }

  tensorflow::grappler::GrapplerItem item;
  std::unique_ptr<PlanningContext> context;
};

constexpr int32_t kMaxPriority = 1 << 20;

std::vector<std::string> Strings(const Tensor& tensor) {
  const auto values = tensor.flat<tstring>();
  return {values.data(), values.data() + values.size()};
}

// Adds output `index`, a copy of `values` in `shape`.
template <typename T>
absl::Status SetOutput(OpKernelContext* context, int index, const TensorShape& shape,
                       const std::vector<T>& values) {
  Tensor* out = nullptr;
  const absl::Status status = context->allocate_output(index, shape, &out);
  if (!status.ok()) return status;
  std::memcpy(out->data(), values.data(), values.size() * sizeof(T));
  return absl::OkStatus();
}

absl::Status SetStrings(OpKernelContext* context, int index,
                        const std::vector<std::string>& values) {
  Tensor* out = nullptr;
  const absl::Status status =
      context->allocate_output(index, TensorShape({static_cast<int64_t>(values.size())}), &out);
  if (!status.ok()) return status;
  for (size_t i = 0; i < values.size(); ++i) out->flat<tstring>()(i) = values[i];
  return absl::OkStatus();
}

absl::Status SetString(OpKernelContext* context, int index, absl::string_view value) {
  Tensor* out = nullptr;
  const absl::Status status = context->allocate_output(index, TensorShape({}), &out);
  if (!status.ok()) return status;
  out->scalar<tstring>()() = std::string(value);
  return absl::OkStatus();
}

class OpenOp : public OpKernel {
 public:
  explicit OpenOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context,
                   context->GetAttr("override_user_devices", &options_.override_user_devices));
    OP_REQUIRES_OK(context, context->GetAttr("move_state", &options_.move_state));
  }

  void Compute(OpKernelContext* context) override {
    auto open = tensorflow::core::RefCountPtr<OpenGraph>(new OpenGraph());
    const tstring& serialized = context->input(0).scalar<tstring>()();
    OP_REQUIRES(
        context,
        open->item.graph.ParseFromArray(serialized.data(), static_cast<int>(serialized.size())),
        absl::InvalidArgumentError("the graph is not a serialised GraphDef"));
    open->item.id = "offline";
    for (const std::string& name : Strings(context->input(2))) open->item.fetch.push_back(name);
    for (const std::string& name : Strings(context->input(3))) {
      open->item.feed.emplace_back(name, Tensor());
    }
    absl::StatusOr<DeviceSet> devices = DeviceSet::Create(
        Strings(context->input(1)), std::string(context->input(4).scalar<tstring>()()));
    OP_REQUIRES_OK(context, devices.status());
    auto planning = PlanningContext::Create(open->item, *std::move(devices), options_,
                                            std::string(context->input(5).scalar<tstring>()()),
                                            /*cost_keys=*/true);
    OP_REQUIRES_OK(context, planning.status());
    open->context = *std::move(planning);
    Tensor handle(tensorflow::DT_RESOURCE, TensorShape({}));
    handle.scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(open.release(),
                                                          context->device()->name());
    context->set_output(0, handle);
  }

 private:
  LegalityOptions options_;
};

// An op on an open graph.
class GraphOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const auto& handle = context->input(0).scalar<tensorflow::ResourceHandle>()();
    const absl::StatusOr<OpenGraph*> open = handle.GetResource<OpenGraph>();
    OP_REQUIRES_OK(context, open.status());
    OP_REQUIRES_OK(context, Compute(context, **open));
  }

 protected:
  virtual absl::Status Compute(OpKernelContext* context, const OpenGraph& open) = 0;

  // Input `index` as placements [K, nodes], each checked.
  static absl::StatusOr<std::vector<Placement>> Placements(OpKernelContext* context, int index,
                                                           const Problem& problem, bool check) {
    const Tensor& tensor = context->input(index);
    const int64_t n = problem.graph->num_nodes();
    if (tensor.dims() != 2 || tensor.dim_size(1) != n) {
      return absl::InvalidArgumentError(absl::StrCat(
          "placements of shape ", tensor.shape().DebugString(), ", expected [plans,", n, "]"));
    }
    const auto matrix = tensor.matrix<int32_t>();
    std::vector<Placement> placements(tensor.dim_size(0), Placement(n));
    for (int64_t k = 0; k < tensor.dim_size(0); ++k) {
      for (int64_t i = 0; i < n; ++i) {
        placements[k][i] = static_cast<int8_t>(std::clamp(matrix(k, i), -1, 127));
      }
      if (!check) continue;
      const absl::Status legal =
          problem.legality->Check(*problem.graph, *problem.devices, placements[k]);
      if (!legal.ok()) {
        return absl::Status(legal.code(), absl::StrCat("plan ", k, ": ", legal.message()));
      }
    }
    return placements;
  }

  static absl::Status SetPlacement(OpKernelContext* context, const Placement& placement) {
    return SetOutput(context, 0, TensorShape({static_cast<int64_t>(placement.size())}),
                     std::vector<int32_t>(placement.begin(), placement.end()));
  }
};

class InfoOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    std::vector<std::string> names, ops, rules, devices, sources;
    std::vector<double> work_size;
    for (int i = 0; i < p.graph->num_nodes(); ++i) {
      names.push_back(p.graph->name(i));
      ops.push_back(p.graph->op(i));
      rules.emplace_back(RuleName(p.legality->rule[i]));
      sources.emplace_back(CostSourceName(open.context->cost_sources()[i]));
      work_size.push_back(WorkSize(p.graph->work[i]));
    }
    for (int d = 0; d < p.devices->size(); ++d) devices.push_back(p.devices->device(d).name);
    const TensorShape nodes({p.graph->num_nodes()});
    Simulator simulator(*p.graph, *p.devices, *p.legality, p.op_us);
    const LowerBound bound = simulator.Bound();
    for (const absl::Status& status :
         {SetStrings(context, 0, names), SetStrings(context, 1, ops), SetStrings(context, 2, rules),
          SetStrings(context, 3, devices), SetOutput(context, 4, nodes, p.legality->group),
          SetOutput(context, 5, TensorShape({p.graph->num_nodes(), p.devices->size()}),
                    std::vector<float>(p.op_us.begin(), p.op_us.end())),
          SetOutput(context, 6, TensorShape({4}),
                    std::vector<double>{bound.critical_path_us, bound.work_us, bound.fixed_us,
                                        bound.memory_share}),
          SetOutput(context, 7, nodes, p.graph->persistent_bytes),
          SetStrings(context, 8, p.graph->cost_key), SetOutput(context, 9, nodes, work_size),
          SetStrings(context, 10, sources)}) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

class FeaturesOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    const Features f = ExtractFeatures(p);
    const int64_t n = p.graph->num_nodes();
    const int64_t d = p.devices->size();
    const int64_t e = static_cast<int64_t>(f.edge_source.size());
    const auto width = [](absl::Span<const FeatureSpec> specs) {
      return static_cast<int64_t>(specs.size());
    };
    for (const absl::Status& status :
         {SetOutput(context, 0, TensorShape({n, width(NodeFeatures())}), f.node),
          SetOutput(context, 1, TensorShape({n}), f.op_type),
          SetOutput(context, 2, TensorShape({e}), f.edge_source),
          SetOutput(context, 3, TensorShape({e}), f.edge_target),
          SetOutput(context, 4, TensorShape({e, width(EdgeFeatures())}), f.edge),
          SetOutput(context, 5, TensorShape({d, width(DeviceFeatures())}), f.device),
          SetOutput(context, 6, TensorShape({n, d, width(NodeDeviceFeatures())}), f.node_device),
          SetOutput(context, 7, TensorShape({n, d}), f.mask),
          SetOutput(context, 8, TensorShape({d, d, width(LinkFeatures())}), f.link)}) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

// The edges with their tensors, where each op may go, and what a transfer takes.
class DataflowOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    const int64_t d = p.devices->size();
    const TensorShape edges({p.graph->num_edges()});
    const TensorShape tensors({p.graph->num_tensors()});
    std::vector<uint8_t> mask;
    for (int i = 0; i < p.graph->num_nodes(); ++i) {
      for (int k = 0; k < d; ++k) mask.push_back((p.legality->mask(i) & DeviceBit(k)) != 0 ? 1 : 0);
    }
    std::vector<double> links;
    for (int s = 0; s < d; ++s) {
      for (int t = 0; t < d; ++t) {
        const double fixed_us = s == t ? 0 : TransferUs(p.devices->link(s, t), 0);
        const double megabyte_us = s == t ? 0 : TransferUs(p.devices->link(s, t), 1e6);
        links.insert(links.end(), {fixed_us, (megabyte_us - fixed_us) * 1e-6});
      }
    }
    std::vector<double> limits;
    for (int k = 0; k < d; ++k) limits.push_back(p.devices->device(k).memory_bytes);
    for (const absl::Status& status :
         {SetOutput(context, 0, edges, p.graph->edge_source),
          SetOutput(context, 1, edges, p.graph->edge_target),
          SetOutput(context, 2, edges, p.graph->edge_tensor),
          SetOutput(context, 3, tensors, p.graph->tensor_node),
          SetOutput(context, 4, tensors, p.graph->tensor_bytes),
          SetOutput(context, 5, TensorShape({p.graph->num_nodes(), d}), mask),
          SetOutput(context, 6, TensorShape({d, d, 2}), links),
          SetOutput(context, 7, TensorShape({d}), limits)}) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

// What a policy decides as one, by level.
class BlocksOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const std::vector<std::vector<int32_t>> levels = DecisionBlocks(open.problem());
    std::vector<int32_t> rows;
    for (const auto& level : levels) rows.insert(rows.end(), level.begin(), level.end());
    return SetOutput(
        context, 0,
        TensorShape({static_cast<int64_t>(levels.size()), open.problem().graph->num_nodes()}),
        rows);
  }
};

class PrioritiesOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    return SetOutput(context, 0, TensorShape({open.problem().graph->num_nodes()}),
                     CriticalPathPriorities(open.problem()));
  }
};

class FeatureTableOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, SetStrings(context, 0, FeatureTable()));
  }
};

// What TensorFlow's registry knows: a name that it does not know is ignored without a word.
class RegisteredOptimizersOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(
        context,
        SetStrings(context, 0,
                   tensorflow::grappler::CustomGraphOptimizerRegistry::GetRegisteredOptimizers()));
  }
};

class HeuristicOp : public GraphOp {
 public:
  explicit HeuristicOp(OpKernelConstruction* context) : GraphOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("heuristic", &name_));
    OP_REQUIRES_OK(context, context->GetAttr("seed", &seed_));
    OP_REQUIRES_OK(context, context->GetAttr("transfer_weight", &transfer_weight_));
  }

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    if (name_ == "incoming") return SetPlacement(context, p.legality->incoming);
    if (name_ == "random")
      return SetPlacement(context, RandomLegal(p, static_cast<uint64_t>(seed_)));
    if (name_ == "m_etf") return SetPlacement(context, EarliestTaskFirst(p, transfer_weight_));
    if (name_ == "critical_path") return SetPlacement(context, CriticalPath(p, transfer_weight_));
    if (name_ == "heft") return SetPlacement(context, Heft(p, transfer_weight_));
    if (name_ == "m_topo") return SetPlacement(context, TopologicalCut(p));
    if (name_ == "celeritas") return SetPlacement(context, Celeritas(p, transfer_weight_));
    if (name_ == "single_device") {
      if (seed_ < 0 || seed_ >= p.devices->size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("single_device: device ", seed_, " is not in 0..", p.devices->size() - 1));
      }
      return SetPlacement(context, SingleDevice(p, static_cast<int>(seed_)));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown heuristic '", name_,
        "'; known are incoming, random, single_device, m_etf, critical_path, heft, m_topo, "
        "celeritas"));
  }

 private:
  std::string name_;
  int64_t seed_ = 0;
  float transfer_weight_ = 1;
};

// Each ready queue's order: i32 [plans, nodes], one row for all, or no row for first come, first
// served.
absl::StatusOr<std::vector<std::vector<int32_t>>> Priorities(OpKernelContext* context, int index,
                                                             const Problem& problem, size_t plans) {
  const Tensor& tensor = context->input(index);
  const int64_t n = problem.graph->num_nodes();
  if (tensor.dims() != 2 || tensor.dim_size(1) != n ||
      (tensor.dim_size(0) > 1 && tensor.dim_size(0) != static_cast<int64_t>(plans))) {
    return absl::InvalidArgumentError(absl::StrCat("priorities of shape ",
                                                   tensor.shape().DebugString(),
                                                   ", expected [0, 1 or ", plans, ",", n, "]"));
  }
  const auto matrix = tensor.matrix<int32_t>();
  std::vector<std::vector<int32_t>> priorities(tensor.dim_size(0), std::vector<int32_t>(n));
  for (size_t k = 0; k < priorities.size(); ++k) {
    for (int64_t i = 0; i < n; ++i) {
      priorities[k][i] =
          std::clamp(matrix(static_cast<int64_t>(k), i), -kMaxPriority, kMaxPriority);
    }
  }
  return priorities;
}

class SimulateOp : public GraphOp {
 public:
  explicit SimulateOp(OpKernelConstruction* context) : GraphOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("threads", &threads_));
  }

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    const absl::StatusOr<std::vector<Placement>> placements = Placements(context, 1, p, true);
    if (!placements.ok()) return placements.status();
    const absl::StatusOr<std::vector<std::vector<int32_t>>> priorities =
        Priorities(context, 2, p, placements->size());
    if (!priorities.ok()) return priorities.status();
    const int64_t k = static_cast<int64_t>(placements->size());
    const int64_t d = p.devices->size();
    std::vector<double> step_us, busy_us, peak_bytes;
    std::vector<uint8_t> feasible;
    std::vector<std::string> why;
    const uint64_t start_ns = tensorflow::Env::Default()->NowNanos();
    const std::vector<StepEstimate> estimates =
        SimulateAll(*p.graph, *p.devices, *p.legality, p.op_us, *placements, *priorities, threads_);
    const double seconds =
        static_cast<double>(tensorflow::Env::Default()->NowNanos() - start_ns) * 1e-9;
    for (const StepEstimate& estimate : estimates) {
      why.push_back(WhyInfeasible(estimate, *p.devices));
      step_us.push_back(estimate.step_us);
      feasible.push_back(estimate.feasible ? 1 : 0);
      for (int device = 0; device < d; ++device) {
        busy_us.push_back(estimate.busy_us[p.devices->device(device).executor]);
        peak_bytes.push_back(estimate.peak_bytes[device]);
      }
    }
    for (const absl::Status& status :
         {SetOutput(context, 0, TensorShape({k}), step_us),
          SetOutput(context, 1, TensorShape({k}), feasible),
          SetOutput(context, 2, TensorShape({k, d}), busy_us),
          SetOutput(context, 3, TensorShape({k, d}), peak_bytes), SetStrings(context, 4, why),
          SetOutput(context, 5, TensorShape({}), std::vector<double>{seconds})}) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  int threads_ = 0;
};

// One placement's timeline: when each op ran, and each transfer.
class TimelineOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    const absl::StatusOr<std::vector<Placement>> placements = Placements(context, 1, p, true);
    if (!placements.ok()) return placements.status();
    if (placements->size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(placements->size(), " placements, a timeline is of one"));
    }
    const absl::StatusOr<std::vector<std::vector<int32_t>>> priorities =
        Priorities(context, 2, p, 1);
    if (!priorities.ok()) return priorities.status();
    Simulator simulator(*p.graph, *p.devices, *p.legality, p.op_us);
    Timeline timeline;
    simulator.Run(placements->front(),
                  priorities->empty() ? absl::Span<const int32_t>() : priorities->front(),
                  &timeline);
    std::vector<int32_t> ends;
    std::vector<double> times;
    for (const TransferEvent& transfer : timeline.transfers) {
      ends.insert(ends.end(),
                  {p.graph->tensor_node[transfer.tensor], transfer.source, transfer.target});
      times.insert(times.end(),
                   {transfer.start_us, transfer.end_us, p.graph->tensor_bytes[transfer.tensor]});
    }
    const std::vector<int32_t> path = simulator.LongestPath(placements->front()).second;
    const TensorShape nodes({p.graph->num_nodes()});
    const TensorShape transfers({static_cast<int64_t>(timeline.transfers.size()), 3});
    for (const absl::Status& status :
         {SetOutput(context, 0, nodes, timeline.start_us),
          SetOutput(context, 1, nodes, timeline.end_us), SetOutput(context, 2, transfers, ends),
          SetOutput(context, 3, transfers, times),
          SetOutput(context, 4, TensorShape({static_cast<int64_t>(path.size())}), path)}) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

class CheckOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    const absl::StatusOr<std::vector<Placement>> placements = Placements(context, 1, p, false);
    if (!placements.ok()) return placements.status();
    std::vector<std::string> violations;
    for (const Placement& placement : *placements) {
      violations.emplace_back(p.legality->Check(*p.graph, *p.devices, placement).message());
    }
    return SetStrings(context, 0, violations);
  }
};

class RepairOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    const absl::StatusOr<std::vector<Placement>> placements = Placements(context, 1, p, false);
    if (!placements.ok()) return placements.status();
    std::vector<int32_t> repaired;
    for (const Placement& placement : *placements) {
      const Placement legal = p.legality->Repair(*p.graph, placement);
      repaired.insert(repaired.end(), legal.begin(), legal.end());
    }
    return SetOutput(context, 0, context->input(1).shape(), repaired);
  }
};

// `options` is a serialised CustomGraphOptimizer, as the pass gets it.
class ChooseOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    tensorflow::RewriterConfig_CustomGraphOptimizer config;
    const tstring& serialized = context->input(1).scalar<tstring>()();
    if (!config.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
      return absl::InvalidArgumentError("the options are not a serialised CustomGraphOptimizer");
    }
    const absl::StatusOr<Options> options = ReadOptions(config.parameter_map());
    if (!options.ok()) return options.status();
    const absl::StatusOr<Choice> choice = Choose(open.problem(), *options, /*deadline_us=*/0);
    if (!choice.ok()) return choice.status();
    return SetString(context, 0, ReportJson(open.problem(), *choice, open.item));
  }
};

class ApplyOp : public GraphOp {
 public:
  using GraphOp::GraphOp;

 protected:
  absl::Status Compute(OpKernelContext* context, const OpenGraph& open) override {
    const Problem& p = open.problem();
    const absl::StatusOr<Plan> plan =
        ReadPlan(std::string(context->input(1).scalar<tstring>()()), p);
    if (!plan.ok()) return plan.status();
    absl::flat_hash_set<std::string> preserve;
    for (const std::string& name : open.item.NodesToPreserve()) {
      preserve.insert(name.substr(0, name.find(':')));
    }
    const absl::StatusOr<tensorflow::GraphDef> rewritten =
        Rewrite(open.item.graph, p, *plan, preserve);
    if (!rewritten.ok()) return rewritten.status();
    return SetString(context, 0, rewritten->SerializeAsString());
  }
};

}  // namespace
}  // namespace grappler_go

namespace tensorflow {

REGISTER_OP("GrapplerGoOpen")
    .Input("graph_def: string")
    .Input("devices: string")
    .Input("fetch: string")
    .Input("feed: string")
    .Input("profile: string")
    .Input("costs: string")
    .Attr("override_user_devices: bool = false")
    .Attr("move_state: bool = false")
    .Output("graph: resource")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape);
REGISTER_OP("GrapplerGoInfo")
    .Input("graph: resource")
    .Output("names: string")
    .Output("ops: string")
    .Output("rules: string")
    .Output("devices: string")
    .Output("groups: int32")
    .Output("op_us: float")
    .Output("bounds: double")
    .Output("persistent_bytes: double")
    .Output("cost_keys: string")
    .Output("work_size: double")
    .Output("cost_sources: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoFeatures")
    .Input("graph: resource")
    .Output("node_features: float")
    .Output("op_type: int32")
    .Output("edge_source: int32")
    .Output("edge_target: int32")
    .Output("edge_features: float")
    .Output("device_features: float")
    .Output("node_device_features: float")
    .Output("node_device_mask: float")
    .Output("link_features: float")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoDataflow")
    .Input("graph: resource")
    .Output("source: int32")
    .Output("target: int32")
    .Output("tensor: int32")
    .Output("tensor_op: int32")
    .Output("tensor_bytes: double")
    .Output("mask: uint8")
    .Output("links: double")
    .Output("memory_bytes: double")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoBlocks")
    .Input("graph: resource")
    .Output("blocks: int32")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoPriorities")
    .Input("graph: resource")
    .Output("priorities: int32")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoFeatureTable")
    .Output("names: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoRegisteredOptimizers")
    .Output("names: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoHeuristic")
    .Input("graph: resource")
    .Attr("heuristic: string")
    .Attr("seed: int = 0")
    .Attr("transfer_weight: float = 1.0")
    .Output("placement: int32")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoSimulate")
    .Input("graph: resource")
    .Input("placements: int32")
    .Input("priorities: int32")
    .Attr("threads: int = 0")
    .Output("step_us: double")
    .Output("feasible: uint8")
    .Output("busy_us: double")
    .Output("peak_bytes: double")
    .Output("why_infeasible: string")
    .Output("seconds: double")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoTimeline")
    .Input("graph: resource")
    .Input("placement: int32")
    .Input("priority: int32")
    .Output("start_us: double")
    .Output("end_us: double")
    .Output("transfer_ends: int32")
    .Output("transfer_us: double")
    .Output("longest_path: int32")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoCheck")
    .Input("graph: resource")
    .Input("placements: int32")
    .Output("violations: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoRepair")
    .Input("graph: resource")
    .Input("placements: int32")
    .Output("repaired: int32")
    .SetIsStateful()
    .SetShapeFn(shape_inference::UnknownShape);
REGISTER_OP("GrapplerGoChoose")
    .Input("graph: resource")
    .Input("options: string")
    .Output("report: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape);
REGISTER_OP("GrapplerGoApply")
    .Input("graph: resource")
    .Input("plan: string")
    .Output("graph_def: string")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape);

using grappler_go::ApplyOp;
using grappler_go::BlocksOp;
using grappler_go::CheckOp;
using grappler_go::ChooseOp;
using grappler_go::DataflowOp;
using grappler_go::FeaturesOp;
using grappler_go::FeatureTableOp;
using grappler_go::HeuristicOp;
using grappler_go::InfoOp;
using grappler_go::OpenOp;
using grappler_go::PrioritiesOp;
using grappler_go::RegisteredOptimizersOp;
using grappler_go::RepairOp;
using grappler_go::SimulateOp;
using grappler_go::TimelineOp;
REGISTER_KERNEL_BUILDER(Name("GrapplerGoOpen").Device(DEVICE_CPU), OpenOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoInfo").Device(DEVICE_CPU), InfoOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoFeatures").Device(DEVICE_CPU), FeaturesOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoDataflow").Device(DEVICE_CPU), DataflowOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoBlocks").Device(DEVICE_CPU), BlocksOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoPriorities").Device(DEVICE_CPU), PrioritiesOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoFeatureTable").Device(DEVICE_CPU), FeatureTableOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoRegisteredOptimizers").Device(DEVICE_CPU),
                        RegisteredOptimizersOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoHeuristic").Device(DEVICE_CPU), HeuristicOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoSimulate").Device(DEVICE_CPU), SimulateOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoTimeline").Device(DEVICE_CPU), TimelineOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoCheck").Device(DEVICE_CPU), CheckOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoRepair").Device(DEVICE_CPU), RepairOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoChoose").Device(DEVICE_CPU), ChooseOp);
REGISTER_KERNEL_BUILDER(Name("GrapplerGoApply").Device(DEVICE_CPU), ApplyOp);

}  // namespace tensorflow
