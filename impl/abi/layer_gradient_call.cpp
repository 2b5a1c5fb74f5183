// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/layer_gradient_call.h"

#include "impl/abi/gradient_tensor.h"

namespace qkvet::impl {
namespace {

// The outputs of forward() must be absent.
qkvet_status check_outputs_absent(const qkvet_layer_args& a, qkvet_text* why) {
  const struct {
    const char* name;
    const qkvet_tensor* tensor;
  } outputs[] = {{"y", &a.y},
                 {"q", &a.q},
                 {"k", &a.k},
                 {"v", &a.v},
                 {"attended", &a.attended},
                 {"weights", &a.weights}};
  for (const auto& [name, tensor] : outputs) {
    if (!is_absent(*tensor)) {
      return refuse_tensor(why, QKVET_INVALID_ARGUMENT, name,
                           "absent in a call that is differentiated");
    }
  }
  return QKVET_OK;
}

qkvet_status read_parameters(const qkvet_layer_backward_args& a,
                             const qkvet_layer_args& l, LayerGradientCall* call,
                             qkvet_text* why) {
  const struct {
    GradientTensor row;
    const Projection& of;
    Projection* to;
  } rows[] = {{{"d_w_q", &a.d_w_q, &l.w_q, false, &call->d_w_q.matrix},
               call->layer.w_q,
               &call->d_w_q},
              {{"d_w_k", &a.d_w_k, &l.w_k, false, &call->d_w_k.matrix},
               call->layer.w_k,
               &call->d_w_k},
              {{"d_w_v", &a.d_w_v, &l.w_v, false, &call->d_w_v.matrix},
               call->layer.w_v,
               &call->d_w_v},
              {{"d_w_o", &a.d_w_o, &l.w_o, false, &call->d_w_o.matrix},
               call->layer.w_o,
               &call->d_w_o}};
  for (const auto& [row, of, to] : rows) {
    const qkvet_status status = read_gradient(row, call->layer.storage, why);
    if (status != QKVET_OK) {
      return status;
    }
    to->rows = of.rows;
    to->columns = of.columns;
  }
  const GradientTensor biases[] = {
      {"d_b_q", &a.d_b_q, &l.b_q, false, &call->d_w_q.bias},
      {"d_b_k", &a.d_b_k, &l.b_k, false, &call->d_w_k.bias},
      {"d_b_v", &a.d_b_v, &l.b_v, false, &call->d_w_v.bias},
      {"d_b_o", &a.d_b_o, &l.b_o, false, &call->d_w_o.bias}};
  for (const GradientTensor& row : biases) {
    if (is_absent(*row.like) && is_absent(*row.tensor)) {
      continue;
    }
    if (is_absent(*row.like)) {
      return refuse_tensor(why, QKVET_INVALID_ARGUMENT, row.name,
                           "is the gradient of a bias that is absent");
    }
    const qkvet_status status = read_gradient(row, call->layer.storage, why);
    if (status != QKVET_OK) {
      return status;
    }
  }
  return QKVET_OK;
}

// [B, T, D] or [T, D] as [B, T, D].
Stored batched(Stored view, int32_t rank) {
  if (rank == 2) {
    view.step[2] = view.step[1];
    view.step[1] = view.step[0];
    view.step[0] = 0;
  }
  return view;
}

}  // namespace

qkvet_status read_layer_gradient(const qkvet_kernel* self,
                                 const qkvet_layer_backward_args* args,
                                 LayerGradientCall* call, qkvet_text* why) {
  qkvet_layer_backward_args known = {};
  qkvet_layer_args layer = {};
  qkvet_status status = read_struct(args, &known, why);
  if (status == QKVET_OK) {
    status = read_struct(known.layer, &layer, why);
  }
  if (status == QKVET_OK) {
    status = check_outputs_absent(layer, why);
  }
  if (status != QKVET_OK) {
    return status;
  }
  layer.y = layer.x;  // of the same shape, and never written
  status = read_layer(self, layer, &call->layer, why);
  call->layer.y = {};
  const GradientTensor rows[] = {
      {"d_y", &known.d_y, &layer.x, false, &call->d_y},
      {"d_x", &known.d_x, &layer.x, false, &call->d_x}};
  for (const GradientTensor& row : rows) {
    if (status == QKVET_OK) {
      status = read_gradient(row, call->layer.storage, why);
      *row.to = batched(*row.to, layer.x.ndim);
    }
  }
  return status == QKVET_OK ? read_parameters(known, layer, call, why) : status;
}

}  // namespace qkvet::impl
