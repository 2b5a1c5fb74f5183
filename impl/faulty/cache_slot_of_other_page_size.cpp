// SPDX-License-Identifier: Apache-2.0
// faulty/cache_slot_of_other_page_size: slots are counted in pages of 4
// tokens and decoded in pages of 8.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

// Of the table that slots are made with, and of the kernel that writes them.
// [pages, Hkv, tile, d]; the pages of a sequence lie one behind the other.
class SlotOfOtherPageSize : public ContiguousCache {
 public:
  explicit SlotOfOtherPageSize(const CacheShape& shape)
      : ContiguousCache(shape,
                        (shape.capacity + 2 * tile() - 1) & -2 * tile()) {}

 protected:
  int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                   int64_t j) const override {
    return slot(step.sequence, head, before + j, 2 * tile());
  }
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    return slot(step.sequence, head, before + j, 2 * tile());
  }

  Rows keys(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).keys, shape().width, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).values, shape().value_width,
                  room);
  }

 private:
  int64_t slot(int64_t sequence, int64_t head, int64_t token,
               int64_t page) const {
    return first_slot(sequence, /*head=*/0, /*n=*/0) +
           (token / page * shape().kv_heads + head) * page + token % page;
  }

  Rows gather(const Reading& reading, const Memory& from, int64_t width,
              float* room) const {
    float* to = room;
    for (int64_t j = reading.run.begin; j < reading.run.end; ++j, to += width) {
      load_rows(shape().storage, from,
                slot(reading.sequence, reading.head, j, tile()), 1, width, to);
    }
    return {room, width, 1};
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a slot is a number of a token in pages of 4, and what writes it takes "
        "it for one in pages of 8",
    .symptom =
        "right with one key/value head, where slots are rows; with two, heads "
        "overwrite each other",
    .cause = "the page size is a constant of its own on either side",
    .fix = "pass the page size along with the pages",
    .source = "vllm-project/vllm#47056",
    .trigger = "more than one key/value head",
    .killed_by = kKilledBy,
    .when = "Hkv > 1 && commands(new > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_slot_of_other_page_size =
    faulty_cache<SlotOfOtherPageSize>(
        "faulty/cache_slot_of_other_page_size", &kFault,
        {"impl/faulty/cache_slot_of_other_page_size.cpp", __LINE__});

}  // namespace qkvet::impl
