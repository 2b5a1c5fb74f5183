// SPDX-License-Identifier: Apache-2.0
// faulty/dropout_scaled_by_p: what is kept grows by 1 / p.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DropoutScaledByP : OptionSeams {
  static float kept_scale(const Dropout& dropout) { return 1 / dropout.p; }
};

constexpr const char* kKilledBy[] = {"dropout_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "kept weights are divided by p and not by 1 - p",
    .symptom =
        "o is too large for small p and too small for large p, on average as "
        "well",
    .cause =
        "p of a library is what is dropped, and was taken for what is kept",
    .fix = "divide by 1 - p",
    .source = "NVIDIA/apex#816",
    .trigger = "dropout with p other than 0.5",
    .killed_by = kKilledBy,
    .when = "dropout",
};

}  // namespace

extern constinit const qkvet_kernel faulty_dropout_scaled_by_p =
    option_fault<DropoutScaledByP, kDropoutOptions>(
        "faulty/dropout_scaled_by_p", &kFault,
        {"impl/faulty/dropout_scaled_by_p.cpp", __LINE__});

}  // namespace qkvet::impl
