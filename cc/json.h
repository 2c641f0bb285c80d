// Reading and writing JSON through protobuf's own parser, with errors that name the field and the
// value.
#ifndef GRAPPLER_GO_CC_JSON_H_
#define GRAPPLER_GO_CC_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/struct.pb.h"

namespace grappler_go {

// Parses a JSON object. `what` names the document in the error ("device profile").
absl::StatusOr<google::protobuf::Struct> ParseJsonObject(absl::string_view text,
                                                         absl::string_view what);

// Reads the file at `path` and parses it as a JSON object.
absl::StatusOr<google::protobuf::Struct> ReadJsonFile(const std::string& path,
                                                      absl::string_view what);

// Returns field `name` as a number, `fallback` where it is absent; an error where it is no number,
// not finite, or below `minimum`.
absl::StatusOr<double> NumberField(const google::protobuf::Struct& object, const std::string& name,
                                   double fallback, double minimum, absl::string_view what);

// Returns field `name` as a string, `fallback` where it is absent; an error where it is no string.
absl::StatusOr<std::string> StringField(const google::protobuf::Struct& object,
                                        const std::string& name, const std::string& fallback,
                                        absl::string_view what);

// Quotes `text` as a JSON string, the quotation marks included.
std::string JsonQuote(absl::string_view text);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_JSON_H_
