// SPDX-License-Identifier: Apache-2.0
// Deliberate faults in the two references, one hook each. They prove that the
// comparison of the references would see a fault in either of them.
#ifndef QKVET_REFERENCE_SEEDED_SEEDED_H_
#define QKVET_REFERENCE_SEEDED_SEEDED_H_

#include <cstdint>
#include <string_view>

#include "reference/arithmetic/oracle.h"
#include "reference/options/dropout.h"

namespace qkvet::reference {

enum class SeededFault : uint8_t {
  kPlainStrictDiagonal,   // a query does not see the key at its own position
  kPlainTopLeft,          // bottom_right aligned as top_left
  kPlainHeadModulo,       // query head h reads kv head h mod Hkv
  kPlainLastKeyDropped,   // key Tk - 1 is never seen, unless it is the only one
  kPlainScaleFromDv,      // sqrt(dv) where sqrt(d) belongs
  kPlainShiftFromZero,    // the shift is never below 0: all weights underflow
  kPlainWindowShort,      // the window ends one key early on the left
  kPlainMaskOfOnes,       // only mask elements that are 1 attend
  kPlainAlibiSigned,      // the distance of ALiBi keeps its sign
  kPlainSinkLost,         // a sink raises the maximum, not the denominator
  kPlainPairsSwapped,     // channels are paired as in the other style
  kPlainSecondNotTurned,  // the second channel of a pair lacks its sine
  kPlainSlopesOfFirst,    // all members have the slopes of the first one
  kPlainListRestCounts,   // all entries of a list count, whatever its length
  kPlainBottomRight,      // top_left aligned as bottom_right
  kPlainScaleIgnored,     // a given scale is not used
  kPlainCapNotScaled,     // tanh(s / T), without the factor T
  kPlainQueriesPadded,    // the diagonal begins at Tq, regardless of q_len
  kPlainEmptyRowZero,     // a row without a key has the output 0
  kPlainPaddingAttends,   // segments below 0 see one another
  kPlainRangeClosed,      // a range contains its end
  kPlainChunkTowards0,    // positions before the first key are in chunk 0
  kPlainSiblingsSeen,     // every draft is seen
  kPlainLastPairLost,     // of some channels, the last pair is not turned
  kTwinSumNotRescaled,    // a new maximum leaves the sum as it is
  kTwinValueNotRescaled,  // a new maximum leaves the values as they are
  kTwinSeriesTruncated,   // three terms of the exponential series
  kTwinLn2Short,          // the low word of ln 2 lost, the high one in single
  kTwinDiagonalTooFar,    // bottom_right shows one key too many
  kTwinHeadsInterleaved,  // members of a group are Hkv heads apart
  kTwinCapLast,           // biases are capped, too
  kTwinWindowTopLeft,     // windows are counted from i where Tq < Tk
  kTwinLengthIgnored,     // the diagonal ends at Tk, regardless of kv_len
  kTwinMemberTooWide,     // a packed member begins one key early
  kTwinTurnedBack,        // pairs are turned the other way
  kTwinUnturnedLost,      // channels that are not turned are left out
  kTwinKeyOfFirstMember,  // keys have the positions of member 0
  kTwinSlopesOneApart,    // slopes of members begin one number apart, not H
  kTwinListModulo,        // query head h has list h mod Hkv
  kTwinInfinityHides,     // a bias of -infinity does, with a cap after it too
  kTwinDefaultFromDv,     // an absent scale is 1/sqrt(dv)
  kTwinBiasOfFirstHead,   // all heads have the bias of head 0
  kTwinLseInSingle,       // the logarithm is rounded to single
  kTwinWeightsUndivided,  // weights are exponentials
  kTwinEarlierSegments,   // rows see all segments up to their own
  kTwinRangeInWindow,     // the window cuts ranges in either dialect
  kTwinChunkSlides,       // a chunk ends at its row
  kTwinTreeTransposed,    // drafts see their descendants
};
inline constexpr int kSeededFaultCount = 48;

// "plain_strict_diagonal", ...
std::string_view seeded_fault_name(SeededFault fault);

// Whether the fault is in plain_forward (else in twin_forward).
bool seeded_in_plain(SeededFault fault);

// The reference that holds the fault, with it.
OracleOutput seeded_forward(SeededFault fault, const Problem& problem);

// The definition of dropout with a mistake of its own.
enum class SeededDropout : uint8_t {
  kNotScaled,     // kept weights stay as they are
  kMaskInverted,  // the mask is read the other way round
};
OracleOutput seeded_dropout(SeededDropout fault, const DropoutProblem& problem);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_SEEDED_SEEDED_H_
