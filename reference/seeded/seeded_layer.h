// SPDX-License-Identifier: Apache-2.0
// Deliberate faults in the two references of projections and layers, one hook
// each, as in seeded.h.
#ifndef QKVET_REFERENCE_SEEDED_SEEDED_LAYER_H_
#define QKVET_REFERENCE_SEEDED_SEEDED_LAYER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "reference/layer/layer.h"

namespace qkvet::reference {

enum class SeededLayerFault : uint8_t {
  kPlainBiasIgnored,        // y = x W
  kPlainTransposed,         // W^T where W is square
  kPlainSplitReshaped,      // heads are cut from the rows without a transpose
  kPlainMergeReshaped,      // heads are put into the rows without a transpose
  kPlainSecondNotTurned,    // the second channel of a pair lacks its sine
  kTwinLastInputDropped,    // the last row of W is never read
  kTwinBiasShifted,         // every column has its neighbour's bias
  kTwinColumnsInterleaved,  // head h owns the columns h, h + heads, ...
  kTwinKeysForValues,       // v = x W_K, where W_K has the shape of W_V
  kTwinTokensAtFirst,       // all tokens have the position of the first
};
inline constexpr int kSeededLayerFaultCount = 10;

// "plain_bias_ignored", ...
std::string_view seeded_layer_name(SeededLayerFault fault);

// Whether the fault is in the definition (else in the twin).
bool seeded_in_plain(SeededLayerFault fault);

// Whether a single projection shows the fault; the others need a layer.
bool seeded_in_projection(SeededLayerFault fault);

// The reference that holds the fault, with it.
std::vector<double> seeded_linear(SeededLayerFault fault,
                                  const LinearProblem& problem);
LayerOutput seeded_layer(SeededLayerFault fault, const LayerProblem& problem);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_SEEDED_SEEDED_LAYER_H_
