// SPDX-License-Identifier: Apache-2.0
// faulty/no_keys_nothing_written: a call without keys returns at once.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

using Right = OptionsKernel<OptionSeams>;

qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  ForwardCall call;
  const qkvet_status status = read_forward(self, args, &call, why);
  return status == QKVET_OK && call.keys == 0
             ? QKVET_OK
             : Right::forward(self, context, args, exec, why);
}

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "without keys there seems to be nothing to do: o and lse stay as they "
        "were",
    .symptom =
        "rows of a sequence that has nothing cached yet are whatever the "
        "memory held",
    .cause =
        "work is counted in keys, and a count of 0 returns before the outputs "
        "are cleared",
    .fix = "o = 0 and lse = -inf are the result, so write them",
    .source = "textbook, cf. Dao-AILab/flash-attention#2470",
    .trigger = "Tk = 0, and a row",
    .killed_by = kKilledBy,
    .when = "Tk == 0 && B > 0 && Tq > 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_no_keys_nothing_written = with_fault(
    plain_kernel("faulty/no_keys_nothing_written", kFault.mechanism,
                 {"impl/faulty/no_keys_nothing_written.cpp", __LINE__},
                 &kSeamsPrecision, forward,
                 &kF32With<QKVET_OPTION_EMPTY_EXTENTS>),
    &kFault) /*NoKeysNothingWritten*/;

}  // namespace qkvet::impl
