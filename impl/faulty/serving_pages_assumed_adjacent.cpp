// SPDX-License-Identifier: Apache-2.0
// faulty/serving_pages_assumed_adjacent: pages behind the first one are taken
// to follow it.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct PagesAssumedAdjacent : ServingSeams {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (s.page_size == 0) {
      return s.slot(b, token);
    }
    const Slot first = s.slot(b, 0);
    return {(first.block + token / s.page_size) % s.pages, token % s.page_size};
  }
};

constexpr const char* kKilledBy[] = {"page_placement_changes_nothing",
                                     "unowned_pages_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "only the first entry of a block table is looked up",
    .symptom =
        "right until the pool is fragmented, then tokens of other sequences",
    .cause = "tested on a fresh pool, whose pages are handed out in order",
    .fix = "look up every page",
    .source = "textbook (PagedAttention)",
    .trigger = "a member with two pages that do not follow each other",
    .killed_by = kKilledBy,
    .when = "page_size > 0 && members(keys > page_size)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_pages_assumed_adjacent =
    serving_fault<PagesAssumedAdjacent>(
        "faulty/serving_pages_assumed_adjacent", &kFault,
        {"impl/faulty/serving_pages_assumed_adjacent.cpp", __LINE__});

}  // namespace qkvet::impl
