// SPDX-License-Identifier: Apache-2.0
// faulty/denominator_in_half: the sum of the exponentials is kept in the
// storage type. In bf16 it stops at 256: 256 + 1 rounds to 256.
#include "impl/declare.h"
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct DenominatorInHalf : PlainSeams {
  static float add(const ForwardCall& call, float sum, float weight) {
    return round_to(call.storage, sum + weight);
  }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the denominator is rounded to the storage type after every key",
    .symptom =
        "the weights of long rows sum to more than one, and lse is too small",
    .cause = "a sum that inherits the type of what it adds",
    .fix = "sum in f32",
    .source = "textbook",
    .trigger =
        "half storage, and a row with some tens of keys of similar weight",
    .killed_by = kKilledBy,
    .when = "dtype != f32 && rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_denominator_in_half =
    faulty_kernel<DenominatorInHalf>(
        "faulty/denominator_in_half", &kFault,
        {"impl/faulty/denominator_in_half.cpp", __LINE__}, &kHalfCapabilities);

}  // namespace qkvet::impl
