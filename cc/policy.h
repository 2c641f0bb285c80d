// Runs a trained policy, a SavedModel, on the features of a graph.
#ifndef GRAPPLER_GO_CC_POLICY_H_
#define GRAPPLER_GO_CC_POLICY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/features.h"
#include "cc/heuristics.h"
#include "tensorflow/cc/saved_model/loader.h"

namespace grappler_go {

// The scores of a policy: logits[node * devices + device], higher = rather there.
class Policy {
 public:
  // Loads the SavedModel at `directory`, once a process (again when its files change). Refuses one
  // whose feature table is not ours, naming the first difference.
  static absl::StatusOr<std::shared_ptr<const Policy>> Load(const std::string& directory);

  // Errors: the run fails, or the scores have another shape or are not finite.
  absl::StatusOr<std::vector<float>> Score(const Problem& problem) const;

 private:
  tensorflow::SavedModelBundle bundle_;
  std::string directory_;
};

// Draws `samples` legal placements from the scores: the first takes the best device for each group,
// the others are sampled at temperatures that rise to 1. Deterministic by `seed`. A group's score
// is the mean of its ops'.
std::vector<Placement> Sample(const Problem& problem, const std::vector<float>& logits, int samples,
                              uint64_t seed);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_POLICY_H_
