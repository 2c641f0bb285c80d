#include "cc/trip_count.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

template <typename T>
void Scalar(GraphDef& def, const std::string& name, T value) {
  tensorflow::Tensor tensor(tensorflow::DataTypeToEnum<T>::v(), {});
  tensor.scalar<T>()() = value;
  AddConst(def, name, tensor);
}

NodeDef& Enter(GraphDef& def, const std::string& name, const std::string& input,
               const std::string& frame) {
  NodeDef& node = AddOp(def, name, "Enter", {input});
  (*node.mutable_attr())["frame_name"].set_s(frame);
  return node;
}

// while (i < limit) { i += step; work }, as TensorFlow lowers it.
template <typename T>
GraphDef Loop(T start, T limit, T step, const std::string& comparison = "Less",
              const std::string& sum = "AddV2") {
  GraphDef def;
  Scalar(def, "start", start);
  Scalar(def, "limit", limit);
  Scalar(def, "step", step);
  Enter(def, "i", "start", "loop");
  Enter(def, "limit_in", "limit", "loop");
  Enter(def, "step_in", "step", "loop");
  AddOp(def, "merge", "Merge", {"i", "next"});
  AddOp(def, "compare", comparison, {"merge", "limit_in"});
  AddOp(def, "cond", "LoopCond", {"compare"});
  AddOp(def, "switch", "Switch", {"merge", "cond"});
  AddOp(def, "here", "Identity", {"switch:1"});
  AddOp(def, "body", sum, {"here", "step_in"});
  AddOp(def, "work", "Neg", {"here"});
  AddOp(def, "next", "NextIteration", {"body"});
  AddOp(def, "exit", "Exit", {"switch:0"});
  AddOp(def, "after", "Neg", {"exit"});
  return def;
}

double RunsOf(const GraphDef& def, const std::string& op) {
  const auto item = MakeItem(def);
  const auto graph = OpGraph::Create(item, false);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? RunsPerStep(*graph)[graph->Find(op)] : -1;
}

TEST(RunsPerStep, CountsLoops) {
  EXPECT_EQ(RunsOf(Loop<int32_t>(0, 10, 3), "work"), 4);  // 0, 3, 6, 9.
  EXPECT_EQ(RunsOf(Loop<int32_t>(0, 9, 3), "work"), 3);
  EXPECT_EQ(RunsOf(Loop<int64_t>(0, 9, 3, "LessEqual"), "work"), 4);
  EXPECT_EQ(RunsOf(Loop<float>(10, 0, -2.5f, "Greater"), "work"), 4);
  EXPECT_EQ(RunsOf(Loop<int32_t>(10, 1, 3, "GreaterEqual", "Sub"), "work"), 4);  // 10, 7, 4, 1.
  EXPECT_EQ(RunsOf(Loop<int32_t>(5, 5, 1), "work"), 0);
  EXPECT_EQ(RunsOf(Loop<int32_t>(0, 10, 3), "after"), 1);
  EXPECT_EQ(RunsOf(Loop<int32_t>(0, 10, 3), "start"), 1);
}

TEST(RunsPerStep, IsOneForWhatCannotBeCounted) {
  EXPECT_EQ(RunsOf(Loop<int32_t>(0, 10, -1), "work"), 1);  // Without end.
  EXPECT_EQ(RunsOf(Loop<int32_t>(0, 10, 0), "work"), 1);
  EXPECT_EQ(RunsOf(Loop<int32_t>(0, 2'000'000'000, 1), "work"), 1);  // Hardly meant.
  EXPECT_EQ(RunsOf(Loop<int32_t>(1, 100, 2, "Less", "Mul"), "work"), 1);
  GraphDef def = Loop<int32_t>(0, 10, 3);
  for (NodeDef& node : *def.mutable_node()) {
    if (node.name() != "limit") continue;
    node.clear_attr();
    node.set_op("Placeholder");
    (*node.mutable_attr())["dtype"].set_type(tensorflow::DT_INT32);
  }
  EXPECT_EQ(RunsOf(def, "work"), 1);
}

TEST(RunsPerStep, TheFirstConditionToFailCounts) {
  GraphDef def = Loop<int32_t>(0, 10, 1);
  Scalar<int32_t>(def, "sooner", 6);
  Enter(def, "sooner_in", "sooner", "loop");
  AddOp(def, "compare_too", "Less", {"merge", "sooner_in"});
  AddOp(def, "both", "LogicalAnd", {"compare", "compare_too"});
  for (NodeDef& node : *def.mutable_node()) {
    if (node.name() == "cond") node.set_input(0, "both");
  }
  EXPECT_EQ(RunsOf(def, "work"), 6);
}

TEST(RunsPerStep, LoopsInLoopsMultiply) {
  GraphDef def = Loop<int32_t>(0, 4, 1);
  // A loop of three in the body of the first.
  Scalar<int32_t>(def, "zero", 0);
  Scalar<int32_t>(def, "three", 3);
  Enter(def, "zero_in", "zero", "loop");
  Enter(def, "three_in", "three", "loop");
  Enter(def, "j", "zero_in", "inner");
  Enter(def, "three_inner", "three_in", "inner");
  Enter(def, "one_inner", "step_in", "inner");
  AddOp(def, "inner_merge", "Merge", {"j", "inner_next"});
  AddOp(def, "inner_less", "Less", {"inner_merge", "three_inner"});
  AddOp(def, "inner_cond", "LoopCond", {"inner_less"});
  AddOp(def, "inner_switch", "Switch", {"inner_merge", "inner_cond"});
  AddOp(def, "inner_body", "AddV2", {"inner_switch:1", "one_inner"});
  AddOp(def, "inner_next", "NextIteration", {"inner_body"});
  AddOp(def, "inner_exit", "Exit", {"inner_switch:0"});
  EXPECT_EQ(RunsOf(def, "inner_body"), 12);
  EXPECT_EQ(RunsOf(def, "work"), 4);
}

}  // namespace
}  // namespace grappler_go
