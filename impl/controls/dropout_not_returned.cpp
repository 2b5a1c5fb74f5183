// SPDX-License-Identifier: Apache-2.0
// controls/dropout_not_returned: right, and like most kernels it does not say
// which weights it dropped: that is read off its output.
#include "impl/declare.h"
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {

namespace {

constexpr qkvet_capabilities kCapabilities =
    capabilities_with(kAllOptions | QKVET_OPTION_DROPOUT, {kF32});

}  // namespace

extern constinit const qkvet_kernel controls_dropout_not_returned =
    plain_kernel(
        "controls/dropout_not_returned", "dropout whose mask is not returned",
        {"impl/controls/dropout_not_returned.cpp", __LINE__}, &kSeamsPrecision,
        OptionsKernel<OptionSeams>::forward, &kCapabilities);

}  // namespace qkvet::impl
