#include "cc/op_work.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;

Work WorkOf(const GraphDef& def, const std::string& name) {
  const auto item = MakeItem(def);
  const auto graph = OpGraph::Create(item);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph->work[graph->Find(name)];
}

GraphDef Inputs(int rows, int inner, int columns) {
  GraphDef def;
  SetShape(AddOp(def, "a", "Placeholder"), {rows, inner});
  SetShape(AddOp(def, "b", "Placeholder"), {inner, columns});
  return def;
}

TEST(EstimateWork, CountsAMatrixProduct) {
  GraphDef def = Inputs(10, 20, 30);
  AddOp(def, "y", "MatMul", {"a", "b"});
  const Work work = WorkOf(def, "y");
  EXPECT_EQ(work.matmul_flops, 2 * 10 * 20 * 30);
  EXPECT_EQ(work.elementwise_ops, 0);
  EXPECT_EQ(work.bytes, 4 * (10 * 20 + 20 * 30 + 10 * 30));
}

TEST(EstimateWork, CountsElementwiseOps) {
  GraphDef def = Inputs(100, 100, 100);
  AddOp(def, "y", "Add", {"a", "b"});
  const Work work = WorkOf(def, "y");
  EXPECT_EQ(work.matmul_flops, 0);
  EXPECT_EQ(work.elementwise_ops, 100 * 100);
  EXPECT_EQ(work.bytes, 3 * 4 * 100 * 100);
}

TEST(EstimateWork, CountsAConvolution) {
  GraphDef def;
  SetShape(AddOp(def, "image", "Placeholder"), {2, 8, 8, 3});
  SetShape(AddOp(def, "filter", "Placeholder"), {3, 3, 3, 5});
  auto& conv = AddOp(def, "y", "Conv2D", {"image", "filter"});
  for (int i = 0; i < 4; ++i) (*conv.mutable_attr())["strides"].mutable_list()->add_i(1);
  (*conv.mutable_attr())["padding"].set_s("SAME");
  EXPECT_EQ(WorkOf(def, "y").matmul_flops, 2.0 * 2 * 8 * 8 * 5 * 3 * 3 * 3);
}

TEST(EstimateWork, GrowsWithTheProduct) {
  double before = 0;
  for (const int size : {16, 64, 256}) {
    GraphDef def = Inputs(size, size, size);
    AddOp(def, "y", "MatMul", {"a", "b"});
    const double flops = WorkOf(def, "y").matmul_flops;
    EXPECT_GT(flops, before);
    before = flops;
  }
}

TEST(EstimateWork, InputsAndUnknownOpsCostNothing) {
  GraphDef def = Inputs(10, 10, 10);
  AddMatrix(def, "const", 100, 100);
  AddOp(def, "y", "NoSuchOp", {"a"});
  for (const char* name : {"a", "const", "y"}) {
    const Work work = WorkOf(def, name);
    EXPECT_EQ(work.matmul_flops + work.elementwise_ops + work.bytes, 0) << name;
  }
}

TEST(IsMatmulLike, KnowsProducts) {
  for (const char* op :
       {"MatMul", "BatchMatMulV2", "_FusedMatMul", "Conv2D", "Conv2DBackpropFilter",
        "DepthwiseConv2dNative", "Conv3D", "Einsum", "SparseMatMul"}) {
    EXPECT_TRUE(IsMatmulLike(op)) << op;
  }
  for (const char* op : {"Add", "Convert", "Softmax", "MatrixDiag", "Identity"}) {
    EXPECT_FALSE(IsMatmulLike(op)) << op;
  }
}

TEST(TensorBytes, CountsUnknownDimensions) {
  tensorflow::OpInfo::TensorProperties properties;
  properties.set_dtype(tensorflow::DT_DOUBLE);
  properties.mutable_shape()->add_dim()->set_size(3);
  bool known = false;
  EXPECT_EQ(TensorBytes(properties, 10, known), 3 * 8);
  EXPECT_TRUE(known);
  properties.mutable_shape()->add_dim()->set_size(-1);
  EXPECT_EQ(TensorBytes(properties, 10, known), 3 * 10 * 8);
  EXPECT_FALSE(known);
  properties.mutable_shape()->set_unknown_rank(true);
  EXPECT_EQ(TensorBytes(properties, 10, known), 10 * 8);
  EXPECT_FALSE(known);
  properties.mutable_shape()->Clear();
  properties.set_dtype(tensorflow::DT_FLOAT_REF);
  EXPECT_EQ(TensorBytes(properties, 10, known), 4);
  properties.set_dtype(tensorflow::DT_STRING);
  EXPECT_EQ(TensorBytes(properties, 10, known), 16);
}

}  // namespace
}  // namespace grappler_go
