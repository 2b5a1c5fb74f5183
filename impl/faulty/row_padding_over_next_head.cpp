// SPDX-License-Identifier: Apache-2.0
// faulty/row_padding_over_next_head: rows that pad a head are stored over the
// next one.
#include <algorithm>
#include <cstdint>

#include "impl/faulty/seams.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

// Behind the last row of head h - 1 lies the first one of head h.
void clear_row(const ForwardCall& call, int64_t b, int64_t h, int64_t i) {
  for (int64_t c = 0; c < call.value_width; ++c) {
    call.o.at(b, h, i)[c * call.o.step[3]] = 0;
  }
}

// As if the heads had been done from the last to the first.
qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
  const qkvet_status status = SeamsKernel<PlainSeams>::compute(call, why);
  const int64_t rest = call.queries % half_tile();
  const int64_t padding = rest == 0 ? 0 : half_tile() - rest;
  for (int64_t b = 0; status == QKVET_OK && b < call.batch; ++b) {
    for (int64_t h = 1; h < call.heads; ++h) {
      for (int64_t i = 0; i < std::min(padding, call.queries); ++i) {
        clear_row(call, b, h, i);
      }
    }
  }
  return status;
}

constexpr const char* kKilledBy[] = {"weights_sum_to_one",
                                     "prefill_equals_decode",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "rows are stored in whole tiles, and those behind the last one land in "
        "the next head",
    .symptom =
        "the first row of a head is 0 if it was done before the head in front "
        "of it",
    .cause = "one address for all heads, and a store without a mask",
    .fix =
        "mask the store by the number of rows, or make a head a dimension of "
        "its own",
    .source = "flagos-ai/FlagGems#898",
    .trigger = "an odd number of rows, the tile being 2, and H > 1",
    .killed_by = kKilledBy,
    .when = "H > 1 && Tq % 2 == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_row_padding_over_next_head =
    with_fault(
        plain_kernel("faulty/row_padding_over_next_head", kFault.mechanism,
                     {"impl/faulty/row_padding_over_next_head.cpp", __LINE__},
                     &kSeamsPrecision, forward_in_f32<compute>,
                     &kF32Capabilities),
        &kFault) /*RowPaddingOverNextHead*/;

}  // namespace qkvet::impl
