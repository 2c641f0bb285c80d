#include "cc/report.h"

#include <unistd.h>

#include <atomic>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cc/critical_chain.h"
#include "cc/json.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"

namespace grappler_go {
namespace {

// Appends the items of a JSON list, each as `write` puts it.
template <typename Write>
void AppendList(int n, std::string& out, const Write& write) {
  out += '[';
  for (int i = 0; i < n; ++i) {
    if (i > 0) out += ',';
    write(i);
  }
  out += ']';
}

}  // namespace

std::string ReportJson(const Problem& problem, const Choice& choice,
                       const tensorflow::grappler::GrapplerItem& item) {
  const OpGraph& graph = *problem.graph;
  const DeviceSet& devices = *problem.devices;
  Simulator simulator(graph, devices, *problem.legality, problem.op_us);
  Timeline before, after;
  simulator.Run(problem.legality->incoming, {}, &before);
  const Clusters clusters = MakeClusters(graph, devices, choice.plan.device, choice.plan.fusion);
  simulator.SetClusters(&clusters);
  simulator.Run(choice.plan.device, choice.plan.priority, &after);
  std::vector<int> ops_per_device(devices.size(), 0);
  for (const int8_t device : choice.plan.device) ++ops_per_device[device];
  std::vector<std::string> feeds;
  for (const auto& [name, value] : item.feed) feeds.push_back(name);
  const auto names = [](const std::vector<std::string>& list) {
    std::string text;
    AppendList(static_cast<int>(list.size()), text, [&](int i) { text += JsonQuote(list[i]); });
    return text;
  };
  std::string out = absl::StrFormat(
      "{\"version\":%d,\"graph\":%s,\"fetch\":%s,\"feed\":%s,\"source\":%s,\"applied\":%s,"
      "\"reason\":%s,"
      "\"incoming_step_us\":%.3f,\"predicted_step_us\":%.3f,\"lower_bound_us\":%.3f,\"devices\":",
      kPlanVersion, JsonQuote(item.id), names(item.fetch), names(feeds),
      JsonQuote(choice.plan.source), choice.applied ? "true" : "false", JsonQuote(choice.reason),
      choice.incoming.step_us, choice.predicted.step_us, choice.bound.us());
  AppendList(devices.size(), out, [&](int d) { out += JsonQuote(devices.device(d).name); });
  out += ",\"ops_per_device\":";
  AppendList(devices.size(), out, [&](int d) { absl::StrAppend(&out, ops_per_device[d]); });
  out += ",\"peak_bytes\":";
  AppendList(devices.size(), out,
             [&](int d) { absl::StrAppendFormat(&out, "%.0f", choice.predicted.peak_bytes[d]); });
  out += ",\"candidates\":";
  AppendList(static_cast<int>(choice.candidates.size()), out, [&](int c) {
    const CandidateResult& candidate = choice.candidates[c];
    absl::StrAppendFormat(&out, "{\"source\":%s,\"tried\":%d,\"step_us\":%.3f,\"feasible\":%s}",
                          JsonQuote(candidate.source), candidate.tried, candidate.step_us,
                          candidate.feasible ? "true" : "false");
  });
  out += ",\n\"nodes\":";
  AppendList(graph.num_nodes(), out, [&](int i) {
    absl::StrAppendFormat(
        &out,
        "\n{\"name\":%s,\"op\":%s,\"device\":%d,\"fusion\":%d,\"priority\":%d,\"rule\":%s,"
        "\"incoming_device\":%d,\"start_us\":%.3f,\"end_us\":%.3f,\"incoming_start_us\":%.3f,"
        "\"incoming_end_us\":%.3f}",
        JsonQuote(graph.name(i)), JsonQuote(graph.op(i)), choice.plan.device[i],
        choice.plan.fusion_of(i), choice.plan.priority_of(i),
        JsonQuote(RuleName(problem.legality->rule[i])), problem.legality->incoming[i],
        after.start_us[i], after.end_us[i], before.start_us[i], before.end_us[i]);
  });
  const std::vector<ChainLink> chain = CriticalChain(problem, choice.plan.device, after);
  out += ",\n\"critical_path\":";
  AppendList(static_cast<int>(chain.size()), out, [&](int k) {
    absl::StrAppendFormat(&out, "{\"node\":%d,\"us\":%.3f}", chain[k].node, chain[k].us);
  });
  out += ",\n\"transfers\":";
  AppendList(static_cast<int>(after.transfers.size()), out, [&](int t) {
    const TransferEvent& transfer = after.transfers[t];
    absl::StrAppendFormat(
        &out,
        "\n{\"name\":%s,\"source\":%d,\"target\":%d,\"bytes\":%.0f,\"start_us\":%.3f,"
        "\"end_us\":%.3f}",
        JsonQuote(graph.name(graph.tensor_node[transfer.tensor])), transfer.source, transfer.target,
        graph.tensor_bytes[transfer.tensor], transfer.start_us, transfer.end_us);
  });
  out += "}\n";
  return out;
}

absl::Status WriteReport(const std::string& directory, absl::string_view graph_id,
                         const std::string& json, const tensorflow::GraphDef* graph) {
  static std::atomic<int> count{0};
  tensorflow::Env* env = tensorflow::Env::Default();
  const auto checked = [&](const absl::Status& status) {
    return status.ok()
               ? status
               : absl::Status(status.code(), absl::StrCat("cannot write a report to '", directory,
                                                          "': ", status.message()));
  };
  absl::Status status = env->RecursivelyCreateDir(directory);
  if (!status.ok()) return checked(status);
  std::string name;
  for (const char c : graph_id.substr(0, 80)) {
    name += absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  }
  const std::string stem = tensorflow::io::JoinPath(
      directory, absl::StrCat(name, ".", getpid(), ".", count.fetch_add(1)));
  const auto write = [&](const std::string& path, const std::string& content) {
    const std::string aside = absl::StrCat(path, ".tmp");
    const absl::Status written = tensorflow::WriteStringToFile(env, aside, content);
    return written.ok() ? env->RenameFile(aside, path) : written;
  };
  if (graph != nullptr) {
    status = write(absl::StrCat(stem, ".pb"), graph->SerializeAsString());
    if (!status.ok()) return checked(status);
  }
  return checked(write(absl::StrCat(stem, ".json"), json));
}

}  // namespace grappler_go
