// SPDX-License-Identifier: Apache-2.0
// faulty/rope_last_pair_unturned: the last pair of channels is not rotated.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct OnePairLess : PlainTurn {
  static int64_t pairs(int64_t width) { return width / 2 - 1; }
};

struct LastPairUnturned : OptionSeams {
  using QueryTurn = OnePairLess;
  using KeyTurn = OnePairLess;
};

constexpr const char* kKilledBy[] = {"rope_turns_pairs_of_channels",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the last pair of channels is not rotated",
    .symptom = "small errors that grow with the distance of the keys",
    .cause =
        "a loop that ends at d/2 - 1, or a partial rotary dimension one short",
    .fix = "rotate all d/2 pairs",
    .source = "textbook",
    .trigger = "any rotation, and keys apart from the query",
    .killed_by = kKilledBy,
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rope_last_pair_unturned =
    option_fault<LastPairUnturned, QKVET_OPTION_ROPE>(
        "faulty/rope_last_pair_unturned", &kFault,
        {"impl/faulty/rope_last_pair_unturned.cpp", __LINE__});

}  // namespace qkvet::impl
