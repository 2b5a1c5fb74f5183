// SPDX-License-Identifier: Apache-2.0
#include "impl/call/layer_call.h"

#include <cinttypes>

#include "impl/call/call_rows.h"
#include "impl/call/forward_view.h"

namespace qkvet::impl {
namespace {

#define ROW(field, ...) QKVET_ROW(qkvet_layer_args, field, __VA_ARGS__)
// Each width is that of the first matrix that has it.
constexpr TensorRow kModel[] = {ROW(x, "B,T,D;T,D", kOfCall, Need::kRequired),
                                ROW(y, "B,T,D;T,D", kOfCall, Need::kRequired),
                                ROW(w_q, "D,H*d", kOfCall, Need::kRequired),
                                ROW(w_k, "D,Hkv*d", kOfCall, Need::kRequired),
                                ROW(w_v, "D,Hkv*dv", kOfCall, Need::kRequired),
                                ROW(w_o, "H*dv,D", kOfCall, Need::kRequired),
                                ROW(b_q, "H*d", kOfCall),
                                ROW(b_k, "Hkv*d", kOfCall),
                                ROW(b_v, "Hkv*dv", kOfCall),
                                ROW(b_o, "D", kOfCall)};
// E: the columns of w_q, w_k and w_v together.
constexpr TensorRow kOptional[] = {ROW(q, "B,H,T,d", kOfStages),
                                   ROW(k, "B,Hkv,T,d", kOfStages),
                                   ROW(v, "B,Hkv,T,dv", kOfStages),
                                   ROW(attended, "B,H,T,dv", kOfStages),
                                   ROW(rope_cos, "positions,pairs", kTypeF32),
                                   ROW(rope_sin, "positions,pairs", kTypeF32),
                                   ROW(positions, "B,T", kTypeInt64),
                                   ROW(w_qkv, "D,E", kOfCall),
                                   ROW(b_qkv, "E", kOfCall),
                                   ROW(mask_buffer, "C,C", kBytes),
                                   ROW(weights, "B,H,T,T", kOfCall)};
#undef ROW
#define QKVET_LAYER_TENSOR(field, ...)                                         \
  static_assert(has_row(offsetof(qkvet_layer_args, field), kModel, kOptional), \
                #field " is not checked");
#include "qkvet/tensors.def"

// Contradictions between fields, before any tensor is read.
void check_fields(const qkvet_kernel* self, const qkvet_layer_args& a,
                  Check* check) {
  const bool fused = a.fused != QKVET_FUSED_NONE;
  const bool known = a.fused >= QKVET_FUSED_NONE && a.fused <= QKVET_FUSED_VKQ;
  const bool whole = is_absent(a.b_qkv);
  const bool stages = !is_absent(a.q) || !is_absent(a.k) || !is_absent(a.v) ||
                      !is_absent(a.attended);
  const uint64_t order =
      known && fused ? QKVET_LAYER_FUSED_QKV << (a.fused - QKVET_FUSED_QKV) : 0;
  check->rules(
      QKVET_INVALID_ARGUMENT,
      {{(a.x.ndim == 2) != (a.y.ndim == 2), "y: its rank is not that of x"},
       {stages && (is_absent(a.q) || is_absent(a.k) || is_absent(a.v) ||
                   is_absent(a.attended)),
        "the stages q, k, v and attended come together: one is absent"},
       {wrong_rope(a.rope, {&a.rope_cos, &a.rope_sin, &a.positions}),
        kWrongRope},
       {!known, "fused: no order of the parts of w_qkv"},
       {is_absent(a.w_qkv) == fused || (!whole && !fused),
        "w_qkv and b_qkv come with an order of their parts, fused"},
       {fused && (is_absent(a.b_q) != whole || is_absent(a.b_k) != whole ||
                  is_absent(a.b_v) != whole),
        "b_qkv is given with b_q, b_k and b_v, or none of them"},
       {!is_absent(a.mask_buffer) && a.causal != QKVET_CAUSAL_NONE,
        "mask_buffer and causal: the buffer is the rule alone"}});
  check->rules(QKVET_UNSUPPORTED, {{a.causal < QKVET_CAUSAL_NONE ||
                                        a.causal > QKVET_CAUSAL_BOTTOM_RIGHT,
                                    "causal: this mode is not known"},
                                   {(order & ~self->layer->options) != 0,
                                    "this order of w_qkv is not supported"}});
}

// Rows and columns 0 .. T - 1 are the causal rule.
bool holds_causal_rule(const LayerCall& call) {
  for (int64_t i = 0; i < call.tokens; ++i) {
    for (int64_t j = 0; j < call.tokens; ++j) {
      const uint8_t attends =
          call.buffer.data[i * call.buffer.step[0] + j * call.buffer.step[1]];
      if ((attends != 0) != (j <= i)) {
        return false;
      }
    }
  }
  return true;
}

void fill_projections(const qkvet_layer_args& a, LayerCall* call) {
  call->w_q = projection(a.w_q, a.b_q);
  call->w_k = projection(a.w_k, a.b_k);
  call->w_v = projection(a.w_v, a.b_v);
  call->w_o = projection(a.w_o, a.b_o);
  call->fused = a.fused;
  if (a.fused == QKVET_FUSED_NONE) {
    return;
  }
  call->w_qkv = projection(a.w_qkv, a.b_qkv);
  int64_t column = 0;
  for (const char* part = parts_in_order(a.fused); *part != '\0'; ++part) {
    Projection* const to = *part == 'q'   ? &call->w_q
                           : *part == 'k' ? &call->w_k
                                          : &call->w_v;
    take_part(*call, column, to);
    column += to->columns;
  }
}

void fill_call(const qkvet_layer_args& a, const Check& e, LayerCall* call) {
  call->batch = e["B"];
  call->tokens = e["T"];
  call->model_width = e["D"];
  call->heads = e["H"];
  call->kv_heads = e["Hkv"];
  call->width = e["d"];
  call->value_width = e["dv"];
  call->storage = e.storage;
  call->x = batched(a.x, e.storage);
  call->y = batched(a.y, e.storage);
  fill_projections(a, call);
  fill(a.q, &call->q);
  fill(a.k, &call->k);
  fill(a.v, &call->v);
  fill(a.attended, &call->attended);
  fill_rope(a.rope, a.rope_cos, a.rope_sin, &call->rope);
  fill(a.positions, &call->rope.q);
  call->scale = a.scale_given != 0 ? a.scale : default_scale(call->width);
  fill(a.mask_buffer, &call->buffer);
  call->context = is_absent(a.mask_buffer) ? 0 : e["C"];
  call->causal = a.causal != QKVET_CAUSAL_NONE || call->context > 0;
  fill(a.weights, &call->weights);
}

// The numbers of a call; its tensors fit.
void check_numbers(const LayerCall& call, Check* check) {
  if (call.context > 0 && call.context < call.tokens) {
    return check->refuse(QKVET_INVALID_ARGUMENT,
                         "%" PRId64 " tokens, and mask_buffer is for %" PRId64,
                         call.tokens, call.context);
  }
  check->rules(QKVET_INVALID_ARGUMENT,
               {{call.rope.present() && !has_positions(call.rope, call.rope.q,
                                                       call.batch, call.tokens),
                 "a position is no row of the tables"},
                {call.rope.channels > call.width, kWideRope}});
  check->rules(QKVET_UNSUPPORTED,
               {{call.context > 0 && !holds_causal_rule(call),
                 "mask_buffer: is not the causal mask"}});
}

}  // namespace

void read_layer(const qkvet_kernel* self, const qkvet_layer_args& args,
                Check* check, LayerCall* call) {
  Check& e = *check;
  if (args.heads < 1 || args.kv_heads < 1 || args.heads % args.kv_heads != 0) {
    e.refuse(QKVET_INVALID_ARGUMENT,
             "%" PRId64 " kv_heads do not divide %" PRId64 " heads",
             args.kv_heads, args.heads);
  }
  e["H"] = args.heads;
  e["Hkv"] = args.kv_heads;
  if (args.x.ndim == 2) {
    e["B"] = 1;
  }
  e.empty = Empty::kRefused;
  check_fields(self, args, check);
  e.rows(kModel, &args);
  if (!e.ok()) {
    return;
  }
  e["E"] = args.w_q.shape[1] + args.w_k.shape[1] + args.w_v.shape[1];
  const qkvet_dtype stage = self->layer->stage;
  e.stage = stage.bits != 0 ? stage : args.x.dtype;
  e.rows(kOptional, &args);
  if (e.ok()) {
    fill_call(args, e, call);
    check_numbers(*call, check);
  }
}

qkvet_status read_layer(const qkvet_kernel* self, const qkvet_layer_args& args,
                        LayerCall* call, qkvet_text* why) {
  Check check(*self->capabilities, why);
  read_layer(self, args, &check, call);
  return check.status;
}

Stored batched(const qkvet_tensor& t, Storage storage) {
  Stored view = stored(t, storage);
  if (t.ndim == 2) {
    view.step[2] = view.step[1];
    view.step[1] = view.step[0];
    view.step[0] = 0;
  }
  return view;
}

Projection projection(const qkvet_tensor& matrix, const qkvet_tensor& bias) {
  Projection to;
  fill(matrix, &to.matrix);
  fill(bias, &to.bias);
  to.rows = matrix.shape[0];
  to.columns = matrix.shape[1];
  return to;
}

const char* parts_in_order(int32_t fused) {
  constexpr const char* kOrders[] = {"",    "qkv", "qvk", "kqv",
                                     "kvq", "vqk", "vkq"};
  return kOrders[fused];
}

void take_part(const LayerCall& call, int64_t column, Projection* part) {
  part->matrix = call.w_qkv.matrix.from(0, column, 0, 0);
  part->bias = call.w_qkv.bias.from(column, 0, 0, 0);
}

}  // namespace qkvet::impl
