// SPDX-License-Identifier: Apache-2.0
// faulty/mask_added_as_number: a boolean mask is added.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaskAddedAsNumber : OptionSeams {
  static bool allows(const ForwardCall&, RowAt, int64_t) { return true; }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const bool kept = OptionSeams::allows(call, at, j);
    return call.options.mask.data != nullptr && kept ? s + 1 : s;
  }
};

constexpr const char* kKilledBy[] = {
    "masked_keys_change_nothing", "every_pair_is_seen_as_asked",
    "every_key_counts_once",      "lse_counts_equal_keys",
    "agrees_with_oracle",         nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the 0 and 1 of a boolean mask are added to the scores",
    .symptom = "hidden keys keep about a third of their weight",
    .cause = "a boolean mask passed where an additive one is expected",
    .fix = "turn it into 0 and -infinity first",
    .source = "HKUSTDial/flash-sparse-attention#146",
    .trigger = "a mask that hides a key",
    .killed_by = kKilledBy,
    .when = "mask",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_added_as_number =
    option_fault<MaskAddedAsNumber, QKVET_OPTION_MASK>(
        "faulty/mask_added_as_number", &kFault,
        {"impl/faulty/mask_added_as_number.cpp", __LINE__});

}  // namespace qkvet::impl
