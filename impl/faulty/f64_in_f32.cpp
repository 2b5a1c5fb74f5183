// SPDX-License-Identifier: Apache-2.0
// faulty/f64_in_f32: f64 storage whose output is accumulated in f32.
#include "impl/f64_rows.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct InFloat {
  static double add_value(double acc, double term) {
    return static_cast<double>(static_cast<float>(acc) +
                               static_cast<float>(term));
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the output of f64 storage is accumulated in f32",
    .symptom = "outputs carry seven digits where sixteen are stored",
    .cause = "an accumulator whose type was written for f32 and kept",
    .fix = "accumulate in the type of the tensors",
    .source = "textbook",
    .trigger = "values that are no numbers of f32",
    .killed_by = kKilledBy,
    .when = "dtype == f64 && rows(seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_f64_in_f32 =
    with_fault(f64_kernel<InFloat>("faulty/f64_in_f32", kFault.mechanism,
                                   {"impl/faulty/f64_in_f32.cpp", __LINE__}),
               &kFault);

}  // namespace qkvet::impl
