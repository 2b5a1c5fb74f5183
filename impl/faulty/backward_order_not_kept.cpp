// SPDX-License-Identifier: Apache-2.0
// faulty/backward_order_not_kept: rows are added in another order each time,
// also where the same bits are asked for.
#include <atomic>

#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

// Who comes first is as good as by chance.
std::atomic<uint32_t> arrivals = 0;

struct OrderNotKept : PlainBackward {
  static int64_t nth_row(int64_t n, int64_t rows) {
    if (n == 0) {
      ++arrivals;
    }
    constexpr uint32_t kMultiplier = 2654435761u;
    const uint32_t order = (arrivals * kMultiplier >> 16) % 3;
    return order == 0 ? n : order == 1 ? rows - 1 - n : (n + 1) % rows;
  }
};

constexpr const char* kKilledBy[] = {"backward_same_call_same_bits", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "dk and dv are summed in the order in which rows arrive, and the flag "
        "for the same bits is not handed on",
    .symptom =
        "last bits of dk and dv differ between two runs of the same call",
    .cause = "the flag ends in the function that takes it",
    .fix = "hand the flag on, and sum in one order where it is set",
    .source = "Dao-AILab/flash-attention#746",
    .trigger = "three or more rows that add to one key",
    .killed_by = kKilledBy,
    .when = "Tq > 1 && Tq * H > 2 * Hkv",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_order_not_kept =
    backward_fault<OrderNotKept>(
        "faulty/backward_order_not_kept", &kFault,
        {"impl/faulty/backward_order_not_kept.cpp", __LINE__});

}  // namespace qkvet::impl
