// SPDX-License-Identifier: Apache-2.0
#include "impl/call/merge_call.h"

#include "impl/call/call_rows.h"

namespace qkvet::impl {
namespace {

#define ROW(field, ...) QKVET_ROW(qkvet_merge_args, field, __VA_ARGS__)
constexpr TensorRow kOutputs[] = {
    ROW(o, "T,H,dv", kOfCall, Need::kRequired),
    ROW(lse, "T,H", kTypeF32, Need::kRequired),
    ROW(indptr, "T+1", kTypeInt64, Need::kOptional, QKVET_MERGE_RAGGED),
    ROW(row_mask, "T", kTypeByte, Need::kOptional, QKVET_MERGE_ROW_MASK)};
constexpr TensorRow kStates[] = {
    ROW(states, "n,T,H,dv", kOfCall, Need::kRequired),
    ROW(states_lse, "n,T,H", kTypeF32, Need::kRequired)};
constexpr TensorRow kRaggedStates[] = {
    ROW(states, "S,H,dv", kOfCall, Need::kRequired),
    ROW(states_lse, "S,H", kTypeF32, Need::kRequired)};
#undef ROW
#define QKVET_MERGE_TENSOR(field, ...)                                         \
  static_assert(has_row(offsetof(qkvet_merge_args, field), kOutputs, kStates), \
                #field " is not checked");
#include "qkvet/tensors.def"

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

qkvet_status check_starts(const MergeCall& call, qkvet_text* why) {
  int64_t last = 0;
  for (int64_t t = 0; call.ragged() && t <= call.rows; ++t) {
    const int64_t next = call.begin(t);
    if (next < last || (t == 0 && next != 0)) {
      return refuse(why, QKVET_INVALID_ARGUMENT,
                    "indptr does not begin at 0, or falls");
    }
    last = next;
  }
  return !call.ragged() || last == call.all_states
             ? QKVET_OK
             : refuse(why, QKVET_INVALID_ARGUMENT,
                      "indptr does not end at the number of states");
}

}  // namespace

qkvet_status read_merge_extents(const qkvet_kernel* self,
                                const qkvet_merge_args* args, MergeCall* call,
                                qkvet_text* why) {
  const qkvet_merge_table& table = *self->merge;
  qkvet_merge_args a = {};
  Check e(*self->capabilities, why, table.options);
  e.copy(args, &a);
  const bool ragged = !is_absent(a.indptr), in_place = a.in_place != 0;
  e.rows(kOutputs, &a);
  if (ragged) {
    e.rows(kRaggedStates, &a);
  } else {
    e.rows(kStates, &a);
  }
  e.rules(QKVET_INVALID_ARGUMENT,
          {{ragged && in_place, "in_place together with indptr"},
           {!is_absent(a.row_mask) && !in_place, "row_mask without in_place"}});
  if (!e.ok()) {
    return e.status;
  }
  const int64_t others = ragged ? 0 : e["n"], count = others + in_place;
  e.rules(QKVET_UNSUPPORTED,
          {{in_place && (table.options & QKVET_MERGE_IN_PLACE) == 0,
            "in_place is not supported"},
           {(table.options & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) != 0 &&
                !(is_heads_first(a.states_lse) && is_heads_first(a.lse)),
            "states_lse and lse must have the layout [n, H, T]"},
           {!ragged && (count < table.min_states ||
                        (table.max_states > 0 && count > table.max_states)),
            "that many states are not supported"}});
  if (!e.ok()) {
    return e.status;
  }
  *call = {};
  call->rows = e["T"];
  call->heads = e["H"];
  call->width = e["dv"];
  call->others = others;
  call->all_states = ragged ? e["S"] : others;
  call->in_place = in_place;
  call->states = stored(a.states, e.storage);
  call->states_lse = stored(a.states_lse, Storage::kF32);
  call->o = stored(a.o, e.storage);
  call->lse = stored(a.lse, Storage::kF32);
  fill(a.indptr, &call->indptr);
  fill(a.row_mask, &call->row_mask);
  return QKVET_OK;
}

qkvet_status read_merge(const qkvet_kernel* self, const qkvet_merge_args* args,
                        MergeCall* call, qkvet_text* why) {
  QKVET_TRY(read_merge_extents(self, args, call, why));
  return check_starts(*call, why);
}

}  // namespace qkvet::impl
