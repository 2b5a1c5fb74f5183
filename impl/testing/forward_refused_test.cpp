// SPDX-License-Identifier: Apache-2.0
// Calls of forward() that contradict themselves and that no law makes
// (malformed_calls_are_refused has the others): every kernel that takes the
// legal call refuses the corrupted one with the reason, and writes nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "impl/testing/calls.h"

namespace qkvet::impl::forward_refused_test {
namespace {

using A = qkvet_forward_args;

using Row = Refusal<A>;

std::vector<Row> tensors_and_scores() {
  constexpr qkvet_status kNo = QKVET_UNSUPPORTED;
  return {
      {0, "k must be of the type of q",
       [](A& a, Tensors&) { a.k.dtype.bits = 16; }, kNo},
      {0, "v must be of the type of q", typed(&A::v, kF64), kNo},
      {0, "o must be of the type of q", typed(&A::o, kBf16), kNo},
      {0, "q must be of a type that the kernel declares",
       [](A& a, Tensors&) { a.q.dtype.lanes = 2; }, kNo},
      {0, "lse must be f32", typed(&A::lse, kBf16), kNo},
      {0, "the CPU",
       [](A& a, Tensors&) { a.k.device_type = QKVET_DEVICE_CUDA; }, kNo},
      {0, "causal: this mode is not known",
       set(&A::causal, QKVET_CAUSAL_BOTTOM_RIGHT + 1), kNo},
      {QKVET_OPTION_EMPTY_EXTENTS,
       "no heads, or heads without a width, are not supported",
       [](A& a, Tensors& t) {
         a.q = t.make({2, 2, 4, 0});
         a.k = t.make({2, 1, 5, 0});
       },
       kNo},
      {QKVET_OPTION_EMPTY_EXTENTS,
       "no heads, or heads without a width, are not supported",
       [](A& a, Tensors& t) {
         a.q = a.o = t.make({2, 0, 4, 3});
         a.lse = t.make({2, 0, 4});
       },
       kNo},
      {0, "q [B,H,Tq,d]: the wrong rank",
       [](A& a, Tensors&) { a.q.shape = nullptr; }},
      {0, "v [B,Hkv,Tk,dv]: is absent", set(&A::v, {})},
      {0, "k [B,Hkv,Tk,d]: elements and no data",
       [](A& a, Tensors&) { a.k.data = nullptr; }},
      {0, "v [B,Hkv,Tk,dv]: -1 at axis 3, is negative",
       [](A& a, Tensors&) { a.v.shape[3] = -1; }},
      {0, "Hkv does not divide H",
       [](A& a, Tensors& t) {
         a.k = a.v = t.make({2, 3, 5, 3});
       }},
      {QKVET_OPTION_WINDOW, "a window counts keys; -1 is all of them",
       set(&A::window_left, -2)},
      {QKVET_OPTION_WINDOW, "a window counts keys; -1 is all of them",
       set(&A::window_right, -7)},
      {QKVET_OPTION_SOFTCAP, "softcap must be positive and finite",
       set(&A::softcap, -1)},
      {QKVET_OPTION_SOFTCAP, "softcap must be positive and finite",
       set(&A::softcap, NAN)},
      {QKVET_OPTION_SOFTCAP, "softcap must be positive and finite",
       set(&A::softcap, INFINITY)},
      {QKVET_OPTION_DROPOUT, "dropout_p is at least 0 and below 1",
       set(&A::dropout_p, 1)},
      {QKVET_OPTION_DROPOUT | QKVET_OPTION_DROPOUT_MASK,
       "dropout_mask must be uint8", shaped(&A::dropout_mask, {2, 2, 4, 5}),
       kNo},
      {QKVET_OPTION_WEIGHTS, "weights must be of the type of q",
       shaped(&A::weights, {2, 2, 4, 5}, kF16), kNo},
      {QKVET_OPTION_MASK, "mask must be bool or uint8",
       shaped(&A::mask, {2, 2, 4, 5}), kNo},
      {QKVET_OPTION_MASK, "mask [B,H,Tq,Tk]: the wrong rank",
       ranked(&A::mask, 3)},
      {QKVET_OPTION_BIAS, "bias must be f32 or of the type of q",
       shaped(&A::bias, {2, 2, 4, 5}, kF64), kNo},
      {QKVET_OPTION_SINK, "sink [H]: 3 at axis 0, 2 is needed",
       shaped(&A::sink, {3})},
      {QKVET_OPTION_LENGTHS, "a length is negative",
       listed<int64_t>(&A::kv_len, {4, 6}), QKVET_INVALID_ARGUMENT, true},
      {QKVET_OPTION_PACKED, "the starts of a packed batch do not ascend from 0",
       listed<int64_t>(&A::cu_seqlens_q, {0, 3, 2}), QKVET_INVALID_ARGUMENT,
       true},
      {QKVET_OPTION_PACKED,
       "a packed batch has cu_seqlens_q, and without pages cu_seqlens_k",
       set(&A::cu_seqlens_k, {})},
      {QKVET_OPTION_PACKED,
       "a packed batch has cu_seqlens_q, and without pages cu_seqlens_k",
       set(&A::cu_seqlens_q, {})},
      {QKVET_OPTION_PACKED | QKVET_OPTION_SEGMENTS,
       "a packed batch has no segments, ranges and trees",
       [](A& a, Tensors& t) {
         a.segments_q = t.make({1, 4}, kInt32);
         a.segments_k = t.make({1, 5}, kInt32);
       }},
  };
}

std::vector<Row> lists_and_fields() {
  constexpr uint64_t kLists = QKVET_OPTION_KEY_LISTS;
  constexpr uint64_t kBlocks = kLists | QKVET_OPTION_KEY_LIST_BLOCKS;
  constexpr uint64_t kSegments = QKVET_OPTION_SEGMENTS;
  constexpr uint64_t kRanges = QKVET_OPTION_FULL_RANGES;
  constexpr qkvet_status kNo = QKVET_UNSUPPORTED;
  return {
      {kLists, "key_indices [B,Hkv|1,Tq,n]: 2 at axis 1, 1 is needed",
       shaped(&A::key_indices, {2, 2, 4, 2}, kInt32)},
      {kLists, "key_indices [B,Hkv|1,Tq,n]: the wrong rank",
       ranked(&A::key_indices, 3)},
      {kLists, "key_indices must be int32",
       shaped(&A::key_indices, {2, 1, 4, 2}, kInt64), kNo},
      {kLists, "topk_length must be int32", shaped(&A::topk_length, {2, 4}),
       kNo},
      {kLists, "topk_length or key_block_size, and no key_indices",
       set(&A::key_indices, {})},
      {kBlocks, "topk_length or key_block_size, and no key_indices",
       [](A& a, Tensors&) {
         a.key_indices = a.topk_length = {};
         a.key_block_size = 2;
       }},
      {kBlocks, "key_block_size is negative", set(&A::key_block_size, -1)},
      {kSegments, "segments are those of q and of k, or of neither",
       set(&A::segments_q, {})},
      {kSegments, "segments_q [B,Tq]: 5 at axis 1, 4 is needed",
       [](A& a, Tensors&) { a.segments_q = a.segments_k; }},
      {kSegments, "segments of q and k have one type",
       shaped(&A::segments_k, {2, 5}, kInt64)},
      {kSegments, "segments_q must be int32 or int64",
       [](A& a, Tensors& t) {
         a.segments_q = t.make({2, 4});
         a.segments_k = t.make({2, 5});
       },
       kNo},
      {kRanges, "full_ranges [B,R,2]: 1 at axis 0, 2 is needed",
       shaped(&A::full_ranges, {1, 1, 2}, kInt32)},
      {kRanges, "full_ranges must be int32 or int64",
       shaped(&A::full_ranges, {2, 1, 2}), kNo},
      {kRanges, "full_ranges [B,R,2]: the wrong rank",
       [](A& a, Tensors&) { a.full_ranges.shape = nullptr; }},
      {kRanges | QKVET_OPTION_CHUNK,
       "chunks and ranges come one without the other", set(&A::chunk, 2)},
      {QKVET_OPTION_CHUNK, "chunk is negative", set(&A::chunk, -1)},
      {QKVET_OPTION_TREE_MASK, "tree_mask must be bool or uint8",
       shaped(&A::tree_mask, {2, 4, 4}), kNo},
  };
}

TEST(ForwardRefused, ContradictionsByEveryKernelThatTakesTheOption) {
  std::vector<Row> rows = tensors_and_scores();
  for (Row& row : lists_and_fields()) {
    rows.push_back(std::move(row));
  }
  for (const Row& row : rows) {
    const auto make = [&row](Tensors& t) {
      return forward_call(t, row.options);
    };
    int checked = 0;
    for (const qkvet_kernel* kernel : attention_kernels()) {
      if ((row.options & ~kernel->capabilities->options) != 0) {
        continue;
      }
      ++checked;
      OpenKernel open(kernel);
      const auto supports = [kernel](const A& a, qkvet_text* why) {
        return kernel->supports(kernel, &a, why);
      };
      const auto forward = [&open](const A& a, qkvet_text* why) {
        return open.forward(a, why);
      };
      EXPECT_EQ(wrong_refusal<A>(row, make, forward), "")
          << kernel->name << ": " << row.reason;
      if (!row.in_numbers) {
        EXPECT_EQ(wrong_refusal<A>(row, make, supports), "")
            << kernel->name << ": " << row.reason;
      }
      Tensors t;  // the control: the legal call is answered
      EXPECT_EQ(open.forward(make(t), nullptr), QKVET_OK)
          << kernel->name << ": " << row.reason;
    }
    EXPECT_GE(checked, 1) << row.reason;
  }
}

TEST(ForwardRefused, MaskWithCausalByTheKernelThatSaysSo) {
  for (const qkvet_kernel* kernel : attention_kernels()) {
    if ((kernel->capabilities->options & QKVET_OPTION_MASK) == 0) {
      continue;
    }
    Tensors t;
    A args = forward_call(t, QKVET_OPTION_MASK);
    args.causal = QKVET_CAUSAL_TOP_LEFT;
    const bool refuses =
        kernel->dialect->mask_and_causal == QKVET_MASK_AND_CAUSAL_REFUSED;
    EXPECT_EQ(kernel->supports(kernel, &args, nullptr),
              refuses ? QKVET_UNSUPPORTED : QKVET_OK)
        << kernel->name;
  }
}

// Every declared storage type is taken, and no other.
TEST(ForwardRefused, TypesThatAreNotDeclared) {
  int refused = 0;
  for (const qkvet_kernel* kernel : attention_kernels()) {
    for (const qkvet_dtype type : {kF32, kF16, kBf16}) {
      Tensors t;
      A args = forward_call(t);
      args.q = t.make({2, 2, 4, 3}, type);
      args.k = args.v = t.make({2, 1, 5, 3}, type);
      args.o = t.make({2, 2, 4, 3}, type);
      const bool declared = is_declared(*kernel->capabilities, type);
      refused += declared ? 0 : 1;
      EXPECT_EQ(kernel->supports(kernel, &args, nullptr),
                declared ? QKVET_OK : QKVET_UNSUPPORTED)
          << kernel->name;
    }
  }
#ifndef QKVET_SANITIZED
  EXPECT_GE(refused, 10);  // the controls that declare one type
#endif
}

}  // namespace
}  // namespace qkvet::impl::forward_refused_test
