// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/backward_call.h"

#include <cmath>

#include "impl/abi/gradient_tensor.h"
#include "impl/abi/in_f32.h"
#include "impl/abi/members.h"

namespace qkvet::impl {
namespace {

// Refuses an optional gradient that was requested and cannot be returned.
qkvet_status check_optional(const GradientTensor& row, uint64_t option,
                            uint64_t declared, qkvet_text* why) {
  if ((declared & option) == 0) {
    return refuse_tensor(why, QKVET_UNSUPPORTED, row.name, "is not returned");
  }
  if (is_absent(*row.like)) {
    return refuse_tensor(why, QKVET_INVALID_ARGUMENT, row.name,
                         "is the gradient of a tensor that is absent");
  }
  return QKVET_OK;
}

qkvet_status read_gradients(const qkvet_kernel* self,
                            const qkvet_backward_args& a,
                            const qkvet_forward_args& f, BackwardCall* call,
                            qkvet_text* why) {
  const Storage type = call->forward.storage;
  const GradientTensor rows[] = {{"d_o", &a.d_o, &f.o, false, &call->d_o},
                                 {"d_q", &a.d_q, &f.q, false, &call->d_q},
                                 {"d_k", &a.d_k, &f.k, false, &call->d_k},
                                 {"d_v", &a.d_v, &f.v, false, &call->d_v}};
  for (const GradientTensor& row : rows) {
    const qkvet_status status = read_gradient(row, type, why);
    if (status != QKVET_OK) {
      return status;
    }
  }
  const struct {
    GradientTensor row;
    uint64_t option;
  } optional[] = {{{"d_bias", &a.d_bias, &f.bias, true, &call->d_bias},
                   QKVET_BACKWARD_BIAS},
                  {{"d_sink", &a.d_sink, &f.sink, true, &call->d_sink},
                   QKVET_BACKWARD_SINK}};
  for (const auto& [row, option] : optional) {
    if (is_absent(*row.tensor)) {
      continue;
    }
    qkvet_status status =
        check_optional(row, option, self->backward->options, why);
    status = status == QKVET_OK ? read_gradient(row, type, why) : status;
    if (status != QKVET_OK) {
      return status;
    }
  }
  return QKVET_OK;
}

// Reads the arguments of forward() for a gradient.
qkvet_status read_differentiated(const qkvet_kernel* self,
                                 const qkvet_forward_args& f,
                                 BackwardCall* call, qkvet_text* why) {
  if (!is_absent(f.weights)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "weights: absent in a call that is differentiated");
  }
  if (is_absent(f.lse)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "lse: needed, as forward() gave it");
  }
  const qkvet_status status = read_forward(self, &f, &call->forward, why);
  if (status != QKVET_OK) {
    return status;
  }
  if (call->forward.options.fields.present()) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "segments, ranges, chunks and trees are of forward() alone");
  }
  const Storage type = call->forward.storage;
  call->q = stored(f.q, type);
  call->k = stored(f.k, type);
  call->v = stored(f.v, type);
  call->o = stored(f.o, type);
  return QKVET_OK;
}

}  // namespace

qkvet_status read_backward(const qkvet_kernel* self,
                           const qkvet_backward_args* args, BackwardCall* call,
                           qkvet_text* why) {
  qkvet_backward_args known = {};
  qkvet_status status = read_struct(args, &known, why);
  if (status != QKVET_OK) {
    return status;
  }
  qkvet_forward_args forward = {};
  status = read_struct(known.forward, &forward, why);
  // The struct of a newer host may be longer; the copy has only the fields of
  // this library.
  forward.struct_size = sizeof(forward);
  if (status == QKVET_OK) {
    status = read_differentiated(self, forward, call, why);
  }
  if (status == QKVET_OK) {
    status = read_gradients(self, known, forward, call, why);
  }
  if (status == QKVET_OK && call->forward.options.has_lengths()) {
    status = check_lengths(call->forward, why);
  }
  if (status == QKVET_OK) {
    status = check_positions(call->forward, why);
  }
  call->all_keys = call->forward.keys;
  call->row_room = call->forward.queries;
  return status;
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
