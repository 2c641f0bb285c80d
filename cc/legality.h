// Which ops may run on which devices. What the pass writes is executed unchecked, so every plan
// goes through here.
//
// Ops that must share a device form a group: colocation attributes, resource, variant and reference
// edges, and all ops of one loop. A group with a member that must not move stays where it came
// from. Known weakness: state (variables, queues, random generators) never moves unless asked,
// since other graphs of the session may use it.
#ifndef GRAPPLER_GO_CC_LEGALITY_H_
#define GRAPPLER_GO_CC_LEGALITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cc/device_set.h"
#include "cc/op_graph.h"

namespace grappler_go {

// The attribute in which the stamping pass keeps what the user asked for with tf.device, before the
// placer.
inline constexpr char kUserDeviceAttr[] = "_go_user_device";

// Why an op is bound to its device.
enum class Rule : uint8_t {
  kNone,
  kNoKernel,
  kColocation,
  kResource,
  kReference,
  kVariant,
  kStateful,
  kFeed,
  kBoundary,
  kControlFlow,
  kFunctionCall,
  kUnknownOp,
  kXla,
  kUserDevice,
  kForeignDevice,
};
absl::string_view RuleName(Rule rule);

struct LegalityOptions {
  bool override_user_devices = false;  // Ignore what the user asked for with tf.device.
  bool move_state =
      false;  // The graph has not run yet: variables and their users may move together.
};

// All of a node that a kernel is chosen by.
std::string KernelKey(const tensorflow::NodeDef& node);

// A device index for each node.
using Placement = std::vector<int8_t>;

class Legality {
 public:
  static absl::StatusOr<Legality> Create(const OpGraph& graph, const DeviceSet& devices,
                                         const LegalityOptions& options);

  int num_groups() const { return static_cast<int>(group_mask.size()); }
  int num_nodes() const { return static_cast<int>(group.size()); }
  DeviceMask mask(int node) const { return group_mask[group[node]]; }
  bool movable(int g) const { return (group_mask[g] & (group_mask[g] - 1)) != 0; }
  absl::Span<const int32_t> members(int g) const {
    return absl::MakeConstSpan(member.data() + member_offsets[g],
                               member_offsets[g + 1] - member_offsets[g]);
  }

  // OK, or an error that names the first op against a rule.
  absl::Status Check(const OpGraph& graph, const DeviceSet& devices,
                     absl::Span<const int8_t> placement) const;

  // The nearest legal placement: each group goes where most of its compute was wanted, among its
  // legal devices, and stays where it came from if none was legal.
  Placement Repair(const OpGraph& graph, absl::Span<const int8_t> placement) const;

  // By node.
  std::vector<int32_t> group;
  Placement incoming;      // Where the graph has it, or where TensorFlow's placer would put it.
  std::vector<Rule> rule;  // Why it cannot move, kNone if it can.
  std::vector<bool> replicable;  // A constant that may be copied to each device that reads it.

  // By group.
  std::vector<DeviceMask> group_mask;  // Never 0.
  std::vector<int32_t> member_offsets;
  std::vector<int32_t> member;  // Ascending within a group.

  bool placed = true;  // Every op came with a full device name.
};

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_LEGALITY_H_
