#include "cc/options.h"

#include <dlfcn.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"

namespace grappler_go {
namespace {

using tensorflow::AttrValue;

absl::Status Wrong(absl::string_view field, absl::string_view value, absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat("grappler_go: option '", field, "' is '", value, "', must be ", want));
}

// A value in words, for messages.
std::string Text(const AttrValue& value) {
  switch (value.value_case()) {
    case AttrValue::kB:
      return value.b() ? "true" : "false";
    case AttrValue::kI:
      return absl::StrCat(value.i());
    case AttrValue::kF:
      return absl::StrCat(value.f());
    case AttrValue::kS:
      return value.s();
    default:
      return "of another type";
  }
}

absl::Status ReadBool(const std::string& field, const AttrValue& value, bool& out) {
  if (value.value_case() != AttrValue::kB) {
    return Wrong(field, Text(value), "true or false");
  }
  out = value.b();
  return absl::OkStatus();
}

template <typename Int>
absl::Status ReadInt(const std::string& field, const AttrValue& value, int64_t low, int64_t high,
                     Int& out) {
  if (value.value_case() != AttrValue::kI || value.i() < low || value.i() > high) {
    return Wrong(field, Text(value), absl::StrCat("an integer in ", low, "..", high));
  }
  out = static_cast<Int>(value.i());
  return absl::OkStatus();
}

absl::Status ReadShare(const std::string& field, const AttrValue& value, double& out) {
  if (value.value_case() != AttrValue::kF || !(value.f() >= 0 && value.f() < 1)) {
    return Wrong(field, Text(value), "a number in [0, 1)");
  }
  out = value.f();
  return absl::OkStatus();
}

absl::Status ReadString(const std::string& field, const AttrValue& value, std::string& out) {
  if (value.value_case() != AttrValue::kS) {
    return Wrong(field, Text(value), "a string");
  }
  out = value.s();
  return absl::OkStatus();
}

absl::Status ReadNames(const std::string& field, const AttrValue& value,
                       std::initializer_list<absl::string_view> known,
                       std::vector<std::string>& out) {
  std::string text;
  const absl::Status status = ReadString(field, value, text);
  if (!status.ok()) return status;
  std::vector<std::string> names = absl::StrSplit(text, ',', absl::SkipWhitespace());
  for (const std::string& name : names) {
    if (!absl::c_linear_search(known, name)) {
      return Wrong(field, name, absl::StrCat("out of ", absl::StrJoin(known, ", ")));
    }
  }
  if (names.empty()) return Wrong(field, text, absl::StrCat("out of ", absl::StrJoin(known, ", ")));
  out = std::move(names);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ReadOptions(const ParameterMap& parameters) {
  Options o;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 2000;
  using Reader = std::function<absl::Status(const std::string&, const AttrValue&)>;
  const std::map<std::string, Reader> readers = {
      {"candidates",
       [&](auto& f, auto& v) {
         return ReadNames(f, v,
                          {"policy", "critical_path", "m_etf", "heft", "celeritas", "m_topo",
                           "single_device", "random"},
                          o.candidates);
       }},
      {"tasks",
       [&](auto& f, auto& v) {
         return ReadNames(f, v, {"placement", "scheduling", "fusion"}, o.tasks);
       }},
      {"keep_default", [&](auto& f, auto& v) { return ReadBool(f, v, o.keep_default); }},
      {"margin", [&](auto& f, auto& v) { return ReadShare(f, v, o.margin); }},
      {"samples", [&](auto& f, auto& v) { return ReadInt(f, v, 1, 4096, o.samples); }},
      {"expected_steps",
       [&](auto& f, auto& v) { return ReadInt(f, v, 1, int64_t{1} << 40, o.expected_steps); }},
      {"search", [&](auto& f, auto& v) { return ReadInt(f, v, -1, 1 << 30, o.search); }},
      {"seed", [&](auto& f, auto& v) { return ReadInt(f, v, 0, kMax, o.seed); }},
      {"policy", [&](auto& f, auto& v) { return ReadString(f, v, o.policy); }},
      {"profile", [&](auto& f, auto& v) { return ReadString(f, v, o.profile); }},
      {"costs", [&](auto& f, auto& v) { return ReadString(f, v, o.costs); }},
      {"override_user_devices",
       [&](auto& f, auto& v) { return ReadBool(f, v, o.override_user_devices); }},
      {"move_state", [&](auto& f, auto& v) { return ReadBool(f, v, o.move_state); }},
      {"fail_on_error", [&](auto& f, auto& v) { return ReadBool(f, v, o.fail_on_error); }},
      {"optimize_timeout_ms",
       [&](auto& f, auto& v) { return ReadInt(f, v, 0, kMax, o.optimize_timeout_ms); }},
      {"report", [&](auto& f, auto& v) { return ReadString(f, v, o.report); }},
      {"save_graphs", [&](auto& f, auto& v) { return ReadBool(f, v, o.save_graphs); }},
      {"plan", [&](auto& f, auto& v) { return ReadString(f, v, o.plan); }},
  };
  for (const auto& [field, value] : parameters) {
    const auto reader = readers.find(field);
    if (reader == readers.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "grappler_go: unknown option '", field, "'; known are ",
          absl::StrJoin(readers, ", ",
                        [](std::string* out, const auto& entry) { out->append(entry.first); })));
    }
    const absl::Status status = reader->second(field, value);
    if (!status.ok()) return status;
  }
  return o;
}

std::string PolicyDirectory(const Options& options) {
  if (options.policy == "none") return "";
  if (!options.policy.empty()) return options.policy;
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&PolicyDirectory), &info) == 0) return "";
  const std::string library(info.dli_fname);
  const std::string shipped = tensorflow::io::CleanPath(
      tensorflow::io::JoinPath(tensorflow::io::Dirname(library), "..", "policy"));
  const bool exists = tensorflow::Env::Default()
                          ->FileExists(tensorflow::io::JoinPath(shipped, "saved_model.pb"))
                          .ok();
  return exists ? shipped : "";
}

}  // namespace grappler_go
