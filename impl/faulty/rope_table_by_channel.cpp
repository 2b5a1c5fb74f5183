// SPDX-License-Identifier: Apache-2.0
// faulty/rope_table_by_channel: tables of half the width are read by channel.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ByChannel : PlainTurn {
  static int64_t column(int64_t n, int64_t pairs) { return 2 * n % pairs; }
};

struct RopeTableByChannel : OptionSeams {
  using QueryTurn = ByChannel;
  using KeyTurn = ByChannel;
};

constexpr const char* kKilledBy[] = {"rope_turns_pairs_of_channels",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "pair n is turned by column 2n of the tables, modulo their width",
    .symptom =
        "right for two channels; wider heads are turned by the wrong "
        "frequencies, every other one of which is never used",
    .cause =
        "tables that hold an angle a pair are indexed as if they held one a "
        "channel",
    .fix = "index them by the pair",
    .source = "microsoft/onnxruntime#26390",
    .trigger =
        "a rotation of more than two channels, and keys apart from the query",
    .killed_by = kKilledBy,
    .when =
        "rope && d > 2 && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rope_table_by_channel =
    option_fault<RopeTableByChannel, QKVET_OPTION_ROPE>(
        "faulty/rope_table_by_channel", &kFault,
        {"impl/faulty/rope_table_by_channel.cpp", __LINE__});

}  // namespace qkvet::impl
