// SPDX-License-Identifier: Apache-2.0
// faulty/member_stride_of_token: a member begins one token behind the one
// before.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MemberStrideOfToken : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    // The strides of single tokens mean nothing, and members may share theirs.
    if (whole.batch > 1 && whole.keys > 1 && whole.k.step[0] != 0) {
      member->k.step[0] = whole.k.step[2];
      member->v.step[0] = whole.v.step[2];
    }
  }
};

constexpr const char* kKilledBy[] = {"other_members_change_nothing",
                                     "permuted_members_permute_output",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the stride of a token is used as that of a member",
    .symptom =
        "the first member is right, the next ones see it one token, two tokens "
        "later",
    .cause = "strides are handed on in another order than they are taken",
    .fix = "name them, or take the tensor",
    .source = "flashinfer-ai/flashinfer#3801",
    .trigger = "B > 1 and Tk > 1",
    .killed_by = kKilledBy,
    .when = "B > 1 && Tk > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_member_stride_of_token =
    option_fault<MemberStrideOfToken>(
        "faulty/member_stride_of_token", &kFault,
        {"impl/faulty/member_stride_of_token.cpp", __LINE__});

}  // namespace qkvet::impl
