// SPDX-License-Identifier: Apache-2.0
// Whether families that are built a second time, with AVX2 and with products
// that the compiler may fuse into the next addition, may run here.
//
// They declare the same as the first build. A fused product has one rounding
// less than sequential_f32() allows, so the error stays within it, whether the
// compiler fuses or not.
#ifndef QKVET_IMPL_CALL_OPEN_ON_AVX2_H_
#define QKVET_IMPL_CALL_OPEN_ON_AVX2_H_

#include "qkvet/kernel.h"

namespace qkvet::impl {

qkvet_status open_on_avx2(const qkvet_kernel*, const qkvet_exec*,
                          qkvet_context** context, qkvet_text* why);
void close_on_avx2(const qkvet_kernel*, qkvet_context*);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_OPEN_ON_AVX2_H_
