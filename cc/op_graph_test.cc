#include "cc/op_graph.h"

#include "cc/features.h"
#include "cc/planner.h"
#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::tensorflow::GraphDef;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Error(const GraphDef& def) { return Words(OpGraph::Create(MakeItem(def))); }

std::vector<std::string> Names(const OpGraph& graph) {
  std::vector<std::string> names;
  for (int i = 0; i < graph.num_nodes(); ++i) names.push_back(graph.name(i));
  return names;
}

// The sources of a node's in-edges, in order.
std::vector<std::string> Sources(const OpGraph& graph, const std::string& name) {
  std::vector<std::string> sources;
  const int node = graph.Find(name);
  for (int e = graph.in_offsets[node]; e < graph.in_offsets[node + 1]; ++e) {
    sources.push_back(graph.name(graph.edge_source[e]));
  }
  return sources;
}

// i = 0; while (i < 10) i = i * i + x, as TensorFlow 1 writes it.
GraphDef WhileLoop() {
  GraphDef def;
  AddMatrix(def, "start", 1, 1);
  AddMatrix(def, "limit", 1, 1);
  auto& enter = AddOp(def, "enter", "Enter", {"start"});
  (*enter.mutable_attr())["frame_name"].set_s("loop");
  auto& enter_limit = AddOp(def, "enter_limit", "Enter", {"limit"});
  (*enter_limit.mutable_attr())["frame_name"].set_s("loop");
  AddOp(def, "merge", "Merge", {"enter", "next"});
  AddOp(def, "less", "Less", {"merge", "enter_limit"});
  AddOp(def, "cond", "LoopCond", {"less"});
  AddOp(def, "switch", "Switch", {"merge", "cond"});
  AddOp(def, "body", "Add", {"switch:1", "switch:1"});
  AddOp(def, "next", "NextIteration", {"body"});
  AddOp(def, "exit", "Exit", {"switch"});
  AddOp(def, "after", "Tanh", {"exit"});
  return def;
}

TEST(OpGraph, IsInTopologicalOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto item = MakeItem(RandomGraph(60, seed));
    const absl::StatusOr<OpGraph> graph = OpGraph::Create(item);
    ASSERT_TRUE(graph.ok()) << graph.status();
    ASSERT_EQ(graph->num_nodes(), 60);
    for (int e = 0; e < graph->num_edges(); ++e) {
      EXPECT_LT(graph->edge_source[e], graph->edge_target[e]);
      EXPECT_LT(graph->level[graph->edge_source[e]], graph->level[graph->edge_target[e]]);
      EXPECT_EQ(graph->tensor_node[graph->edge_tensor[e]], graph->edge_source[e]);
    }
    for (int i = 0; i < graph->num_nodes(); ++i) {
      EXPECT_EQ(graph->Find(graph->name(i)), i);
      EXPECT_EQ(item.graph.node(graph->graph_index[i]).name(), graph->name(i));
    }
    EXPECT_EQ(graph->use_offsets.back(), graph->num_edges());
  }
}

TEST(OpGraph, DoesNotDependOnTheOrderOfTheGraphDef) {
  GraphDef def = RandomGraph(80, 5, WorkerCpu(0));
  const auto item = MakeItem(def);
  const auto set = DeviceSet::Create(WorkerCpus(2), kRoundProfile);
  const auto context = PlanningContext::Create(item, *set, {}, "");
  ASSERT_TRUE(context.ok()) << context.status();
  const Problem& want = (*context)->problem();
  const Features want_features = ExtractFeatures(want);
  Options options;
  options.policy = "none";
  options.keep_default = false;
  options.search = 300;
  const auto want_choice = Choose(want, options, 0);
  ASSERT_TRUE(want_choice.ok()) << want_choice.status();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Shuffle(def, seed);
    const auto shuffled = MakeItem(def);
    const auto other = PlanningContext::Create(shuffled, *set, {}, "");
    ASSERT_TRUE(other.ok()) << other.status();
    const Problem& got = (*other)->problem();
    ASSERT_EQ(Names(*got.graph), Names(*want.graph));
    EXPECT_EQ(got.graph->edge_source, want.graph->edge_source);
    EXPECT_EQ(got.graph->edge_tensor, want.graph->edge_tensor);
    EXPECT_EQ(got.graph->tensor_bytes, want.graph->tensor_bytes);
    EXPECT_EQ(got.legality->group, want.legality->group);
    const Features features = ExtractFeatures(got);
    EXPECT_EQ(features.node, want_features.node);
    EXPECT_EQ(features.edge, want_features.edge);
    EXPECT_EQ(features.node_device, want_features.node_device);
    const auto choice = Choose(got, options, 0);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->plan.device, want_choice->plan.device);
    EXPECT_EQ(choice->plan.source, want_choice->plan.source);
  }
}

TEST(OpGraph, ErrorsNameTheNode) {
  GraphDef twice;
  AddMatrix(twice, "a", 2, 2);
  AddMatrix(twice, "a", 2, 2);
  EXPECT_EQ(Error(twice), "two nodes are named 'a'");

  GraphDef dangling;
  AddMatrix(dangling, "a", 2, 2);
  AddOp(dangling, "b", "Add", {"a", "gone:1"});
  EXPECT_THAT(Error(dangling), AllOf(HasSubstr("'b'"), HasSubstr("'gone:1'")));

  GraphDef dangling_control;
  AddMatrix(dangling_control, "a", 2, 2);
  AddOp(dangling_control, "b", "Tanh", {"a", "^gone"});
  EXPECT_THAT(Error(dangling_control), AllOf(HasSubstr("'b'"), HasSubstr("'^gone'")));

  GraphDef port;
  AddMatrix(port, "a", 2, 2);
  AddOp(port, "b", "Tanh", {"a:1"});
  EXPECT_THAT(Error(port), AllOf(HasSubstr("'b'"), HasSubstr("output 1 of 'a'"), HasSubstr("1")));

  GraphDef unknown_port;
  AddOp(unknown_port, "a", "NoSuchOp");
  AddOp(unknown_port, "b", "Tanh", {"a:1000000"});
  EXPECT_THAT(Error(unknown_port), AllOf(HasSubstr("'b'"), HasSubstr("'a'")));

  GraphDef cycle;
  AddOp(cycle, "behind", "Tanh", {"c"});
  AddOp(cycle, "root", "NoOp");
  AddOp(cycle, "a", "Tanh", {"c", "^root"});
  AddOp(cycle, "b", "Tanh", {"a"});
  AddOp(cycle, "c", "Tanh", {"b"});
  EXPECT_THAT(Error(cycle), ::testing::MatchesRegex(".*cycle at node '[abc]'"));

  GraphDef self;
  AddOp(self, "a", "NoOp", {"^a"});
  EXPECT_THAT(Error(self), HasSubstr("'a'"));
}

TEST(OpGraph, ControlEdgesAreASetAfterTheInputs) {
  GraphDef def;
  for (const char* name : {"x", "q", "p"}) AddMatrix(def, name, 2, 2);
  AddOp(def, "y", "Mul", {"x", "x", "^q", "^p", "^q"});
  const auto item = MakeItem(def);
  const auto graph = OpGraph::Create(item);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Sources(*graph, "y"), ElementsAre("x", "x", "p", "q"));
  const int e = graph->in_offsets[graph->Find("y")];
  EXPECT_EQ(graph->edge_kind[e + 1], EdgeKind::kData);
  EXPECT_EQ(graph->edge_kind[e + 2], EdgeKind::kControl);
  // The signal is a tensor of its own, without bytes, and only where somebody waits for it.
  EXPECT_EQ(graph->tensor_bytes[graph->edge_tensor[e + 2]], 0);
  const int q = graph->Find("q"), x = graph->Find("x");
  EXPECT_EQ(graph->tensor_offsets[q + 1] - graph->tensor_offsets[q], 2);
  EXPECT_EQ(graph->tensor_offsets[x + 1] - graph->tensor_offsets[x], 1);
}

TEST(OpGraph, LoopsAreOpenedAtTheirBackEdges) {
  const auto item = MakeItem(WhileLoop());
  const auto graph = OpGraph::Create(item);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Sources(*graph, "merge"), ElementsAre("enter"));
  ASSERT_EQ(graph->frame_parent.size(), 1u);
  for (const char* name :
       {"enter", "enter_limit", "merge", "less", "switch", "body", "next", "exit"}) {
    EXPECT_EQ(graph->frame[graph->Find(name)], 0) << name;
  }
  for (const char* name : {"start", "limit", "after"}) {
    EXPECT_EQ(graph->frame[graph->Find(name)], -1) << name;
  }
}

TEST(OpGraph, NestedLoopsHaveParents) {
  GraphDef def;
  AddMatrix(def, "x", 1, 1);
  (*AddOp(def, "outer", "Enter", {"x"}).mutable_attr())["frame_name"].set_s("outer");
  (*AddOp(def, "inner", "Enter", {"outer"}).mutable_attr())["frame_name"].set_s("inner");
  AddOp(def, "exit_inner", "Exit", {"inner"});
  AddOp(def, "between", "Tanh", {"exit_inner"});
  AddOp(def, "exit_outer", "Exit", {"between"});
  AddOp(def, "after", "Tanh", {"exit_outer"});
  const auto item = MakeItem(def);
  const auto graph = OpGraph::Create(item);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto frame = [&](const char* name) { return graph->frame[graph->Find(name)]; };
  ASSERT_EQ(graph->frame_parent.size(), 2u);
  EXPECT_EQ(graph->frame_parent[frame("inner")], frame("outer"));
  EXPECT_EQ(frame("between"), frame("outer"));
  EXPECT_EQ(frame("after"), -1);
  EXPECT_EQ(OutermostFrame(*graph, frame("inner")), frame("outer"));
  EXPECT_EQ(OutermostFrame(*graph, -1), -1);
}

TEST(OpGraph, BytesComeFromShapes) {
  GraphDef def;
  SetShape(AddOp(def, "x", "Placeholder"), {16, 8});
  SetShape(AddOp(def, "unknown", "Placeholder"), {-1, 8});
  AddMatrix(def, "w", 8, 4);
  AddOp(def, "y", "MatMul", {"x", "w"});
  auto& variable = AddOp(def, "v", "VarHandleOp");
  SetShape(variable, {100, 10});
  const auto item = MakeItem(def);
  const auto graph = OpGraph::Create(item);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto bytes = [&](const char* name) {
    return graph->tensor_bytes[graph->tensor_offsets[graph->Find(name)]];
  };
  EXPECT_EQ(bytes("x"), 16 * 8 * 4);
  EXPECT_EQ(bytes("w"), 8 * 4 * 4);
  EXPECT_EQ(bytes("y"), 16 * 4 * 4);
  EXPECT_EQ(bytes("unknown"), 32 * 8 * 4);  // An unknown dimension counts as 32.
  EXPECT_EQ(graph->num_unknown_shapes, 1);
  EXPECT_EQ(graph->persistent_bytes[graph->Find("v")], 100 * 10 * 4);
  EXPECT_EQ(graph->persistent_bytes[graph->Find("w")], 8 * 4 * 4);
  EXPECT_EQ(graph->persistent_bytes[graph->Find("y")], 0);
}

TEST(OpGraph, KnowsWhatOpsAre) {
  GraphDef def;
  AddMatrix(def, "const", 2, 2);
  AddOp(def, "arg", "_Arg");
  AddOp(def, "random", "RandomUniform", {"shape"});
  AddConst(def, "shape", tensorflow::Tensor(tensorflow::DT_INT32, tensorflow::TensorShape({1})));
  AddOp(def, "call", "PartitionedCall", {"const"});
  auto& call = *def.mutable_node(4);
  (*call.mutable_attr())["f"].mutable_func()->set_name("f");
  (*call.mutable_attr())["Tin"].mutable_list()->add_type(tensorflow::DT_FLOAT);
  (*call.mutable_attr())["Tout"].mutable_list()->add_type(tensorflow::DT_FLOAT);
  AddOp(def, "unknown", "NoSuchOp", {"const"});
  (*AddOp(def, "xla", "Tanh", {"const"}).mutable_attr())["_XlaCompile"].set_b(true);
  (*AddOp(def, "no_xla", "Tanh", {"const"}).mutable_attr())["_XlaCompile"].set_b(false);
  auto item = MakeItem(def, {"xla:0"});
  item.feed.emplace_back("no_xla:0", tensorflow::Tensor());
  const auto graph = OpGraph::Create(item);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto traits = [&](const char* name) { return graph->traits[graph->Find(name)]; };
  EXPECT_EQ(traits("const"), kConst);
  EXPECT_EQ(traits("arg"), kBoundary | kStateful);
  EXPECT_EQ(traits("random"), kStateful);
  EXPECT_EQ(traits("call"), kFunctionCall);
  EXPECT_EQ(traits("unknown"), kUnknownOp);
  EXPECT_EQ(traits("xla"), kXla | kFetch);
  EXPECT_EQ(traits("no_xla"), kFeed);
}

TEST(OpGraph, AnEmptyGraphIsFine) {
  const auto item = MakeItem(GraphDef());
  const auto graph = OpGraph::Create(item);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->num_nodes(), 0);
  EXPECT_EQ(graph->Find("x"), -1);
}

}  // namespace
}  // namespace grappler_go
