// SPDX-License-Identifier: Apache-2.0
// controls/option_seams: the frame of the faults of options with no fault in
// it. If a law fails here, it fails for the frame, and what it says of those
// faults is worth nothing.
#include "impl/declare.h"
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {

namespace {

constexpr qkvet_capabilities kCapabilities =
    capabilities_with(kAllOptions | kDropoutOptions, {kF32});

}  // namespace

extern constinit const qkvet_kernel controls_option_seams =
    plain_kernel("controls/option_seams",
                 "the frame of the faults of options, without a fault",
                 {"impl/controls/option_seams.cpp", __LINE__}, &kSeamsPrecision,
                 OptionsKernel<OptionSeams>::forward, &kCapabilities);

}  // namespace qkvet::impl
