#include "cc/buffers.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace grappler_go {
namespace {

// Ops whose kernels put their input's buffer into output k, for input k.
bool SharesInput(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>{
      "Identity",        "IdentityN",     "Reshape",
      "ExpandDims",      "Squeeze",       "StopGradient",
      "PreventGradient", "Bitcast",       "Snapshot",
      "Enter",           "NextIteration", "Exit",
      "Merge",           "RefEnter",      "EnsureShape",
      "LoopCond",        "RefIdentity",   "PlaceholderWithDefault",
  };
  return ops->contains(op);
}

// Ops whose kernels ask for an input's buffer first (`forward_input_or_allocate_output`).
bool MayOverwrite(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>{
      "Abs",
      "Acos",
      "Add",
      "AddN",
      "AddV2",
      "Atan",
      "BiasAdd",
      "Cast",
      "Ceil",
      "ClipByValue",
      "Cos",
      "Div",
      "DivNoNan",
      "Elu",
      "EluGrad",
      "Erf",
      "Exp",
      "Expm1",
      "Floor",
      "FusedBatchNormV3",
      "Inv",
      "InvGrad",
      "LeakyRelu",
      "Log",
      "Log1p",
      "LogSoftmax",
      "Maximum",
      "Minimum",
      "Mul",
      "MulNoNan",
      "Neg",
      "Pow",
      "RealDiv",
      "Reciprocal",
      "ReciprocalGrad",
      "Relu",
      "Relu6",
      "Relu6Grad",
      "ReluGrad",
      "Rint",
      "Round",
      "Rsqrt",
      "RsqrtGrad",
      "Selu",
      "SeluGrad",
      "Sigmoid",
      "SigmoidGrad",
      "Sign",
      "Sin",
      "Softmax",
      "Softplus",
      "SoftplusGrad",
      "Softsign",
      "Sqrt",
      "SqrtGrad",
      "Square",
      "SquaredDifference",
      "Sub",
      "Tanh",
      "TanhGrad",
      "ZerosLike",
  };
  return ops->contains(op);
}

}  // namespace

Buffers FindBuffers(const OpGraph& graph) {
  Buffers buffers;
  buffers.shared_edge.assign(graph.num_tensors(), kOwnBuffer);
  buffers.may_overwrite.assign(graph.num_nodes(), false);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const absl::string_view op = graph.op(i);
    const int first = graph.tensor_offsets[i];
    const int end = graph.tensor_offsets[i + 1];
    const int in = graph.in_offsets[i];
    const int inputs = graph.in_offsets[i + 1] - in;
    const auto data_input = [&](int k) {
      return k < inputs && graph.edge_kind[in + k] != EdgeKind::kControl;
    };
    if (graph.Has(i, kConst) || op == "ReadVariableOp") {
      for (int t = first; t < end; ++t) buffers.shared_edge[t] = kPersistentBuffer;
    } else if (op == "Switch" && data_input(0)) {
      for (int t = first; t < end && t < first + 2; ++t) buffers.shared_edge[t] = in;
    } else if (SharesInput(op)) {
      const bool one = op != "IdentityN";
      for (int t = first; t < end && (!one || t == first); ++t) {
        if (data_input(t - first)) buffers.shared_edge[t] = in + (t - first);
      }
    }
    buffers.may_overwrite[i] = MayOverwrite(op);
  }
  return buffers;
}

}  // namespace grappler_go
