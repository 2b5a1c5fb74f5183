// SPDX-License-Identifier: Apache-2.0
// The frames of the faulty kernels with no fault in them. If a law fails here,
// it fails for the frame, and what it says of those faults is worth nothing.
#include "impl/abi/declare.h"
#include "impl/controls/control.h"
#include "impl/frames/options_kernel.h"
#include "impl/frames/seams.h"
#include "impl/frames/serving_seams.h"
#include "impl/frames/split_seams.h"
#include "impl/frames/tiled_seams.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_capabilities kWithDropout =
    capabilities_with(kAllOptions | kDropoutOptions, {kF32});
constexpr qkvet_capabilities kDropoutNotReturned =
    capabilities_with(kAllOptions | QKVET_OPTION_DROPOUT, {kF32});
constexpr qkvet_capabilities kDropoutBroadcast = [] {
  qkvet_capabilities c = kWithDropout;
  c.flags |= QKVET_FLAG_DROPOUT_BROADCAST;
  return c;
}();

// As the first member and head, wherever the call is a part of another one.
struct OneMask : OptionSeams {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    const Dropout& dropout = call.options.dropout;
    return dropout.keeps(-dropout.b, -dropout.h, at.i, j);
  }
};

}  // namespace

QKVET_CONTROL(plain_seams) = plain_kernel(
    "controls/plain_seams", "the frame of the faulty kernels, without a fault",
    QKVET_PLACE, &kSeamsPrecision, SeamsKernel<PlainSeams>::kForward);

QKVET_CONTROL(option_seams) = plain_kernel(
    "controls/option_seams",
    "the frame of the faults of options, without a fault", QKVET_PLACE,
    &kSeamsPrecision, OptionsKernel<OptionSeams>::forward, &kWithDropout);

// Right, and like most kernels it does not say which weights it dropped: that
// is read off its output.
QKVET_CONTROL(dropout_not_returned) = plain_kernel(
    "controls/dropout_not_returned", "dropout whose mask is not returned",
    QKVET_PLACE, &kSeamsPrecision, OptionsKernel<OptionSeams>::forward,
    &kDropoutNotReturned);

// As Flax has it by default.
QKVET_CONTROL(dropout_broadcast) = plain_kernel(
    "controls/dropout_broadcast", "one dropout mask for all members and heads",
    QKVET_PLACE, &kSeamsPrecision, OptionsKernel<OneMask>::forward,
    &kDropoutBroadcast);

QKVET_CONTROL(split_seams) = plain_kernel(
    "controls/split_seams",
    "the frame of the faults of keys in two parts, without a fault",
    QKVET_PLACE, &kSplitSeamsPrecision,
    OptionsKernel<SplitSeams, SplitRows>::forward, &kAllF32Capabilities);

QKVET_CONTROL(tiled_seams) = plain_kernel(
    "controls/tiled_seams",
    "the frame of the faults of an online softmax, without a fault",
    QKVET_PLACE, &kTiledSeamsPrecision,
    OptionsKernel<TiledSeams, TiledRows>::forward, &kAllF32Capabilities);

QKVET_CONTROL(serving_seams) = serving_kernel(
    "controls/serving_seams", "the frame of the faults of serving", QKVET_PLACE,
    &kServingSeamsPrecision,
    ServingKernel<ServingSeams, compute_rows<PlainRow>>::forward,
    &kServingSeamsCapabilities);

}  // namespace qkvet::impl
