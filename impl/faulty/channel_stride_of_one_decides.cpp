// SPDX-License-Identifier: Apache-2.0
// faulty/channel_stride_of_one_decides: the stride of a single channel says
// that K is transposed.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ChannelStrideOfOneDecides : OptionSeams {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    if (transposed()) {
      member->k.step[2] = 1;
    }
  }
  // Of [.., d, Tk]: keys lie side by side. Views forget strides that mean
  // nothing, so this is asked of the tensor.
  static bool& transposed() {
    thread_local bool is_transposed = false;
    return is_transposed;
  }
};

using Rows = OptionsKernel<ChannelStrideOfOneDecides>;

qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  ForwardCall call;
  const qkvet_status status = read_forward(self, args, &call, why);
  if (status != QKVET_OK) {
    return status;
  }
  const int64_t* const strides = args->k.strides;
  ChannelStrideOfOneDecides::transposed() =
      call.keys > 1 && strides[3] > strides[2];
  return Rows::forward(self, context, args, exec, why);
}

constexpr const char* kKilledBy[] = {"layout_changes_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "K is taken for transposed if channels lie further apart than keys, "
        "and the stride of a single channel is any number",
    .symptom =
        "right with the strides of a new tensor; other keys are read once a "
        "slice leaves one channel",
    .cause =
        "strides of extents of 1 mean nothing, and take part in a decision "
        "about the layout",
    .fix = "leave extents of 1 out of every decision about strides",
    .source = "ELS-RD/kernl#108",
    .trigger = "d = 1, Tk > 1, and keys that do not lie side by side",
    .killed_by = kKilledBy,
    .when = "d == 1 && Tk > 1 && layout != bhtd",
};

}  // namespace

extern constinit const qkvet_kernel faulty_channel_stride_of_one_decides =
    with_fault(plain_kernel(
                   "faulty/channel_stride_of_one_decides", kFault.mechanism,
                   {"impl/faulty/channel_stride_of_one_decides.cpp", __LINE__},
                   &kSeamsPrecision, forward, &kF32Capabilities),
               &kFault) /*ChannelStrideOfOneDecides*/;

}  // namespace qkvet::impl
