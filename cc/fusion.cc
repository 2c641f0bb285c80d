#include "cc/fusion.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "cc/cluster_cost.h"
#include "cc/compilable.h"
#include "cc/op_work.h"

namespace grappler_go {
namespace {

// Joining gives up where it would have to look at more ops than this to exclude a cycle.
constexpr int kMaxRange = 1 << 14;
// Edges that a cycle forbade may be free once others are joined.
constexpr int kPasses = 2;

// The graph with joined ops as one, in an order in which each comes after what it reads
// (Pearce and Kelly 2006).
class Contraction {
 public:
  explicit Contraction(const OpGraph& graph) : parent_(graph.num_nodes()) {
    const int n = graph.num_nodes();
    std::iota(parent_.begin(), parent_.end(), 0);
    order_ = parent_;
    at_ = parent_;
    in_.resize(n);
    out_.resize(n);
    mark_.assign(n, false);
    for (int e = 0; e < graph.num_edges(); ++e) {
      in_[graph.edge_target[e]].insert(graph.edge_source[e]);
      out_[graph.edge_source[e]].insert(graph.edge_target[e]);
    }
  }

  int32_t Find(int32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }

  // Joins two ops, of which `b` reads `a`, unless another path leads from a to b.
  bool Join(int32_t a, int32_t b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return false;
    const int32_t low = order_[a], high = order_[b];
    if (high - low > kMaxRange) return false;
    // What b waits for, from a on. A path leads to a if one of them, other than a, reads a.
    std::vector<int32_t> stack = {b}, before;
    bool cycle = false;
    while (!stack.empty() && !cycle) {
      const int32_t x = stack.back();
      stack.pop_back();
      for (const int32_t source : in_[x]) {
        const int32_t y = Find(source);
        if (y == a) {
          cycle = cycle || x != b;
          continue;
        }
        if (y == x || order_[y] < low || mark_[y]) continue;
        mark_[y] = true;
        before.push_back(y);
        stack.push_back(y);
      }
    }
    for (const int32_t y : before) mark_[y] = false;
    if (cycle) return false;
    Reorder(a, low, high, before);
    for (auto* sets : {&in_, &out_}) {
      if ((*sets)[a].size() < (*sets)[b].size()) std::swap((*sets)[a], (*sets)[b]);
      (*sets)[a].insert((*sets)[b].begin(), (*sets)[b].end());
      (*sets)[b].clear();
    }
    parent_[b] = a;
    return true;
  }

 private:
  // The ops from `low` to `high`: first those in `before`, then the joined one, then the rest.
  void Reorder(int32_t joined, int32_t low, int32_t high, const std::vector<int32_t>& before) {
    for (const int32_t y : before) mark_[y] = true;
    std::vector<int32_t> first, rest;
    for (int32_t k = low + 1; k < high; ++k) {
      if (at_[k] >= 0) (mark_[at_[k]] ? first : rest).push_back(at_[k]);
    }
    for (const int32_t y : before) mark_[y] = false;
    int32_t k = low;
    const auto put = [&](int32_t op) {
      at_[k] = op;
      order_[op] = k++;
    };
    for (const int32_t op : first) put(op);
    put(joined);
    for (const int32_t op : rest) put(op);
    for (; k <= high; ++k) at_[k] = -1;
  }

  std::vector<int32_t> parent_;
  std::vector<int32_t> order_, at_;  // Place of each root, and the root at each place (-1 = none).
  std::vector<absl::flat_hash_set<int32_t>> in_, out_;  // By root.
  std::vector<bool> mark_;
};

struct Seam {
  double bytes;
  int32_t source, target;
};

// The tensors along which ops may be joined, the largest first.
std::vector<Seam> Seams(const OpGraph& graph, const Placement& placement,
                        const std::vector<bool>& may) {
  std::vector<Seam> seams;
  for (int e = 0; e < graph.num_edges(); ++e) {
    const int32_t source = graph.edge_source[e], target = graph.edge_target[e];
    if (graph.edge_kind[e] != EdgeKind::kData || !may[source] || !may[target] ||
        placement[source] != placement[target]) {
      continue;
    }
    seams.push_back({graph.tensor_bytes[graph.edge_tensor[e]], source, target});
  }
  std::stable_sort(seams.begin(), seams.end(),
                   [](const Seam& a, const Seam& b) { return a.bytes > b.bytes; });
  return seams;
}

// What a cluster saves in all expected steps, its compilation taken off.
double SavedUs(const Problem& p, const Placement& placement, const std::vector<int32_t>& members,
               const FusionOptions& options) {
  double apart_us = 0;
  for (const int32_t i : members) {
    apart_us += p.op_us[static_cast<size_t>(i) * p.devices->size() + placement[i]];
  }
  const ClusterCost cost =
      EstimateCluster(*p.graph, members, p.devices->device(placement[members.front()]));
  return (apart_us - cost.run_us) * options.expected_steps - cost.compile_us;
}

}  // namespace

std::vector<int32_t> Fuse(const Problem& problem, const Placement& placement,
                          const FusionOptions& options) {
  const OpGraph& graph = *problem.graph;
  std::vector<bool> may = Compilable(problem, placement);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (options.scope == FusionScope::kLight && IsMatmulLike(graph.op(i))) may[i] = false;
  }
  Contraction contraction(graph);
  const std::vector<Seam> seams = Seams(graph, placement, may);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const Seam& seam : seams) contraction.Join(seam.source, seam.target);
  }
  std::vector<int32_t> fusion(graph.num_nodes(), -1);
  absl::flat_hash_map<int32_t, std::vector<int32_t>> clusters;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (may[i]) clusters[contraction.Find(i)].push_back(i);
  }
  for (const auto& [root, members] : clusters) {
    if (members.size() < 2 || SavedUs(problem, placement, members, options) <= 0) continue;
    // Numbered by the first op: the same on each run.
    for (const int32_t i : members) fusion[i] = members.front();
  }
  return fusion;
}

absl::Status CheckFusion(const Problem& problem, const Placement& placement,
                         absl::Span<const int32_t> fusion) {
  if (fusion.empty()) return absl::OkStatus();
  const OpGraph& graph = *problem.graph;
  const std::vector<bool> compilable = Compilable(problem, placement);
  absl::flat_hash_map<int32_t, int32_t> head;  // By cluster: its first op.
  std::vector<int32_t> unit(graph.num_nodes());
  for (int i = 0; i < graph.num_nodes(); ++i) {
    // A small constant is copied to its readers, so that nobody waits for its cluster.
    const bool in_cluster = fusion[i] >= 0 && !problem.legality->replicable[i];
    unit[i] = in_cluster ? head.try_emplace(fusion[i], i).first->second : i;
    if (!in_cluster) continue;
    if (!compilable[i]) {
      return absl::FailedPreconditionError(
          absl::StrCat("op '", graph.name(i), "' of cluster ", fusion[i],
                       " is none that XLA compiles with the same results"));
    }
    if (placement[i] != placement[unit[i]]) {
      return absl::FailedPreconditionError(absl::StrCat("ops '", graph.name(unit[i]), "' and '",
                                                        graph.name(i),
                                                        "' are of one cluster on two devices"));
    }
  }
  // Clusters run as one: all that they wait for must be able to come first.
  std::vector<int32_t> waits(graph.num_nodes(), 0);
  std::vector<std::vector<int32_t>> members(graph.num_nodes());
  for (int i = 0; i < graph.num_nodes(); ++i) members[unit[i]].push_back(i);
  for (int e = 0; e < graph.num_edges(); ++e) {
    if (unit[graph.edge_source[e]] != unit[graph.edge_target[e]]) {
      ++waits[unit[graph.edge_target[e]]];
    }
  }
  std::vector<int32_t> ready;
  int left = 0;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (unit[i] != i) continue;
    ++left;
    if (waits[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    const int32_t done = ready.back();
    ready.pop_back();
    --left;
    for (const int32_t i : members[done]) {
      for (int u = graph.use_offsets[graph.tensor_offsets[i]];
           u < graph.use_offsets[graph.tensor_offsets[i + 1]]; ++u) {
        const int32_t reader = unit[graph.uses[u]];
        if (reader != done && --waits[reader] == 0) ready.push_back(reader);
      }
    }
  }
  if (left == 0) return absl::OkStatus();
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (unit[i] == i && waits[i] > 0 && fusion[i] >= 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "cluster ", fusion[i], " of op '", graph.name(i), "' waits for what it makes itself"));
    }
  }
  return absl::FailedPreconditionError("a cluster waits for what it makes itself");
}

}  // namespace grappler_go
