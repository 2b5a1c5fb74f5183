// SPDX-License-Identifier: Apache-2.0
// controls/plain_seams: the frame of the faulty kernels with no fault in it. If
// a law fails here, it fails for the frame, and what it says of the faults is
// worth nothing.
#include "impl/declare.h"
#include "impl/faulty/seams.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_plain_seams = plain_kernel(
    "controls/plain_seams", "the frame of the faulty kernels, without a fault",
    {"impl/controls/plain_seams.cpp", __LINE__}, &kSeamsPrecision,
    SeamsKernel<PlainSeams>::kForward);

}  // namespace qkvet::impl
