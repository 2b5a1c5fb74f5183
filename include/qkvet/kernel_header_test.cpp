// SPDX-License-Identifier: Apache-2.0
// The header means the same in C++17 as in C11, and every struct but the
// tensor begins with its size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "qkvet/kernel.h"
#include "qkvet/plan.h"

extern "C" {
size_t qkvet_c_sizeof_tensor(void);
size_t qkvet_c_sizeof_forward_args(void);
size_t qkvet_c_sizeof_kernel(void);
size_t qkvet_c_sizeof_precision(void);
size_t qkvet_c_sizeof_cache_args(void);
size_t qkvet_c_sizeof_layer_args(void);
}

namespace {

TEST(KernelHeader, CAndCxxAgreeOnSizes) {
  EXPECT_EQ(qkvet_c_sizeof_tensor(), sizeof(qkvet_tensor));
  EXPECT_EQ(qkvet_c_sizeof_forward_args(), sizeof(qkvet_forward_args));
  EXPECT_EQ(qkvet_c_sizeof_kernel(), sizeof(qkvet_kernel));
  EXPECT_EQ(qkvet_c_sizeof_precision(), sizeof(qkvet_precision));
  EXPECT_EQ(qkvet_c_sizeof_cache_args(), sizeof(qkvet_cache_args));
  EXPECT_EQ(qkvet_c_sizeof_layer_args(), sizeof(qkvet_layer_args));
}

TEST(KernelHeader, EveryStructBeginsWithItsSize) {
  EXPECT_EQ(offsetof(qkvet_forward_args, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_host, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_exec, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_text, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_capabilities, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_dialect, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_precision, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_kernel, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_library, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_fault, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_cache_config, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_cache_args, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_cache_table, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_layer_args, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_layer_table, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_backward_args, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_layer_backward_args, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_backward_table, struct_size), 0u);
  EXPECT_EQ(offsetof(qkvet_plan_table, struct_size), 0u);
}

// tensors.def has each tensor of each struct, in the order of the fields.
TEST(KernelHeader, TheListOfTensorsIsWhole) {
  using Names = std::vector<std::string>;
  std::map<std::string, Names> fields;
#define QKVET_SIZE(type, bytes)
#define QKVET_FIELD(type, field, at)                                 \
  if constexpr (std::is_same_v<decltype(type::field), qkvet_tensor>) \
    fields[#type].push_back(#field);
#include "qkvet/frozen_layout.inc"
#undef QKVET_SIZE
#undef QKVET_FIELD
  const std::map<std::string, Names> listed = {
#define QKVET_FORWARD_TENSOR(field, ...) #field,
      {"qkvet_forward_args",
       {
#include "qkvet/tensors.def"
       }},
#define QKVET_BACKWARD_TENSOR(field, ...) #field,
      {"qkvet_backward_args",
       {
#include "qkvet/tensors.def"
       }},
#define QKVET_LAYER_TENSOR(field, ...) #field,
      {"qkvet_layer_args",
       {
#include "qkvet/tensors.def"
       }},
#define QKVET_LAYER_BACKWARD_TENSOR(field, ...) #field,
      {"qkvet_layer_backward_args",
       {
#include "qkvet/tensors.def"
       }},
#define QKVET_MERGE_TENSOR(field, ...) #field,
      {"qkvet_merge_args",
       {
#include "qkvet/tensors.def"
       }},
#define QKVET_CACHE_TENSOR(field, ...) #field,
      {"qkvet_cache_config",
       {
#include "qkvet/tensors.def"
       }},
#define QKVET_STEP_TENSOR(field, ...) #field,
      {"qkvet_cache_args",
       {
#include "qkvet/tensors.def"
       }}};
  EXPECT_EQ(listed, fields);
}

// tensors.def has every float of forward that is an option by itself.
TEST(KernelHeader, TheListOfNumbersIsWhole) {
  std::vector<std::string> fields = {"scale", "dropout_p"};
#define QKVET_FORWARD_NUMBER(field, ...) fields.push_back(#field);
#include "qkvet/tensors.def"
#define QKVET_SIZE(type, bytes)
#define QKVET_FIELD(type, field, at)                                          \
  if constexpr (std::is_same_v<type, qkvet_forward_args> &&                   \
                std::is_same_v<decltype(type::field), float>) {               \
    EXPECT_EQ(std::count(fields.begin(), fields.end(), #field), 1) << #field; \
  }
#include "qkvet/frozen_layout.inc"
#undef QKVET_SIZE
#undef QKVET_FIELD
}

// 48 bytes is what every DLPack from 0.6 to 1.1 has.
TEST(KernelHeader, TensorHasTheSizeOfDlpack) {
  EXPECT_EQ(sizeof(qkvet_tensor), 48u);
}

// No field has moved since the ABI was frozen.
TEST(KernelHeader, LayoutIsTheFrozenOne) {
#if UINTPTR_MAX == UINT64_MAX
#define QKVET_SIZE(type, bytes) EXPECT_EQ(sizeof(type), size_t{bytes}) << #type;
#define QKVET_FIELD(type, field, at) \
  EXPECT_EQ(offsetof(type, field), size_t{at}) << #type "." #field;
#include "qkvet/frozen_layout.inc"
#undef QKVET_SIZE
#undef QKVET_FIELD
#else
  GTEST_SKIP() << "offsets are recorded for 64-bit machines";
#endif
}

}  // namespace
