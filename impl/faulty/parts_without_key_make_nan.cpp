// SPDX-License-Identifier: Apache-2.0
// faulty/parts_without_key_make_nan: two parts without a key merge to NaN.
#include "impl/faulty/split_seams.h"

namespace qkvet::impl {
namespace {

struct PartsWithoutKeyMakeNan : SplitSeams {
  static float reference(float max) { return max; }
};

constexpr const char* kKilledBy[] = {"rows_without_a_key_follow_the_dialect",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the larger of two lse, both -infinity, is subtracted from both",
    .symptom = "NaN in rows that see nothing, which are declared to be 0",
    .cause = "the merge expects one of two parts to have a key",
    .fix = "subtract 0 where both are -infinity",
    .source = "flashinfer-ai/flashinfer#4051, vllm-project/vllm#39148",
    .trigger = "a row that the mask hides altogether",
    .killed_by = kKilledBy,
    .when = "rows(seen == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_parts_without_key_make_nan =
    split_fault<PartsWithoutKeyMakeNan, QKVET_OPTION_MASK>(
        "faulty/parts_without_key_make_nan", &kFault,
        {"impl/faulty/parts_without_key_make_nan.cpp", __LINE__});

}  // namespace qkvet::impl
