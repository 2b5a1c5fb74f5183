// SPDX-License-Identifier: Apache-2.0
// Deviations of the engine from its rows, requested by the family's
// configuration: faults that a bound must detect, and the storage type for
// which P is rounded while the tensors are f32. None by default.
#ifndef QKVET_IMPL_CONTROLS_SEEDED_H_
#define QKVET_IMPL_CONTROLS_SEEDED_H_

#include <cstdint>
#include <optional>

#include "impl/call/half.h"

namespace qkvet::impl {

enum class Seeded : uint8_t {
  kScale,          // off by 2^-10 of itself
  kLostKey,        // the last one, of rows that see two or more
  kRoundedP,       // to bf16 or f16, undeclared
  kTruncatedP,     // truncated instead of rounded
  kTruncatedSums,  // the same of sums in half
  kRoundedTile,    // the accumulators of o rounded to the storage per tile
  kRoundedTotal,   // so is the denominator
  kOldBlocks,      // of 4 products, without a further bit
  kShortBlocks,    // ten bits below f32
  kSoftcapOrder,   // the other value of the dialect
  kSinkInLse       // the same
};

struct Deviation {
  uint32_t seeded = 0;  // bit n: Seeded number n
  std::optional<Storage> storage;

  bool has(Seeded fault) const {
    return (seeded >> static_cast<uint32_t>(fault) & 1U) != 0;
  }
};

Deviation deviation();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_SEEDED_H_
