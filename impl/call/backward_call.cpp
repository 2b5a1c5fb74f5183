// SPDX-License-Identifier: Apache-2.0
#include "impl/call/backward_call.h"

#include <cmath>

#include "impl/call/call_rows.h"
#include "impl/call/in_f32.h"
#include "impl/call/members.h"

namespace qkvet::impl {
namespace {

#define ROW(field, ...) QKVET_ROW(qkvet_backward_args, field, __VA_ARGS__)
constexpr TensorRow kGradients[] = {
    ROW(d_o, "B,H,Tq,dv", kOfCall, Need::kRequired),
    ROW(d_q, "B,H,Tq,d", kOfCall, Need::kRequired),
    ROW(d_k, "B,Hkv,Tk,d", kOfCall, Need::kRequired),
    ROW(d_v, "B,Hkv,Tk,dv", kOfCall, Need::kRequired),
    ROW(d_bias, "B,H,Tq,Tk", kF32OrOfCall, Need::kOptional,
        QKVET_BACKWARD_BIAS),
    ROW(d_sink, "H", kF32OrOfCall, Need::kOptional, QKVET_BACKWARD_SINK)};
#undef ROW
#define QKVET_BACKWARD_TENSOR(field, ...)                                  \
  static_assert(has_row(offsetof(qkvet_backward_args, field), kGradients), \
                #field " is not checked");
#include "qkvet/tensors.def"

}  // namespace

qkvet_status read_backward(const qkvet_kernel* self,
                           const qkvet_backward_args* args, BackwardCall* call,
                           qkvet_text* why) {
  const qkvet_capabilities& can = *self->capabilities;
  qkvet_backward_args known = {};
  qkvet_forward_args forward = {};
  Check e(can, why);
  e.copy(args, &known);
  e.copy(known.forward, &forward);
  e.rules(QKVET_INVALID_ARGUMENT,
          {{!is_absent(forward.weights),
            "weights: absent in a call that is differentiated"},
           {is_absent(forward.lse), "lse: needed, as forward() gave it"},
           {!is_absent(known.d_bias) && is_absent(forward.bias),
            "d_bias: is the gradient of a tensor that is absent"},
           {!is_absent(known.d_sink) && is_absent(forward.sink),
            "d_sink: is the gradient of a tensor that is absent"}});
  read_attention(self, forward, can.options & ~kPageOptions, &e,
                 &call->forward);
  e.rules(QKVET_UNSUPPORTED,
          {{call->forward.options.fields.present(),
            "segments, ranges, chunks and trees are of forward() alone"}});
  e.options = self->backward->options;
  e.rows(kGradients, &known);
  QKVET_TRY(e.status);
  if (call->forward.options.has_lengths()) {
    QKVET_TRY(check_lengths(call->forward, why));
  }
  QKVET_TRY(check_positions(call->forward, why));
  call->q = stored(forward.q, e.storage);
  call->k = stored(forward.k, e.storage);
  call->v = stored(forward.v, e.storage);
  call->o = stored(forward.o, e.storage);
  call->d_o = stored(known.d_o, e.storage);
  call->d_q = stored(known.d_q, e.storage);
  call->d_k = stored(known.d_k, e.storage);
  call->d_v = stored(known.d_v, e.storage);
  fill(known.d_bias, &call->d_bias);
  fill(known.d_sink, &call->d_sink);
  call->all_keys = call->forward.keys;
  call->row_room = call->forward.queries;
  return QKVET_OK;
}

int64_t member_count(const BackwardCall& call) {
  return call.forward.options.has_lengths() ? member_count(call.forward) : 1;
}

BackwardCall member_of(const BackwardCall& call, int64_t n) {
  if (!call.forward.options.has_lengths()) {
    return call;
  }
  const MemberExtent e = extent_of(call.forward, n);
  BackwardCall member = call;
  member.forward = member_of(call.forward, n);
  for (Stored* const t :
       {&member.q, &member.o, &member.d_o, &member.d_q, &member.d_bias}) {
    *t = t->from(e.b, 0, e.first_row, 0);
  }
  for (Stored* const t : {&member.k, &member.v, &member.d_k, &member.d_v}) {
    *t = t->from(e.b, 0, e.first_key, 0);
  }
  member.first_key = e.first_key;
  member.row_room = call.forward.queries - e.first_row;
  return member;
}

float softcap_slope(const ForwardCall& call, float scaled) {
  if (call.options.softcap <= 0) {
    return 1;
  }
  const float tanh = std::tanh(scaled / call.options.softcap);
  return 1 - tanh * tanh;
}

}  // namespace qkvet::impl
