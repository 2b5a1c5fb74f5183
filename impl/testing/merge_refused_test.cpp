// SPDX-License-Identifier: Apache-2.0
// Merges that contradict themselves or have an undeclared form are refused, and
// nothing is written.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "impl/testing/calls.h"

namespace qkvet::impl::merge_refused_test {
namespace {

constexpr qkvet_status kUnsupported = QKVET_UNSUPPORTED;

qkvet_merge_args merge_call(Tensors& t, uint64_t options) {
  const bool ragged = (options & QKVET_MERGE_RAGGED) != 0;
  qkvet_merge_args a = {};
  a.struct_size = sizeof(a);
  a.states = ragged ? t.make({4, 2, 5}) : t.make({4, 3, 2, 5});
  a.states_lse = ragged ? t.make({4, 2}) : t.make({4, 3, 2});
  a.o = t.make({3, 2, 5});
  a.lse = t.make({3, 2});
  if (ragged) a.indptr = t.list<int64_t>({0, 1, 1, 4});
  a.in_place = (options & QKVET_MERGE_IN_PLACE) != 0 ? 1 : 0;
  if ((options & QKVET_MERGE_ROW_MASK) != 0) a.row_mask = t.make({3}, kBool);
  return a;
}

using MergeRow = Refusal<qkvet_merge_args>;

std::vector<MergeRow> merge_rows() {
  using A = qkvet_merge_args;
  constexpr uint64_t kInPlace = QKVET_MERGE_IN_PLACE;
  constexpr uint64_t kRagged = QKVET_MERGE_RAGGED;
  return {
      {0, "states [n,T,H,dv]: 5 at axis 3, 6 is needed",
       shaped(&A::o, {3, 2, 6})},
      {0, "lse must be f32", typed(&A::lse, kF16), kUnsupported},
      {kInPlace | QKVET_MERGE_ROW_MASK, "row_mask without in_place",
       set(&A::in_place, 0)},
      {kInPlace | QKVET_MERGE_ROW_MASK,
       "row_mask [T]: 4 at axis 0, 3 is needed",
       shaped(&A::row_mask, {4}, kBool)},
      {kRagged | kInPlace, "in_place together with indptr",
       [](A&, Tensors&) {}},
      {kRagged, "indptr must be int64",
       listed<int32_t>(&A::indptr, {0, 1, 1, 4}), kUnsupported},
      {kRagged, "indptr [T+1]: 3 at axis 0, 4 is needed",
       listed<int64_t>(&A::indptr, {0, 1, 4})},
      {kRagged, "indptr does not begin at 0, or falls",
       listed<int64_t>(&A::indptr, {0, 2, 1, 4})},
      {kRagged, "indptr does not end at the number of states",
       listed<int64_t>(&A::indptr, {0, 1, 1, 3})},
  };
}

std::vector<const qkvet_kernel*> merge_kernels() {
  return kernels_that([](const qkvet_kernel& kernel) {
    return kernel.merge != nullptr && is_declared(*kernel.capabilities, kF32);
  });
}

TEST(MergeRefused, ContradictionsAndNothingIsWritten) {
  for (const MergeRow& row : merge_rows()) {
    const auto make = [&row](Tensors& t) { return merge_call(t, row.options); };
    int checked = 0;
    for (const qkvet_kernel* kernel : merge_kernels()) {
      const uint64_t has = kernel->merge->options;
      if ((row.options & ~has) != 0 ||
          (has & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) != 0) {
        continue;
      }
      ++checked;
      const auto run = [kernel](const qkvet_merge_args& a, qkvet_text* why) {
        return kernel->merge->merge(kernel, nullptr, &a, nullptr, why);
      };
      EXPECT_EQ(wrong_refusal<qkvet_merge_args>(row, make, run), "")
          << kernel->name << ": " << row.reason;
      EXPECT_EQ(wrong_with_newer<qkvet_merge_args>(
                    [](Tensors& t) { return merge_call(t, 0); }, run),
                "")
          << kernel->name;
    }
    EXPECT_GE(checked, 2) << row.reason;
  }
}

// Also lse as [n, T, H], by the kernel that takes only [n, H, T].
TEST(MergeRefused, FormsThatAreNotDeclared) {
  int refused = 0;
  for (const qkvet_kernel* kernel : merge_kernels()) {
    const uint64_t has = kernel->merge->options;
    for (const uint64_t form :
         {uint64_t{0}, QKVET_MERGE_RAGGED, QKVET_MERGE_IN_PLACE,
          QKVET_MERGE_IN_PLACE | QKVET_MERGE_ROW_MASK}) {
      const bool declared =
          (form & ~has) == 0 && (has & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) == 0;
      refused += declared ? 0 : 1;
      Tensors t;
      const qkvet_merge_args args = merge_call(t, form);
      EXPECT_EQ(kernel->merge->merge(kernel, nullptr, &args, nullptr, nullptr),
                declared ? QKVET_OK : QKVET_UNSUPPORTED)
          << kernel->name << " " << form;
    }
  }
#ifndef QKVET_SANITIZED
  EXPECT_GE(refused, 1);
#endif
}

}  // namespace
}  // namespace qkvet::impl::merge_refused_test
