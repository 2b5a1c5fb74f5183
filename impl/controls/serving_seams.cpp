// SPDX-License-Identifier: Apache-2.0
// controls/serving_seams: the frame of the faults of serving with no fault in
// it. If a law fails here, it fails for the frame, and what it says of those
// faults is worth nothing.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_serving_seams = serving_kernel(
    "controls/serving_seams", "the frame of the faults of serving",
    {"impl/controls/serving_seams.cpp", __LINE__}, &kServingSeamsPrecision,
    ServingKernel<ServingSeams, compute_rows<PlainRow>>::forward,
    &kServingSeamsCapabilities);

}  // namespace qkvet::impl
