#include "cc/features.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/hash.h"

namespace grappler_go {
namespace {

constexpr FeatureSpec kNode[] = {
    {"log_matmul_flops", "log10(1 + flops of dense products) / 10"},
    {"log_elementwise_ops", "log10(1 + other arithmetic) / 10"},
    {"log_bytes", "log10(1 + bytes read and written) / 10"},
    {"log_output_bytes", "log10(1 + bytes of all outputs) / 10"},
    {"log_persistent_bytes", "log10(1 + bytes of a variable or constant) / 10"},
    {"in_degree", "log2(1 + inputs) / 4"},
    {"out_degree", "log2(1 + readers) / 4"},
    {"level", "edges from a root / the deepest op's"},
    {"log_time_share", "log10(1e-6 + time / mean time) / 6"},
    {"upward_rank", "time from the start of the op to the end of the step / critical path"},
    {"downward_rank", "time from the start of the step to the start of the op / critical path"},
    {"slack", "1 - upward - downward rank: 0 on the critical path"},
    {"movable", "1 where more than one device is legal"},
    {"replicable", "1 for a constant that is copied to its readers"},
    {"in_loop", "1 inside a loop frame"},
    {"log_group_size", "log2(ops in the colocation group) / 8"},
    {"group_time_share", "time of the group / total time"},
};
constexpr FeatureSpec kEdge[] = {
    {"log_bytes", "log10(1 + bytes) / 10"},
    {"is_control", "1 where only the order matters"},
    {"log_transfer_time", "log10(1e-6 + mean transfer time / mean op time) / 6"},
};
constexpr FeatureSpec kDevice[] = {
    {"is_gpu", "1 for a GPU"},
    {"relative_matmul", "dense arithmetic / the fastest device's"},
    {"relative_memory", "memory bandwidth / the fastest device's"},
    {"log_memory_limit", "log10(limit / bytes that the graph holds) / 3, 1 without a limit"},
    {"fixed_time_share", "time of ops that can only run here / total time"},
    {"incoming_time_share", "time of ops that the incoming graph has here / total time"},
    {"parallelism", "total time / critical path / devices: how much there is to share"},
};
constexpr FeatureSpec kNodeDevice[] = {
    {"is_incoming", "1 where the incoming graph has the op"},
    {"log_relative_time", "log10(time here / time on the fastest legal device)"},
    {"fixed_input_share", "share of input bytes whose producer can only run here"},
    {"fixed_output_share", "share of output readings whose reader can only run here"},
};
constexpr FeatureSpec kLink[] = {
    {"log_latency", "log10(1e-6 + (latency + busy) / mean op time) / 6"},
    {"log_rate", "log10(1e-6 + time of the mean tensor / mean op time) / 6"},
};

float Log10(double value, double scale) { return static_cast<float>(std::log10(value) / scale); }
float Size(double value) { return Log10(1 + value, 10); }
float Degree(double value) { return static_cast<float>(std::log2(1 + value) / 4); }
float Ratio(double value) { return Log10(1e-6 + value, 6); }

// Figures of a whole graph that the features are relative to.
struct Scales {
  std::vector<double> fastest_us, upward_us, downward_us;
  double total_us = 0, mean_us = 0, critical_us = 0, mean_bytes = 0, held_bytes = 0;
  int max_level = 1;
};

Scales ComputeScales(const Problem& p) {
  const OpGraph& graph = *p.graph;
  const int n = graph.num_nodes();
  Scales scales;
  scales.fastest_us.assign(n, 0.0);
  scales.downward_us.assign(n, 0.0);
  scales.upward_us = UpwardRank(p);
  for (int i = 0; i < n; ++i) {
    const double fastest = FastestUs(p, i);
    scales.fastest_us[i] = fastest;
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1]; ++e) {
      const int source = graph.edge_source[e];
      scales.downward_us[i] =
          std::max(scales.downward_us[i], scales.downward_us[source] + scales.fastest_us[source]);
    }
    scales.total_us += fastest;
    scales.critical_us = std::max(scales.critical_us, scales.downward_us[i] + fastest);
    scales.max_level = std::max(scales.max_level, graph.level[i]);
    scales.held_bytes += graph.persistent_bytes[i];
  }
  for (const double bytes : graph.tensor_bytes) {
    scales.mean_bytes += bytes;
    scales.held_bytes += bytes;
  }
  scales.mean_bytes /= std::max(1, graph.num_tensors());
  scales.total_us = std::max(scales.total_us, 1e-3);
  scales.critical_us = std::max(scales.critical_us, 1e-3);
  scales.mean_us = scales.total_us / std::max(1, n);
  return scales;
}

// The one device on which a node can run, -1 where there is a choice.
int FixedDevice(const Legality& legality, int node) {
  return legality.movable(legality.group[node]) ? -1 : legality.incoming[node];
}

void FillNodes(const Problem& p, const Scales& scales, Features& features) {
  const OpGraph& graph = *p.graph;
  std::vector<double> group_us(p.legality->num_groups(), 0.0);
  for (int i = 0; i < graph.num_nodes(); ++i)
    group_us[p.legality->group[i]] += scales.fastest_us[i];
  features.node.reserve(static_cast<size_t>(graph.num_nodes()) * std::size(kNode));
  for (int i = 0; i < graph.num_nodes(); ++i) {
    double output_bytes = 0;
    for (int t = graph.tensor_offsets[i]; t < graph.tensor_offsets[i + 1]; ++t) {
      output_bytes += graph.tensor_bytes[t];
    }
    const int readers =
        graph.use_offsets[graph.tensor_offsets[i + 1]] - graph.use_offsets[graph.tensor_offsets[i]];
    const int g = p.legality->group[i];
    const double upward = scales.upward_us[i] / scales.critical_us;
    const double downward = scales.downward_us[i] / scales.critical_us;
    const Work& work = graph.work[i];
    const float row[] = {
        Size(work.matmul_flops),
        Size(work.elementwise_ops),
        Size(work.bytes),
        Size(output_bytes),
        Size(graph.persistent_bytes[i]),
        Degree(graph.in_offsets[i + 1] - graph.in_offsets[i]),
        Degree(readers),
        static_cast<float>(graph.level[i]) / static_cast<float>(scales.max_level),
        Ratio(scales.fastest_us[i] / scales.mean_us),
        static_cast<float>(upward),
        static_cast<float>(downward),
        static_cast<float>(1 - upward - downward),
        p.legality->movable(g) ? 1.0f : 0.0f,
        p.legality->replicable[i] ? 1.0f : 0.0f,
        graph.frame[i] >= 0 ? 1.0f : 0.0f,
        static_cast<float>(std::log2(static_cast<double>(p.legality->members(g).size())) / 8),
        static_cast<float>(group_us[g] / scales.total_us)};
    static_assert(std::size(row) == std::size(kNode));
    features.node.insert(features.node.end(), std::begin(row), std::end(row));
    features.op_type.push_back(OpTypeBucket(graph.op(i)));
  }
}

void FillEdges(const Problem& p, const Scales& scales, Features& features) {
  const OpGraph& graph = *p.graph;
  Link mean;
  int links = 0;
  for (int s = 0; s < p.devices->size(); ++s) {
    for (int t = 0; t < p.devices->size(); ++t) {
      if (s == t) continue;
      const Link& link = p.devices->link(s, t);
      mean.latency_us += link.latency_us;
      mean.us_per_byte += link.us_per_byte;
      mean.busy_us += link.busy_us;
      mean.busy_us_per_byte += link.busy_us_per_byte;
      ++links;
    }
  }
  const double share = 1.0 / std::max(1, links);
  // Parallel edges (x * x, several outputs of one op) count once, with the bytes of the first.
  std::vector<int32_t> last_reader(graph.num_nodes(), -1);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1]; ++e) {
      if (last_reader[graph.edge_source[e]] == i) continue;
      last_reader[graph.edge_source[e]] = i;
      const double bytes = graph.tensor_bytes[graph.edge_tensor[e]];
      features.edge_source.push_back(graph.edge_source[e]);
      features.edge_target.push_back(i);
      const float row[] = {Size(bytes), graph.edge_kind[e] == EdgeKind::kControl ? 1.0f : 0.0f,
                           Ratio(TransferUs(mean, bytes) * share / scales.mean_us)};
      static_assert(std::size(row) == std::size(kEdge));
      features.edge.insert(features.edge.end(), std::begin(row), std::end(row));
    }
  }
}

void FillDevices(const Problem& p, const Scales& scales, Features& features) {
  const int num_devices = p.devices->size();
  std::vector<double> fixed_us(num_devices, 0.0), incoming_us(num_devices, 0.0);
  for (int i = 0; i < p.graph->num_nodes(); ++i) {
    const int fixed = FixedDevice(*p.legality, i);
    if (fixed >= 0) fixed_us[fixed] += scales.fastest_us[i];
    incoming_us[p.legality->incoming[i]] += scales.fastest_us[i];
  }
  double matmul = 0, memory = 0;
  for (int d = 0; d < num_devices; ++d) {
    matmul = std::max(matmul, p.devices->device(d).matmul_gflops);
    memory = std::max(memory, p.devices->device(d).memory_gb_per_s);
  }
  for (int d = 0; d < num_devices; ++d) {
    const Device& device = p.devices->device(d);
    const double room = device.memory_bytes / std::max(1.0, scales.held_bytes);
    const float row[] = {
        device.type == "GPU" ? 1.0f : 0.0f,
        static_cast<float>(device.matmul_gflops / matmul),
        static_cast<float>(device.memory_gb_per_s / memory),
        device.memory_bytes > 0 ? std::clamp(Log10(room + 1e-3, 3), -1.0f, 1.0f) : 1.0f,
        static_cast<float>(fixed_us[d] / scales.total_us),
        static_cast<float>(incoming_us[d] / scales.total_us),
        static_cast<float>(scales.total_us / scales.critical_us / num_devices)};
    static_assert(std::size(row) == std::size(kDevice));
    features.device.insert(features.device.end(), std::begin(row), std::end(row));
  }
  for (int s = 0; s < num_devices; ++s) {
    for (int t = 0; t < num_devices; ++t) {
      const Link& link = p.devices->link(s, t);
      const float row[] = {
          Ratio(TransferUs(link, 0) / scales.mean_us),
          Ratio((TransferUs(link, scales.mean_bytes) - TransferUs(link, 0)) / scales.mean_us)};
      static_assert(std::size(row) == std::size(kLink));
      features.link.insert(features.link.end(), std::begin(row), std::end(row));
    }
  }
}

void FillNodeDevices(const Problem& p, const Scales& scales, Features& features) {
  const OpGraph& graph = *p.graph;
  const int num_devices = p.devices->size();
  std::vector<double> in_bytes(num_devices), readers(num_devices);
  features.mask.reserve(static_cast<size_t>(graph.num_nodes()) * num_devices);
  features.node_device.reserve(features.mask.capacity() * std::size(kNodeDevice));
  for (int i = 0; i < graph.num_nodes(); ++i) {
    std::fill(in_bytes.begin(), in_bytes.end(), 0.0);
    std::fill(readers.begin(), readers.end(), 0.0);
    double all_bytes = 1, all_readers = 1;
    for (int e = graph.in_offsets[i]; e < graph.in_offsets[i + 1]; ++e) {
      const double bytes = 1 + graph.tensor_bytes[graph.edge_tensor[e]];
      all_bytes += bytes;
      const int fixed = FixedDevice(*p.legality, graph.edge_source[e]);
      if (fixed >= 0) in_bytes[fixed] += bytes;
    }
    for (int u = graph.use_offsets[graph.tensor_offsets[i]];
         u < graph.use_offsets[graph.tensor_offsets[i + 1]]; ++u) {
      all_readers += 1;
      const int fixed = FixedDevice(*p.legality, graph.uses[u]);
      if (fixed >= 0) readers[fixed] += 1;
    }
    for (int d = 0; d < num_devices; ++d) {
      const bool legal = (p.legality->mask(i) & DeviceBit(d)) != 0;
      const double us = p.op_us[static_cast<size_t>(i) * num_devices + d];
      const float row[] = {
          p.legality->incoming[i] == d ? 1.0f : 0.0f,
          std::clamp(Log10((1e-3 + us) / (1e-3 + scales.fastest_us[i]), 1), -4.0f, 4.0f),
          static_cast<float>(in_bytes[d] / all_bytes),
          static_cast<float>(readers[d] / all_readers)};
      static_assert(std::size(row) == std::size(kNodeDevice));
      features.node_device.insert(features.node_device.end(), std::begin(row), std::end(row));
      features.mask.push_back(legal ? 1.0f : 0.0f);
    }
  }
}

}  // namespace

absl::Span<const FeatureSpec> NodeFeatures() { return kNode; }
absl::Span<const FeatureSpec> EdgeFeatures() { return kEdge; }
absl::Span<const FeatureSpec> DeviceFeatures() { return kDevice; }
absl::Span<const FeatureSpec> NodeDeviceFeatures() { return kNodeDevice; }
absl::Span<const FeatureSpec> LinkFeatures() { return kLink; }

std::vector<std::string> FeatureTable() {
  std::vector<std::string> table;
  const std::pair<const char*, absl::Span<const FeatureSpec>> parts[] = {
      {"node", kNode},
      {"edge", kEdge},
      {"device", kDevice},
      {"node_device", kNodeDevice},
      {"link", kLink}};
  for (const auto& [part, specs] : parts) {
    for (const FeatureSpec& spec : specs) table.push_back(absl::StrCat(part, "/", spec.name));
  }
  table.push_back(absl::StrCat("version/", kFeatureVersion));
  return table;
}

Features ExtractFeatures(const Problem& problem) {
  const Scales scales = ComputeScales(problem);
  Features features;
  FillNodes(problem, scales, features);
  FillEdges(problem, scales, features);
  FillDevices(problem, scales, features);
  FillNodeDevices(problem, scales, features);
  return features;
}

int OpTypeBucket(absl::string_view op) {
  return static_cast<int>(tensorflow::Hash64(op.data(), op.size()) % kOpTypeBuckets);
}

}  // namespace grappler_go
