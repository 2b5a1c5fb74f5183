// SPDX-License-Identifier: Apache-2.0
// faulty/parts_without_lse: parts store no lse unless the caller wants one.
#include "impl/faulty/split_seams.h"

namespace qkvet::impl {
namespace {

struct PartsWithoutLse : SplitSeams {
  static void stored(const ForwardCall& call, SplitPart* part) {
    if (call.lse.data == nullptr && part->seen > 0) {
      part->lse = 0;
    }
  }
};

constexpr const char* kKilledBy[] = {"every_key_counts_once",
                                     "scale_is_one_over_sqrt_d", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the lse of the parts is stored only if the caller asks for that of "
        "the row",
    .symptom =
        "with lse all is right; without it parts are merged by what the "
        "scratch holds",
    .cause = "one flag for two outputs",
    .fix = "always store what the merge reads",
    .source = "flashinfer-ai/flashinfer#50",
    .trigger = "lse is not asked for, and a row sees two keys",
    .killed_by = kKilledBy,
    .when = "!lse && rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_parts_without_lse =
    split_fault<PartsWithoutLse>(
        "faulty/parts_without_lse", &kFault,
        {"impl/faulty/parts_without_lse.cpp", __LINE__});

}  // namespace qkvet::impl
