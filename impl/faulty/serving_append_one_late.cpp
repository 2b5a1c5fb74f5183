// SPDX-License-Identifier: Apache-2.0
// faulty/serving_append_one_late: new tokens are stored one slot behind their
// place.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct AppendOneLate : ServingSeams {
  static void append(const ServingCall& s, int64_t b) {
    for (int64_t n = 0; n < s.new_tokens; ++n) {
      const int64_t token = s.held(b) + n + 1;
      if (has_slot(s, b, token)) {
        store_new_key(s, b, n, s.slot(b, token));
        store_new_value(s, b, n, s.slot(b, token));
      }
    }
  }
};

constexpr const char* kKilledBy[] = {"append_writes_only_its_tokens",
                                     "append_equals_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "kv_len is taken for the last token that is held",
    .symptom = "a slot is left as it was and attended",
    .cause = "an index where a count is meant",
    .fix = "the first new token goes to slot kv_len",
    .source = "textbook",
    .trigger = "new tokens",
    .killed_by = kKilledBy,
    .when = "new_tokens > 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_append_one_late =
    serving_fault<AppendOneLate>(
        "faulty/serving_append_one_late", &kFault,
        {"impl/faulty/serving_append_one_late.cpp", __LINE__});

}  // namespace qkvet::impl
