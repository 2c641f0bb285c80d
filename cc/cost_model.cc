#include "cc/cost_model.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/cost_graph.h"
#include "cc/json.h"
#include "cc/op_key.h"
#include "cc/trip_count.h"

namespace grappler_go {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr absl::string_view kWhat = "op costs";
constexpr int kVersion = 2;

bool IsTime(const Value& value) {
  return value.kind_case() == Value::kNumberValue && value.number_value() >= 0 &&
         std::isfinite(value.number_value());
}

// Ops that the executor never runs or that only pass a reference on.
bool IsFree(const OpGraph& graph, int node) {
  return graph.Has(node, kConst) || graph.Has(node, kBoundary) || graph.Has(node, kFeed);
}

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Cached costs of each family, by size.
using Families = absl::flat_hash_map<absl::string_view, std::vector<CachedCost>>;

Families ByFamily(const absl::flat_hash_map<std::string, CachedCost>& cache) {
  Families families;
  for (const auto& [key, cost] : cache) {
    if (cost.us > 0 && cost.size > 0) families[KeyFamily(key)].push_back(cost);
  }
  for (auto& [family, costs] : families) {
    std::sort(costs.begin(), costs.end(), [](const CachedCost& a, const CachedCost& b) {
      return a.size < b.size || (a.size == b.size && a.us < b.us);
    });
  }
  return families;
}

// A straight line between neighbours in the logarithms of size and time; in proportion to the size
// above the largest, and the smallest's time below it, where fixed costs rule.
double Interpolate(const std::vector<CachedCost>& costs, double size) {
  const auto above =
      std::lower_bound(costs.begin(), costs.end(), size,
                       [](const CachedCost& cost, double value) { return cost.size < value; });
  if (above == costs.begin()) return above->us;
  const CachedCost& low = *(above - 1);
  if (above == costs.end()) return low.us * size / low.size;
  const double share = std::log(size / low.size) / std::log(above->size / low.size);
  return low.us * std::pow(above->us / low.us, share);
}

struct Known {
  double us = 0;
  CostSource source = CostSource::kAnalytical;  // Not known.
};

// What was measured of a node, or of its like.
Known Find(const OpGraph& graph, int node, const MeasuredCosts& measured,
           const Families& families) {
  const auto by_name = measured.op_us.find(graph.name(node));
  if (by_name != measured.op_us.end()) return {by_name->second, CostSource::kMeasured};
  if (graph.cost_key.empty() || graph.cost_key[node].empty()) return {};
  const auto by_key = measured.cache.find(graph.cost_key[node]);
  if (by_key != measured.cache.end()) return {by_key->second.us, CostSource::kCached};
  const auto family = families.find(KeyFamily(graph.cost_key[node]));
  const double size = WorkSize(graph.work[node]);
  if (family == families.end() || size <= 0) return {};
  return {Interpolate(family->second, size), CostSource::kInterpolated};
}

}  // namespace

absl::StatusOr<MeasuredCosts> ReadMeasuredCosts(const std::string& path) {
  const absl::StatusOr<Struct> object = ReadJsonFile(path, kWhat);
  if (!object.ok()) return object.status();
  const std::string what = absl::StrCat(kWhat, " '", path, "'");
  const absl::StatusOr<double> version = NumberField(*object, "version", 0, 0, what);
  if (!version.ok()) return version.status();
  if (*version != 1 && *version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field 'version' is ", *version,
                                                   ", this library reads 1 and ", kVersion));
  }
  MeasuredCosts costs;
  const absl::StatusOr<std::string> type = StringField(*object, "device_type", "CPU", what);
  if (!type.ok()) return type.status();
  costs.device_type = *type;
  const auto ops = object->fields().find("ops");
  const bool has_ops = ops != object->fields().end();
  if (has_ops ? ops->second.kind_case() != Value::kStructValue : *version < kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field 'ops' is not an object"));
  }
  if (has_ops) {
    for (const auto& [name, value] : ops->second.struct_value().fields()) {
      if (!IsTime(value)) {
        return absl::InvalidArgumentError(
            absl::StrCat(what, ": ops['", name, "'] is not a time in microseconds"));
      }
      costs.op_us[name] = value.number_value();
    }
  }
  const auto cache = object->fields().find("cache");
  if (cache == object->fields().end()) return costs;
  if (cache->second.kind_case() != Value::kStructValue) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field 'cache' is not an object"));
  }
  for (const auto& [key, value] : cache->second.struct_value().fields()) {
    const auto& fields = value.struct_value().fields();
    for (const char* field : {"us", "size"}) {
      const auto number = fields.find(field);
      if (number == fields.end() || !IsTime(number->second)) {
        return absl::InvalidArgumentError(
            absl::StrCat(what, ": cache['", key, "'].", field, " is not a number of at least 0"));
      }
    }
    costs.cache[key] = {fields.at("us").number_value(), fields.at("size").number_value()};
  }
  return costs;
}

absl::string_view CostSourceName(CostSource source) {
  switch (source) {
    case CostSource::kFree:
      return "free";
    case CostSource::kAnalytical:
      return "analytical";
    case CostSource::kScaled:
      return "scaled";
    case CostSource::kInterpolated:
      return "interpolated";
    case CostSource::kCached:
      return "cached";
    case CostSource::kMeasured:
      return "measured";
  }
  return "unknown";
}

double WorkSize(const Work& work) { return work.matmul_flops + work.elementwise_ops + work.bytes; }

double AnalyticalUs(const Work& work, const Device& device) {
  const double compute_us = work.matmul_flops * 1e-3 / device.matmul_gflops +
                            work.elementwise_ops * 1e-3 / device.elementwise_gops;
  return device.launch_us + std::max(compute_us, work.bytes * 1e-3 / device.memory_gb_per_s);
}

std::vector<float> OpTimes(const OpGraph& graph, const DeviceSet& devices,
                           const MeasuredCosts* measured, std::vector<CostSource>* sources) {
  const int num_devices = devices.size();
  std::vector<float> times(static_cast<size_t>(graph.num_nodes()) * num_devices, 0.0f);
  if (sources != nullptr) sources->assign(graph.num_nodes(), CostSource::kFree);
  int reference = -1;
  if (measured != nullptr) {
    for (int d = 0; d < num_devices && reference < 0; ++d) {
      if (devices.device(d).type == measured->device_type) reference = d;
    }
  }
  const std::vector<double> runs = RunsPerStep(graph);
  std::vector<Known> known(graph.num_nodes());
  absl::flat_hash_map<absl::string_view, std::vector<double>> ratios;
  if (reference >= 0) {
    const Families families = ByFamily(measured->cache);
    for (int i = 0; i < graph.num_nodes(); ++i) {
      known[i] = Find(graph, i, *measured, families);
      if (known[i].source == CostSource::kAnalytical) continue;
      const double count = known[i].source == CostSource::kMeasured ? runs[i] : 1;
      if (count == 0) continue;
      ratios[graph.op(i)].push_back(known[i].us / count /
                                    AnalyticalUs(graph.work[i], devices.device(reference)));
    }
  }
  absl::flat_hash_map<absl::string_view, double> scale;
  for (auto& [op, values] : ratios) scale[op] = Median(values);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (IsFree(graph, i)) continue;
    double factor = 1;
    CostSource source = known[i].source;
    // What was measured under the op's own name are all its runs in a step.
    const double count = source == CostSource::kMeasured ? 1 : runs[i];
    if (source != CostSource::kAnalytical) {
      factor = known[i].us / AnalyticalUs(graph.work[i], devices.device(reference));
    } else if (const auto it = scale.find(graph.op(i)); it != scale.end()) {
      factor = it->second;
      source = CostSource::kScaled;
    }
    for (int d = 0; d < num_devices; ++d) {
      double us = count * factor * AnalyticalUs(graph.work[i], devices.device(d));
      if (DeclaredUs(*graph.nodes[i], devices.device(d).type, &us)) source = CostSource::kMeasured;
      times[static_cast<size_t>(i) * num_devices + d] = static_cast<float>(us);
    }
    if (sources != nullptr) (*sources)[i] = source;
  }
  return times;
}

}  // namespace grappler_go
