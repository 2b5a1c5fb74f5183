// SPDX-License-Identifier: Apache-2.0
// faulty/lse_without_maximum: lse lacks the maximum.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct LseWithoutMaximum : OptionSeams {
  static float lse(float, float sum, float) { return std::log(sum); }
};

constexpr const char* kKilledBy[] = {"shifted_keys_change_nothing",
                                     "split_and_merge_by_lse",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "lse is the logarithm of the rescaled sum; the maximum is not added "
        "back",
    .symptom =
        "parts of a long row are merged as if their best keys were equal",
    .cause = "log(sum) stored where max + log(sum) is meant",
    .fix = "add the maximum of the row",
    .source = "textbook, cf. deepseek-ai/FlashMLA#106",
    .trigger = "lse is asked for, and the largest score of a row is not 0",
    .killed_by = kKilledBy,
    .when = "lse && rows(seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_lse_without_maximum =
    option_fault<LseWithoutMaximum>(
        "faulty/lse_without_maximum", &kFault,
        {"impl/faulty/lse_without_maximum.cpp", __LINE__});

}  // namespace qkvet::impl
