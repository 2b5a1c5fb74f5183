// SPDX-License-Identifier: Apache-2.0
// faulty/accumulates_in_half: the output is accumulated in its storage type.
#include "impl/declare.h"
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct AccumulatesInHalf : PlainSeams {
  static float add_value(const ForwardCall& call, float acc, float term) {
    return round_to(call.storage, acc + term);
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "P v is rounded to the storage type after every key",
    .symptom =
        "outputs lose digits as rows grow longer; beyond some hundred keys of "
        "one sign they stop growing",
    .cause = "the accumulator has the type of o",
    .fix = "accumulate in f32 and round once at the end",
    .source = "textbook",
    .trigger = "half storage, and a row with two keys or more",
    .killed_by = kKilledBy,
    .when = "dtype != f32 && rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_accumulates_in_half =
    faulty_kernel<AccumulatesInHalf>(
        "faulty/accumulates_in_half", &kFault,
        {"impl/faulty/accumulates_in_half.cpp", __LINE__}, &kHalfCapabilities);

}  // namespace qkvet::impl
