// SPDX-License-Identifier: Apache-2.0
#include "core/call/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/base/dtype.h"
#include "core/door/forward_outputs.h"

namespace qkvet::tensor_test {
namespace {

TEST(Tensor, PackedSpecHasRowMajorStrides) {
  const TensorSpec spec = packed_spec(Dtype::kF32, 4, {2, 3, 4, 5});
  EXPECT_EQ(spec.strides, (Extents{60, 20, 5, 1}));
  EXPECT_EQ(spec.elements(), 120);
  EXPECT_EQ(spec.span_bytes(), 480);
  EXPECT_TRUE(spec.packed());
}

TEST(Tensor, AbsurdUnitStridesMoveNothing) {
  TensorSpec spec = packed_spec(Dtype::kF64, 4, {1, 3, 1, 5});
  make_unit_strides_absurd(spec);
  EXPECT_EQ(spec.span(), 15);
  EXPECT_TRUE(spec.packed());
  EXPECT_NE(spec.strides[0], 15);
  EXPECT_NE(spec.strides[2], 5);
}

// [pages, heads, slots, groups, x] with the slots after the groups.
TEST(Tensor, FiveDimensionsAreScatteredAndGathered) {
  TensorSpec spec = packed_spec(Dtype::kUint8, 5, {2, 1, 3, 2, 4});
  spec.strides = {24, 0, 4, 12, 1};
  std::vector<std::byte> packed(48), memory(48), back(48);
  for (size_t n = 0; n < packed.size(); ++n) packed[n] = std::byte(n);
  EXPECT_EQ(spec.span(), 48);
  EXPECT_FALSE(spec.packed());
  scatter(spec, packed.data(), memory.data());
  for (int64_t p = 0; p < 2; ++p)
    for (int64_t slot = 0; slot < 3; ++slot)
      for (int64_t c = 0; c < 8; ++c) {
        const int64_t at = p * 24 + (c / 4 * 3 + slot) * 4 + c % 4;
        EXPECT_EQ(spec.offset({p, 0, slot, c / 4, c % 4}), at);
        EXPECT_EQ(memory[static_cast<size_t>(at)],
                  packed[static_cast<size_t>((p * 3 + slot) * 8 + c)]);
      }
  gather(spec, memory.data(), back.data());
  EXPECT_EQ(back, packed);
}

TEST(Tensor, AnEmptyTensorIsPresentAndSpansNothing) {
  const TensorSpec spec = packed_spec(Dtype::kF32, 3, {2, 0, 4});
  EXPECT_TRUE(spec.present());
  EXPECT_EQ(spec.span(), 0);
  EXPECT_FALSE(TensorSpec{}.present());
}

// [B,T,H,d] memory seen as [B,H,T,d], with a gap after every row.
TEST(Tensor, ScatterAndGatherAreInverseAndLeaveGapsAlone) {
  TensorSpec spec{Dtype::kF32, 4, {2, 3, 4, 5}, {4 * 3 * 7, 7, 3 * 7, 1}};
  EXPECT_FALSE(spec.packed());
  std::vector<float> packed(120);
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = 1 + float(i);
  std::vector<float> memory(static_cast<size_t>(spec.span()), -7);
  scatter(spec, reinterpret_cast<const std::byte*>(packed.data()),
          reinterpret_cast<std::byte*>(memory.data()));
  EXPECT_EQ(memory[static_cast<size_t>(spec.offset({1, 2, 3, 4}))],
            packed[119]);
  size_t gaps = 0;
  for (const float x : memory) gaps += x == -7;
  EXPECT_EQ(gaps, memory.size() - packed.size());
  std::vector<float> back(120);
  gather(spec, reinterpret_cast<const std::byte*>(memory.data()),
         reinterpret_cast<std::byte*>(back.data()));
  EXPECT_EQ(back, packed);
}

// backward() is given its own forward outputs at the alignment that the kernel
// declares, whatever the placement of the call's own tensors.
TEST(ForwardOutputs, LieAlignedAsDeclared) {
  for (const int64_t alignment : {0, 16, 64, 4096}) {
    qkvet_forward_args args{};
    int64_t shape[] = {2, 3, 4, 5}, strides[] = {60, 20, 5, 1};
    for (qkvet_tensor* tensor : {&args.o, &args.lse}) {
      tensor->ndim = tensor == &args.o ? 4 : 3;
      tensor->dtype = dtype_to_abi(Dtype::kF32);
      tensor->shape = shape;
      tensor->strides = strides;
      tensor->byte_offset = 4;
    }
    ForwardOutputs own(args, alignment);
    const qkvet_forward_args& given = own.own_outputs();
    for (const qkvet_tensor* tensor : {&given.o, &given.lse}) {
      const auto at = reinterpret_cast<uintptr_t>(tensor->data);
      EXPECT_EQ(at % static_cast<uintptr_t>(std::max<int64_t>(alignment, 16)),
                0u);
      EXPECT_EQ(tensor->byte_offset, 0u);
    }
    EXPECT_EQ(own.as_given().o.data, given.o.data);
    std::memset(given.o.data, 1, 120 * sizeof(float));
  }
}

}  // namespace
}  // namespace qkvet::tensor_test
