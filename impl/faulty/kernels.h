// SPDX-License-Identifier: Apache-2.0
// The kernels of faults: skeletons of impl/skeletons/ with one hook replaced.
// QKVET_FAULT sets name, description and place. A fault stays inside its
// tensors, as the skeletons do, except for those of memory.cpp.
#ifndef QKVET_IMPL_FAULTY_KERNELS_H_
#define QKVET_IMPL_FAULTY_KERNELS_H_

#include <cstdint>

#include "impl/call/declare.h"
#include "impl/faulty/fault.h"
#include "impl/skeletons/backward_kernel.h"
#include "impl/skeletons/layer_gradient.h"
#include "impl/skeletons/layer_skeleton.h"
#include "impl/skeletons/merge_skeleton.h"
#include "impl/skeletons/options_kernel.h"
#include "impl/skeletons/plain_row.h"
#include "impl/skeletons/serving_hooks.h"
#include "impl/skeletons/split_hooks.h"
#include "impl/skeletons/tiled_hooks.h"

namespace qkvet::impl {

// The kernel of a fault that replaces forward() as a whole.
template <ForwardFunction kForward,
          const qkvet_capabilities* kCapabilities = &kF32Capabilities,
          const qkvet_precision* kPrecision = &kHooksPrecision>
constexpr qkvet_kernel kForwardFault = plain_kernel("", "", {}, kPrecision,
                                                    kForward, kCapabilities);

// The kernel of a fault that is independent of options. A fault of half storage
// is in the rounding to it; the others take f32.
template <class Hooks,
          const qkvet_capabilities* kCapabilities = &kF32Capabilities>
constexpr qkvet_kernel kPlainFault =
    kForwardFault<forward_in_f32<OptionsKernel<Hooks>::compute_whole>,
                  kCapabilities>;

// The common options, and these QKVET_OPTION_* of kAllOptions, in f32.
template <uint64_t kOptions>
inline constexpr qkvet_capabilities kF32With =
    capabilities_with(kCommonOptions | kOptions, {kF32});

// The kernel of a fault. A fault declares only the options that it concerns, so
// that few calls are wasted on others.
template <template <class> class RowsOf, class Hooks, uint64_t kOptions,
          const qkvet_precision* kPrecision = &kHooksPrecision>
constexpr qkvet_kernel kOptionFaultOn =
    with(kForwardFault<OptionsKernel<Hooks, RowsOf>::forward,
                       &kF32With<kOptions>, kPrecision>,
         &qkvet_kernel::dialect, &kOptionsDialect);

template <class Hooks, uint64_t kOptions = 0>
constexpr qkvet_kernel kOptionFault =
    kOptionFaultOn<OptionRows, Hooks, kOptions>;

// A fault in reading arguments: it computes correctly from wrong ones.
template <void (*kRead)(qkvet_forward_args*)>
qkvet_status forward_of_other(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
  qkvet_forward_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  kRead(&known);
  return OptionsKernel<OptionHooks>::forward(self, context, &known, exec, why);
}
template <void (*kRead)(qkvet_forward_args*), uint64_t kOptions>
constexpr qkvet_kernel kArgumentFault =
    with(kOptionFault<OptionHooks, kOptions>, &qkvet_kernel::forward,
         forward_of_other<kRead>);

// The same on the other skeletons.
template <class Hooks, uint64_t kOptions = 0>
constexpr qkvet_kernel kSplitFault =
    kOptionFaultOn<SplitRows, Hooks, kOptions, &kSplitHooksPrecision>;

template <class Hooks, uint64_t kOptions = 0>
constexpr qkvet_kernel kTiledFault =
    kOptionFaultOn<TiledRows, Hooks, kOptions, &kTiledHooksPrecision>;

template <class Hooks,
          const qkvet_capabilities* kCapabilities = &kServingHooksCapabilities>
constexpr qkvet_kernel kServingFault = serving_kernel(
    "", "", {}, &kServingHooksPrecision,
    ServingKernel<Hooks, compute_rows<PlainRow>>::forward, kCapabilities);

// The kernel of a fault in a gradient: forward is correct, with every option
// that the fault concerns, and one hook of backward_skeleton.h is replaced in
// the gradient.
template <class Hooks, uint64_t kOptions = 0,
          BackwardArithmetic kArithmetic = BackwardRows<Hooks>::piece>
constexpr qkvet_kernel kBackwardFault = with_backward(
    kOptionFault<OptionHooks, kOptions>, &kBackwardTable<Hooks, kArithmetic>);

// The kernel of a fault in a layer: Hooks derives from PlainLayer.
template <class Hooks>
constexpr qkvet_kernel kLayerFault = layer_kernel("", "", {}, &kLayerPrecision,
                                                  &kLayerTable<Hooks>);

// The kernel of a fault in the gradient of a layer: the layer is right, and
// Hooks, which derives from PlainLayerGradient, replaces one hook.
template <class Hooks>
constexpr qkvet_kernel kLayerBackwardFault =
    with_backward(kLayerFault<PlainLayer>, &kLayerGradientTable<Hooks>);

// Merges in f32 only: their faults are independent of rounding.
inline constexpr qkvet_capabilities kF32MergeCapabilities =
    capabilities_with(0, {kF32});

// The kernel of a fault in a merge. It declares only the options that the fault
// needs.
template <class Hooks, uint64_t kOptions = 0>
constexpr qkvet_kernel kMergeFault =
    with(merge_kernel("", "", {}, &kMergeTable<Hooks, kOptions>),
         &qkvet_kernel::capabilities, &kF32MergeCapabilities);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_KERNELS_H_
