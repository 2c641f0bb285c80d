// A policy without training, for the tests.
#ifndef GRAPPLER_GO_CC_TEST_POLICY_H_
#define GRAPPLER_GO_CC_TEST_POLICY_H_

#include <string>
#include <vector>

#include "cc/features.h"
#include "cc/test_util.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"

namespace grappler_go {

// A SavedModel that passes as a policy; its placement_logits are -2 * node_device_features[..., 0],
// so it wants every op away from where it came from. Tests break a copy of it.
inline tensorflow::SavedModel TestPolicy(
    const std::vector<std::string>& feature_table = FeatureTable()) {
  using tensorflow::Tensor;
  tensorflow::SavedModel model;
  model.set_saved_model_schema_version(1);
  tensorflow::MetaGraphDef& meta = *model.add_meta_graphs();
  meta.mutable_meta_info_def()->add_tags("serve");
  tensorflow::GraphDef& graph = *meta.mutable_graph_def();
  AddOp(graph, "node_device_features", "Placeholder");
  const auto vector = [&](const std::string& name, std::vector<int32_t> values) {
    Tensor tensor(tensorflow::DT_INT32,
                  tensorflow::TensorShape({static_cast<int64_t>(values.size())}));
    std::copy(values.begin(), values.end(), tensor.flat<int32_t>().data());
    AddConst(graph, name, tensor);
  };
  vector("begin", {0, 0, 0});
  vector("end", {0, 0, 1});
  vector("strides", {1, 1, 1});
  auto& slice =
      AddOp(graph, "slice", "StridedSlice", {"node_device_features", "begin", "end", "strides"});
  (*slice.mutable_attr())["Index"].set_type(tensorflow::DT_INT32);
  (*slice.mutable_attr())["begin_mask"].set_i(3);
  (*slice.mutable_attr())["end_mask"].set_i(3);
  (*slice.mutable_attr())["shrink_axis_mask"].set_i(4);
  Tensor factor(tensorflow::DT_FLOAT, tensorflow::TensorShape({}));
  factor.scalar<float>()() = -2;
  AddConst(graph, "factor", factor);
  AddOp(graph, "logits", "Mul", {"slice", "factor"});
  Tensor names(tensorflow::DT_STRING,
               tensorflow::TensorShape({static_cast<int64_t>(feature_table.size())}));
  for (size_t i = 0; i < feature_table.size(); ++i) {
    names.flat<tensorflow::tstring>()(static_cast<int64_t>(i)) = feature_table[i];
  }
  AddConst(graph, "names", names);
  auto& serving = (*meta.mutable_signature_def())["serving_default"];
  const auto info = [](tensorflow::TensorInfo& tensor, const std::string& name,
                       tensorflow::DataType type) {
    tensor.set_name(name);
    tensor.set_dtype(type);
  };
  info((*serving.mutable_inputs())["node_device_features"], "node_device_features:0",
       tensorflow::DT_FLOAT);
  info((*serving.mutable_outputs())["placement_logits"], "logits:0", tensorflow::DT_FLOAT);
  auto& table = (*meta.mutable_signature_def())["feature_table"];
  info((*table.mutable_outputs())["names"], "names:0", tensorflow::DT_STRING);
  return model;
}

// Writes the policy into a new folder, whose name it returns.
inline std::string SavePolicy(const tensorflow::SavedModel& model) {
  const std::string folder = NewFolder();
  WriteFile(folder, "saved_model.pb", model.SerializeAsString());
  return folder;
}

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_TEST_POLICY_H_
