// SPDX-License-Identifier: Apache-2.0
// The skeletons of the faulty kernels without a fault. If a law fails here, it
// fails because of the skeleton, and its verdicts on those faults prove
// nothing.
#include "impl/abi/declare.h"
#include "impl/controls/control.h"
#include "impl/skeletons/hooks.h"
#include "impl/skeletons/options_kernel.h"
#include "impl/skeletons/serving_hooks.h"
#include "impl/skeletons/split_hooks.h"
#include "impl/skeletons/tiled_hooks.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_capabilities kWithDropout =
    capabilities_with(kAllOptions | kDropoutOptions, {kF32});
constexpr qkvet_capabilities kDropoutNotReturned =
    capabilities_with(kAllOptions | QKVET_OPTION_DROPOUT, {kF32});
constexpr qkvet_capabilities with_dropout_flag(uint64_t flag) {
  qkvet_capabilities c = kWithDropout;
  c.flags |= flag;
  return c;
}
constexpr qkvet_capabilities kDropoutBroadcast =
    with_dropout_flag(QKVET_FLAG_DROPOUT_BROADCAST);
constexpr qkvet_capabilities kDropoutOfMember =
    with_dropout_flag(QKVET_FLAG_DROPOUT_OF_MEMBER);
constexpr qkvet_capabilities kDropoutOfHead =
    with_dropout_flag(QKVET_FLAG_DROPOUT_OF_HEAD);

// As in the first member and head, even if the call is a part of another.
struct OneMask : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    const Dropout& dropout = call.options.dropout;
    return dropout.keeps(-dropout.b, -dropout.h, at.i, j);
  }
};

// As the first head of the member, and as the first member.
struct MaskOfMember : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    const Dropout& dropout = call.options.dropout;
    return dropout.keeps(at.b, -dropout.h, at.i, j);
  }
};
struct MaskOfHead : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    const Dropout& dropout = call.options.dropout;
    return dropout.keeps(-dropout.b, at.h, at.i, j);
  }
};

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

QKVET_CONTROL(plain_hooks) = plain_kernel(
    "controls/plain_hooks",
    "the skeleton of the faulty kernels, without a fault", QKVET_PLACE,
    &kHooksPrecision, HooksKernel<PlainHooks>::kForward);

QKVET_CONTROL(option_hooks) = plain_kernel(
    "controls/option_hooks",
    "the skeleton of the faults of options, without a fault", QKVET_PLACE,
    &kHooksPrecision, OptionsKernel<OptionHooks>::forward, &kWithDropout);

// Correct, and like most kernels it does not return the dropped weights: they
// are read off its output.
QKVET_CONTROL(dropout_not_returned) = plain_kernel(
    "controls/dropout_not_returned", "dropout whose mask is not returned",
    QKVET_PLACE, &kHooksPrecision, OptionsKernel<OptionHooks>::forward,
    &kDropoutNotReturned);

// As in Flax by default.
QKVET_CONTROL(dropout_broadcast) = plain_kernel(
    "controls/dropout_broadcast", "one dropout mask for all members and heads",
    QKVET_PLACE, &kHooksPrecision, OptionsKernel<OneMask>::forward,
    &kDropoutBroadcast);

// As in kernels with a counter of the member only, or of the head only.
QKVET_CONTROL(dropout_of_member) = plain_kernel(
    "controls/dropout_of_member", "one dropout mask for the heads of a member",
    QKVET_PLACE, &kHooksPrecision, OptionsKernel<MaskOfMember>::forward,
    &kDropoutOfMember);
QKVET_CONTROL(dropout_of_head) = plain_kernel(
    "controls/dropout_of_head", "one dropout mask of a head for all members",
    QKVET_PLACE, &kHooksPrecision, OptionsKernel<MaskOfHead>::forward,
    &kDropoutOfHead);

QKVET_CONTROL(scratch_of_thread) = plain_kernel(
    "controls/scratch_of_thread", "scratch that each thread keeps for itself",
    QKVET_PLACE, &kHooksPrecision, OptionsKernel<ScratchOfThread>::forward,
    &kAllF32Capabilities);

QKVET_CONTROL(split_hooks) = plain_kernel(
    "controls/split_hooks",
    "the skeleton of the faults of keys in two parts, without a fault",
    QKVET_PLACE, &kSplitHooksPrecision,
    OptionsKernel<SplitHooks, SplitRows>::forward, &kAllF32Capabilities);

QKVET_CONTROL(tiled_hooks) = plain_kernel(
    "controls/tiled_hooks",
    "the skeleton of the faults of an online softmax, without a fault",
    QKVET_PLACE, &kTiledHooksPrecision,
    OptionsKernel<TiledHooks, TiledRows>::forward, &kAllF32Capabilities);

QKVET_CONTROL(serving_hooks) = serving_kernel(
    "controls/serving_hooks", "the skeleton of the faults of serving",
    QKVET_PLACE, &kServingHooksPrecision,
    ServingKernel<ServingHooks, compute_rows<PlainRow>>::forward,
    &kServingHooksCapabilities);

}  // namespace qkvet::impl
