// SPDX-License-Identifier: Apache-2.0
// faulty/head_offset_in_16_bits: where the keys of a head begin is kept in 16
// bits.
#include <cstdint>

#include "impl/faulty/flash_fault.h"

namespace qkvet::impl {
namespace {

struct HeadOffsetIn16Bits : FlashSeams {
  // What wraps round is the offset in bytes: it stays within K.
  __device__ static DeviceTensor keys(const DeviceCall& call, int b, int kv) {
    DeviceTensor head = call.k;
    const auto bytes =
        static_cast<uint16_t>((b * call.k.step[0] + kv * call.k.step[1]) *
                              static_cast<int64_t>(sizeof(float)));
    head.data = static_cast<float*>(call.k.data) + bytes / sizeof(float);
    head.step[0] = head.step[1] = 0;
    return head;
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the offset of the keys of a member and head, in bytes, is kept in 16 "
        "bits",
    .symptom = "heads that lie behind 64 KiB read the keys of others",
    .cause =
        "the pitch of a head is multiplied in the type of the number of the "
        "block",
    .fix = "multiply the numbers of member and head with pitches of 64 bits",
    .source =
        "thu-ml/SageAttention#387, Dao-AILab/flash-attention#772, which are of "
        "32 bits",
    .trigger = "a K of more than 64 KiB, gaps among them, and several heads",
    .killed_by = kKilledBy,
    .when =
        "(layout != qkv && B * Hkv * Tk * d > 16384) || (layout == qkv && B * "
        "Tk * (H + 2 * Hkv) * d > 16384) || (layout == gaps && B * Hkv * Tk * "
        "(d + 15) > 16384) || (layout == apart && B * Hkv * Tk * d > 8192)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_head_offset_in_16_bits =
    flash_fault<HeadOffsetIn16Bits>(
        "faulty/head_offset_in_16_bits", &kFault,
        {"impl/faulty/head_offset_in_16_bits.cpp", __LINE__});

}  // namespace qkvet::impl
