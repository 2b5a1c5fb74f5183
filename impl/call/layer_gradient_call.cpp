// SPDX-License-Identifier: Apache-2.0
#include "impl/call/layer_gradient_call.h"

#include "impl/call/call_rows.h"

namespace qkvet::impl {
namespace {

#define ROW(field, ...) QKVET_ROW(qkvet_layer_backward_args, field, __VA_ARGS__)
constexpr TensorRow kGradients[] = {
    ROW(d_y, "B,T,D;T,D", kOfCall, Need::kRequired),
    ROW(d_x, "B,T,D;T,D", kOfCall, Need::kRequired),
    ROW(d_w_q, "D,H*d", kOfCall, Need::kRequired),
    ROW(d_w_k, "D,Hkv*d", kOfCall, Need::kRequired),
    ROW(d_w_v, "D,Hkv*dv", kOfCall, Need::kRequired),
    ROW(d_w_o, "H*dv,D", kOfCall, Need::kRequired),
    ROW(d_b_q, "H*d", kOfCall),
    ROW(d_b_k, "Hkv*d", kOfCall),
    ROW(d_b_v, "Hkv*dv", kOfCall),
    ROW(d_b_o, "D", kOfCall)};
#undef ROW
#define QKVET_LAYER_BACKWARD_TENSOR(field, ...)                        \
  static_assert(                                                       \
      has_row(offsetof(qkvet_layer_backward_args, field), kGradients), \
      #field " is not checked");
#include "qkvet/tensors.def"

// The outputs of forward() are absent, and a gradient of a bias is present if
// the bias is.
void check_presence(const qkvet_layer_backward_args& a,
                    const qkvet_layer_args& l, Check* check) {
  const struct {
    const char* name;
    const qkvet_tensor& tensor;
  } outputs[] = {{"y", l.y},
                 {"q", l.q},
                 {"k", l.k},
                 {"v", l.v},
                 {"attended", l.attended},
                 {"weights", l.weights}};
  for (const auto& [name, tensor] : outputs) {
    if (!is_absent(tensor)) {
      check->refuse(QKVET_INVALID_ARGUMENT,
                    "%s: absent in a call that is differentiated", name);
    }
  }
  const struct {
    const char* name;
    const qkvet_tensor &gradient, &bias;
  } biases[] = {{"d_b_q", a.d_b_q, l.b_q},
                {"d_b_k", a.d_b_k, l.b_k},
                {"d_b_v", a.d_b_v, l.b_v},
                {"d_b_o", a.d_b_o, l.b_o}};
  for (const auto& [name, gradient, bias] : biases) {
    if (is_absent(gradient) != is_absent(bias)) {
      check->refuse(QKVET_INVALID_ARGUMENT,
                    is_absent(bias)
                        ? "%s: is the gradient of a bias that is absent"
                        : "%s: is absent, and its bias is present",
                    name);
    }
  }
  const auto other_rank = [&l](const qkvet_tensor& t) {
    return !is_absent(t) && t.ndim != l.x.ndim;
  };
  check->rules(QKVET_INVALID_ARGUMENT,
               {{other_rank(a.d_y), "d_y: its rank is not that of x"},
                {other_rank(a.d_x), "d_x: its rank is not that of x"}});
}

}  // namespace

qkvet_status read_layer_gradient(const qkvet_kernel* self,
                                 const qkvet_layer_backward_args* args,
                                 LayerGradientCall* call, qkvet_text* why) {
  qkvet_layer_backward_args known = {};
  qkvet_layer_args layer = {};
  Check e(*self->capabilities, why);
  e.copy(args, &known);
  e.copy(known.layer, &layer);
  if (e.ok()) {
    check_presence(known, layer, &e);
    layer.y = layer.x;  // of the same shape, and never written
    read_layer(self, layer, &e, &call->layer);
    call->layer.y = {};
  }
  e.rows(kGradients, &known);
  if (!e.ok()) {
    return e.status;
  }
  call->d_y = batched(known.d_y, e.storage);
  call->d_x = batched(known.d_x, e.storage);
  call->d_w_q = projection(known.d_w_q, known.d_b_q);
  call->d_w_k = projection(known.d_w_k, known.d_b_k);
  call->d_w_v = projection(known.d_w_v, known.d_b_v);
  call->d_w_o = projection(known.d_w_o, known.d_b_o);
  return QKVET_OK;
}

}  // namespace qkvet::impl
