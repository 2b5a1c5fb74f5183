// SPDX-License-Identifier: Apache-2.0
// faulty/window_wider_in_prefill: prefill sees one key more than decoding.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct WindowWiderInPrefill : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const bool wider = call.queries > 1 && call.options.window_left >= 0;
    return run.begin - (wider ? 1 : 0) <= j && j < run.end;
  }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "every_key_counts_once",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "with several queries the window reaches one key further than with one",
    .symptom =
        "the same token has another output in the prompt than when it is "
        "decoded",
    .cause =
        "the mask of prefill counts the keys beside the diagonal, the ring of "
        "decoding counts the diagonal as well",
    .fix = "one definition of the window for both paths",
    .source = "mistralai/mistral-inference#60",
    .trigger = "a window to the left that hides a key, and two rows",
    .killed_by = kKilledBy,
    .when = "window.left >= 0 && Tq > 1 && rows(diagonal > window.left)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_window_wider_in_prefill =
    option_fault<WindowWiderInPrefill, QKVET_OPTION_WINDOW>(
        "faulty/window_wider_in_prefill", &kFault,
        {"impl/faulty/window_wider_in_prefill.cpp", __LINE__});

}  // namespace qkvet::impl
