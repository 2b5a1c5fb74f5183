// SPDX-License-Identifier: Apache-2.0
// Checked, typed access to the arguments of one merge (merge.h of the ABI). A
// call that contradicts itself, or requests something undeclared, is refused
// before anything is written.
#ifndef QKVET_IMPL_CALL_MERGE_CALL_H_
#define QKVET_IMPL_CALL_MERGE_CALL_H_

#include <cstdint>

#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

struct MergeCall {
  int64_t rows = 0;        // T
  int64_t heads = 0;       // H
  int64_t width = 0;       // dv
  int64_t others = 0;      // n, without indptr
  int64_t all_states = 0;  // n or S
  bool in_place = false;

  Stored states;                 // [n, T, H, dv], ragged [S, H, dv]
  Stored states_lse;             // [n, T, H], ragged [S, H]
  Stored o;                      // [T, H, dv]
  Stored lse;                    // [T, H]
  View<const int64_t> indptr;    // [T + 1], no data: n states of every row
  View<const uint8_t> row_mask;  // [T], no data: all rows

  bool ragged() const { return indptr.data != nullptr; }
  int64_t begin(int64_t t) const { return indptr.data[t * indptr.step[0]]; }
  // States of a row, including that of o.
  int64_t count(int64_t t) const {
    return ragged() ? begin(t + 1) - begin(t) : others + (in_place ? 1 : 0);
  }
  bool merges(int64_t t) const {
    return row_mask.data == nullptr || row_mask.data[t * row_mask.step[0]] != 0;
  }

  // State n of a row; in place, number 0 is in o and lse.
  float state(int64_t t, int64_t n, int64_t h, int64_t c) const {
    if (in_place && n == 0) {
      return o.get(t, h, c);
    }
    return ragged() ? states.get(begin(t) + n, h, c)
                    : states.get(n - (in_place ? 1 : 0), t, h, c);
  }
  float state_lse(int64_t t, int64_t n, int64_t h) const {
    if (in_place && n == 0) {
      return lse.get(t, h);
    }
    return ragged() ? states_lse.get(begin(t) + n, h)
                    : states_lse.get(n - (in_place ? 1 : 0), t, h);
  }
};

// Fills *call or refuses: *why is then the reason.
qkvet_status read_merge(const qkvet_kernel* self, const qkvet_merge_args* args,
                        MergeCall* call, qkvet_text* why);

// The same without reading the numbers of indptr, which are on a device.
qkvet_status read_merge_extents(const qkvet_kernel* self,
                                const qkvet_merge_args* args, MergeCall* call,
                                qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_MERGE_CALL_H_
