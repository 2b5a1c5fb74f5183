// SPDX-License-Identifier: Apache-2.0
// Faults of CUDA kernels, on the emulator: a class that derives from FlashSeams
// (cuda/flash_frame.h) and replaces one seam. The emulator runs threads in an
// order that the shape of a call decides, so that a race has the same outcome
// on every run, and it is wrong in all of the orders.
#ifndef QKVET_IMPL_FAULTY_FLASH_FAULT_H_
#define QKVET_IMPL_FAULTY_FLASH_FAULT_H_

#include "impl/cuda/flash_frame.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {

inline constexpr qkvet_capabilities kFlashFaultCapabilities =
    device_capabilities(kCommonOptions, {kF32}, kFlashMostWidth);

template <class Seams>
constexpr qkvet_kernel flash_fault(const char* name, const qkvet_fault* fault,
                                   Place place) {
  return with_fault(
      device_kernel(name, fault->mechanism, place, &kFlashPrecision,
                    flash_forward<Seams>, &kFlashFaultCapabilities,
                    supports_device<kFlashMostWidth>),
      fault);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_FLASH_FAULT_H_
