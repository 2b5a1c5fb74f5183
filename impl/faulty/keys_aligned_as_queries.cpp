// SPDX-License-Identifier: Apache-2.0
// faulty/keys_aligned_as_queries: vector loads of K, where Q alone was found to
// be aligned.
#include <cstdint>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct KeysAlignedAsQueries : OptionSeams {
  // An aligned load drops the lowest bits of its address, on machines that have
  // no other: it reads what lies in front of K, on the same page.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (behind_vector(whole.q.data) == 0) {
      member->k.data -= behind_vector(whole.k.data);
    }
  }

 private:
  static constexpr uintptr_t kVector = 4;  // floats
  // In floats.
  static int64_t behind_vector(const float* data) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    return static_cast<int64_t>(address / sizeof(float) % kVector);
  }
};

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "vectors of 16 bytes need addresses that are multiples of it, and only "
        "that of Q is looked at",
    .symptom =
        "right wherever an allocator puts tensors; wrong, or a fault, for a K "
        "that is a slice of something",
    .cause = "one check for a path that loads from several tensors",
    .fix =
        "check the address and the strides of every tensor that the path "
        "loads, or declare the alignment",
    .source = "vllm-project/vllm#45466",
    .trigger = "K does not begin at a multiple of 16 bytes, and Q does",
    .killed_by = kKilledBy,
    .when =
        "layout != bhtd || share.members || share.heads || B * Hkv * Tk * d % "
        "4 != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_keys_aligned_as_queries =
    option_fault<KeysAlignedAsQueries>(
        "faulty/keys_aligned_as_queries", &kFault,
        {"impl/faulty/keys_aligned_as_queries.cpp", __LINE__});

}  // namespace qkvet::impl
