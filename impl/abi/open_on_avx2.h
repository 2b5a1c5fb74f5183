// SPDX-License-Identifier: Apache-2.0
// Families that are built a second time, with AVX2 and with products that the
// compiler may fuse into the addition behind them: whether they may run here.
//
// They declare what the first build does. A fused product is rounded once less
// than sequential_f32() says, so that the error stays inside of it, whether the
// compiler fuses it or not.
#ifndef QKVET_IMPL_ABI_OPEN_ON_AVX2_H_
#define QKVET_IMPL_ABI_OPEN_ON_AVX2_H_

#include "qkvet/kernel.h"

namespace qkvet::impl {

qkvet_status open_on_avx2(const qkvet_kernel*, const qkvet_exec*,
                          qkvet_context** context, qkvet_text* why);
void close_on_avx2(const qkvet_kernel*, qkvet_context*);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_ABI_OPEN_ON_AVX2_H_
