// SPDX-License-Identifier: Apache-2.0
// Converts half storage for arithmetic that takes only f32.
//
// A call with f32 storage is passed to the arithmetic unchanged. One with half
// storage is cut into pieces of one head and up to kWidenedRows query rows; q,
// k and v of a piece are converted (exactly) to contiguous f32, o and weights
// of a piece are f32 and are rounded once, when the piece is finished. lse is
// always f32 and written in place.
//
// A rotation (rope.h) is done here too: in the converted rows, or in a copy of
// q and k if they are f32.
//
// Cost: K and V of a head are converted once for each key/value head. Memory:
// Tk (d + dv) + kWidenedRows (d + dv) floats, and kWidenedRows * Tk for
// weights, for half storage only; B (H Tq + Hkv Tk) d floats for a rotation of
// f32.
#ifndef QKVET_IMPL_CALL_IN_F32_H_
#define QKVET_IMPL_CALL_IN_F32_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "impl/call/forward_view.h"
#include "impl/call/scratch.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// Query rows of a piece: as many as eigen/plain takes at a time.
inline constexpr int64_t kWidenedRows = 64;

// Arithmetic: computes a call with f32 views and without lengths
// (members.h).
using ComputeF32 = qkvet_status (*)(const ForwardCall& call, qkvet_text* why);

// Checks that the tables contain the position of every row and key; positions
// are data, so supports() does not check this.
qkvet_status check_positions(const ForwardCall& call, qkvet_text* why);

// compute(call) with q and k of an f32 call rotated in separate memory; a call
// without a rotation is unchanged.
template <class QueryTurn = PlainTurn, class KeyTurn = PlainTurn, class Compute>
qkvet_status compute_turned(const ForwardCall& call, qkvet_text* why,
                            const Compute& compute) {
  const Rope& rope = call.options.rope;
  if (!rope.present()) {
    return compute(call);
  }
  const int64_t q_floats = call.batch * call.heads * call.queries * call.width;
  const int64_t k_floats = call.batch * call.kv_heads * call.keys * call.width;
  std::unique_ptr<float[]> memory;
  QKVET_TRY(allocate(q_floats + k_floats, &memory, why,
                     "no memory to rotate q and k"));
  ForwardCall turned = call;
  turned.q =
      turned_copy<QueryTurn>(rope, call.q, rope.q, call.batch, call.heads,
                             call.queries, call.width, memory.get());
  turned.k =
      turned_copy<KeyTurn>(rope, call.k, rope.k, call.batch, call.kv_heads,
                           call.keys, call.width, memory.get() + q_floats);
  return compute(turned);
}

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

// The forward() of a kernel that consists of its arithmetic only.
template <ComputeF32 kCompute>
qkvet_status forward_in_f32(const qkvet_kernel* self, qkvet_context*,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  ForwardCall call;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_forward(self, args, &call, why));
  return compute_in_f32(call, kCompute, why);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_IN_F32_H_
