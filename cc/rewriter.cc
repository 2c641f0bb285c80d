#include "cc/rewriter.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/order_edges.h"
#include "cc/unfuse.h"

namespace grappler_go {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

void SetDecision(const Problem& problem, int device, int fusion, int priority, NodeDef& node) {
  const std::string& name = problem.devices->device(device).name;
  node.set_device(name);
  auto& attr = *node.mutable_attr();
  attr[kDeviceAttr].set_s(name);
  attr[kFusionAttr].set_i(fusion);
  attr[kPriorityAttr].set_i(priority);
  if (fusion >= 0) {
    attr["_XlaCompile"].set_b(true);
    attr["_XlaScope"].set_s(absl::StrCat("grappler_go_", fusion));
  }
}

// A name that the graph does not have yet.
std::string UniqueName(const std::string& base, const OpGraph& graph,
                       absl::flat_hash_set<std::string>& taken) {
  std::string name = base;
  for (int i = 1; graph.Find(name) >= 0 || !taken.insert(name).second; ++i) {
    name = absl::StrCat(base, "_", i);
  }
  return name;
}

// Where an op runs: device and cluster, -1 = in none.
using Home = std::pair<int, int>;

// Copies each replicable constant to the devices and clusters of its readers, and points the
// readers at their copies.
void ReplicateConstants(const Problem& problem, const Plan& plan,
                        const absl::flat_hash_set<std::string>& preserve, GraphDef& out) {
  const OpGraph& graph = *problem.graph;
  absl::flat_hash_set<std::string> taken;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (!problem.legality->replicable[i]) continue;
    const Home home = {plan.device[i], plan.fusion_of(i)};
    std::map<Home, std::vector<int>> readers;
    for (int u = graph.use_offsets[graph.tensor_offsets[i]];
         u < graph.use_offsets[graph.tensor_offsets[i + 1]]; ++u) {
      const int reader = graph.uses[u];
      if ((problem.legality->mask(i) & DeviceBit(plan.device[reader])) != 0) {
        readers[{plan.device[reader], plan.fusion_of(reader)}].push_back(reader);
      }
    }
    if (readers.empty()) continue;
    NodeDef& original = *out.mutable_node(graph.graph_index[i]);
    const bool may_move = plan.fusion_of(i) < 0 && !preserve.contains(original.name());
    if (readers.count(home) == 0 && may_move) {
      const auto [device, cluster] = readers.begin()->first;
      SetDecision(problem, device, cluster, plan.priority_of(i), original);
      readers.erase(readers.begin());
    }
    readers.erase(home);
    for (const auto& [where, nodes] : readers) {
      const auto [device, cluster] = where;
      NodeDef copy = *graph.nodes[i];
      const std::string suffix = cluster < 0 ? "" : absl::StrCat("_", cluster);
      copy.set_name(
          UniqueName(absl::StrCat(copy.name(), "/go_copy_", device, suffix), graph, taken));
      SetDecision(problem, device, cluster, plan.priority_of(i), copy);
      for (const int reader : nodes) {
        for (std::string& input : *out.mutable_node(graph.graph_index[reader])->mutable_input()) {
          absl::string_view rest = input;
          const bool control = absl::ConsumePrefix(&rest, "^");
          if (rest == graph.name(i) || rest == absl::StrCat(graph.name(i), ":0")) {
            input = control ? absl::StrCat("^", copy.name()) : copy.name();
          }
        }
      }
      *out.add_node() = std::move(copy);
    }
  }
}

// Takes TensorFlow's own fused products in clusters apart.
void Unfuse(const Problem& problem, const Plan& plan, GraphDef& out) {
  if (plan.fusion.empty()) return;
  for (int i = 0; i < problem.graph->num_nodes(); ++i) {
    if (plan.fusion[i] < 0) continue;
    NodeDef& node = *out.mutable_node(problem.graph->graph_index[i]);
    std::vector<NodeDef> parts = Unfused(node);
    if (parts.empty()) continue;
    node = std::move(parts.back());
    parts.pop_back();
    for (NodeDef& part : parts) *out.add_node() = std::move(part);
  }
}

}  // namespace

bool IsPlanned(const GraphDef& graph) {
  for (const NodeDef& node : graph.node()) {
    if (node.attr().contains(kDeviceAttr)) return true;
  }
  return false;
}

absl::StatusOr<GraphDef> Rewrite(const GraphDef& graph, const Problem& problem, const Plan& plan,
                                 const absl::flat_hash_set<std::string>& preserve) {
  const absl::Status legal = CheckPlan(problem, plan);
  if (!legal.ok()) return legal;
  const OpGraph& ops = *problem.graph;
  GraphDef out = graph;
  for (int i = 0; i < ops.num_nodes(); ++i) {
    if (problem.legality->rule[i] == Rule::kForeignDevice) continue;
    SetDecision(problem, plan.device[i], plan.fusion_of(i), plan.priority_of(i),
                *out.mutable_node(ops.graph_index[i]));
  }
  ReplicateConstants(problem, plan, preserve, out);
  for (const auto& [before, after] : OrderEdges(problem, plan)) {
    out.mutable_node(ops.graph_index[after])->add_input(absl::StrCat("^", ops.name(before)));
  }
  Unfuse(problem, plan, out);
  return out;
}

}  // namespace grappler_go
