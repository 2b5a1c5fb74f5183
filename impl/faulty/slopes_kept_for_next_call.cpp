// SPDX-License-Identifier: Apache-2.0
// faulty/slopes_kept_for_next_call: slopes of one call hold for the next.
#include <array>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SlopesKeptForNextCall : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    for (int64_t h = 0; whole.options.slopes.present() && h < whole.heads;
         ++h) {
      kept()[static_cast<size_t>(h % kHeads)] = whole.options.slope_of(h);
    }
  }
  static float slope(const ForwardCall& call, int64_t h) {
    return call.options.slopes.present()
               ? call.options.slope_of(h)
               : kept()[static_cast<size_t>(h % kHeads)];
  }

 private:
  static constexpr int64_t kHeads = 64;
  static std::array<float, kHeads>& kept() {
    thread_local std::array<float, kHeads> slopes = {};
    return slopes;
  }
};

constexpr const char* kKilledBy[] = {"alibi_equals_bias", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a call without ALiBi takes the slopes of an earlier call",
    .symptom =
        "a model without ALiBi is right until one with it has run in the same "
        "process",
    .cause =
        "what a call is planned with is kept, and an option that is absent "
        "leaves the old value there",
    .fix = "set every option in every call, absent ones to what they mean",
    .source = "flashinfer-ai/flashinfer#1028",
    .trigger = "a call without ALiBi after one with it",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_slopes_kept_for_next_call =
    option_fault<SlopesKeptForNextCall, QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>(
        "faulty/slopes_kept_for_next_call", &kFault,
        {"impl/faulty/slopes_kept_for_next_call.cpp", __LINE__});

}  // namespace qkvet::impl
