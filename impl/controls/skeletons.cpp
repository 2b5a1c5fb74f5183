// SPDX-License-Identifier: Apache-2.0
// The skeletons of the faulty kernels without a fault. If a law fails here, it
// fails because of the skeleton, and its verdicts on those faults prove
// nothing.
#include "impl/controls/control.h"
#include "impl/faulty/kernels.h"

namespace qkvet::impl {
namespace {

constexpr uint64_t kWithDropout = kAllOptions | kDropoutOptions;

// One mask for several members, or for several heads: as in the first of them,
// even if the call is a part of another.
template <bool kOfMember, bool kOfHead>
struct SharedMask : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    const Dropout& dropout = call.options.dropout;
    return dropout.keeps(kOfMember ? at.b : -dropout.b,
                         kOfHead ? at.h : -dropout.h, at.i, j);
  }
};
template <uint64_t kFlag>
constexpr qkvet_capabilities kDropoutFlagged = flagged(kF32With<kWithDropout>,
                                                       kFlag);
template <bool kOfMember, bool kOfHead, uint64_t kFlag>
constexpr qkvet_kernel kSharedMask =
    with(kOptionFault<SharedMask<kOfMember, kOfHead>>,
         &qkvet_kernel::capabilities, &kDropoutFlagged<kFlag>);

// The sum of a row passes through memory of the thread, shared by all contexts
// and calls.
struct ScratchOfThread : OptionHooks {
  static float denominator(float sum, float, int64_t) {
    thread_local volatile float of_thread = 0;
    of_thread = sum;
    return of_thread;
  }
};

}  // namespace

QKVET_CONTROL(plain_hooks,
              "the skeleton of the faulty kernels, without a fault",
              kPlainFault<OptionHooks, &kCommonCapabilities>);

QKVET_CONTROL(option_hooks,
              "the skeleton of the faults of options, without a fault",
              kOptionFault<OptionHooks, kWithDropout>);

// Correct, and like most kernels it does not return the dropped weights: they
// are read off its output.
QKVET_CONTROL(dropout_not_returned, "dropout whose mask is not returned",
              kOptionFault<OptionHooks, kAllOptions | QKVET_OPTION_DROPOUT>);

// As in Flax by default.
QKVET_CONTROL(dropout_broadcast, "one dropout mask for all members and heads",
              kSharedMask<false, false, QKVET_FLAG_DROPOUT_BROADCAST>);

// As in kernels with a counter of the member only, or of the head only.
QKVET_CONTROL(dropout_of_member, "one dropout mask for the heads of a member",
              kSharedMask<true, false, QKVET_FLAG_DROPOUT_OF_MEMBER>);
QKVET_CONTROL(dropout_of_head, "one dropout mask of a head for all members",
              kSharedMask<false, true, QKVET_FLAG_DROPOUT_OF_HEAD>);

QKVET_CONTROL(scratch_of_thread, "scratch that each thread keeps for itself",
              kOptionFault<ScratchOfThread, kAllOptions>);

QKVET_CONTROL(
    split_hooks,
    "the skeleton of the faults of keys in two parts, without a fault",
    kSplitFault<SplitHooks, kAllOptions>);

QKVET_CONTROL(
    tiled_hooks,
    "the skeleton of the faults of an online softmax, without a fault",
    kTiledFault<TiledHooks, kAllOptions>);

QKVET_CONTROL(serving_hooks, "the skeleton of the faults of serving",
              kServingFault<ServingHooks>);

}  // namespace qkvet::impl
