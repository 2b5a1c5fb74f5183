// SPDX-License-Identifier: Apache-2.0
// faulty/serving_append_first_only: of several new tokens the first one is
// stored.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct AppendFirstOnly : ServingSeams {
  static void append(const ServingCall& s, int64_t b) {
    store_new_key(s, b, 0, s.slot(b, s.held(b)));
    store_new_value(s, b, 0, s.slot(b, s.held(b)));
  }
};

constexpr const char* kKilledBy[] = {"append_writes_only_its_tokens",
                                     "append_equals_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "one new token a member is stored",
    .symptom =
        "slots that were never written are attended after a step of several "
        "tokens",
    .cause = "written for decoding, called with drafts",
    .fix = "store all of them",
    .source = "textbook (speculative decoding)",
    .trigger = "two new tokens or more",
    .killed_by = kKilledBy,
    .when = "new_tokens > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_append_first_only =
    serving_fault<AppendFirstOnly>(
        "faulty/serving_append_first_only", &kFault,
        {"impl/faulty/serving_append_first_only.cpp", __LINE__});

}  // namespace qkvet::impl
