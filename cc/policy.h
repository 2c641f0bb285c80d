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

// What is decided as one, by level: the block of each node, numbered from 0 by first node. Level 0
// has the colocation groups; each next one joins those that are dear to part (see blocks.h), down
// to a few blocks. Groups that the search leaves alone are blocks of their own on every level.
std::vector<std::vector<int32_t>> DecisionBlocks(const Problem& problem);

// Draws `samples` legal placements from the scores, each by the blocks of one level: a block's
// score is the mean of its ops'. Ops scored one by one are sure to be cut somewhere; the scores of
// a block say where all of it should be. The first takes the best device for each group; then come
// the best for the blocks of each level in turn, then draws at temperatures that rise to 1 over
// further turns. Groups that may not go where their block goes take the best of what they may.
// Deterministic by `seed`.
std::vector<Placement> Sample(const Problem& problem, const std::vector<float>& logits, int samples,
                              uint64_t seed);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_POLICY_H_
