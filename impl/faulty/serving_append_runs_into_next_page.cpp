// SPDX-License-Identifier: Apache-2.0
// faulty/serving_append_runs_into_next_page: new tokens that cross a page
// border go to the next page of the pool.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct AppendRunsIntoNextPage : ServingSeams {
  static void append(const ServingCall& s, int64_t b) {
    const Slot first = s.slot(b, s.held(b));
    const int64_t rows = s.page_size == 0 ? s.call.keys : s.page_size;
    for (int64_t n = 0; n < s.new_tokens; ++n) {
      const int64_t row = first.row + n;
      const Slot slot = {
          s.page_size == 0 ? first.block : (first.block + row / rows) % s.pages,
          row % rows};
      store_new_key(s, b, n, slot);
      store_new_value(s, b, n, slot);
    }
  }
};

constexpr const char* kKilledBy[] = {"append_writes_only_its_tokens",
                                     "append_equals_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the slots of new tokens follow each other in memory",
    .symptom = "another sequence's page is overwritten",
    .cause = "the slot is looked up once a call, not once a token",
    .fix = "look up the page of every token",
    .source = "textbook",
    .trigger = "new tokens that cross a page border",
    .killed_by = kKilledBy,
    .when =
        "page_size > 0 && members((keys - new_tokens) % page_size + new_tokens "
        "> page_size)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_append_runs_into_next_page =
    serving_fault<AppendRunsIntoNextPage>(
        "faulty/serving_append_runs_into_next_page", &kFault,
        {"impl/faulty/serving_append_runs_into_next_page.cpp", __LINE__});

}  // namespace qkvet::impl
