// SPDX-License-Identifier: Apache-2.0
// Checked, typed access to the arguments of one backward call (backward.h). A
// call that contradicts itself is refused with the name of the tensor, before
// anything is written.
//
// The options and storage types are those that the kernel declares for
// forward(): the gradient takes all of them.
#ifndef QKVET_IMPL_CALL_BACKWARD_CALL_H_
#define QKVET_IMPL_CALL_BACKWARD_CALL_H_

#include <cstdint>

#include "impl/call/forward_view.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

struct BackwardCall {
  // Extents, scale, options and visible pairs. The only tensor that is read is
  // lse.
  ForwardCall forward;

  Stored q, k, v;        // as in forward
  Stored o, d_o;         // [B, H, Tq, dv]
  Stored d_q, d_k, d_v;  // of the shapes of q, k and v
  Stored d_bias;         // [B, H, Tq, Tk], absent if not requested
  Stored d_sink;         // [H], the same

  // The first key of a member in d_bias, its number of keys, and the number of
  // rows that the tensors have from its first row on.
  int64_t first_key = 0;
  int64_t all_keys = 0;
  int64_t row_room = 0;
};

// Fills *call or refuses: *why is then the reason. Lengths and positions are
// data and are checked here too, so a call that passes can be computed.
qkvet_status read_backward(const qkvet_kernel* self,
                           const qkvet_backward_args* args, BackwardCall* call,
                           qkvet_text* why);

int64_t member_count(const BackwardCall& call);
// Only the rows and keys of that member, no lengths left; a call without
// lengths is returned unchanged.
BackwardCall member_of(const BackwardCall& call, int64_t n);

// The derivative of softcap * tanh(s / softcap) at `scaled`; 1 without
// softcap.
float softcap_slope(const ForwardCall& call, float scaled);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_BACKWARD_CALL_H_
