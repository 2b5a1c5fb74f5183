// SPDX-License-Identifier: Apache-2.0
// faulty/rope_on_query_alone: a layer that rotates q and leaves k as it is.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct QueryAlone : PlainLayer {
  static void turn(const LayerCall& call, float* q, float* /*k*/) {
    turn_heads(call, call.heads, q);
  }
};

constexpr const char* kKilledBy[] = {"layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "q is rotated, k is not",
    .symptom = "only the first token of a text attends rightly",
    .cause = "keys are taken from before the rotation",
    .fix = "rotate k by the positions of its tokens",
    .source = "textbook",
    .trigger = "a rotation, and a token that does not stand at 0",
    .killed_by = kKilledBy,
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rope_on_query_alone =
    faulty_layer<QueryAlone>("faulty/rope_on_query_alone", &kFault,
                             {"impl/faulty/rope_on_query_alone.cpp", __LINE__});

}  // namespace qkvet::impl
