#include "cc/grappler_go_pass.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "cc/legality.h"
#include "cc/planner.h"
#include "cc/report.h"
#include "cc/rewriter.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/grappler/utils/functions.h"
#include "tensorflow/core/platform/env.h"

namespace grappler_go {
namespace {

using tensorflow::GraphDef;
using tensorflow::grappler::Cluster;
using tensorflow::grappler::GrapplerItem;

// Grappler runs the pass several times a graph, and programs trace many graphs: each message is
// logged once.
bool FirstTime(const std::string& message) {
  constexpr size_t kMaxRemembered = 4096;
  static absl::Mutex mutex(absl::kConstInit);
  static auto* const seen = new absl::flat_hash_set<std::string>();
  absl::MutexLock lock(&mutex);
  if (seen->size() >= kMaxRemembered) seen->clear();
  return seen->insert(message).second;
}

// Functions whose body runs on the device of their caller: those that Grappler optimises inside a
// library, and tf.data's, which run on the input pipeline's threads. And tf.function's initialisers
// of variables, which run once.
bool IsLeftAlone(const GrapplerItem& item) {
  return dynamic_cast<const tensorflow::grappler::GrapplerFunctionItem*>(&item) != nullptr ||
         absl::StartsWith(item.id, "__inference_Dataset_") ||
         absl::StartsWith(item.id, "__inference_initialize_variables_");
}

bool HasFailed(const GraphDef& graph) {
  return graph.node_size() > 0 && graph.node(0).attr().contains(kErrorAttr);
}

void MarkFailed(const absl::Status& error, GraphDef& graph) {
  // On every node, since TensorFlow's own optimizers may remove some.
  for (auto& node : *graph.mutable_node()) {
    (*node.mutable_attr())[kErrorAttr].set_s(error.message());
    (*node.mutable_attr())[kErrorCodeAttr].set_i(error.raw_code());
  }
}

bool IsCompiledByXla(const GraphDef& graph) {
  for (const auto& node : graph.node()) {
    const auto it = node.attr().find("_XlaMustCompile");
    if (it != node.attr().end() && it->second.b()) return true;
  }
  return false;
}

absl::StatusOr<DeviceSet> ClusterDevices(const Cluster& cluster, const std::string& profile) {
  std::vector<std::string> names;
  for (const auto& [name, properties] : cluster.GetDevices()) names.push_back(name);
  absl::StatusOr<DeviceSet> devices = DeviceSet::Create(names, profile);
  if (!devices.ok()) return devices;
  for (const auto& [name, properties] : cluster.GetDevices()) {
    const int device = devices->Find(name);
    // TensorFlow knows the memory of GPUs; what it says of a CPU is no limit of the allocator.
    if (device >= 0 && devices->device(device).type == "GPU" && properties.memory_size() > 0) {
      devices->SetMemoryLimit(device, static_cast<double>(properties.memory_size()));
    }
  }
  return devices;
}

absl::flat_hash_set<std::string> Preserved(const GrapplerItem& item) {
  absl::flat_hash_set<std::string> preserved;
  for (const std::string& name : item.NodesToPreserve()) {
    preserved.insert(name.substr(0, name.find(':')));
  }
  return preserved;
}

}  // namespace

absl::Status GrapplerGoPass::Init(const tensorflow::RewriterConfig_CustomGraphOptimizer* config) {
  // An error here would abort the user's step, so it waits for Optimize, which knows what to do
  // with errors.
  if (config == nullptr) return absl::OkStatus();
  const auto fail = config->parameter_map().find("fail_on_error");
  absl::StatusOr<Options> options = ReadOptions(config->parameter_map());
  if (options.ok()) {
    options_ = *std::move(options);
  } else {
    init_status_ = options.status();
    options_.fail_on_error = fail != config->parameter_map().end() && fail->second.b();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> GrapplerGoPass::TryOptimize(Cluster* cluster, const GrapplerItem& item,
                                                 GraphDef* optimized) {
  if (IsLeftAlone(item) || IsPlanned(item.graph) || HasFailed(item.graph)) return false;
  if (kept_.contains(item.id)) return false;
  if (!init_status_.ok()) return init_status_;
  if (cluster == nullptr) return absl::InvalidArgumentError("no cluster was given");
  if (IsCompiledByXla(item.graph) && FirstTime(absl::StrCat("xla:", item.id))) {
    LOG(INFO) << "grappler_go: '" << item.id
              << "' calls functions with jit_compile=True; XLA compiles those whole, and they are "
                 "left alone";
  }
  const uint64_t start_us = tensorflow::Env::Default()->NowMicros();
  uint64_t deadline = deadline_usec();
  if (options_.optimize_timeout_ms > 0) {
    const uint64_t ours = start_us + static_cast<uint64_t>(options_.optimize_timeout_ms) * 1000;
    deadline = deadline == 0 ? ours : std::min(deadline, ours);
  }
  absl::StatusOr<DeviceSet> devices = ClusterDevices(*cluster, options_.profile);
  if (!devices.ok()) return devices.status();
  const bool fuses =
      std::find(options_.tasks.begin(), options_.tasks.end(), "fusion") != options_.tasks.end();
  const bool spreads = devices->size() > 1;
  if (!spreads && !fuses && options_.plan.empty()) return false;
  const LegalityOptions legality{options_.override_user_devices, options_.move_state};
  const absl::StatusOr<std::unique_ptr<PlanningContext>> context =
      PlanningContext::Create(item, *std::move(devices), legality, options_.costs);
  if (!context.ok()) return context.status();
  const Problem& problem = (*context)->problem();
  bool movable = false;
  for (int g = 0; g < problem.legality->num_groups() && !movable; ++g) {
    movable = problem.legality->movable(g);
  }
  if (!movable && !fuses && options_.plan.empty()) return false;
  const absl::StatusOr<Choice> choice = Choose(problem, options_, deadline);
  if (!choice.ok()) return choice.status();
  if (!options_.report.empty()) {
    const absl::Status status =
        WriteReport(options_.report, item.id, ReportJson(problem, *choice, item),
                    options_.save_graphs ? &item.graph : nullptr);
    if (!status.ok()) return status;
  }
  VLOG(1) << "grappler_go: '" << item.id << "': " << choice->reason;
  if (!choice->applied) {
    kept_.insert(item.id);
    return false;
  }
  absl::StatusOr<GraphDef> rewritten = Rewrite(item.graph, problem, choice->plan, Preserved(item));
  if (!rewritten.ok()) return rewritten.status();
  *optimized = *std::move(rewritten);
  LOG(INFO) << "grappler_go: '" << item.id << "': " << choice->reason;
  return true;
}

absl::Status GrapplerGoPass::Optimize(Cluster* cluster, const GrapplerItem& item,
                                      GraphDef* optimized) {
  absl::StatusOr<bool> changed = false;
  try {
    changed = TryOptimize(cluster, item, optimized);
  } catch (const std::exception& error) {
    changed = absl::InternalError(error.what());
  }
  if (changed.ok() && *changed) return absl::OkStatus();
  *optimized = item.graph;
  if (changed.ok()) return absl::OkStatus();
  if (options_.fail_on_error) {
    MarkFailed(
        absl::Status(changed.status().code(),
                     absl::StrCat("grappler_go: '", item.id, "': ", changed.status().message())),
        *optimized);
    return absl::OkStatus();
  }
  if (FirstTime(changed.status().ToString())) {
    LOG(WARNING) << "grappler_go: '" << item.id
                 << "' is left as it was: " << changed.status().message();
  }
  return absl::OkStatus();
}

}  // namespace grappler_go

namespace tensorflow::grappler {
using GrapplerGoOptimizer = ::grappler_go::GrapplerGoPass;
REGISTER_GRAPH_OPTIMIZER_AS(GrapplerGoOptimizer, "grappler_go");
}  // namespace tensorflow::grappler
