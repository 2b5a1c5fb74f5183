// SPDX-License-Identifier: Apache-2.0
// faulty/serving_tail_page_read: one key is read behind a length that fills
// its pages.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct TailPageRead : ServingSeams {
  static int64_t attended(const ServingCall& s, int64_t b) {
    const int64_t keys = ServingSeams::attended(s, b);
    const bool fills = s.page_size > 0 && keys % s.page_size == 0 &&
                       keys / s.page_size < s.columns;
    return fills ? keys + 1 : keys;
  }
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot slot = s.slot(b, token);
    return inside(s, slot) ? slot : Slot{0, 0};
  }
};

constexpr const char* kKilledBy[] = {"unowned_pages_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a member has length / page_size + 1 pages",
    .symptom =
        "a token of another sequence joins whenever a length fills its pages",
    .cause = "a division that is not rounded up",
    .fix = "(length + page_size - 1) / page_size",
    .source = "vllm-project/vllm#42494",
    .trigger = "a length that is a multiple of the page size",
    .killed_by = kKilledBy,
    .when = "page_size > 0 && members(keys % page_size == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_tail_page_read =
    serving_fault<TailPageRead>(
        "faulty/serving_tail_page_read", &kFault,
        {"impl/faulty/serving_tail_page_read.cpp", __LINE__});

}  // namespace qkvet::impl
