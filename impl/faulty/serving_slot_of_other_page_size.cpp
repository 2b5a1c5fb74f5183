// SPDX-License-Identifier: Apache-2.0
// faulty/serving_slot_of_other_page_size: slots are counted in pages of 4
// tokens, whatever their size.
#include "impl/faulty/serving_seams.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct SlotOfOtherPageSize : ServingSeams {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    if (s.page_size == 0 || token / tile() >= s.columns) {
      return s.slot(b, token);
    }
    const Slot other = {s.entry(b, token / tile()),
                        token % tile() % s.page_size};
    return inside(s, other) ? other : s.slot(b, token);
  }
};

constexpr const char* kKilledBy[] = {"page_size_changes_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the page size of a slot is a constant of the kernel",
    .symptom = "wrong tokens for every other page size",
    .cause = "a constant in one of two places",
    .fix = "take page_size from the call, or declare the sizes",
    .source = "vllm-project/vllm#47056",
    .trigger = "pages of another size than 4, and more tokens than one holds",
    .killed_by = kKilledBy,
    .when =
        "page_size > 0 && page_size != 4 && members(keys > 4 || keys > "
        "page_size)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_slot_of_other_page_size =
    serving_fault<SlotOfOtherPageSize>(
        "faulty/serving_slot_of_other_page_size", &kFault,
        {"impl/faulty/serving_slot_of_other_page_size.cpp", __LINE__});

}  // namespace qkvet::impl
