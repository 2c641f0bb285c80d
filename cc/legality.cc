#include "cc/legality.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace grappler_go {

std::string KernelKey(const tensorflow::NodeDef& node) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : node.attr()) {
    if (value.value_case() == tensorflow::AttrValue::kType) {
      parts.push_back(absl::StrCat(name, "=", value.type()));
    } else if (value.list().type_size() > 0) {
      std::string part = absl::StrCat(name, "=");
      for (const int type : value.list().type()) absl::StrAppend(&part, type, ",");
      parts.push_back(std::move(part));
    } else if (name == "_kernel") {
      parts.push_back(absl::StrCat(name, "=", value.s()));
    }
  }
  std::sort(parts.begin(), parts.end());
  std::string key = node.op();
  for (const std::string& part : parts) absl::StrAppend(&key, ";", part);
  return key;
}

namespace {

using tensorflow::NodeDef;

// A constant up to this size is copied rather than sent each step.
constexpr double kMaxReplicatedBytes = 1 << 20;

class UnionFind {
 public:
  explicit UnionFind(int n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Union(int a, int b) {
    a = Find(a);
    b = Find(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<int32_t> parent_;
};

// Which device types have a kernel for an op; asked once for each op and its type attributes.
class KernelTable {
 public:
  explicit KernelTable(const DeviceSet& devices) {
    for (int d = 0; d < devices.size(); ++d) by_type_[devices.device(d).type] |= DeviceBit(d);
  }

  DeviceMask Mask(const NodeDef& node) {
    const auto [it, is_new] = cache_.try_emplace(KernelKey(node), 0);
    if (is_new) {
      for (const auto& [type, mask] : by_type_) {
        if (tensorflow::FindKernelDef(tensorflow::DeviceType(type), node, nullptr, nullptr).ok()) {
          it->second |= mask;
        }
      }
    }
    return it->second;
  }

 private:
  std::map<std::string, DeviceMask> by_type_;
  absl::flat_hash_map<std::string, DeviceMask> cache_;
};

Rule TraitRule(const OpGraph& graph, int node, const LegalityOptions& options) {
  if (graph.Has(node, kFeed)) return Rule::kFeed;
  if (graph.Has(node, kBoundary)) return Rule::kBoundary;
  if (graph.Has(node, kFunctionCall)) return Rule::kFunctionCall;
  if (graph.Has(node, kUnknownOp)) return Rule::kUnknownOp;
  if (graph.Has(node, kXla)) return Rule::kXla;
  if (graph.Has(node, kStateful) && !options.move_state) return Rule::kStateful;
  // Inside a frame the whole loop may move as one group; a lone Switch or Merge (tf.cond) stays.
  if (graph.Has(node, kControlFlow) && graph.frame[node] < 0) return Rule::kControlFlow;
  return Rule::kNone;
}

Rule EdgeRule(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kResource:
      return Rule::kResource;
    case EdgeKind::kVariant:
      return Rule::kVariant;
    case EdgeKind::kReference:
      return Rule::kReference;
    case EdgeKind::kData:
    case EdgeKind::kControl:
      return Rule::kNone;
  }
  return Rule::kNone;
}

// Joins the ops that must share a device. Fills `joined` with the rule that joined each op.
void Join(const OpGraph& graph, UnionFind& sets, std::vector<Rule>& joined) {
  const auto join = [&](int a, int b, Rule rule) {
    sets.Union(a, b);
    for (const int node : {a, b}) {
      if (joined[node] == Rule::kNone) joined[node] = rule;
    }
  };
  for (int e = 0; e < graph.num_edges(); ++e) {
    const Rule rule = EdgeRule(graph.edge_kind[e]);
    if (rule != Rule::kNone) join(graph.edge_source[e], graph.edge_target[e], rule);
  }
  std::vector<int32_t> frame_head(graph.frame_parent.size(), -1);
  absl::flat_hash_map<std::string, int32_t> class_head;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const int frame = OutermostFrame(graph, graph.frame[i]);
    if (frame >= 0) {
      if (frame_head[frame] < 0) frame_head[frame] = i;
      join(frame_head[frame], i, Rule::kControlFlow);
    }
    const auto it = graph.nodes[i]->attr().find("_class");
    if (it == graph.nodes[i]->attr().end()) continue;
    for (const std::string& entry : it->second.list().s()) {
      absl::string_view target = entry;
      if (!absl::ConsumePrefix(&target, "loc:@")) continue;
      const int other = graph.Find(target);
      if (other >= 0) {
        join(other, i, Rule::kColocation);
      } else {  // The op named is gone (pruned, fused): those that name it still belong together.
        const auto [head, is_new] = class_head.try_emplace(std::string(target), i);
        if (!is_new) join(head->second, i, Rule::kColocation);
      }
    }
  }
}

}  // namespace

absl::string_view RuleName(Rule rule) {
  switch (rule) {
    case Rule::kNone:
      return "free";
    case Rule::kNoKernel:
      return "no kernel on another device";
    case Rule::kColocation:
      return "colocation";
    case Rule::kResource:
      return "resource edge";
    case Rule::kReference:
      return "reference edge";
    case Rule::kVariant:
      return "variant edge";
    case Rule::kStateful:
      return "stateful op";
    case Rule::kFeed:
      return "feed";
    case Rule::kBoundary:
      return "argument or result";
    case Rule::kControlFlow:
      return "control flow";
    case Rule::kFunctionCall:
      return "function call";
    case Rule::kUnknownOp:
      return "unknown op";
    case Rule::kXla:
      return "XLA computation";
    case Rule::kUserDevice:
      return "device set by the user";
    case Rule::kForeignDevice:
      return "device outside the plan";
  }
  return "unknown rule";
}

absl::StatusOr<Legality> Legality::Create(const OpGraph& graph, const DeviceSet& devices,
                                          const LegalityOptions& options) {
  const int n = graph.num_nodes();
  const DeviceMask all =
      devices.size() == kMaxDevices ? ~DeviceMask{0} : DeviceBit(devices.size()) - 1;
  Legality legality;
  legality.incoming.resize(n);
  legality.rule.assign(n, Rule::kNone);
  std::vector<DeviceMask> allowed(n);
  std::vector<bool> fixed(n);
  KernelTable kernels(devices);
  absl::flat_hash_map<std::string, DeviceMask> user_masks;
  for (int i = 0; i < n; ++i) {
    const NodeDef& node = *graph.nodes[i];
    Rule& rule = legality.rule[i];
    const DeviceMask kernel_mask = kernels.Mask(node);
    const auto user = node.attr().find(kUserDeviceAttr);
    int home = devices.Find(node.device());
    // Without a stamp, a name that is no device of the set is the user's own wish in an unplaced
    // graph.
    const std::string& spec = user != node.attr().end() ? user->second.s() : node.device();
    const bool wish = !spec.empty() && (user != node.attr().end() || home < 0);
    DeviceMask wanted = all;
    if (wish) {
      const auto [it, is_new] = user_masks.try_emplace(spec, 0);
      if (is_new) {
        const absl::StatusOr<DeviceMask> match = devices.Matching(spec);
        it->second = match.ok() ? *match : 0;
      }
      wanted = it->second;
    }
    rule = TraitRule(graph, i, options);
    if (home < 0) {
      legality.placed = false;
      if (wanted == 0) {  // A device that the set does not have: not ours to touch.
        rule = Rule::kForeignDevice;
        home = 0;
      }
    }
    fixed[i] = rule != Rule::kNone;
    DeviceMask mask = kernel_mask;
    if (wish && wanted != 0 && wanted != all && !options.override_user_devices) {
      mask &= wanted;
      if (rule == Rule::kNone) rule = Rule::kUserDevice;
    }
    // Where TensorFlow runs the op on a device that the mask lacks (soft placement, kernels found
    // by other means), it knows better: the op stays there.
    const DeviceMask home_bit = home < 0 ? 0 : DeviceBit(home);
    if (home >= 0 && (mask & home_bit) == 0) mask = home_bit;
    if (mask == 0) mask = all;
    if (rule == Rule::kNone && (mask & (mask - 1)) == 0) rule = Rule::kNoKernel;
    allowed[i] = mask;
    legality.incoming[i] = static_cast<int8_t>(home);
  }

  UnionFind sets(n);
  std::vector<Rule> joined(n, Rule::kNone);
  Join(graph, sets, joined);
  std::vector<DeviceMask> set_mask(n, all);
  std::vector<int8_t> set_home(n, -1);
  std::vector<bool> set_fixed(n, false), set_foreign(n, false), mixed(n, false);
  for (int i = 0; i < n; ++i) {
    const int set = sets.Find(i);
    set_mask[set] &= allowed[i];
    set_fixed[set] = set_fixed[set] || fixed[i];
    set_foreign[set] = set_foreign[set] || legality.rule[i] == Rule::kForeignDevice;
    const int8_t home = legality.incoming[i];
    if (home >= 0 && set_home[set] < 0) set_home[set] = home;
    mixed[set] = mixed[set] || (home >= 0 && home != set_home[set]);
  }
  legality.group.resize(n);
  std::vector<int32_t> group_of(n, -1);
  for (int i = 0; i < n; ++i) {
    const int set = sets.Find(i);
    if (set_home[set] < 0) {  // As TensorFlow's placer would.
      set_home[set] =
          static_cast<int8_t>(devices.DefaultDevice(set_mask[set] != 0 ? set_mask[set] : all));
    }
    if (legality.incoming[i] < 0) legality.incoming[i] = set_home[set];
    const DeviceMask home_bit = DeviceBit(set_home[set]);
    // TensorFlow already runs a mixed set apart (soft placement): each op stays.
    const bool frozen = mixed[set] || (set_mask[set] & home_bit) == 0;
    int32_t g = frozen ? -1 : group_of[set];
    if (g < 0) {
      g = legality.num_groups();
      legality.group_mask.push_back(frozen           ? DeviceBit(legality.incoming[i])
                                    : set_fixed[set] ? home_bit
                                                     : set_mask[set]);
      if (!frozen) group_of[set] = g;
    }
    legality.group[i] = g;
    // What belongs with an op on a device that is not ours follows it there.
    if (set_foreign[set]) legality.rule[i] = Rule::kForeignDevice;
    if (legality.rule[i] == Rule::kNone && !legality.movable(g)) {
      legality.rule[i] = joined[i] != Rule::kNone ? joined[i] : Rule::kColocation;
    }
  }
  const int groups = legality.num_groups();
  legality.member_offsets.assign(groups + 1, 0);
  for (const int32_t g : legality.group) ++legality.member_offsets[g + 1];
  std::partial_sum(legality.member_offsets.begin(), legality.member_offsets.end(),
                   legality.member_offsets.begin());
  legality.member.resize(n);
  std::vector<int32_t> fill(legality.member_offsets.begin(), legality.member_offsets.end() - 1);
  for (int i = 0; i < n; ++i) legality.member[fill[legality.group[i]]++] = i;
  legality.replicable.assign(n, false);
  for (int i = 0; i < n; ++i) {
    const int g = legality.group[i];
    legality.replicable[i] = graph.Has(i, kConst) && !graph.Has(i, kFetch) &&
                             graph.in_offsets[i] == graph.in_offsets[i + 1] &&
                             legality.movable(g) && legality.members(g).size() == 1 &&
                             graph.persistent_bytes[i] <= kMaxReplicatedBytes;
  }
  return legality;
}

absl::Status Legality::Check(const OpGraph& graph, const DeviceSet& devices,
                             absl::Span<const int8_t> placement) const {
  if (static_cast<int>(placement.size()) != num_nodes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a placement of ", placement.size(), " ops for a graph of ", num_nodes()));
  }
  for (int i = 0; i < num_nodes(); ++i) {
    const int device = placement[i];
    if (device < 0 || device >= devices.size()) {
      return absl::InvalidArgumentError(absl::StrCat("op '", graph.name(i), "': device ", device,
                                                     " is not in 0..", devices.size() - 1));
    }
    if ((mask(i) & DeviceBit(device)) == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("op '", graph.name(i), "' (", graph.op(i), ") must not run on ",
                       devices.device(device).name, ": ",
                       RuleName(rule[i] == Rule::kNone ? Rule::kNoKernel : rule[i])));
    }
    const int head = members(group[i]).front();
    if (placement[head] != device) {
      return absl::FailedPreconditionError(absl::StrCat("ops '", graph.name(head), "' and '",
                                                        graph.name(i), "' must share a device"));
    }
  }
  return absl::OkStatus();
}

Placement Legality::Repair(const OpGraph& graph, absl::Span<const int8_t> placement) const {
  Placement legal(num_nodes());
  double votes[kMaxDevices];
  for (int g = 0; g < num_groups(); ++g) {
    const absl::Span<const int32_t> nodes = members(g);
    const int8_t home = incoming[nodes.front()];
    int8_t choice = home;
    if (movable(g)) {
      std::fill(std::begin(votes), std::end(votes), 0.0);
      for (const int32_t i : nodes) {
        const int device = placement[i];
        if (device >= 0 && device < kMaxDevices && (group_mask[g] & DeviceBit(device)) != 0) {
          votes[device] += 1 + graph.work[i].matmul_flops + graph.work[i].elementwise_ops;
        }
      }
      const auto best = std::max_element(std::begin(votes), std::end(votes));
      if (*best > 0) choice = static_cast<int8_t>(best - std::begin(votes));
    }
    for (const int32_t i : nodes) legal[i] = choice;
  }
  return legal;
}

}  // namespace grappler_go
