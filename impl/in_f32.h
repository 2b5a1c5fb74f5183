// SPDX-License-Identifier: Apache-2.0
// Half storage in front of arithmetic that knows f32 only.
//
// A call with f32 storage goes to the arithmetic as it is. One with half
// storage is cut into pieces of one head and up to kWidenedRows query rows; q,
// k and v of a piece are converted (exactly) to contiguous f32, o and weights
// of a piece are f32 and are rounded once, when the piece is finished. lse is
// f32 in any case and written in place.
//
// A rotation (rope.h) is done here, too: in the converted rows, or in a copy of
// q and k where they are f32.
//
// Cost: K and V of a head are converted once for each key/value head. Memory:
// Tk (d + dv) + kWidenedRows (d + dv) floats, and kWidenedRows * Tk for
// weights, for half storage only; B (H Tq + Hkv Tk) d floats for a rotation of
// f32.
#ifndef QKVET_IMPL_IN_F32_H_
#define QKVET_IMPL_IN_F32_H_

#include <cstdint>

#include "impl/forward_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// Query rows of a piece: as many as eigen/plain takes at a time.
inline constexpr int64_t kWidenedRows = 64;

// Arithmetic: computes a call whose f32 views are set and which has no lengths
// (members.h).
using ComputeF32 = qkvet_status (*)(const ForwardCall& call, qkvet_text* why);

// An arithmetic that needs a context.
struct ComputeIn {
  qkvet_status (*compute)(const ForwardCall& call, qkvet_context* context,
                          qkvet_text* why);
  qkvet_context* context;
};

qkvet_status compute_in_f32(const ForwardCall& call, ComputeF32 compute,
                            qkvet_text* why);
qkvet_status compute_in_f32(const ForwardCall& call, ComputeIn compute,
                            qkvet_text* why);

// The forward() of a kernel that is nothing but its arithmetic.
template <ComputeF32 kCompute>
qkvet_status forward_in_f32(const qkvet_kernel* self, qkvet_context*,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  ForwardCall call;
  qkvet_status status = check_exec(exec, why);
  if (status == QKVET_OK) {
    status = read_forward(self, args, &call, why);
  }
  return status == QKVET_OK ? compute_in_f32(call, kCompute, why) : status;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_IN_F32_H_
