// SPDX-License-Identifier: Apache-2.0
// The kernels of faults: skeletons of impl/skeletons/ with one hook replaced. A
// fault stays inside its tensors, as the skeletons do, but for those of
// memory.cpp.
#ifndef QKVET_IMPL_FAULTY_KERNELS_H_
#define QKVET_IMPL_FAULTY_KERNELS_H_

#include <cstdint>

#include "impl/abi/declare.h"
#include "impl/faulty/fault.h"
#include "impl/skeletons/backward_kernel.h"
#include "impl/skeletons/hooks.h"
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
constexpr qkvet_kernel forward_fault(const char* name, const char* description,
                                     Place place) {
  return plain_kernel(name, description, place, kPrecision, kForward,
                      kCapabilities);
}

// The kernel of a fault in a hook. A fault of half storage lies in what is
// rounded to it; the others take f32.
template <class Hooks,
          const qkvet_capabilities* kCapabilities = &kF32Capabilities>
constexpr qkvet_kernel plain_fault(const char* name, const char* description,
                                   Place place) {
  return forward_fault<HooksKernel<Hooks>::kForward, kCapabilities>(
      name, description, place);
}

// Those of hooks.h, and these QKVET_OPTION_* of kAllOptions, in f32.
template <uint64_t kOptions>
inline constexpr qkvet_capabilities kF32With =
    capabilities_with(kCommonOptions | kOptions, {kF32});

// The kernel of a fault. A fault declares the options that it lies in and no
// others, so that few calls are wasted on those.
template <template <class> class RowsOf, class Hooks, uint64_t kOptions,
          const qkvet_precision* kPrecision = &kHooksPrecision>
constexpr qkvet_kernel option_fault_on(const char* name,
                                       const char* description, Place place) {
  qkvet_kernel kernel =
      plain_kernel(name, description, place, kPrecision,
                   OptionsKernel<Hooks, RowsOf>::forward, &kF32With<kOptions>);
  kernel.dialect = &kOptionsDialect;
  return kernel;
}

template <class Hooks, uint64_t kOptions = 0>
constexpr qkvet_kernel option_fault(const char* name, const char* description,
                                    Place place) {
  return option_fault_on<OptionRows, Hooks, kOptions>(name, description, place);
}

// The kernel of a fault in how arguments are read: right, of other arguments.
template <void (*kRead)(qkvet_forward_args*), uint64_t kOptions>
constexpr qkvet_kernel argument_fault(const char* name, const char* description,
                                      Place place) {
  qkvet_kernel kernel =
      option_fault<OptionHooks, kOptions>(name, description, place);
  kernel.forward = [](const qkvet_kernel* self, qkvet_context* context,
                      const qkvet_forward_args* args, const qkvet_exec* exec,
                      qkvet_text* why) {
    qkvet_forward_args known = {};
    const qkvet_status status = read_struct(args, &known, why);
    if (status != QKVET_OK) {
      return status;
    }
    kRead(&known);
    return OptionsKernel<OptionHooks>::forward(self, context, &known, exec,
                                               why);
  };
  return kernel;
}

// The same on the other skeletons.
template <class Hooks, uint64_t kOptions = 0>
constexpr qkvet_kernel split_fault(const char* name, const char* description,
                                   Place place) {
  return option_fault_on<SplitRows, Hooks, kOptions, &kSplitHooksPrecision>(
      name, description, place);
}

template <class Hooks, uint64_t kOptions = 0>
constexpr qkvet_kernel tiled_fault(const char* name, const char* description,
                                   Place place) {
  return option_fault_on<TiledRows, Hooks, kOptions, &kTiledHooksPrecision>(
      name, description, place);
}

template <class Hooks,
          const qkvet_capabilities* kCapabilities = &kServingHooksCapabilities>
constexpr qkvet_kernel serving_fault(const char* name, const char* description,
                                     Place place) {
  return serving_kernel(name, description, place, &kServingHooksPrecision,
                        ServingKernel<Hooks, compute_rows<PlainRow>>::forward,
                        kCapabilities);
}

// The kernel of a fault in a gradient: forward is right, with every option that
// the fault lies in, and of the gradient one hook of backward_skeleton.h is
// replaced.
template <class Hooks, uint64_t kOptions = 0,
          BackwardArithmetic kArithmetic = BackwardRows<Hooks>::piece>
constexpr qkvet_kernel backward_fault(const char* name, const char* description,
                                      Place place) {
  return with_backward(
      option_fault<OptionHooks, kOptions>(name, description, place),
      &kBackwardTable<Hooks, kArithmetic>);
}

// The kernel of a fault in the gradient of a layer: the layer is right, and
// Hooks, which derives from PlainLayerGradient, replaces one hook.
template <class Hooks>
constexpr qkvet_kernel layer_backward_fault(const char* name,
                                            const char* description,
                                            Place place) {
  return with_backward(layer_kernel(name, description, place, &kLayerPrecision,
                                    &kLayerTable<PlainLayer>),
                       &kLayerGradientTable<Hooks>);
}

// Merges in f32 alone: rounding has no part in their faults.
inline constexpr qkvet_capabilities kF32MergeCapabilities =
    capabilities_with(0, {kF32});

// The kernel of a fault in a merge. It declares the options that the fault
// needs and no others.
template <class Hooks, uint64_t kOptions = 0>
constexpr qkvet_kernel merge_fault(const char* name, const char* description,
                                   Place place) {
  qkvet_kernel kernel =
      merge_kernel(name, description, place, &kMergeTable<Hooks, kOptions>);
  kernel.capabilities = &kF32MergeCapabilities;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_KERNELS_H_
