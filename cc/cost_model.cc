#include "cc/cost_model.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/cost_graph.h"
#include "cc/json.h"

namespace grappler_go {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr absl::string_view kWhat = "op costs";

// Ops that the executor never runs or that only pass a reference on.
bool IsFree(const OpGraph& graph, int node) {
  return graph.Has(node, kConst) || graph.Has(node, kBoundary) || graph.Has(node, kFeed);
}

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

absl::StatusOr<MeasuredCosts> ReadMeasuredCosts(const std::string& path) {
  const absl::StatusOr<Struct> object = ReadJsonFile(path, kWhat);
  if (!object.ok()) return object.status();
  const std::string what = absl::StrCat(kWhat, " '", path, "'");
  const absl::StatusOr<double> version = NumberField(*object, "version", 0, 0, what);
  if (!version.ok()) return version.status();
  if (*version != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": field 'version' is ", *version, ", this library reads 1"));
  }
  MeasuredCosts costs;
  const absl::StatusOr<std::string> type = StringField(*object, "device_type", "CPU", what);
  if (!type.ok()) return type.status();
  costs.device_type = *type;
  const auto ops = object->fields().find("ops");
  if (ops == object->fields().end() || ops->second.kind_case() != Value::kStructValue) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field 'ops' is not an object"));
  }
  for (const auto& [name, value] : ops->second.struct_value().fields()) {
    if (value.kind_case() != Value::kNumberValue || !(value.number_value() >= 0) ||
        !std::isfinite(value.number_value())) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": ops['", name, "'] is not a time in microseconds"));
    }
    costs.op_us[name] = value.number_value();
  }
  return costs;
}

double AnalyticalUs(const Work& work, const Device& device) {
  const double compute_us = work.matmul_flops * 1e-3 / device.matmul_gflops +
                            work.elementwise_ops * 1e-3 / device.elementwise_gops;
  return device.launch_us + std::max(compute_us, work.bytes * 1e-3 / device.memory_gb_per_s);
}

std::vector<float> OpTimes(const OpGraph& graph, const DeviceSet& devices,
                           const MeasuredCosts* measured) {
  const int num_devices = devices.size();
  std::vector<float> times(static_cast<size_t>(graph.num_nodes()) * num_devices, 0.0f);
  int reference = -1;
  if (measured != nullptr) {
    for (int d = 0; d < num_devices && reference < 0; ++d) {
      if (devices.device(d).type == measured->device_type) reference = d;
    }
  }
  absl::flat_hash_map<absl::string_view, std::vector<double>> ratios;
  std::vector<double> known(graph.num_nodes(), -1);
  if (reference >= 0) {
    for (int i = 0; i < graph.num_nodes(); ++i) {
      const auto it = measured->op_us.find(graph.name(i));
      if (it == measured->op_us.end()) continue;
      known[i] = it->second;
      ratios[graph.op(i)].push_back(it->second /
                                    AnalyticalUs(graph.work[i], devices.device(reference)));
    }
  }
  absl::flat_hash_map<absl::string_view, double> scale;
  for (auto& [op, values] : ratios) scale[op] = Median(values);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (IsFree(graph, i)) continue;
    double factor = 1;
    if (known[i] >= 0) {
      factor = known[i] / AnalyticalUs(graph.work[i], devices.device(reference));
    } else if (const auto it = scale.find(graph.op(i)); it != scale.end()) {
      factor = it->second;
    }
    for (int d = 0; d < num_devices; ++d) {
      double us = factor * AnalyticalUs(graph.work[i], devices.device(d));
      DeclaredUs(*graph.nodes[i], devices.device(d).type, &us);
      times[static_cast<size_t>(i) * num_devices + d] = static_cast<float>(us);
    }
  }
  return times;
}

}  // namespace grappler_go
