// SPDX-License-Identifier: Apache-2.0
// faulty/serving_pads_into_first_slot: tokens that pad a tile are written to
// the first slot of the pool.
#include "impl/faulty/serving_seams.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct PadsIntoFirstSlot : ServingSeams {
  static void append(const ServingCall& s, int64_t b) {
    if (s.page_size > 0 && s.pages > 0 && s.new_tokens % tile() != 0) {
      clear(s, {0, 0});
    }
    ServingSeams::append(s, b);
  }
};

constexpr const char* kKilledBy[] = {"append_writes_only_its_tokens", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a tile of 4 new tokens is stored whole, and what pads it goes to slot "
        "0 of page 0, which the kernel takes to be its own",
    .symptom =
        "one token of whoever owns that page is overwritten in every step",
    .cause = "a slot that one allocator keeps free is not kept free by another",
    .fix = "mask the store, or let the caller say which slot is free",
    .source = "sgl-project/sglang#36207",
    .trigger = "pages, and new tokens that fill no tile of 4",
    .killed_by = kKilledBy,
    .when = "page_size > 0 && new_tokens % 4 != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_pads_into_first_slot =
    serving_fault<PadsIntoFirstSlot>(
        "faulty/serving_pads_into_first_slot", &kFault,
        {"impl/faulty/serving_pads_into_first_slot.cpp", __LINE__});

}  // namespace qkvet::impl
