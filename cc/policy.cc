#include "cc/policy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "cc/blocks.h"
#include "tensorflow/cc/saved_model/constants.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"
#include "tensorflow/core/public/session.h"

namespace grappler_go {
namespace {

using tensorflow::DataType;
using tensorflow::SignatureDef;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr char kServing[] = "serving_default";
constexpr char kFeatureTable[] = "feature_table";
constexpr char kServeTag[] = "serve";

// The policy's own session: never optimised by this pass (no recursion), with its own small thread
// pool, off the GPU that the program uses.
tensorflow::SessionOptions PolicySessionOptions() {
  tensorflow::SessionOptions options;
  tensorflow::ConfigProto& config = options.config;
  config.set_use_per_session_threads(true);
  config.set_inter_op_parallelism_threads(1);
  (*config.mutable_device_count())["GPU"] = 0;
  auto& graph_options = *config.mutable_graph_options();
  graph_options.mutable_rewrite_options()->set_disable_meta_optimizer(true);
  return options;
}

template <typename T>
Tensor MakeTensor(DataType type, const TensorShape& shape, const std::vector<T>& values) {
  Tensor tensor(type, shape);
  std::memcpy(tensor.data(), values.data(), values.size() * sizeof(T));
  return tensor;
}

absl::StatusOr<const SignatureDef*> FindSignature(const tensorflow::SavedModelBundle& bundle,
                                                  const std::string& name,
                                                  const std::string& directory) {
  const auto it = bundle.meta_graph_def.signature_def().find(name);
  if (it == bundle.meta_graph_def.signature_def().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy '", directory, "' has no signature '", name, "'"));
  }
  return &it->second;
}

absl::Status CheckFeatureTable(const tensorflow::SavedModelBundle& bundle,
                               const std::string& directory) {
  const absl::StatusOr<const SignatureDef*> signature =
      FindSignature(bundle, kFeatureTable, directory);
  if (!signature.ok()) return signature.status();
  const auto output = (*signature)->outputs().find("names");
  if (output == (*signature)->outputs().end()) {
    return absl::InvalidArgumentError(absl::StrCat("policy '", directory, "': signature '",
                                                   kFeatureTable, "' has no output 'names'"));
  }
  std::vector<Tensor> outputs;
  const absl::Status status = bundle.GetSession()->Run({}, {output->second.name()}, {}, &outputs);
  if (!status.ok()) return status;
  const std::vector<std::string> ours = FeatureTable();
  if (outputs[0].dtype() != tensorflow::DT_STRING || outputs[0].dims() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy '", directory, "': feature table is not a list of names"));
  }
  const auto theirs = outputs[0].vec<tensorflow::tstring>();
  for (size_t i = 0; i < std::max<size_t>(ours.size(), theirs.size()); ++i) {
    const std::string want = i < ours.size() ? ours[i] : "nothing";
    const std::string got =
        i < static_cast<size_t>(theirs.size()) ? std::string(theirs(i)) : "nothing";
    if (want != got) {
      return absl::InvalidArgumentError(absl::StrCat("policy '", directory, "': feature ", i,
                                                     " is '", got, "', this library has '", want,
                                                     "'"));
    }
  }
  return absl::OkStatus();
}

struct CacheEntry {
  int64_t mtime_ns = 0;
  int64_t length = 0;
  std::shared_ptr<const Policy> policy;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Policy>> Policy::Load(const std::string& directory) {
  static absl::Mutex mutex(absl::kConstInit);
  static auto* const cache = new std::map<std::string, CacheEntry>();
  const std::string file = tensorflow::io::JoinPath(directory, tensorflow::kSavedModelFilenamePb);
  tensorflow::FileStatistics stat;
  absl::Status status = tensorflow::Env::Default()->Stat(file, &stat);
  if (!status.ok()) {
    return absl::NotFoundError(
        absl::StrCat("policy '", directory, "' cannot be read: ", status.message()));
  }
  absl::MutexLock lock(&mutex);
  CacheEntry& entry = (*cache)[directory];
  if (entry.policy != nullptr && entry.mtime_ns == stat.mtime_nsec && entry.length == stat.length) {
    return entry.policy;
  }
  auto policy = std::make_shared<Policy>();
  policy->directory_ = directory;
  status = tensorflow::LoadSavedModel(PolicySessionOptions(), tensorflow::RunOptions(), directory,
                                      {kServeTag}, &policy->bundle_);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("policy '", directory,
                                                    "' cannot be loaded: ", status.message()));
  }
  const absl::StatusOr<const SignatureDef*> serving =
      FindSignature(policy->bundle_, kServing, directory);
  if (!serving.ok()) return serving.status();
  status = CheckFeatureTable(policy->bundle_, directory);
  if (!status.ok()) return status;
  entry = {stat.mtime_nsec, stat.length, policy};
  return entry.policy;
}

absl::StatusOr<std::vector<float>> Policy::Score(const Problem& problem) const {
  const Features features = ExtractFeatures(problem);
  const int64_t n = problem.graph->num_nodes();
  const int64_t d = problem.devices->size();
  const int64_t e = static_cast<int64_t>(features.edge_source.size());
  const auto width = [](absl::Span<const FeatureSpec> specs) {
    return static_cast<int64_t>(specs.size());
  };
  const auto floats = [](const TensorShape& shape, const std::vector<float>& values) {
    return MakeTensor(tensorflow::DT_FLOAT, shape, values);
  };
  const auto ints = [](int64_t size, const std::vector<int32_t>& values) {
    return MakeTensor(tensorflow::DT_INT32, TensorShape({size}), values);
  };
  const std::map<std::string, Tensor> values = {
      {"node_features", floats({n, width(NodeFeatures())}, features.node)},
      {"op_type", ints(n, features.op_type)},
      {"edge_source", ints(e, features.edge_source)},
      {"edge_target", ints(e, features.edge_target)},
      {"edge_features", floats({e, width(EdgeFeatures())}, features.edge)},
      {"device_features", floats({d, width(DeviceFeatures())}, features.device)},
      {"node_device_features", floats({n, d, width(NodeDeviceFeatures())}, features.node_device)},
      {"node_device_mask", floats({n, d}, features.mask)},
      {"link_features", floats({d, d, width(LinkFeatures())}, features.link)},
      {"op_group", ints(n, problem.legality->group)},
  };
  const absl::StatusOr<const SignatureDef*> found = FindSignature(bundle_, kServing, directory_);
  if (!found.ok()) return found.status();
  const SignatureDef& signature = **found;
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (const auto& [name, info] : signature.inputs()) {
    const auto it = values.find(name);
    if (it == values.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("policy '", directory_, "' asks for an unknown input '", name, "'"));
    }
    if (info.dtype() != it->second.dtype()) {
      return absl::InvalidArgumentError(
          absl::StrCat("policy '", directory_, "': input '", name, "' has the wrong type"));
    }
    inputs.emplace_back(info.name(), it->second);
  }
  const auto output = signature.outputs().find("placement_logits");
  if (output == signature.outputs().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy '", directory_, "' has no output 'placement_logits'"));
  }
  std::vector<Tensor> outputs;
  const absl::Status status =
      bundle_.GetSession()->Run(inputs, {output->second.name()}, {}, &outputs);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("policy '", directory_, "' failed: ", status.message()));
  }
  const Tensor& logits = outputs[0];
  if (logits.dtype() != tensorflow::DT_FLOAT || logits.shape() != TensorShape({n, d})) {
    return absl::InvalidArgumentError(absl::StrCat("policy '", directory_, "': scores of shape ",
                                                   logits.shape().DebugString(), ", expected [", n,
                                                   ",", d, "]"));
  }
  std::vector<float> scores(static_cast<size_t>(n * d));
  std::memcpy(scores.data(), logits.data(), scores.size() * sizeof(float));
  for (const float score : scores) {
    if (!std::isfinite(score)) {
      return absl::InvalidArgumentError(
          absl::StrCat("policy '", directory_, "': a score is not finite"));
    }
  }
  return scores;
}

namespace {

// The mean of the scores of each block's ops, [blocks x devices].
std::vector<double> BlockScores(const std::vector<int32_t>& block_of, int num_blocks,
                                const std::vector<float>& logits, int num_devices) {
  std::vector<double> scores(static_cast<size_t>(num_blocks) * num_devices, 0.0);
  std::vector<double> sizes(num_blocks, 0.0);
  for (size_t i = 0; i < block_of.size(); ++i) {
    sizes[block_of[i]] += 1;
    for (int d = 0; d < num_devices; ++d) {
      scores[static_cast<size_t>(block_of[i]) * num_devices + d] += logits[i * num_devices + d];
    }
  }
  for (size_t k = 0; k < scores.size(); ++k) scores[k] /= sizes[k / num_devices];
  return scores;
}

// Numbers blocks from 0 by their first node.
void Renumber(std::vector<int32_t>& block_of) {
  std::vector<int32_t> number;
  int32_t next = 0;
  for (int32_t& block : block_of) {
    if (static_cast<size_t>(block) >= number.size()) number.resize(block + 1, -1);
    if (number[block] < 0) number[block] = next++;
    block = number[block];
  }
}

int NumBlocks(const std::vector<int32_t>& block_of) {
  return block_of.empty() ? 0 : 1 + *std::max_element(block_of.begin(), block_of.end());
}

}  // namespace

std::vector<std::vector<int32_t>> DecisionBlocks(const Problem& problem) {
  const Legality& legality = *problem.legality;
  const int num_groups = legality.num_groups();
  std::vector<std::vector<int32_t>> levels;
  const auto add = [&](const std::vector<int32_t>& block_of_group) {
    std::vector<int32_t> block_of(problem.graph->num_nodes());
    for (size_t i = 0; i < block_of.size(); ++i) block_of[i] = block_of_group[legality.group[i]];
    Renumber(block_of);
    if (levels.empty() || levels.back() != block_of) levels.push_back(std::move(block_of));
  };
  std::vector<int32_t> own(num_groups);
  for (int g = 0; g < num_groups; ++g) own[g] = g;
  add(own);
  for (const auto& blocks : Coarsen(problem)) {
    std::vector<int32_t> block_of_group(num_groups, -1);
    bool parts = true;  // Scopes overlap and leave groups out: they are no level of the hierarchy.
    size_t grouped = 0;
    for (size_t b = 0; b < blocks.size(); ++b) {
      for (const int32_t g : blocks[b]) {
        parts = parts && block_of_group[g] < 0;
        block_of_group[g] = num_groups + static_cast<int32_t>(b);
        ++grouped;
      }
    }
    size_t movable = 0;
    for (int g = 0; g < num_groups; ++g) {
      if (legality.movable(g) && !legality.replicable[legality.members(g).front()]) ++movable;
      if (block_of_group[g] < 0) block_of_group[g] = g;
    }
    if (parts && grouped == movable) add(block_of_group);
  }
  return levels;
}

std::vector<Placement> Sample(const Problem& problem, const std::vector<float>& logits, int samples,
                              uint64_t seed) {
  const Legality& legality = *problem.legality;
  const int num_devices = problem.devices->size();
  const std::vector<std::vector<int32_t>> levels = DecisionBlocks(problem);
  std::vector<std::vector<double>> scores;
  for (const auto& block_of : levels) {
    scores.push_back(BlockScores(block_of, NumBlocks(block_of), logits, num_devices));
  }
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(1e-12, 1.0);
  const int num_levels = static_cast<int>(levels.size());
  const int last_turn = std::max(1, (samples - 1) / num_levels);
  std::vector<Placement> placements;
  for (int k = 0; k < samples; ++k) {
    const std::vector<int32_t>& block_of = levels[k % num_levels];
    const std::vector<double>& level_scores = scores[k % num_levels];
    const double temperature = static_cast<double>(k / num_levels) / last_turn;
    std::vector<double> noisy(level_scores);
    // The largest of scores with Gumbel noise is a draw from their softmax.
    if (temperature > 0) {
      for (double& score : noisy) score -= temperature * std::log(-std::log(uniform(random)));
    }
    const auto best = [&](const double* row, uint64_t mask) {
      int found = -1;
      for (int d = 0; d < num_devices; ++d) {
        if ((mask & DeviceBit(d)) != 0 && (found < 0 || row[d] > row[found])) found = d;
      }
      return found;
    };
    Placement placement = legality.incoming;
    for (int g = 0; g < legality.num_groups(); ++g) {
      if (!legality.movable(g)) continue;
      const size_t first = static_cast<size_t>(legality.members(g).front());
      const double* row = &noisy[static_cast<size_t>(block_of[first]) * num_devices];
      const auto device = static_cast<int8_t>(best(row, legality.group_mask[g]));
      for (const int32_t i : legality.members(g)) placement[i] = device;
    }
    placements.push_back(std::move(placement));
  }
  return placements;
}

}  // namespace grappler_go
