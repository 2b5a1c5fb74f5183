// SPDX-License-Identifier: Apache-2.0
// Deliberate faults in the two references of a gradient, one hook each: as many
// in plain_backward as in twin_backward.
#ifndef QKVET_REFERENCE_SEEDED_SEEDED_GRADIENT_H_
#define QKVET_REFERENCE_SEEDED_SEEDED_GRADIENT_H_

#include <cstdint>
#include <string_view>

#include "reference/gradient/gradient.h"

namespace qkvet::reference {

enum class SeededGradientFault : uint8_t {
  kPlainDeltaMissing,      // dS = p dP: the softmax's sum may change
  kPlainKeyScaleMissing,   // dk lacks the scale
  kPlainHeadModulo,        // query head h reads kv head h mod Hkv
  kPlainMaskIgnored,       // every mask element attends
  kPlainCapSlopeLost,      // the cap is differentiated as the identity
  kPlainLastRowKept,       // a row replaces what others added to a key
  kPlainSinkOfKeys,        // the sink's share against the keys alone
  kPlainNotTurnedBack,     // dq and dk are those of the rotated q and k
  kTwinQueryScaleMissing,  // dq lacks the scale
  kTwinMomentNotRescaled,  // a new maximum leaves the moments as they are
  kTwinSinkSignLost,       // dsink = sum p_z D
  kTwinLastRowDropped,     // row Tq - 1 adds nothing to the keys
  kTwinHeadsInterleaved,   // members of a group are Hkv heads apart
  kTwinOffsetOutsideCap,   // dbias as if the bias were added after the cap
  kTwinSlopeNotSquared,    // the cap's derivative is 1 / cosh
  kTwinTurnedForth,        // half of dk is turned the wrong way
};
inline constexpr int kSeededGradientFaultCount = 16;

// "plain_delta_missing", ...
std::string_view seeded_gradient_fault_name(SeededGradientFault fault);

// Whether the fault is in plain_backward (else in twin_backward).
bool seeded_in_plain(SeededGradientFault fault);

// The reference that holds the fault, with it.
GradientOutput seeded_backward(SeededGradientFault fault,
                               const GradientProblem& problem);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_SEEDED_SEEDED_GRADIENT_H_
