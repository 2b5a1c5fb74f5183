// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/merge_call.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_dtype kInt64 = {QKVET_DTYPE_INT, 64, 1};

qkvet_status wrong(qkvet_text* why, const char* reason) {
  return refuse(why, QKVET_INVALID_ARGUMENT, reason);
}

qkvet_status check_options(const qkvet_kernel* self, const qkvet_merge_args& a,
                           qkvet_text* why) {
  const uint64_t has = self->merge->options;
  const bool ragged = !is_absent(a.indptr), masked = !is_absent(a.row_mask);
  if (ragged && (has & QKVET_MERGE_RAGGED) == 0) {
    return refuse(why, QKVET_UNSUPPORTED, "indptr is not supported");
  }
  if (a.in_place != 0 && (has & QKVET_MERGE_IN_PLACE) == 0) {
    return refuse(why, QKVET_UNSUPPORTED, "in_place is not supported");
  }
  if (masked && (has & QKVET_MERGE_ROW_MASK) == 0) {
    return refuse(why, QKVET_UNSUPPORTED, "row_mask is not supported");
  }
  if (ragged && a.in_place != 0) {
    return wrong(why, "in_place together with indptr");
  }
  return masked && a.in_place == 0 ? wrong(why, "row_mask without in_place")
                                   : QKVET_OK;
}

// Whether [..., T, H] has the layout of [..., H, T] without gaps; always true
// for a tensor without elements.
bool is_heads_first(const qkvet_tensor& t) {
  int64_t step = 1;
  const auto is_dense = [&](int32_t axis) {
    const bool fits =
        step == 0 || t.shape[axis] <= 1 || t.strides[axis] == step;
    step *= t.shape[axis];
    return fits;
  };
  bool fits = is_dense(t.ndim - 2) && is_dense(t.ndim - 1);
  for (int32_t axis = t.ndim - 3; axis >= 0; --axis) {
    fits = is_dense(axis) && fits;
  }
  return fits;
}

// The first `rank` extents of `shape` are those of `t`.
bool has_shape(const qkvet_tensor& t, const int64_t* shape, int32_t rank) {
  for (int32_t axis = 0; axis < rank; ++axis) {
    if (t.shape[axis] != shape[axis]) {
      return false;
    }
  }
  return true;
}

qkvet_status check_tensors(const qkvet_kernel* self, const qkvet_merge_args& a,
                           bool ragged, qkvet_text* why) {
  const int32_t rank = ragged ? 3 : 4;
  const struct {
    const qkvet_tensor& tensor;
    int32_t rank;
  } rows[] = {{a.states, rank}, {a.states_lse, rank - 1}, {a.o, 3}, {a.lse, 2}};
  for (const auto& row : rows) {
    const char* bad = wrong_with(row.tensor, row.rank, Empty::kAllowed);
    if (bad != nullptr) {
      return wrong(why, bad);
    }
  }
  const int64_t* const o = a.o.shape;
  const int64_t* const s = a.states.shape;
  if (!has_shape(a.lse, o, 2) || !has_shape(a.states_lse, s, rank - 1) ||
      s[rank - 2] != o[1] || s[rank - 1] != o[2] || (!ragged && s[1] != o[0])) {
    return wrong(why,
                 "states, lse and o do not have the same rows, heads and "
                 "channels");
  }
  const bool heads_first =
      (self->merge->options & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) != 0;
  return !heads_first || (is_heads_first(a.states_lse) && is_heads_first(a.lse))
             ? QKVET_OK
             : refuse(why, QKVET_UNSUPPORTED,
                      "lse that does not lie as [n, H, T] is not supported");
}

qkvet_status check_types(const qkvet_kernel* self, const qkvet_merge_args& a,
                         Storage* states, Storage* o, qkvet_text* why) {
  if (!storage_of(a.states.dtype, states) || !storage_of(a.o.dtype, o) ||
      !is_same(a.states.dtype, a.o.dtype) ||
      !is_declared(*self->capabilities, a.o.dtype)) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "the types of states and o are not supported");
  }
  return is_same(a.states_lse.dtype, kF32) && is_same(a.lse.dtype, kF32)
             ? QKVET_OK
             : refuse(why, QKVET_UNSUPPORTED, "every lse is f32");
}

qkvet_status check_vectors(const qkvet_merge_args& a, qkvet_text* why) {
  if (!is_absent(a.indptr)) {
    const char* bad = wrong_with(a.indptr, 1);
    if (bad != nullptr) {
      return wrong(why, bad);
    }
    if (!is_same(a.indptr.dtype, kInt64) ||
        a.indptr.shape[0] != a.o.shape[0] + 1) {
      return wrong(why, "indptr is [T + 1] int64");
    }
  }
  if (is_absent(a.row_mask)) {
    return QKVET_OK;
  }
  const char* bad = wrong_with(a.row_mask, 1, Empty::kAllowed);
  if (bad != nullptr) {
    return wrong(why, bad);
  }
  const bool is_byte =
      a.row_mask.dtype.bits == 8 && a.row_mask.dtype.lanes == 1;
  return is_byte && a.row_mask.shape[0] == a.o.shape[0]
             ? QKVET_OK
             : wrong(why, "row_mask is [T] bytes");
}

qkvet_status check_starts(const MergeCall& call, qkvet_text* why) {
  int64_t last = 0;
  for (int64_t t = 0; call.ragged() && t <= call.rows; ++t) {
    const int64_t next = call.begin(t);
    if (next < last || (t == 0 && next != 0)) {
      return wrong(why, "indptr does not begin at 0, or falls");
    }
    last = next;
  }
  return !call.ragged() || last == call.all_states
             ? QKVET_OK
             : wrong(why, "indptr does not end at the number of states");
}

}  // namespace

qkvet_status read_merge_extents(const qkvet_kernel* self,
                                const qkvet_merge_args* args, MergeCall* call,
                                qkvet_text* why) {
  qkvet_merge_args a;
  qkvet_status status = read_struct(args, &a, why);
  const bool ragged = status == QKVET_OK && !is_absent(a.indptr);
  Storage states = Storage::kF32, o = Storage::kF32;
  status = status == QKVET_OK ? check_options(self, a, why) : status;
  status = status == QKVET_OK ? check_tensors(self, a, ragged, why) : status;
  status = status == QKVET_OK ? check_types(self, a, &states, &o, why) : status;
  status = status == QKVET_OK ? check_vectors(a, why) : status;
  if (status != QKVET_OK) {
    return status;
  }
  *call = {};
  call->rows = a.o.shape[0];
  call->heads = a.o.shape[1];
  call->width = a.o.shape[2];
  call->others = ragged ? 0 : a.states.shape[0];
  call->all_states = a.states.shape[0];
  call->in_place = a.in_place != 0;
  call->states = stored(a.states, states);
  call->states_lse = stored(a.states_lse, Storage::kF32);
  call->o = stored(a.o, o);
  call->lse = stored(a.lse, Storage::kF32);
  if (ragged) {
    call->indptr = view_of<const int64_t>(a.indptr);
  }
  if (!is_absent(a.row_mask)) {
    call->row_mask = view_of<const uint8_t>(a.row_mask);
  }
  const qkvet_merge_table& table = *self->merge;
  if (!ragged && ((table.max_states > 0 &&
                   call->others + call->in_place > table.max_states) ||
                  call->others + call->in_place < table.min_states)) {
    return refuse(why, QKVET_UNSUPPORTED, "that many states are not supported");
  }
  return QKVET_OK;
}

qkvet_status read_merge(const qkvet_kernel* self, const qkvet_merge_args* args,
                        MergeCall* call, qkvet_text* why) {
  const qkvet_status status = read_merge_extents(self, args, call, why);
  return status == QKVET_OK ? check_starts(*call, why) : status;
}

}  // namespace qkvet::impl
