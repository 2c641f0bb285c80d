#include "cc/op_key.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using TensorProperties = tensorflow::OpInfo::TensorProperties;

TensorProperties Floats(const std::vector<int64_t>& dims) {
  TensorProperties tensor;
  tensor.set_dtype(tensorflow::DT_FLOAT);
  for (const int64_t dim : dims) tensor.mutable_shape()->add_dim()->set_size(dim);
  return tensor;
}

tensorflow::NodeDef Product(const std::string& name) {
  tensorflow::GraphDef graph;
  return AddOp(graph, name, "MatMul", {"x", "w"});
}

TEST(OpKey, IsOfTheComputationAlone) {
  const std::vector<TensorProperties> inputs = {Floats({2, 3}), Floats({3, 4})};
  const std::vector<TensorProperties> outputs = {Floats({2, 4})};
  tensorflow::NodeDef a = Product("a"), b = Product("b");
  (*b.mutable_attr())["_class"].mutable_list()->add_s("loc:@c");
  b.set_device("/device:GPU:3");
  b.set_input(0, "elsewhere:7");
  const std::string key = OpKey(a, inputs, outputs);
  EXPECT_EQ(key, OpKey(b, inputs, outputs));
  EXPECT_EQ(key.substr(key.find('#')), "#2x3x,3x4x,>2x4x,");
  (*b.mutable_attr())["transpose_a"].set_b(true);
  EXPECT_NE(KeyFamily(key), KeyFamily(OpKey(b, inputs, outputs)));
}

TEST(OpKey, SizesDifferWithinAFamily) {
  const tensorflow::NodeDef node = Product("a");
  const std::string small = OpKey(node, {Floats({2, 3}), Floats({3, 4})}, {Floats({2, 4})});
  const std::string large = OpKey(node, {Floats({8, 3}), Floats({3, 4})}, {Floats({8, 4})});
  const std::string unknown = OpKey(node, {Floats({-1, 3}), Floats({3, 4})}, {Floats({-1, 4})});
  EXPECT_NE(small, large);
  EXPECT_EQ(KeyFamily(small), KeyFamily(large));
  EXPECT_EQ(KeyFamily(small), KeyFamily(unknown));
  EXPECT_EQ(unknown.substr(unknown.find('#')), "#?x3x,3x4x,>?x4x,");
  TensorProperties integer = Floats({2, 3});
  integer.set_dtype(tensorflow::DT_INT32);
  EXPECT_NE(KeyFamily(small), KeyFamily(OpKey(node, {integer, Floats({3, 4})}, {Floats({2, 4})})));
}

TEST(OpKey, AMarkInAnAttributeDoesNotPartTheKey) {
  tensorflow::NodeDef node = Product("a");
  (*node.mutable_attr())["equation"].set_s("a#b");
  const std::string key = OpKey(node, {}, {});
  EXPECT_EQ(std::count(key.begin(), key.end(), '#'), 1);
}

}  // namespace
}  // namespace grappler_go
