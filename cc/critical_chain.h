// What made a simulated step as long as it is: the ops that ended it, back to its start.
#ifndef GRAPPLER_GO_CC_CRITICAL_CHAIN_H_
#define GRAPPLER_GO_CC_CRITICAL_CHAIN_H_

#include <cstdint>
#include <vector>

#include "cc/heuristics.h"
#include "cc/simulator.h"

namespace grappler_go {

struct ChainLink {
  int32_t node;
  int32_t before;     // What it waited for last: the link before it, -1 at the start.
  bool for_device;    // It was ready, but `before` had the device.
  bool for_transfer;  // It waited for a tensor from `before`'s device.
  double us;          // From the end of `before` to its own end.
};

// From the step's end to its start: of what each op waited for, the one that came last, be it an
// input or the op that had the device. The links' times add up to the step. Ops of no time that
// wait for nothing but their inputs are links, too. `timeline` is that of `placement`.
std::vector<ChainLink> CriticalChain(const Problem& problem, const Placement& placement,
                                     const Timeline& timeline);

}  // namespace grappler_go

#endif  // GRAPPLER_GO_CC_CRITICAL_CHAIN_H_
