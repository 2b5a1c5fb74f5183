// SPDX-License-Identifier: Apache-2.0
// faulty/p_rounded_twice: the exponentials are rounded to the storage type,
// divided by their sum and rounded again. One rounding of P may be declared;
// here none is, because its author takes both casts for free.
#include "impl/declare.h"
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct PRoundedTwice : PlainSeams {
  static float weight(const ForwardCall& call, float weight, float sum) {
    return round_to(call.storage, round_to(call.storage, weight) / sum);
  }
  static float output(const ForwardCall&, float acc, float) { return acc; }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "weights pass through the storage type before and after their "
        "normalisation",
    .symptom =
        "outputs are off by up to two roundings of each weight, more than by "
        "their own rounding",
    .cause =
        "a softmax that casts its result, called on scores whose exponentials "
        "were cast already",
    .fix =
        "keep the weights in f32 until the product with V, or round them once "
        "there and declare it",
    .source = "textbook",
    .trigger =
        "half storage, and a row with two keys whose weights are no powers of "
        "two",
    .killed_by = kKilledBy,
    .when = "dtype != f32 && rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_p_rounded_twice =
    faulty_kernel<PRoundedTwice>("faulty/p_rounded_twice", &kFault,
                                 {"impl/faulty/p_rounded_twice.cpp", __LINE__},
                                 &kHalfCapabilities);

}  // namespace qkvet::impl
