// SPDX-License-Identifier: Apache-2.0
// faulty/query_strides_assumed: q is taken for contiguous.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct QueryStridesAssumed : OptionSeams {
  // Every other order of the same extents, and every gap, takes at least as
  // much memory.
  static void share(int64_t, ForwardCall* call) {
    call->q.step[3] = 1;
    call->q.step[2] = call->width;
    call->q.step[1] = call->queries * call->width;
    call->q.step[0] = call->heads * call->queries * call->width;
  }
};

constexpr const char* kKilledBy[] = {"layout_changes_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the strides of q are not read: it is taken for contiguous",
    .symptom = "queries of other heads and rows as soon as q is a view",
    .cause = "an index written for the layout of the first caller",
    .fix = "use the strides of every tensor, or refuse what is not contiguous",
    .source = "textbook (views)",
    .trigger =
        "another layout than [B, H, T, d], and more than one row; or channels "
        "that lie apart",
    .killed_by = kKilledBy,
    .when =
        "layout != bhtd && (B > 1 || H > 1 || Tq > 1 || (layout == apart && d "
        "> 1))",
};

}  // namespace

extern constinit const qkvet_kernel faulty_query_strides_assumed =
    option_fault<QueryStridesAssumed>(
        "faulty/query_strides_assumed", &kFault,
        {"impl/faulty/query_strides_assumed.cpp", __LINE__});

}  // namespace qkvet::impl
