#include "cc/plan.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/fusion.h"
#include "cc/json.h"

namespace grappler_go {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr absl::string_view kWhat = "plan";

absl::StatusOr<std::vector<int>> ReadDevices(const Struct& object, const DeviceSet& devices) {
  std::vector<int> indices;
  const auto list = object.fields().find("devices");
  if (list == object.fields().end()) {
    return absl::InvalidArgumentError(absl::StrCat(kWhat, ": field 'devices' is missing"));
  }
  if (list->second.kind_case() != Value::kListValue) {
    return absl::InvalidArgumentError(absl::StrCat(kWhat, ": field 'devices' is not a list"));
  }
  for (const Value& value : list->second.list_value().values()) {
    const int device = devices.Find(value.string_value());
    if (device < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          kWhat, ": field 'devices' names '", value.string_value(), "', which is not attached"));
    }
    indices.push_back(device);
  }
  return indices;
}

absl::StatusOr<int> IntField(const Struct& object, const std::string& name, int fallback, int low,
                             int high, absl::string_view what) {
  const absl::StatusOr<double> number = NumberField(object, name, fallback, low, what);
  if (!number.ok()) return number.status();
  if (*number != std::floor(*number) || *number > high) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field '", name, "' is ", *number,
                                                   ", must be an integer in ", low, "..", high));
  }
  return static_cast<int>(*number);
}

}  // namespace

absl::StatusOr<Plan> ReadPlan(absl::string_view json, const Problem& problem) {
  const absl::StatusOr<Struct> object = ParseJsonObject(json, kWhat);
  if (!object.ok()) return object.status();
  const absl::StatusOr<int> version = IntField(*object, "version", 0, 0, 1 << 20, kWhat);
  if (!version.ok()) return version.status();
  if (*version != kPlanVersion) {
    return absl::InvalidArgumentError(absl::StrCat(kWhat, ": field 'version' is ", *version,
                                                   ", this library reads ", kPlanVersion));
  }
  const absl::StatusOr<std::vector<int>> devices = ReadDevices(*object, *problem.devices);
  if (!devices.ok()) return devices.status();
  const absl::StatusOr<std::string> source = StringField(*object, "source", "stored", kWhat);
  if (!source.ok()) return source.status();
  const int n = problem.graph->num_nodes();
  Plan plan;
  plan.source = *source;
  plan.device = problem.legality->incoming;
  plan.fusion.assign(n, -1);
  plan.priority.assign(n, 0);
  const auto nodes = object->fields().find("nodes");
  if (nodes == object->fields().end() || nodes->second.kind_case() != Value::kListValue) {
    return absl::InvalidArgumentError(absl::StrCat(kWhat, ": field 'nodes' is not a list"));
  }
  int index = 0;
  for (const Value& value : nodes->second.list_value().values()) {
    const std::string where = absl::StrCat(kWhat, ": nodes[", index++, "]");
    if (value.kind_case() != Value::kStructValue) {
      return absl::InvalidArgumentError(absl::StrCat(where, " is not an object"));
    }
    const Struct& entry = value.struct_value();
    for (const char* field : {"name", "device"}) {
      if (!entry.fields().contains(field)) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": field '", field, "' is missing"));
      }
    }
    const absl::StatusOr<std::string> name = StringField(entry, "name", "", where);
    if (!name.ok()) return name.status();
    const std::string what = absl::StrCat(kWhat, ": op '", *name, "'");
    const int node = problem.graph->Find(*name);
    if (node < 0) return absl::NotFoundError(absl::StrCat(what, " is not in the graph"));
    const absl::StatusOr<int> device =
        IntField(entry, "device", 0, 0, static_cast<int>(devices->size()) - 1, what);
    const absl::StatusOr<int> fusion = IntField(entry, "fusion", -1, -1, 1 << 30, what);
    const absl::StatusOr<int> priority = IntField(entry, "priority", 0, -(1 << 20), 1 << 20, what);
    for (const auto* number : {&device, &fusion, &priority}) {
      if (!number->ok()) return number->status();
    }
    plan.device[node] = static_cast<int8_t>((*devices)[*device]);
    plan.fusion[node] = *fusion;
    plan.priority[node] = *priority;
  }
  // A report lists both for every op. Where no op has one, the plan has none: it gets no order
  // edges.
  if (absl::c_count(plan.fusion, -1) == n) plan.fusion.clear();
  if (absl::c_count(plan.priority, 0) == n) plan.priority.clear();
  return plan;
}

absl::Status CheckPlan(const Problem& problem, const Plan& plan) {
  const absl::Status legal = problem.legality->Check(*problem.graph, *problem.devices, plan.device);
  if (!legal.ok()) return legal;
  for (const auto* list : {&plan.fusion, &plan.priority}) {
    if (!list->empty() && list->size() != plan.device.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a plan with ", list->size(), " ", list == &plan.fusion ? "clusters" : "priorities",
          " for a graph of ", plan.device.size(), " ops"));
    }
  }
  return CheckFusion(problem, plan.device, plan.fusion);
}

}  // namespace grappler_go
