#include "cc/op_key.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/types.h"

namespace grappler_go {
namespace {

using TensorProperties = tensorflow::OpInfo::TensorProperties;

// Attributes that say what an op is called or where it is, not what it computes.
bool IsName(absl::string_view attribute) {
  return attribute.empty() || attribute[0] == '_' || attribute == "container" ||
         attribute == "shared_name" || attribute == "debug_name" ||
         attribute == "allowed_devices" || attribute == "tensor_name" || attribute == "shape";
}

void AppendTypes(const std::vector<TensorProperties>& tensors, std::string& out) {
  for (const TensorProperties& tensor : tensors) {
    absl::StrAppend(&out, tensorflow::DataTypeString(tensor.dtype()));
    if (!tensor.shape().unknown_rank()) absl::StrAppend(&out, tensor.shape().dim_size());
    out += ',';
  }
}

void AppendSizes(const std::vector<TensorProperties>& tensors, std::string& out) {
  for (const TensorProperties& tensor : tensors) {
    for (const auto& dim : tensor.shape().dim()) {
      if (dim.size() >= 0) {
        absl::StrAppend(&out, dim.size(), "x");
      } else {
        out += "?x";
      }
    }
    out += ',';
  }
}

}  // namespace

std::string OpKey(const tensorflow::NodeDef& node, const std::vector<TensorProperties>& inputs,
                  const std::vector<TensorProperties>& outputs) {
  std::map<absl::string_view, const tensorflow::AttrValue*> attributes;  // In order.
  for (const auto& [name, value] : node.attr()) {
    if (!IsName(name)) attributes[name] = &value;
  }
  std::string key = absl::StrCat(node.op(), "|");
  for (const auto& [name, value] : attributes) {
    std::string text = tensorflow::SummarizeAttrValue(*value);
    std::replace(text.begin(), text.end(), '#', '_');  // Parts the family from the sizes.
    absl::StrAppend(&key, name, "=", text, ";");
  }
  key += '|';
  AppendTypes(inputs, key);
  key += '>';
  AppendTypes(outputs, key);
  key += '#';
  AppendSizes(inputs, key);
  key += '>';
  AppendSizes(outputs, key);
  return key;
}

absl::string_view KeyFamily(absl::string_view key) { return key.substr(0, key.find('#')); }

}  // namespace grappler_go
