#include "cc/device_set.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/json.h"

namespace grappler_go {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;
using tensorflow::DeviceNameUtils;

constexpr absl::string_view kWhat = "device profile";
constexpr int kMaxThreads = 64;

// One core of a current server processor, and a P100 at the fraction of its peak that dense layers
// reach (9.3 TFLOP/s, 732 GB/s, 16 GiB on its data sheet). A calibrated profile replaces both.
Device BuiltInDevice(absl::string_view type) {
  Device device;
  device.type = std::string(type);
  if (type == "GPU") {
    device.matmul_gflops = 7000;
    device.elementwise_gops = 200;
    device.memory_gb_per_s = 500;
    device.launch_us = 6;
    device.xla_launch_us = 15;
    device.xla_compile_us = 150e3;
    device.xla_compile_us_per_op = 6e3;
  } else {
    device.matmul_gflops = 60;
    device.elementwise_gops = 2;
    device.memory_gb_per_s = 8;
    device.launch_us = 6;
    device.threads = 4;
    device.xla_launch_us = 30;
    device.xla_compile_us = 60e3;
    device.xla_compile_us_per_op = 4e3;
  }
  return device;
}

Link MakeLink(double latency_us, double gb_per_s, double busy_us, double busy_gb_per_s) {
  return {latency_us, 1e-3 / gb_per_s, busy_us, busy_gb_per_s > 0 ? 1e-3 / busy_gb_per_s : 0};
}

// Within a process: host memory is shared, a GPU sits behind PCIe. Between processes: loopback or a
// data-centre network through gRPC, which copies on the processor.
Link BuiltInLink(const Device& source, const Device& target) {
  if (source.task != target.task) return MakeLink(400, 1.5, 100, 3);
  if (source.type == "CPU" && target.type == "CPU") return MakeLink(2, 1000, 1, 0);
  return MakeLink(20, 10, 0, 0);
}

absl::Status CheckKeys(const Struct& object, std::initializer_list<absl::string_view> known,
                       absl::string_view what) {
  for (const auto& [key, value] : object.fields()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat(what, ": unknown field '", key, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDevice(const Value& value, absl::string_view what, Device& device) {
  if (value.kind_case() != Value::kStructValue) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is not an object"));
  }
  const Struct& fields = value.struct_value();
  absl::Status status = CheckKeys(
      fields,
      {"matmul_gflops", "elementwise_gops", "memory_gb_per_s", "launch_us", "memory_bytes",
       "threads", "cores", "xla_launch_us", "xla_compile_us", "xla_compile_us_per_op"},
      what);
  if (!status.ok()) return status;
  const std::pair<const char*, double*> rates[] = {{"matmul_gflops", &device.matmul_gflops},
                                                   {"elementwise_gops", &device.elementwise_gops},
                                                   {"memory_gb_per_s", &device.memory_gb_per_s},
                                                   {"cores", &device.cores}};
  for (const auto& [name, value] : rates) {
    const absl::StatusOr<double> number = NumberField(fields, name, *value, 1e-6, what);
    if (!number.ok()) return number.status();
    *value = *number;
  }
  for (const auto& [name, value] :
       {std::pair<const char*, double*>{"launch_us", &device.launch_us},
        std::pair<const char*, double*>{"memory_bytes", &device.memory_bytes},
        std::pair<const char*, double*>{"xla_launch_us", &device.xla_launch_us},
        std::pair<const char*, double*>{"xla_compile_us", &device.xla_compile_us},
        std::pair<const char*, double*>{"xla_compile_us_per_op", &device.xla_compile_us_per_op}}) {
    const absl::StatusOr<double> number = NumberField(fields, name, *value, 0, what);
    if (!number.ok()) return number.status();
    *value = *number;
  }
  const absl::StatusOr<double> threads = NumberField(fields, "threads", device.threads, 1, what);
  if (!threads.ok()) return threads.status();
  if (*threads != std::floor(*threads) || *threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field 'threads' is ", *threads,
                                                   ", must be a whole number up to ", kMaxThreads));
  }
  device.threads = static_cast<int>(*threads);
  return absl::OkStatus();
}

struct LinkRule {
  std::string source, target, scope;
  Link link;
};

absl::StatusOr<LinkRule> ReadLink(const Value& value, absl::string_view what) {
  if (value.kind_case() != Value::kStructValue) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is not an object"));
  }
  const Struct& fields = value.struct_value();
  const absl::Status status = CheckKeys(fields,
                                        {"source", "target", "scope", "latency_us", "gb_per_s",
                                         "busy_us", "busy_gb_per_s", "wake_us"},
                                        what);
  if (!status.ok()) return status;
  LinkRule rule;
  for (const auto& [name, text] : {std::pair<const char*, std::string*>{"source", &rule.source},
                                   std::pair<const char*, std::string*>{"target", &rule.target},
                                   std::pair<const char*, std::string*>{"scope", &rule.scope}}) {
    const absl::StatusOr<std::string> read = StringField(fields, name, "", what);
    if (!read.ok()) return read.status();
    *text = *read;
  }
  for (const auto& [name, type] :
       {std::pair<const char*, const std::string*>{"source", &rule.source},
        std::pair<const char*, const std::string*>{"target", &rule.target}}) {
    if (*type != "CPU" && *type != "GPU") {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": field '", name, "' is '", *type, "', must be CPU or GPU"));
    }
  }
  if (rule.scope != "local" && rule.scope != "remote") {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": field 'scope' is '", rule.scope, "', must be 'local' or 'remote'"));
  }
  const absl::StatusOr<double> latency = NumberField(fields, "latency_us", 0, 0, what);
  const absl::StatusOr<double> rate = NumberField(fields, "gb_per_s", 1, 1e-6, what);
  const absl::StatusOr<double> busy = NumberField(fields, "busy_us", 0, 0, what);
  const absl::StatusOr<double> busy_rate = NumberField(fields, "busy_gb_per_s", 0, 0, what);
  const absl::StatusOr<double> wake = NumberField(fields, "wake_us", 0, 0, what);
  for (const auto* number : {&latency, &rate, &busy, &busy_rate, &wake}) {
    if (!number->ok()) return number->status();
  }
  rule.link = MakeLink(*latency, *rate, *busy, *busy_rate);
  rule.link.wake_us = *wake;
  return rule;
}

struct Profile {
  std::map<std::string, Device> devices;  // By type.
  std::vector<LinkRule> links;
};

absl::StatusOr<Profile> ReadProfile(absl::string_view json) {
  Profile profile;
  for (const char* type : {"CPU", "GPU"}) profile.devices[type] = BuiltInDevice(type);
  if (json.empty()) return profile;
  const absl::StatusOr<Struct> object = ParseJsonObject(json, kWhat);
  if (!object.ok()) return object.status();
  absl::Status status = CheckKeys(
      *object, {"version", "name", "source", "notes", "layout", "devices", "links"}, kWhat);
  if (!status.ok()) return status;
  const absl::StatusOr<double> version = NumberField(*object, "version", 0, 0, kWhat);
  if (!version.ok()) return version.status();
  if (*version != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhat, ": field 'version' is ", *version, ", this library reads 1"));
  }
  const auto devices = object->fields().find("devices");
  if (devices != object->fields().end()) {
    if (devices->second.kind_case() != Value::kStructValue) {
      return absl::InvalidArgumentError(absl::StrCat(kWhat, ": field 'devices' is not an object"));
    }
    for (const auto& [type, value] : devices->second.struct_value().fields()) {
      const auto known = profile.devices.find(type);
      if (known == profile.devices.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(kWhat, ": field 'devices' names type '", type, "', must be CPU or GPU"));
      }
      status = ReadDevice(value, absl::StrCat(kWhat, ": devices.", type), known->second);
      if (!status.ok()) return status;
    }
  }
  const auto links = object->fields().find("links");
  if (links != object->fields().end()) {
    if (links->second.kind_case() != Value::kListValue) {
      return absl::InvalidArgumentError(absl::StrCat(kWhat, ": field 'links' is not a list"));
    }
    int index = 0;
    for (const Value& value : links->second.list_value().values()) {
      absl::StatusOr<LinkRule> rule =
          ReadLink(value, absl::StrCat(kWhat, ": links[", index++, "]"));
      if (!rule.ok()) return rule.status();
      profile.links.push_back(*std::move(rule));
    }
  }
  return profile;
}

auto SortKey(const DeviceNameUtils::ParsedName& name) {
  return std::make_tuple(name.job, name.replica, name.task, name.type, name.id);
}

}  // namespace

absl::StatusOr<DeviceSet> DeviceSet::Create(const std::vector<std::string>& names,
                                            absl::string_view profile_json) {
  const absl::StatusOr<Profile> profile = ReadProfile(profile_json);
  if (!profile.ok()) return profile.status();
  DeviceSet set;
  for (const std::string& name : names) {
    DeviceNameUtils::ParsedName parsed;
    if (!DeviceNameUtils::ParseFullName(name, &parsed) || !parsed.has_type || !parsed.has_id) {
      return absl::InvalidArgumentError(absl::StrCat("device name '", name, "' is not complete"));
    }
    if (parsed.type == "CPU" || parsed.type == "GPU") set.parsed_.push_back(parsed);
  }
  std::sort(set.parsed_.begin(), set.parsed_.end(),
            [](const auto& a, const auto& b) { return SortKey(a) < SortKey(b); });
  set.parsed_.erase(
      std::unique(set.parsed_.begin(), set.parsed_.end(),
                  [](const auto& a, const auto& b) { return SortKey(a) == SortKey(b); }),
      set.parsed_.end());
  const int size = static_cast<int>(set.parsed_.size());
  if (size == 0) return absl::InvalidArgumentError("no CPU or GPU among the devices");
  if (size > kMaxDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat(size, " devices are more than the ", kMaxDevices, " that a plan can use"));
  }
  std::map<std::string, int> tasks;
  std::map<std::string, int> executors;
  for (const auto& parsed : set.parsed_) {
    Device device = profile->devices.at(parsed.type);
    device.name = DeviceNameUtils::ParsedNameToString(parsed);
    const std::string task = absl::StrCat(parsed.job, "/", parsed.replica, "/", parsed.task);
    device.task = tasks.emplace(task, static_cast<int>(tasks.size())).first->second;
    const std::string executor = parsed.type == "CPU" ? absl::StrCat(task, "/CPU") : device.name;
    device.executor = executors.emplace(executor, static_cast<int>(executors.size())).first->second;
    set.index_[device.name] = static_cast<int>(set.devices_.size());
    set.devices_.push_back(std::move(device));
  }
  set.num_executors_ = static_cast<int>(executors.size());
  set.links_.resize(size * size);
  for (int s = 0; s < size; ++s) {
    for (int t = 0; t < size; ++t) {
      if (s == t) continue;
      const Device& source = set.devices_[s];
      const Device& target = set.devices_[t];
      Link& link = set.links_[s * size + t];
      link = BuiltInLink(source, target);
      const char* scope = source.task == target.task ? "local" : "remote";
      for (const LinkRule& rule : profile->links) {
        if (rule.source == source.type && rule.target == target.type && rule.scope == scope) {
          link = rule.link;
        }
      }
    }
  }
  return set;
}

void DeviceSet::SetMemoryLimit(int device, double bytes) {
  if (devices_[device].memory_bytes <= 0) devices_[device].memory_bytes = bytes;
}

int DeviceSet::Find(absl::string_view name) const {
  const auto exact = index_.find(name);
  if (exact != index_.end()) return exact->second;
  DeviceNameUtils::ParsedName parsed;
  if (name.empty() || !DeviceNameUtils::ParseFullName(name, &parsed)) return -1;
  const auto canonical = index_.find(DeviceNameUtils::ParsedNameToString(parsed));
  return canonical == index_.end() ? -1 : canonical->second;
}

absl::StatusOr<DeviceMask> DeviceSet::Matching(absl::string_view spec) const {
  DeviceNameUtils::ParsedName parsed;
  if (!DeviceNameUtils::ParseFullName(spec, &parsed) &&
      !DeviceNameUtils::ParseLocalName(spec, &parsed)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot parse the device '", spec, "'"));
  }
  DeviceMask mask = 0;
  for (int d = 0; d < size(); ++d) {
    if (DeviceNameUtils::IsSpecification(parsed, parsed_[d])) mask |= DeviceBit(d);
  }
  return mask;
}

int DeviceSet::DefaultDevice(DeviceMask allowed) const {
  int best = -1;
  for (int d = 0; d < size(); ++d) {
    if (!(allowed & DeviceBit(d))) continue;
    if (best < 0) best = d;
    if (devices_[d].task == devices_[best].task && devices_[d].type == "GPU" &&
        devices_[best].type != "GPU") {
      best = d;
    }
  }
  return best;
}

}  // namespace grappler_go
