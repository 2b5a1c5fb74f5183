// SPDX-License-Identifier: Apache-2.0
// The weights of a kernel that does not return them, from its other outputs.
#ifndef QKVET_CLI_KERNELS_RECOVERED_WEIGHTS_H_
#define QKVET_CLI_KERNELS_RECOVERED_WEIGHTS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/door/executor.h"
#include "properties/checking/case_work.h"

namespace qkvet::cli {

struct RecoveredWeights {
  std::vector<double> weights;  // [H,Tq,Tk] of one member; empty: none
  std::string how;              // how they were found, or why they were not
  // For attention: its outputs compared with the oracle's, for the V of these
  // calls. For any kernel that failed in them: how.
  std::optional<Judgement> judgement;
};

// Calls that are made for one picture, at most.
inline constexpr int64_t kMostAsked = 64;

// Attention: with column c of V the unit vector of key j, o[.., c] is the
// weight of that key. A call yields dv keys.
RecoveredWeights ask_attention(const Case& value, const Inputs& inputs,
                               const JudgedKernel& kernel, Executor& executor,
                               int index, int64_t member);

// A layer: the member's x is the identity, the rows of W_Q and W_K are the
// case's q and k, those of W_V are unit vectors of keys, and the biases are 0;
// without stages W_O passes the heads through. Requires D >= T.
RecoveredWeights ask_layer(const Case& value, const Inputs& inputs,
                           const JudgedKernel& kernel, Executor& executor,
                           int index, int64_t member);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_KERNELS_RECOVERED_WEIGHTS_H_
