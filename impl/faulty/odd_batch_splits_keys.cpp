// SPDX-License-Identifier: Apache-2.0
// faulty/odd_batch_splits_keys: the size of a batch picks the algorithm of its
// last member.
#include "impl/faulty/option_rows.h"
#include "impl/faulty/split_seams.h"

namespace qkvet::impl {
namespace {

// Both are right, and differ in the last bits.
template <class Seams>
struct RowsByBatch : OptionRows<Seams> {
  using typename OptionRows<Seams>::Memory;

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    const bool left_over = call.batch % 2 == 1 && at.b == call.batch - 1;
    if (call.batch < 2 || !left_over) {
      OptionRows<Seams>::row(call, at, memory);
      return;
    }
    SplitRows<SplitSeams>::Memory split = {memory->weights, memory->max};
    SplitRows<SplitSeams>::row(call, at, &split);
  }
};

constexpr qkvet_capabilities kClaimsSameBits = [] {
  qkvet_capabilities c = kF32With<0>;
  c.flags |= QKVET_FLAG_BATCH_INVARIANT;
  return c;
}();

constexpr const char* kKilledBy[] = {"permuted_members_permute_output",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "members are computed two at a time, and the last one of an odd batch "
        "with its keys in two parts",
    .symptom =
        "the bits of a request depend on how many others are in its batch, "
        "though the kernel says that they do not",
    .cause =
        "the size of a launch picks the algorithm, and algorithms add up in "
        "different orders",
    .fix =
        "let only the shape of a member decide how it is computed, or do not "
        "claim the same bits",
    .source = "pegainfer-project/pegainfer#613",
    .trigger = "an odd number of members, three or more, and two keys",
    .killed_by = kKilledBy,
    .when = "B > 2 && B % 2 == 1 && Tk > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_odd_batch_splits_keys =
    with_fault(plain_kernel("faulty/odd_batch_splits_keys", kFault.mechanism,
                            {"impl/faulty/odd_batch_splits_keys.cpp", __LINE__},
                            &kSplitSeamsPrecision,
                            OptionsKernel<OptionSeams, RowsByBatch>::forward,
                            &kClaimsSameBits),
               &kFault) /*OddBatchSplitsKeys*/;

}  // namespace qkvet::impl
