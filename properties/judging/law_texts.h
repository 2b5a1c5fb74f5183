// SPDX-License-Identifier: Apache-2.0
// Texts that several laws have in common: why rounding cannot break them, and
// why they are kept.
#ifndef QKVET_PROPERTIES_JUDGING_LAW_TEXTS_H_
#define QKVET_PROPERTIES_JUDGING_LAW_TEXTS_H_

namespace qkvet::properties {

inline constexpr const char* kNeverBitwise =
    "Each side is within its own bound of the same number; never bitwise.";
inline constexpr const char* kRowsSeeTheSame =
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.";
inline constexpr const char* kLayoutInvariant =
    "Bit for bit where the kernel declares that the layout changes nothing, "
    "all tensors aligned alike; else each side is within its own bound of the "
    "same number.";
inline constexpr const char* kBatchInvariant =
    "Bit for bit where the kernel declares batch_invariant, and in pages "
    "page_placement_invariant; else each side within its own bound.";
inline constexpr const char* kSameOperations =
    "The same operations on the same numbers give the same bits.";

inline constexpr const char* kOwnArguments =
    "A call has no other arguments than its own.";

inline constexpr const char* kPathAgainstPath =
    "(c) it sets one path of a kernel against another";
inline constexpr const char* kPathsWithoutOracle =
    "(c) it sets one path of a kernel against another, (d) it needs no oracle";
inline constexpr const char* kBitwiseIfClaimed =
    "(a) it is bitwise where that is claimed, (d) it needs no oracle";
inline constexpr const char* kWrongAlike =
    "(d) it needs no oracle: it kills what oracle and kernel get wrong alike";

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_LAW_TEXTS_H_
