// SPDX-License-Identifier: Apache-2.0
// faulty/masked_weight_times_nan: 0 * NaN at hidden keys.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskedWeightTimesNan : OptionSeams {
  static bool adds_hidden() { return true; }
};

constexpr const char* kKilledBy[] = {"masked_nonfinite_is_ignored", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "hidden keys take part with weight 0, and 0 times NaN is NaN; "
        "non-finite values there are declared to be ignored",
    .symptom = "NaN out of memory that nothing should depend on",
    .cause = "a product over the whole tile after hidden weights became 0",
    .fix = "clear the values of hidden keys, or skip them",
    .source = "vllm-project/vllm#936",
    .trigger = "a NaN or infinity in V at a hidden key",
    .killed_by = kKilledBy,
    .when = "rows(seen > 0 && hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_masked_weight_times_nan =
    option_fault<MaskedWeightTimesNan, QKVET_OPTION_MASK>(
        "faulty/masked_weight_times_nan", &kFault,
        {"impl/faulty/masked_weight_times_nan.cpp", __LINE__});

}  // namespace qkvet::impl
