// SPDX-License-Identifier: Apache-2.0
// faulty/window_of_last_draft: all rows have the beginning of the last window.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct WindowOfLastDraft : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t begin = call.in_reach(call.queries - 1).begin;
    return begin <= j && j < call.in_reach(i).end;
  }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "every_key_counts_once",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the window of the last row is used for all rows",
    .symptom =
        "one query is right; of several drafts all but the last miss their "
        "oldest keys",
    .cause =
        "the first key is computed once a call, from the length that the last "
        "draft reaches",
    .fix = "compute it for each row",
    .source = "flashinfer-ai/flashinfer#4137",
    .trigger =
        "a window to the left that hides keys of the last row, and two rows",
    .killed_by = kKilledBy,
    .when =
        "window.left >= 0 && Tq > 1 && rows(row + 1 == queries && diagonal > "
        "window.left)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_window_of_last_draft =
    option_fault<WindowOfLastDraft, QKVET_OPTION_WINDOW>(
        "faulty/window_of_last_draft", &kFault,
        {"impl/faulty/window_of_last_draft.cpp", __LINE__});

}  // namespace qkvet::impl
