// SPDX-License-Identifier: Apache-2.0
// faulty/groups_unfolded_both_ways: heads are numbered by group in both
// directions.
#include <memory>
#include <new>

#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

// Of the nth block: a bijection if there are as many groups as heads in one.
int64_t head_of_block(const ForwardCall& call, int64_t n) {
  const int64_t group = call.group();
  return n % group * group + n / group;
}

qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
  const std::unique_ptr<float[]> scratch(
      new (std::nothrow) float[static_cast<size_t>(call.keys)]);
  if (scratch == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
  }
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t n = 0; n < call.heads; ++n) {
      const int64_t h = head_of_block(call, n);
      for (int64_t i = 0; h < call.heads && i < call.queries; ++i) {
        SeamsKernel<PlainSeams>::row(call, b, h, i, scratch.get());
      }
    }
  }
  return QKVET_OK;
}

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the head of a block is n % group * group + n / group",
    .symptom =
        "some heads are computed twice, others never: they hold what the "
        "memory held before",
    .cause =
        "the size of a group is both the modulus and the stride; it fits where "
        "H / Hkv = Hkv, as for 64 and 8",
    .fix = "n % Hkv * group + n / Hkv",
    .source = "HazyResearch/HipKittens#22",
    .trigger = "groups of heads, not as many as there are heads in one",
    .killed_by = kKilledBy,
    .when = "H > Hkv && H != Hkv * Hkv",
};

}  // namespace

extern constinit const qkvet_kernel faulty_groups_unfolded_both_ways =
    with_fault(
        plain_kernel("faulty/groups_unfolded_both_ways", kFault.mechanism,
                     {"impl/faulty/groups_unfolded_both_ways.cpp", __LINE__},
                     &kSeamsPrecision, forward_in_f32<compute>,
                     &kF32Capabilities),
        &kFault) /*GroupsUnfoldedBothWays*/;

}  // namespace qkvet::impl
