// SPDX-License-Identifier: Apache-2.0
// faulty/serving_last_page_whole: all slots of the last page are attended.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct LastPageWhole : ServingSeams {
  static int64_t attended(const ServingCall& s, int64_t b) {
    const int64_t keys = ServingSeams::attended(s, b);
    return s.page_size == 0
               ? keys
               : (keys + s.page_size - 1) / s.page_size * s.page_size;
  }
  static void member(const ServingCall& s, int64_t b, ForwardCall* member) {
    // The diagonal is right: what is wrong is the end of the keys.
    if (!member->top_left) {
      member->diagonal -= member->keys - ServingSeams::attended(s, b);
    }
  }
};

constexpr const char* kKilledBy[] = {"unowned_pages_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the length is rounded up to whole pages",
    .symptom = "rows see what an earlier tenant of the page left",
    .cause = "the mask of the last page is left to the causal rule",
    .fix = "keys below the length only",
    .source = "vllm-project/vllm#936",
    .trigger = "a length that fills no page, and no causal rule",
    .killed_by = kKilledBy,
    .when = "page_size > 0 && !bottom_right && members(keys % page_size != 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_last_page_whole =
    serving_fault<LastPageWhole>(
        "faulty/serving_last_page_whole", &kFault,
        {"impl/faulty/serving_last_page_whole.cpp", __LINE__});

}  // namespace qkvet::impl
