#include "cc/json.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/json/json.h"
#include "tensorflow/core/platform/env.h"

namespace grappler_go {

using google::protobuf::Struct;
using google::protobuf::Value;

absl::StatusOr<Struct> ParseJsonObject(absl::string_view text, absl::string_view what) {
  Struct object;
  const auto status = google::protobuf::json::JsonStringToMessage(text, &object);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is not a JSON object: ", status.message()));
  }
  return object;
}

absl::StatusOr<Struct> ReadJsonFile(const std::string& path, absl::string_view what) {
  std::string text;
  const absl::Status status = tensorflow::ReadFileToString(tensorflow::Env::Default(), path, &text);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("cannot read ", what, " '", path, "': ", status.message()));
  }
  return ParseJsonObject(text, absl::StrCat(what, " '", path, "'"));
}

absl::StatusOr<double> NumberField(const Struct& object, const std::string& name, double fallback,
                                   double minimum, absl::string_view what) {
  const auto it = object.fields().find(name);
  if (it == object.fields().end()) return fallback;
  if (it->second.kind_case() != Value::kNumberValue) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field '", name, "' is not a number"));
  }
  const double value = it->second.number_value();
  if (!std::isfinite(value) || value < minimum) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field '", name, "' is ", value,
                                                   ", must be finite and at least ", minimum));
  }
  return value;
}

absl::StatusOr<std::string> StringField(const Struct& object, const std::string& name,
                                        const std::string& fallback, absl::string_view what) {
  const auto it = object.fields().find(name);
  if (it == object.fields().end()) return fallback;
  if (it->second.kind_case() != Value::kStringValue) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": field '", name, "' is not a string"));
  }
  return it->second.string_value();
}

std::string JsonQuote(absl::string_view text) {
  std::string out = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  out += '"';
  return out;
}

}  // namespace grappler_go
