// SPDX-License-Identifier: Apache-2.0
// A plain, correct kernel of every option, in f32, with the named hooks of
// option_hooks.h. A fault replaces one of them.
//
// Contract: any strides, addresses aligned to elements; stays inside its
// tensors.
#ifndef QKVET_IMPL_SKELETONS_OPTIONS_KERNEL_H_
#define QKVET_IMPL_SKELETONS_OPTIONS_KERNEL_H_

#include <cstdint>
#include <memory>

#include "impl/call/declare.h"
#include "impl/call/scratch.h"
#include "impl/skeletons/option_rows.h"

namespace qkvet::impl {

inline int64_t threads_of(const qkvet_exec* exec) {
  qkvet_exec known = {};
  return exec != nullptr && read_struct(exec, &known, nullptr) == QKVET_OK
             ? known.threads
             : 1;
}

template <class Hooks, template <class> class RowsOf = OptionRows>
struct OptionsKernel {
  using Rows = RowsOf<Hooks>;
  using Memory = typename Rows::Memory;

  static void compute(const ForwardCall& call, Memory* memory) {
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        for (int64_t i = 0; i < call.queries; ++i) {
          Rows::row(call, {b, h, i}, memory);
        }
      }
    }
  }

  // A call without lengths in f32 (in_f32.h).
  static qkvet_status compute_whole(const ForwardCall& call, qkvet_text* why) {
    std::unique_ptr<float[]> scratch;
    QKVET_TRY(allocate(call.keys, &scratch, why));
    Memory memory = {scratch.get(), OptionHooks::kNone};
    compute(call, &memory);
    return QKVET_OK;
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    ForwardCall call;
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_forward(self, args, &call, why));
    const bool cut = call.options.has_lengths();
    if (cut) {
      QKVET_TRY(check_lengths(call, why));
    }
    QKVET_TRY(check_positions(call, why));
    std::unique_ptr<float[]> scratch;
    QKVET_TRY(allocate(call.keys, &scratch, why));
    write_dropout_mask(call, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      return Hooks::keeps(call, {b, h, i}, j);
    });
    Memory memory = {scratch.get(), OptionHooks::kNone};
    const int64_t members = cut ? member_count(call) : 1;
    for (int64_t n = 0; n < members; ++n) {
      ForwardCall member = cut ? member_of(call, n) : call;
      Hooks::member(call, n, &member);
      Hooks::share(threads_of(exec), &member);
      using QueryTurn = typename Hooks::QueryTurn;
      using KeyTurn = typename Hooks::KeyTurn;
      const auto rows = [&memory](const ForwardCall& turned) {
        compute(turned, &memory);
        return QKVET_OK;
      };
      QKVET_TRY((compute_turned<QueryTurn, KeyTurn>(member, why, rows)));
    }
    return QKVET_OK;
  }
};

// The declaration of this kernel and of those that replace a hook.
inline constexpr qkvet_precision kHooksPrecision = sequential_f32();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_OPTIONS_KERNEL_H_
