// SPDX-License-Identifier: Apache-2.0
// faulty/alibi_from_zero: distances from the first key.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct AlibiFromZero : OptionSeams {
  static float distance(const ForwardCall&, int64_t, int64_t j) {
    return static_cast<float>(j);
  }
};

constexpr const char* kKilledBy[] = {"bias_alone_decides",
                                     "shifted_keys_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "ALiBi counts the distance from key 0",
    .symptom = "the oldest keys weigh most",
    .cause = "key positions used where distances are meant",
    .fix = "count from the row's own position",
    .source = "textbook",
    .trigger = "ALiBi, and a row that sees two keys",
    .killed_by = kKilledBy,
    .when = "alibi && (Tq > 1 || Tk > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_alibi_from_zero =
    option_fault<AlibiFromZero, QKVET_OPTION_ALIBI>(
        "faulty/alibi_from_zero", &kFault,
        {"impl/faulty/alibi_from_zero.cpp", __LINE__});

}  // namespace qkvet::impl
