#include "cc/device_set.h"

#include "cc/test_util.h"

namespace grappler_go {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

DeviceSet Make(const std::vector<std::string>& names, const std::string& profile = "") {
  const absl::StatusOr<DeviceSet> set = DeviceSet::Create(names, profile);
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *set : DeviceSet();
}

const char* const kTwoTasks[] = {
    "/job:worker/replica:0/task:1/device:GPU:0", "/job:worker/replica:0/task:1/device:CPU:0",
    "/job:worker/replica:0/task:0/device:GPU:1", "/job:worker/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:0/device:GPU:0"};

DeviceSet TwoTasks() { return Make({std::begin(kTwoTasks), std::end(kTwoTasks)}); }

TEST(DeviceSet, HasACanonicalOrder) {
  const DeviceSet set = TwoTasks();
  ASSERT_EQ(set.size(), 5);
  const char* const want[] = {
      "/job:worker/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:GPU:0",
      "/job:worker/replica:0/task:0/device:GPU:1", "/job:worker/replica:0/task:1/device:CPU:0",
      "/job:worker/replica:0/task:1/device:GPU:0"};
  for (int d = 0; d < 5; ++d) EXPECT_EQ(set.device(d).name, want[d]);
  EXPECT_EQ(set.device(2).task, 0);
  EXPECT_EQ(set.device(4).task, 1);
  // Numbers are numbers: task 10 comes after task 2.
  const DeviceSet many = Make({WorkerCpu(10), WorkerCpu(2)});
  EXPECT_EQ(many.device(0).name, WorkerCpu(2));
}

TEST(DeviceSet, CpusOfATaskShareAnExecutor) {
  const DeviceSet set = Make({LocalDevice("CPU", 0), LocalDevice("CPU", 1), LocalDevice("GPU", 0),
                              LocalDevice("GPU", 1), WorkerCpu(0)});
  EXPECT_EQ(set.num_executors(), 4);
  EXPECT_EQ(set.device(0).executor, set.device(1).executor);
  EXPECT_NE(set.device(2).executor, set.device(3).executor);
  EXPECT_NE(set.device(0).executor, set.device(4).executor);
}

TEST(DeviceSet, LeavesOutOtherTypesAndDuplicates) {
  const DeviceSet set = Make({LocalDevice("CPU", 0), LocalDevice("XLA_CPU", 0),
                              LocalDevice("TPU", 0), LocalDevice("CPU", 0)});
  EXPECT_EQ(set.size(), 1);
}

TEST(DeviceSet, RefusesWhatItCannotUse) {
  EXPECT_THAT(Words(DeviceSet::Create({}, "")), HasSubstr("no CPU or GPU"));
  EXPECT_THAT(Words(DeviceSet::Create({LocalDevice("TPU", 0)}, "")), HasSubstr("no CPU or GPU"));
  for (const char* name : {"nonsense", "/job:worker/task:0", "/device:CPU:*"}) {
    EXPECT_THAT(Words(DeviceSet::Create({name}, "")), HasSubstr(name));
  }
  EXPECT_EQ(Make(WorkerCpus(64)).size(), 64);
  EXPECT_THAT(Words(DeviceSet::Create(WorkerCpus(65), "")),
              AllOf(HasSubstr("65"), HasSubstr("64")));
}

TEST(DeviceSet, FindsAllSpellings) {
  const DeviceSet set = TwoTasks();
  EXPECT_EQ(set.Find("/job:worker/replica:0/task:1/device:GPU:0"), 4);
  EXPECT_EQ(set.Find("/job:worker/replica:0/task:1/gpu:0"), 4);
  EXPECT_EQ(set.Find("/job:worker/replica:0/task:2/device:GPU:0"), -1);
  EXPECT_EQ(set.Find("/device:GPU:0"), -1);
  EXPECT_EQ(set.Find(""), -1);
  EXPECT_EQ(set.Find("nonsense"), -1);
}

TEST(DeviceSet, MatchesSpecifications) {
  const DeviceSet set = TwoTasks();
  const std::pair<const char*, DeviceMask> cases[] = {{"", 0b11111},
                                                      {"/job:worker", 0b11111},
                                                      {"/job:worker/task:1", 0b11000},
                                                      {"/device:GPU:*", 0b10110},
                                                      {"/cpu:0", 0b01001},
                                                      {"/device:GPU:1", 0b00100},
                                                      {"/job:ps", 0},
                                                      {"/device:CPU:3", 0},
                                                      {"/task:0/device:GPU:0", 0b00010}};
  for (const auto& [spec, mask] : cases) {
    const absl::StatusOr<DeviceMask> got = set.Matching(spec);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, mask) << spec;
  }
  EXPECT_THAT(Words(set.Matching("/no such/thing")), HasSubstr("/no such/thing"));
}

TEST(DeviceSet, DefaultIsTheFirstGpuOfTheFirstTask) {
  const DeviceSet set = TwoTasks();
  EXPECT_EQ(set.DefaultDevice(0b11111), 1);
  EXPECT_EQ(set.DefaultDevice(0b10001), 0);  // The only GPU is in another task.
  EXPECT_EQ(set.DefaultDevice(0b11000), 4);
  EXPECT_EQ(set.DefaultDevice(0), -1);
}

TEST(DeviceSet, SetsMemoryOnlyWhereTheProfileHasNone) {
  DeviceSet set = Make({LocalDevice("CPU", 0), LocalDevice("GPU", 0)},
                       R"({"version":1,"devices":{"GPU":{"memory_bytes":100}}})");
  set.SetMemoryLimit(0, 5);
  set.SetMemoryLimit(1, 5);
  EXPECT_EQ(set.device(0).memory_bytes, 5);
  EXPECT_EQ(set.device(1).memory_bytes, 100);
}

TEST(Profile, OverridesFieldByField) {
  const DeviceSet plain = Make({LocalDevice("CPU", 0)});
  const DeviceSet set =
      Make({LocalDevice("CPU", 0)},
           R"({"version":1,"name":"x","devices":{"CPU":{"launch_us":3,"matmul_gflops":9}}})");
  EXPECT_EQ(set.device(0).launch_us, 3);
  EXPECT_EQ(set.device(0).matmul_gflops, 9);
  EXPECT_EQ(set.device(0).memory_gb_per_s, plain.device(0).memory_gb_per_s);
  EXPECT_GT(plain.device(0).launch_us, 0);
}

TEST(Profile, LinksByTypeAndScope) {
  const DeviceSet set =
      Make({LocalDevice("CPU", 0), LocalDevice("CPU", 1), WorkerCpu(0)},
           R"({"version":1,"links":[{"source":"CPU","target":"CPU","scope":"remote",
                             "latency_us":7,"gb_per_s":2,"busy_us":3,"busy_gb_per_s":4}]})");
  const Link& remote = set.link(0, 2);
  EXPECT_EQ(remote.latency_us, 7);
  EXPECT_DOUBLE_EQ(remote.us_per_byte, 1e-3 / 2);  // 2 GB/s are 2000 bytes a microsecond.
  EXPECT_EQ(remote.busy_us, 3);
  EXPECT_DOUBLE_EQ(remote.busy_us_per_byte, 1e-3 / 4);
  EXPECT_NE(set.link(0, 1).latency_us, 7);
  EXPECT_EQ(set.link(0, 0).latency_us, 0);
}

TEST(Profile, ErrorsNameFieldAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "device profile"},
      {"{}", "'version' is 0"},
      {R"({"version":2})", "'version' is 2"},
      {R"({"version":"1"})", "'version' is not a number"},
      {R"({"version":1,"colour":3})", "unknown field 'colour'"},
      {R"({"version":1,"devices":3})", "'devices'"},
      {R"({"version":1,"devices":{"CPU":3}})", "devices.CPU"},
      {R"({"version":1,"devices":{"TPU":{}}})", "'TPU'"},
      {R"({"version":1,"devices":{"CPU":{"speed":1}}})", "devices.CPU: unknown field 'speed'"},
      {R"({"version":1,"devices":{"CPU":{"launch_us":-1}}})", "'launch_us' is -1"},
      {R"({"version":1,"devices":{"CPU":{"memory_bytes":-1}}})", "'memory_bytes' is -1"},
      {R"({"version":1,"devices":{"CPU":{"matmul_gflops":0}}})", "'matmul_gflops' is 0"},
      {R"({"version":1,"devices":{"GPU":{"memory_gb_per_s":"x"}}})", "devices.GPU"},
      {R"({"version":1,"devices":{"GPU":{"elementwise_gops":true}}})", "'elementwise_gops'"},
      {R"({"version":1,"links":{}})", "'links'"},
      {R"({"version":1,"links":[3]})", "links[0] is not an object"},
      {R"({"version":1,"links":[{"source":"CPU","target":"GPU","scope":"near"}]})",
       "'scope' is 'near'"},
      {R"({"version":1,"links":[{"source":"TPU","target":"CPU","scope":"local"}]})", "'TPU'"},
      {R"({"version":1,"links":[{"source":"CPU","scope":"local"}]})", "'target' is ''"},
      {R"({"version":1,"links":[{"source":1}]})", "'source' is not a string"},
      {R"({"version":1,"links":[{"speed":1}]})", "links[0]: unknown field 'speed'"},
  };
  for (const auto& [profile, words] : cases) {
    const absl::StatusOr<DeviceSet> set = DeviceSet::Create({LocalDevice("CPU", 0)}, profile);
    EXPECT_FALSE(set.ok()) << profile;
    EXPECT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument) << profile;
    EXPECT_THAT(Words(set), HasSubstr(words)) << profile;
  }
  for (const char* field : {"latency_us", "gb_per_s", "busy_us", "busy_gb_per_s"}) {
    const std::string profile =
        absl::StrCat(R"({"version":1,"links":[{"source":"CPU","target":"CPU","scope":"local",")",
                     field, R"(":-1}]})");
    EXPECT_THAT(Words(DeviceSet::Create({LocalDevice("CPU", 0)}, profile)),
                AllOf(HasSubstr("links[0]"), HasSubstr(field), HasSubstr("-1")));
  }
}

}  // namespace
}  // namespace grappler_go
