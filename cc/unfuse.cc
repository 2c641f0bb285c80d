#include "cc/unfuse.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace grappler_go {
namespace {

using tensorflow::NodeDef;

constexpr const char* kActivations[] = {"Relu", "Relu6", "Elu", "Tanh", "Sigmoid"};

NodeDef Part(const NodeDef& fused, const std::string& op, const std::string& name) {
  NodeDef part;
  part.set_name(name);
  part.set_op(op);
  part.set_device(fused.device());
  (*part.mutable_attr())["T"] = fused.attr().at("T");
  return part;
}

}  // namespace

std::vector<NodeDef> Unfused(const NodeDef& node) {
  const auto ops = node.attr().find("fused_ops");
  const auto arguments = node.attr().find("num_args");
  if (node.op() != "_FusedMatMul" || ops == node.attr().end() || !node.attr().contains("T") ||
      arguments == node.attr().end() || arguments->second.i() != 1 || node.input_size() < 3) {
    return {};
  }
  const auto& steps = ops->second.list();
  if (steps.s_size() < 1 || steps.s_size() > 2 || steps.s(0) != "BiasAdd") return {};
  if (steps.s_size() == 2 && !absl::c_linear_search(kActivations, steps.s(1))) return {};
  std::vector<NodeDef> parts;
  NodeDef product = Part(node, "MatMul", absl::StrCat(node.name(), "/go_product"));
  for (const char* attr : {"transpose_a", "transpose_b"}) {
    if (node.attr().contains(attr)) (*product.mutable_attr())[attr] = node.attr().at(attr);
  }
  product.add_input(node.input(0));
  product.add_input(node.input(1));
  const bool activated = steps.s_size() == 2;
  NodeDef sum =
      Part(node, "BiasAdd", activated ? absl::StrCat(node.name(), "/go_sum") : node.name());
  sum.add_input(product.name());
  sum.add_input(node.input(2));
  parts.push_back(product);
  parts.push_back(sum);
  if (activated) {
    NodeDef last = Part(node, steps.s(1), node.name());
    last.add_input(sum.name());
    parts.push_back(last);
  }
  // Whatever else it waits for, the product waits for; and it keeps what is written on it.
  for (int i = 3; i < node.input_size(); ++i) {
    if (!absl::StartsWith(node.input(i), "^")) return {};
    parts.front().add_input(node.input(i));
  }
  for (NodeDef& part : parts) {
    for (const auto& [name, value] : node.attr()) {
      if (absl::StartsWith(name, "_")) (*part.mutable_attr())[name] = value;
    }
  }
  return parts;
}

}  // namespace grappler_go
