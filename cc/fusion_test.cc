#include "cc/fusion.h"

#include <gmock/gmock.h>

#include "cc/compilable.h"
#include "cc/rewriter.h"
#include "cc/test_util.h"
#include "cc/unfuse.h"

namespace grappler_go {
namespace {

using tensorflow::GraphDef;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kManySteps = 1e12;

std::unique_ptr<World> OnCpus(const GraphDef& def, int devices = 2,
                              const std::vector<std::string>& fetch = {}) {
  return MakeWorld(MakeItem(def, fetch), LocalCpus(devices), /*infer_shapes=*/true);
}

std::vector<int32_t> FuseAll(const World& world, FusionScope scope = FusionScope::kAll) {
  return Fuse(world.problem, world.legality.incoming, {scope, kManySteps});
}

// x -> a -> b -> c, and d joins a and the product of b.
GraphDef Chain() {
  GraphDef def;
  AddMatrix(def, "x", 64, 64, LocalDevice("CPU", 0));
  AddOp(def, "a", "Tanh", {"x"}, LocalDevice("CPU", 0));
  AddOp(def, "b", "Neg", {"a"}, LocalDevice("CPU", 0));
  AddOp(def, "c", "MatMul", {"b", "b"}, LocalDevice("CPU", 0));
  AddOp(def, "d", "Add", {"a", "c"}, LocalDevice("CPU", 0));
  return def;
}

TEST(Fuse, KeepsProductsOutWhereAsked) {
  const auto world = OnCpus(Chain());
  const auto at = [&](const std::vector<int32_t>& fusion, const char* op) {
    return fusion[world->graph.Find(op)];
  };
  const std::vector<int32_t> light = FuseAll(*world, FusionScope::kLight);
  EXPECT_EQ(at(light, "c"), -1);
  EXPECT_GE(at(light, "a"), 0);
  EXPECT_EQ(at(light, "a"), at(light, "b"));
  // d reads c, which reads b: with them it would wait for what it makes itself.
  EXPECT_EQ(at(light, "d"), -1);
  const std::vector<int32_t> all = FuseAll(*world);
  for (const char* op : {"a", "b", "c", "d"}) EXPECT_EQ(at(all, op), at(all, "a")) << op;
  EXPECT_EQ(at(all, "x"), -1);  // The rewriter copies it into the cluster.
}

TEST(Fuse, OnlyWhatPaysForItsCompilation) {
  const auto world = OnCpus(Chain());
  const std::vector<int32_t> once =
      Fuse(world->problem, world->legality.incoming, {FusionScope::kAll, 1});
  EXPECT_THAT(once, ::testing::Each(-1));
}

TEST(Fuse, NeverAcrossDevices) {
  const auto world = OnCpus(Chain());
  const Placement placement = world->Place({{"b", 1}, {"c", 1}});
  const std::vector<int32_t> fusion =
      Fuse(world->problem, placement, {FusionScope::kAll, kManySteps});
  EXPECT_NE(fusion[world->graph.Find("a")], fusion[world->graph.Find("b")]);
  EXPECT_EQ(Words(CheckFusion(world->problem, placement, fusion)), "");
}

TEST(Fuse, IsAcyclicAndLegalOnRandomGraphs) {
  int fused = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const auto world =
        OnCpus(RandomGraph(20 + static_cast<int>(seed % 40), seed, LocalDevice("CPU", 0)), 3);
    const Placement placement =
        seed % 2 == 0 ? world->legality.incoming : RandomLegal(world->problem, seed);
    const FusionScope scope = seed % 3 == 0 ? FusionScope::kLight : FusionScope::kAll;
    Plan plan;
    plan.device = placement;
    plan.fusion = Fuse(world->problem, placement, {scope, kManySteps});
    ASSERT_EQ(Words(CheckPlan(world->problem, plan)), "") << "graph " << seed;
    const Clusters clusters = MakeClusters(world->graph, world->devices, placement, plan.fusion);
    fused += static_cast<int>(clusters.members.size());
    Simulator simulator(world->graph, world->devices, world->legality, world->op_us);
    simulator.SetClusters(&clusters);
    ASSERT_EQ(simulator.Run(placement).unfinished, 0) << "graph " << seed;
    const auto out = Rewrite(world->item.graph, world->problem, plan, {});
    ASSERT_TRUE(out.ok()) << out.status();
    // The rewritten graph has no cycle either, or it could not be read.
    ASSERT_TRUE(OpGraph::Create(MakeItem(*out), false).ok()) << "graph " << seed;
  }
  EXPECT_GT(fused, 200);
}

TEST(Fuse, ComputesTheSame) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const GraphDef def = RandomGraph(40, seed, LocalDevice("CPU", 0));
    const auto world = OnCpus(def, 4);
    Plan plan;
    plan.device = seed % 2 == 0 ? world->legality.incoming : RandomLegal(world->problem, seed);
    plan.fusion = Fuse(world->problem, plan.device, {FusionScope::kAll, kManySteps});
    const auto out = Rewrite(def, world->problem, plan, {});
    ASSERT_TRUE(out.ok()) << out.status();
    std::vector<std::string> fetches;
    for (int i = 30; i < 40; ++i) fetches.push_back(absl::StrCat("n", i));
    const auto plain = Evaluate(def, fetches), compiled = Evaluate(*out, fetches);
    ASSERT_EQ(plain.size(), compiled.size());
    for (size_t k = 0; k < plain.size(); ++k) {
      const auto a = plain[k].flat<float>(), b = compiled[k].flat<float>();
      for (int64_t i = 0; i < plain[k].NumElements(); ++i) {
        ASSERT_NEAR(a(i), b(i), 1e-4 * std::max(1.0f, std::abs(a(i)))) << fetches[k];
      }
    }
  }
}

TEST(CheckFusion, NamesWhatIsWrong) {
  const auto world = OnCpus(Chain());
  std::vector<int32_t> fusion(world->graph.num_nodes(), -1);
  fusion[world->graph.Find("a")] = fusion[world->graph.Find("d")] = 5;
  EXPECT_THAT(Words(CheckFusion(world->problem, world->legality.incoming, fusion)),
              AllOf(HasSubstr("cluster 5"), HasSubstr("'a'"), HasSubstr("makes itself")));
  GraphDef def;
  AddOp(def, "arg", "_Arg", {}, LocalDevice("CPU", 0));
  AddOp(def, "a", "Tanh", {"arg"}, LocalDevice("CPU", 0));  // Of unknown shape.
  const auto unknown = OnCpus(def);
  fusion.assign(2, -1);
  fusion[unknown->graph.Find("a")] = 0;
  EXPECT_THAT(Words(CheckFusion(unknown->problem, unknown->legality.incoming, fusion)),
              AllOf(HasSubstr("'a'"), HasSubstr("XLA")));
}

TEST(Compilable, NotWhatXlaDoesDifferently) {
  const std::string cpu = LocalDevice("CPU", 0);
  GraphDef def;
  AddMatrix(def, "x", 8, 8, cpu);
  AddOp(def, "plain", "Tanh", {"x"}, cpu);
  auto& shape = AddOp(def, "shape", "Const", {}, cpu);
  (*shape.mutable_attr())["dtype"].set_type(tensorflow::DT_INT32);
  auto* value = (*shape.mutable_attr())["value"].mutable_tensor();
  value->set_dtype(tensorflow::DT_INT32);
  value->mutable_tensor_shape()->add_dim()->set_size(2);
  value->add_int_val(4);
  value->add_int_val(4);
  auto& seed = AddOp(def, "seed", "Const", {}, cpu);
  seed = shape;
  seed.set_name("seed");
  auto& random = AddOp(def, "random", "StatelessRandomUniform", {"shape", "seed"}, cpu);
  (*random.mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  (*random.mutable_attr())["Tseed"].set_type(tensorflow::DT_INT32);
  (*random.mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  auto& divided = AddOp(def, "divided", "FloorDiv", {"shape", "seed"}, cpu);
  (*divided.mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  const auto world = OnCpus(def);
  const std::vector<bool> compilable = Compilable(world->problem, world->legality.incoming);
  EXPECT_TRUE(compilable[world->graph.Find("plain")]);
  EXPECT_FALSE(compilable[world->graph.Find("random")]);
  EXPECT_FALSE(compilable[world->graph.Find("divided")]);
  EXPECT_FALSE(compilable[world->graph.Find("x")]);
}

// A matrix product with bias and activation, as TensorFlow's remapper writes it.
tensorflow::NodeDef FusedProduct(const std::vector<std::string>& steps) {
  tensorflow::NodeDef node;
  node.set_name("fused");
  node.set_op("_FusedMatMul");
  for (const char* input : {"x", "y", "bias", "^x"}) node.add_input(input);
  auto& attr = *node.mutable_attr();
  attr["T"].set_type(tensorflow::DT_FLOAT);
  attr["num_args"].set_i(1);
  attr["transpose_b"].set_b(true);
  attr["epsilon"].set_f(0.0001f);
  for (const std::string& step : steps) attr["fused_ops"].mutable_list()->add_s(step);
  node.set_device(LocalDevice("CPU", 0));
  return node;
}

TEST(Unfused, ComputesTheSame) {
  for (const std::vector<std::string>& steps :
       {std::vector<std::string>{"BiasAdd"}, {"BiasAdd", "Relu"}, {"BiasAdd", "Tanh"}}) {
    GraphDef def;
    AddMatrix(def, "x", 4, 8, LocalDevice("CPU", 0));
    AddMatrix(def, "y", 6, 8, LocalDevice("CPU", 0));
    auto& bias = AddMatrix(def, "bias", 1, 6, LocalDevice("CPU", 0));
    auto* shape = (*bias.mutable_attr())["value"].mutable_tensor()->mutable_tensor_shape();
    shape->mutable_dim()->DeleteSubrange(0, 1);
    GraphDef apart = def;
    *def.add_node() = FusedProduct(steps);
    for (const auto& part : Unfused(FusedProduct(steps))) *apart.add_node() = part;
    EXPECT_EQ(apart.node_size(), 3 + 1 + static_cast<int>(steps.size()));
    const auto a = Evaluate(def, {"fused"}), b = Evaluate(apart, {"fused"});
    ASSERT_EQ(a.size(), 1u);
    ASSERT_EQ(b.size(), 1u);
    for (int64_t i = 0; i < a[0].NumElements(); ++i) {
      EXPECT_NEAR(a[0].flat<float>()(i), b[0].flat<float>()(i), 1e-5);
    }
  }
}

TEST(Unfused, LeavesWhatItDoesNotKnow) {
  EXPECT_TRUE(Unfused(FusedProduct({"BiasAdd", "GeluExact"})).empty());
  EXPECT_TRUE(Unfused(FusedProduct({"FusedBatchNorm"})).empty());
  EXPECT_TRUE(Unfused(FusedProduct({})).empty());
  tensorflow::NodeDef other = FusedProduct({"BiasAdd"});
  other.set_op("_FusedConv2D");
  EXPECT_TRUE(Unfused(other).empty());
}

}  // namespace
}  // namespace grappler_go
