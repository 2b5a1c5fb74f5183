// SPDX-License-Identifier: Apache-2.0
// Optional arguments of a layer besides its three matrices: one that contains
// them all, the causal mask of the longest context, and room for weights.
#include <cinttypes>
#include <cstdio>

#include "impl/abi/layer_call.h"

namespace qkvet::impl {
namespace {

// Room for the longest reason below.
constexpr size_t kReasonRoom = 128;

qkvet_status refuse_tensor(qkvet_text* why, qkvet_status status,
                           const char* name, const char* wrong) {
  char reason[kReasonRoom];
  std::snprintf(reason, sizeof(reason), "%s: %s", name, wrong);
  return refuse(why, status, reason);
}

// "w_qkv has 12 columns, 24 are needed"
qkvet_status refuse_extent(qkvet_text* why, const char* name, int64_t found,
                           const char* what, int64_t needed) {
  char reason[kReasonRoom];
  std::snprintf(reason, sizeof(reason),
                "%s has %" PRId64 " %s, %" PRId64 " are needed", name, found,
                what, needed);
  return refuse(why, QKVET_INVALID_ARGUMENT, reason);
}

// b_q, b_k and b_v are all present, with b_qkv, or none of the four is.
bool biases_agree(const qkvet_layer_args& a) {
  const bool absent = is_absent(a.b_qkv);
  return is_absent(a.b_q) == absent && is_absent(a.b_k) == absent &&
         is_absent(a.b_v) == absent;
}

qkvet_status check_whole(const qkvet_layer_args& a, const LayerCall& call,
                         int64_t columns, qkvet_text* why) {
  const struct {
    const char* name;
    const qkvet_tensor& tensor;
    int32_t rank;
  } rows[] = {{"w_qkv", a.w_qkv, 2}, {"b_qkv", a.b_qkv, 1}};
  for (const auto& [name, tensor, rank] : rows) {
    if (rank == 1 && is_absent(tensor)) {
      continue;
    }
    if (const char* wrong = wrong_with(tensor, rank)) {
      return refuse_tensor(why, QKVET_INVALID_ARGUMENT, name, wrong);
    }
    if (!is_same(tensor.dtype, a.x.dtype)) {
      return refuse_tensor(why, QKVET_UNSUPPORTED, name,
                           "has another storage type than x");
    }
    if (rank == 2 && tensor.shape[0] != call.model_width) {
      return refuse_extent(why, name, tensor.shape[0], "rows",
                           call.model_width);
    }
    if (tensor.shape[rank - 1] != columns) {
      return refuse_extent(why, name, tensor.shape[rank - 1], "columns",
                           columns);
    }
  }
  return QKVET_OK;
}

qkvet_status read_fused(const qkvet_kernel* self, const qkvet_layer_args& a,
                        LayerCall* call, qkvet_text* why) {
  if (a.fused == QKVET_FUSED_NONE) {
    return is_absent(a.w_qkv) && is_absent(a.b_qkv)
               ? QKVET_OK
               : refuse(why, QKVET_INVALID_ARGUMENT,
                        "w_qkv or b_qkv, and no order of its parts");
  }
  if (a.fused < QKVET_FUSED_QKV || a.fused > QKVET_FUSED_VKQ) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "no order of w_qkv");
  }
  const uint64_t bit = QKVET_LAYER_FUSED_QKV << (a.fused - QKVET_FUSED_QKV);
  if ((self->layer->options & bit) == 0) {
    return refuse(why, QKVET_UNSUPPORTED, "this order of w_qkv is not taken");
  }
  if (!biases_agree(a)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "b_qkv is given with b_q, b_k and b_v, or none of them");
  }
  const int64_t columns =
      call->w_q.columns + call->w_k.columns + call->w_v.columns;
  const qkvet_status status = check_whole(a, *call, columns, why);
  if (status != QKVET_OK) {
    return status;
  }
  call->fused = a.fused;
  call->w_qkv = {
      stored(a.w_qkv, call->storage), {}, call->model_width, columns};
  if (!is_absent(a.b_qkv)) {
    call->w_qkv.bias = stored(a.b_qkv, call->storage);
  }
  int64_t column = 0;
  for (const char* part = parts_in_order(a.fused); *part != '\0'; ++part) {
    Projection* const to = *part == 'q'   ? &call->w_q
                           : *part == 'k' ? &call->w_k
                                          : &call->w_v;
    take_part(*call, column, to);
    column += to->columns;
  }
  return QKVET_OK;
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

qkvet_status read_buffer(const qkvet_layer_args& a, LayerCall* call,
                         qkvet_text* why) {
  const qkvet_tensor& t = a.mask_buffer;
  if (is_absent(t)) {
    return QKVET_OK;
  }
  if (const char* wrong = wrong_with(t, 2)) {
    return refuse_tensor(why, QKVET_INVALID_ARGUMENT, "mask_buffer", wrong);
  }
  const bool bytes =
      t.dtype.bits == 8 && t.dtype.lanes == 1 &&
      (t.dtype.code == QKVET_DTYPE_UINT || t.dtype.code == QKVET_DTYPE_BOOL);
  if (!bytes) {
    return refuse_tensor(why, QKVET_INVALID_ARGUMENT, "mask_buffer",
                         "is not of bytes");
  }
  if (t.shape[0] != t.shape[1]) {
    return refuse_extent(why, "mask_buffer", t.shape[1], "columns", t.shape[0]);
  }
  if (t.shape[0] < call->tokens) {
    char reason[kReasonRoom];
    std::snprintf(reason, sizeof(reason),
                  "%" PRId64 " tokens, and mask_buffer is for %" PRId64,
                  call->tokens, t.shape[0]);
    return refuse(why, QKVET_INVALID_ARGUMENT, reason);
  }
  if (call->causal) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "mask_buffer and causal: the buffer is the rule alone");
  }
  call->buffer = view_of<const uint8_t>(t);
  call->context = t.shape[0];
  if (!holds_causal_rule(*call)) {
    return refuse_tensor(why, QKVET_UNSUPPORTED, "mask_buffer",
                         "is not the causal mask");
  }
  call->causal = true;
  return QKVET_OK;
}

qkvet_status read_weights(const qkvet_layer_args& a, LayerCall* call,
                          qkvet_text* why) {
  if (is_absent(a.weights)) {
    return QKVET_OK;
  }
  if (const char* wrong = wrong_with(a.weights, 4)) {
    return refuse_tensor(why, QKVET_INVALID_ARGUMENT, "weights", wrong);
  }
  if (!is_same(a.weights.dtype, a.x.dtype)) {
    return refuse_tensor(why, QKVET_INVALID_ARGUMENT, "weights",
                         "has another storage type than x");
  }
  const int64_t needed[] = {call->batch, call->heads, call->tokens,
                            call->tokens};
  constexpr const char* kAxes[] = {"members", "heads", "tokens", "keys"};
  for (int axis = 0; axis < 4; ++axis) {
    if (a.weights.shape[axis] != needed[axis]) {
      return refuse_extent(why, "weights", a.weights.shape[axis], kAxes[axis],
                           needed[axis]);
    }
  }
  call->weights = stored(a.weights, call->storage);
  return QKVET_OK;
}

}  // namespace

const char* parts_in_order(int32_t fused) {
  constexpr const char* kOrders[] = {"",    "qkv", "qvk", "kqv",
                                     "kvq", "vqk", "vkq"};
  return kOrders[fused];
}

void take_part(const LayerCall& call, int64_t column, Projection* part) {
  part->matrix = call.w_qkv.matrix.from(0, column, 0, 0);
  part->bias = call.w_qkv.bias.from(column, 0, 0, 0);
}

qkvet_status read_layer_storage(const qkvet_kernel* self,
                                const qkvet_layer_args& args, LayerCall* call,
                                qkvet_text* why) {
  qkvet_status status = read_fused(self, args, call, why);
  if (status == QKVET_OK) {
    status = read_buffer(args, call, why);
  }
  return status == QKVET_OK ? read_weights(args, call, why) : status;
}

}  // namespace qkvet::impl
