// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/layer_call.h"

#include <cinttypes>
#include <cstdio>

#include "impl/abi/forward_view.h"

namespace qkvet::impl {
namespace {

// Room for the longest reason below.
constexpr size_t kReasonRoom = 128;

struct NamedTensor {
  const char* name;
  const qkvet_tensor* tensor;
};

// "w_k has 12 columns, 8 are needed"
qkvet_status refuse_extent(qkvet_text* why, const char* name, int64_t found,
                           const char* what, int64_t needed) {
  char reason[kReasonRoom];
  std::snprintf(reason, sizeof(reason),
                "%s has %" PRId64 " %s, %" PRId64 " are needed", name, found,
                what, needed);
  return refuse(why, QKVET_INVALID_ARGUMENT, reason);
}

qkvet_status refuse_tensor(qkvet_text* why, qkvet_status status,
                           const char* name, const char* wrong) {
  char reason[kReasonRoom];
  std::snprintf(reason, sizeof(reason), "%s: %s", name, wrong);
  return refuse(why, status, reason);
}

// Ranks, devices and types; widths are checked later.
qkvet_status check_tensors(const qkvet_kernel* self, const qkvet_layer_args& a,
                           qkvet_text* why) {
  const int32_t rank = a.x.ndim == 2 ? 2 : 3;
  const struct {
    NamedTensor named;
    int32_t rank;
    bool optional;
  } rows[] = {{{"x", &a.x}, rank, false},  {{"y", &a.y}, rank, false},
              {{"w_q", &a.w_q}, 2, false}, {{"w_k", &a.w_k}, 2, false},
              {{"w_v", &a.w_v}, 2, false}, {{"w_o", &a.w_o}, 2, false},
              {{"b_q", &a.b_q}, 1, true},  {{"b_k", &a.b_k}, 1, true},
              {{"b_v", &a.b_v}, 1, true},  {{"b_o", &a.b_o}, 1, true}};
  for (const auto& [named, ranks, optional] : rows) {
    if (optional && is_absent(*named.tensor)) {
      continue;
    }
    if (const char* wrong = wrong_with(*named.tensor, ranks)) {
      return refuse_tensor(why, QKVET_INVALID_ARGUMENT, named.name, wrong);
    }
    if (!is_same(named.tensor->dtype, a.x.dtype)) {
      return refuse_tensor(why, QKVET_UNSUPPORTED, named.name,
                           "has another storage type than x");
    }
  }
  return is_declared(*self->capabilities, a.x.dtype)
             ? QKVET_OK
             : refuse_tensor(why, QKVET_UNSUPPORTED, "x",
                             "this kernel does not take this storage type");
}

struct MatrixRow {
  const char* name;
  const qkvet_tensor* matrix;
  const char* bias_name;
  const qkvet_tensor* bias;
  int64_t rows;     // needed
  int64_t columns;  // needed; 0: any multiple of `heads`
  int64_t heads;
  Projection* to;
};

qkvet_status read_projection(const MatrixRow& row, Storage storage,
                             qkvet_text* why) {
  const int64_t rows = row.matrix->shape[0], columns = row.matrix->shape[1];
  if (rows != row.rows) {
    return refuse_extent(why, row.name, rows, "rows", row.rows);
  }
  if (columns % row.heads != 0) {
    return refuse_extent(why, row.name, columns, "columns, multiples of",
                         row.heads);
  }
  if (row.columns != 0 && columns != row.columns) {
    return refuse_extent(why, row.name, columns, "columns", row.columns);
  }
  *row.to = {stored(*row.matrix, storage), {}, rows, columns};
  if (!is_absent(*row.bias)) {
    if (row.bias->shape[0] != columns) {
      return refuse_extent(why, row.bias_name, row.bias->shape[0], "elements",
                           columns);
    }
    row.to->bias = stored(*row.bias, storage);
  }
  return QKVET_OK;
}

// The widths, each derived from the ones before.
qkvet_status read_projections(const qkvet_layer_args& a, LayerCall* call,
                              qkvet_text* why) {
  const int64_t d_model = call->model_width;
  const MatrixRow q = {"w_q",   &a.w_q, "b_q",   &a.b_q,
                       d_model, 0,      a.heads, &call->w_q};
  qkvet_status status = read_projection(q, call->storage, why);
  if (status != QKVET_OK) {
    return status;
  }
  call->width = call->w_q.columns / a.heads;
  const MatrixRow k = {"w_k",  &a.w_k,    "b_k",
                       &a.b_k, d_model,   a.kv_heads * call->width,
                       1,      &call->w_k};
  const MatrixRow v = {"w_v",   &a.w_v, "b_v",      &a.b_v,
                       d_model, 0,      a.kv_heads, &call->w_v};
  for (const MatrixRow& row : {k, v}) {
    status = read_projection(row, call->storage, why);
    if (status != QKVET_OK) {
      return status;
    }
  }
  call->value_width = call->w_v.columns / a.kv_heads;
  const MatrixRow o = {
      "w_o",   &a.w_o, "b_o",     &a.b_o, a.heads * call->value_width,
      d_model, 1,      &call->w_o};
  return read_projection(o, call->storage, why);
}

qkvet_status read_stages(const qkvet_kernel* self, const qkvet_layer_args& a,
                         LayerCall* call, qkvet_text* why) {
  const int64_t b = call->batch, t = call->tokens;
  const struct {
    NamedTensor named;
    int64_t shape[4];
    Stored* to;
  } rows[] = {
      {{"q", &a.q}, {b, call->heads, t, call->width}, &call->q},
      {{"k", &a.k}, {b, call->kv_heads, t, call->width}, &call->k},
      {{"v", &a.v}, {b, call->kv_heads, t, call->value_width}, &call->v},
      {{"attended", &a.attended},
       {b, call->heads, t, call->value_width},
       &call->attended}};
  if (is_absent(a.q) && is_absent(a.k) && is_absent(a.v) &&
      is_absent(a.attended)) {
    return QKVET_OK;
  }
  const qkvet_dtype declared = self->layer->stage;
  const qkvet_dtype type = declared.bits != 0 ? declared : a.x.dtype;
  Storage storage = Storage::kF32;
  storage_of(type, &storage);
  for (const auto& [named, shape, to] : rows) {
    if (const char* wrong = wrong_with(*named.tensor, 4)) {
      return refuse_tensor(why, QKVET_INVALID_ARGUMENT, named.name, wrong);
    }
    if (!is_same(named.tensor->dtype, type)) {
      return refuse_tensor(why, QKVET_INVALID_ARGUMENT, named.name,
                           "is not of the declared type of the stages");
    }
    for (int axis = 0; axis < 4; ++axis) {
      constexpr const char* kAxes[] = {"members", "heads", "tokens",
                                       "channels"};
      if (named.tensor->shape[axis] != shape[axis]) {
        return refuse_extent(why, named.name, named.tensor->shape[axis],
                             kAxes[axis], shape[axis]);
      }
    }
    *to = stored(*named.tensor, storage);
  }
  return QKVET_OK;
}

// [B, T, D] or [T, D] as [B, T, D].
Stored batched(const qkvet_tensor& t, Storage storage) {
  Stored view = stored(t, storage);
  if (t.ndim == 2) {
    view.step[2] = view.step[1];
    view.step[1] = view.step[0];
    view.step[0] = 0;
  }
  return view;
}

qkvet_status read_model(const qkvet_layer_args& a, LayerCall* call,
                        qkvet_text* why) {
  const int32_t rank = a.x.ndim;
  constexpr const char* kAxes[] = {"members", "tokens", "columns"};
  for (int32_t axis = 0; axis < rank; ++axis) {
    if (a.y.shape[axis] != a.x.shape[axis]) {
      return refuse_extent(why, "y", a.y.shape[axis], kAxes[axis + 3 - rank],
                           a.x.shape[axis]);
    }
  }
  call->batch = rank == 3 ? a.x.shape[0] : 1;
  call->tokens = a.x.shape[rank - 2];
  call->model_width = a.x.shape[rank - 1];
  call->x = batched(a.x, call->storage);
  call->y = batched(a.y, call->storage);
  return QKVET_OK;
}

const char* read_rotation(const qkvet_layer_args& a, LayerCall* call) {
  Rope* const rope = &call->rope;
  if (const char* wrong =
          read_rope(a.rope, a.rope_cos, a.rope_sin, call->width, rope)) {
    return wrong;
  }
  if (!rope->present()) {
    return is_absent(a.positions) ? nullptr : "positions, and no rotation";
  }
  if (const char* wrong =
          read_positions(a.positions, call->batch, call->tokens, &rope->q)) {
    return wrong;
  }
  return has_positions(*rope, rope->q, call->batch, call->tokens)
             ? nullptr
             : "a position is no row of the tables";
}

}  // namespace

qkvet_status read_layer(const qkvet_kernel* self, const qkvet_layer_args& args,
                        LayerCall* call, qkvet_text* why) {
  if (args.heads < 1 || args.kv_heads < 1 || args.heads % args.kv_heads != 0) {
    char reason[kReasonRoom];
    std::snprintf(reason, sizeof(reason),
                  "%" PRId64 " kv_heads do not divide %" PRId64 " heads",
                  args.kv_heads, args.heads);
    return refuse(why, QKVET_INVALID_ARGUMENT, reason);
  }
  if (args.causal < QKVET_CAUSAL_NONE ||
      args.causal > QKVET_CAUSAL_BOTTOM_RIGHT) {
    return refuse(why, QKVET_UNSUPPORTED, "this causal mode is not supported");
  }
  qkvet_status status = check_tensors(self, args, why);
  if (status != QKVET_OK) {
    return status;
  }
  storage_of(args.x.dtype, &call->storage);
  call->heads = args.heads;
  call->kv_heads = args.kv_heads;
  status = read_model(args, call, why);
  if (status == QKVET_OK) {
    status = read_projections(args, call, why);
  }
  if (status == QKVET_OK) {
    status = read_stages(self, args, call, why);
  }
  if (status != QKVET_OK) {
    return status;
  }
  if (const char* wrong = read_rotation(args, call)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
  }
  call->scale = args.scale_given != 0 ? args.scale : default_scale(call->width);
  call->causal = args.causal != QKVET_CAUSAL_NONE;
  return read_layer_storage(self, args, call, why);
}

}  // namespace qkvet::impl
