// Which ops XLA can compile where they are, with the same results.
#ifndef GRAPPLER_GO_CC_COMPILABLE_H_
#define GRAPPLER_GO_CC_COMPILABLE_H_

#include <vector>

#include "cc/heuristics.h"

namespace grappler_go {

// Ops behind a Switch or in a loop, whose run depends on a condition: [nodes].
std::vector<bool> Conditional(const OpGraph& graph);

// Ops that may be in an XLA cluster on their device: [nodes]. XLA has a kernel for them on that
// device type, their shapes are known, what must be known when compiling is a constant, and they
// run in each step. Left out, too, is what XLA does differently: random draws, and what fails on
// bad input where XLA goes on, such as lookups by index and whole-number division. Constants are
// none of them: they go with their readers. TensorFlow's own fused products are, where `Unfused`
// can part them.
std::vector<bool> Compilable(const Problem& problem, const Placement& placement);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_COMPILABLE_H_
