// SPDX-License-Identifier: Apache-2.0
// controls/tiled_seams: the frame of the faults of an online softmax with no
// fault in it. If a law fails here, it fails for the frame, and what it says of
// those faults is worth nothing.
#include "impl/faulty/tiled_seams.h"

#include "impl/declare.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_tiled_seams = plain_kernel(
    "controls/tiled_seams",
    "the frame of the faults of an online softmax, without a fault",
    {"impl/controls/tiled_seams.cpp", __LINE__}, &kTiledSeamsPrecision,
    OptionsKernel<TiledSeams, TiledRows>::forward, &kAllF32Capabilities);

}  // namespace qkvet::impl
