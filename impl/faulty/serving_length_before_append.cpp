// SPDX-License-Identifier: Apache-2.0
// faulty/serving_length_before_append: the new tokens are stored and not
// attended.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct LengthBeforeAppend : ServingSeams {
  static int64_t attended(const ServingCall& s, int64_t b) { return s.held(b); }
};

constexpr const char* kKilledBy[] = {"append_equals_given",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "keys are counted before the new tokens are appended",
    .symptom = "a token does not see itself",
    .cause = "kv_len is read as what is attended",
    .fix = "attend kv_len + Tnew keys",
    .source = "textbook",
    .trigger = "new tokens",
    .killed_by = kKilledBy,
    .when = "new_tokens > 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_length_before_append =
    serving_fault<LengthBeforeAppend>(
        "faulty/serving_length_before_append", &kFault,
        {"impl/faulty/serving_length_before_append.cpp", __LINE__});

}  // namespace qkvet::impl
