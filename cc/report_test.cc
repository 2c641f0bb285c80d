#include "cc/report.h"

#include "cc/json.h"
#include "cc/plan.h"
#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::google::protobuf::Struct;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ReportJson, SaysWhatWasChosen) {
  const auto world = MakeWorld(MakeItem(TwoChains(2, 2, WorkerCpu(0))), WorkerCpus(2));
  world->SetBytes("left1", 1000);
  world->item.id = "a \"graph\"";
  world->item.fetch = {"left2", "right2"};
  world->item.feed.emplace_back("x:0", tensorflow::Tensor());
  Options options;
  options.policy = "none";
  options.candidates = {"random", "m_etf"};
  options.keep_default = false;
  options.search = 0;
  const auto choice = Choose(world->problem, options, 0);
  ASSERT_TRUE(choice.ok()) << choice.status();
  const auto object = ParseJsonObject(ReportJson(world->problem, *choice, world->item), "report");
  ASSERT_TRUE(object.ok()) << object.status();
  const auto& fields = object->fields();
  EXPECT_EQ(fields.at("version").number_value(), kPlanVersion);
  EXPECT_EQ(fields.at("graph").string_value(), "a \"graph\"");
  EXPECT_EQ(fields.at("source").string_value(), choice->plan.source);
  EXPECT_EQ(fields.at("fetch").list_value().values(1).string_value(), "right2");
  EXPECT_EQ(fields.at("feed").list_value().values(0).string_value(), "x:0");
  EXPECT_TRUE(fields.at("applied").bool_value());
  EXPECT_EQ(fields.at("reason").string_value(), choice->reason);
  EXPECT_NEAR(fields.at("incoming_step_us").number_value(), choice->incoming.step_us, 1e-3);
  EXPECT_NEAR(fields.at("predicted_step_us").number_value(), choice->predicted.step_us, 1e-3);
  EXPECT_NEAR(fields.at("lower_bound_us").number_value(), choice->bound.us(), 1e-3);
  EXPECT_EQ(fields.at("devices").list_value().values(1).string_value(), WorkerCpu(1));
  double ops = 0;
  for (const auto& count : fields.at("ops_per_device").list_value().values()) {
    ops += count.number_value();
  }
  EXPECT_EQ(ops, world->graph.num_nodes());
  EXPECT_THAT(fields.at("peak_bytes").list_value().values(), SizeIs(2));
  EXPECT_EQ(fields.at("candidates")
                .list_value()
                .values(0)
                .struct_value()
                .fields()
                .at("tried")
                .number_value(),
            16);

  Timeline timeline;
  Simulator(world->graph, world->devices, world->legality, world->op_us)
      .Run(choice->plan.device, {}, &timeline);
  const auto& nodes = fields.at("nodes").list_value();
  ASSERT_EQ(nodes.values_size(), world->graph.num_nodes());
  for (int i = 0; i < nodes.values_size(); ++i) {
    const auto& node = nodes.values(i).struct_value().fields();
    EXPECT_EQ(node.at("name").string_value(), world->graph.name(i));
    EXPECT_EQ(node.at("op").string_value(), world->graph.op(i));
    EXPECT_EQ(node.at("device").number_value(), choice->plan.device[i]);
    EXPECT_EQ(node.at("fusion").number_value(), -1);
    EXPECT_EQ(node.at("incoming_device").number_value(), 0);
    EXPECT_EQ(node.at("rule").string_value(), "free");
    EXPECT_NEAR(node.at("start_us").number_value(), timeline.start_us[i], 1e-3);
    EXPECT_NEAR(node.at("end_us").number_value(), timeline.end_us[i], 1e-3);
    EXPECT_LE(node.at("incoming_start_us").number_value(),
              node.at("incoming_end_us").number_value());
  }
  EXPECT_EQ(fields.at("transfers").list_value().values_size(),
            static_cast<int>(timeline.transfers.size()));
}

TEST(WriteReport, MakesANewFileForEachReport) {
  const std::string folder = NewFolder() + "/deeper/still";
  ASSERT_TRUE(WriteReport(folder, "main/graph: 1", "{}", nullptr).ok());
  ASSERT_TRUE(WriteReport(folder, "main/graph: 1", "{}", nullptr).ok());
  ASSERT_TRUE(WriteReport(folder, std::string(500, 'x'), "{}", nullptr).ok());
  std::vector<std::string> files;
  ASSERT_TRUE(tensorflow::Env::Default()->GetChildren(folder, &files).ok());
  EXPECT_THAT(files, SizeIs(3));
  for (const std::string& file : files) {
    EXPECT_TRUE(absl::EndsWith(file, ".json")) << file;
    EXPECT_TRUE(absl::StartsWith(file, "main_graph__1.") || absl::StartsWith(file, "xxx")) << file;
    EXPECT_TRUE(ReadJsonFile(folder + "/" + file, "report").ok());
  }
}

TEST(WriteReport, SavesTheGraphBesideIt) {
  const std::string folder = NewFolder();
  const auto item = MakeItem(TwoChains(2, 2, WorkerCpu(0)));
  ASSERT_TRUE(WriteReport(folder, "g", "{}", &item.graph).ok());
  std::vector<std::string> files;
  ASSERT_TRUE(tensorflow::Env::Default()->GetChildren(folder, &files).ok());
  ASSERT_THAT(files, SizeIs(2));
  std::sort(files.begin(), files.end());
  EXPECT_EQ(absl::StripSuffix(files[0], ".json"), absl::StripSuffix(files[1], ".pb"));
  tensorflow::GraphDef read;
  ASSERT_TRUE(
      tensorflow::ReadBinaryProto(tensorflow::Env::Default(), folder + "/" + files[1], &read).ok());
  EXPECT_EQ(read.DebugString(), item.graph.DebugString());
}

TEST(WriteReport, AFolderThatCannotBeIsAnError) {
  const std::string file = WriteFile(NewFolder(), "file", "");
  const absl::Status status = WriteReport(file + "/folder", "g", "{}", nullptr);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(Words(status), HasSubstr("cannot write a report to '" + file + "/folder'"));
}

}  // namespace
}  // namespace grappler_go
