// SPDX-License-Identifier: Apache-2.0
// controls/split_seams: the frame of the faults of keys in two parts with no
// fault in it. If a law fails here, it fails for the frame, and what it says of
// those faults is worth nothing.
#include "impl/faulty/split_seams.h"

#include "impl/declare.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_split_seams = plain_kernel(
    "controls/split_seams",
    "the frame of the faults of keys in two parts, without a fault",
    {"impl/controls/split_seams.cpp", __LINE__}, &kSplitSeamsPrecision,
    OptionsKernel<SplitSeams, SplitRows>::forward, &kAllF32Capabilities);

}  // namespace qkvet::impl
