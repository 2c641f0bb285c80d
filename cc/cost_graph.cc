#include "cc/cost_graph.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace grappler_go {
namespace {

using tensorflow::AttrValue;
using tensorflow::NodeDef;

const AttrValue* FindAttr(const NodeDef& node, const char* name) {
  const auto it = node.attr().find(name);
  return it == node.attr().end() ? nullptr : &it->second;
}

// Never runs: a graph with declared costs is for the simulator.
class DeclaredOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tensorflow::OpKernelContext* context) override {
    context->SetStatus(absl::UnimplementedError(absl::StrCat(
        "op '", name(), "' stands for one of a cost graph: it can be planned, not run")));
  }
};

// us_cpu, us_gpu: compute time in microseconds, negative = not declared for that type.
REGISTER_OP(kDeclaredOp)
    .Input("inputs: num_inputs * float")
    .Output("outputs: num_outputs * float")
    .Attr("num_inputs: int >= 0")
    .Attr("num_outputs: int >= 0")
    .Attr("us_cpu: float = -1")
    .Attr("us_gpu: float = -1")
    .Attr("output_bytes: list(float) = []")
    .Attr("persistent_bytes: int = 0")
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);

REGISTER_KERNEL_BUILDER(Name(kDeclaredOp).Device(tensorflow::DEVICE_CPU), DeclaredOp);
REGISTER_KERNEL_BUILDER(Name(kDeclaredOp).Device(tensorflow::DEVICE_GPU), DeclaredOp);
REGISTER_KERNEL_BUILDER(Name(kDeclaredOp).Device(tensorflow::DEVICE_CPU).Label("cpu_only"),
                        DeclaredOp);
REGISTER_KERNEL_BUILDER(Name(kDeclaredOp).Device(tensorflow::DEVICE_GPU).Label("gpu_only"),
                        DeclaredOp);

}  // namespace

bool DeclaredUs(const NodeDef& node, const std::string& device_type, double* us) {
  if (!HasDeclaredCosts(node)) return false;
  const AttrValue* value = FindAttr(node, device_type == "GPU" ? "us_gpu" : "us_cpu");
  // Negated, so that NaN is none either.
  if (value == nullptr || !(value->f() >= 0)) return false;
  *us = value->f();
  return true;
}

double DeclaredOutputBytes(const NodeDef& node, int port) {
  const AttrValue* value = HasDeclaredCosts(node) ? FindAttr(node, "output_bytes") : nullptr;
  if (value == nullptr || port >= value->list().f_size()) return 0;
  return value->list().f(port);
}

double DeclaredPersistentBytes(const NodeDef& node) {
  const AttrValue* value = HasDeclaredCosts(node) ? FindAttr(node, "persistent_bytes") : nullptr;
  return value == nullptr ? 0 : static_cast<double>(value->i());
}

}  // namespace grappler_go
