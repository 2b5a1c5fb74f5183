// SPDX-License-Identifier: Apache-2.0
// Faults of half storage in calls whose k and v alone are half, and q and o are
// f32, as caches are stored: k and v are widened, which is exact, and what the
// fault rounds is rounded to their type.
#ifndef QKVET_IMPL_FAULTY_BESIDE_F32_H_
#define QKVET_IMPL_FAULTY_BESIDE_F32_H_

#include <cstdint>
#include <memory>
#include <new>

#include "impl/abi/declare.h"
#include "impl/abi/tensor_view.h"
#include "impl/faulty/fault.h"
#include "impl/skeletons/hooks.h"

namespace qkvet::impl {

// All of one half type, or k and v alone.
inline constexpr qkvet_capabilities kHalfAndBesideF32 = [] {
  qkvet_capabilities c = kHalfCapabilities;
  for (const qkvet_dtype& type : {kF16, kBf16}) {
    c.dtypes[c.dtype_count++] = {kF32, type, kF32};
  }
  return c;
}();

// What such a fault rounds to: the storage, or that of k and v, which a kernel
// made by BesideF32 carries in the place where others say what their fault is.
inline Storage rounded_storage(const ForwardCall& call) {
  return call.storage != Storage::kF32
             ? call.storage
             : *static_cast<const Storage*>(call.user);
}

// A tensor of half as contiguous f32.
class Widened {
 public:
  // False: there is no memory.
  bool widen(Storage type, qkvet_tensor* tensor) {
    const Stored from = stored(*tensor, type);
    const int64_t* const shape = tensor->shape;
    int64_t count = 1;
    for (int32_t axis = 3; axis >= 0; --axis) {
      strides_[axis] = count;
      count *= shape[axis];
    }
    values_.reset(new (std::nothrow) float[static_cast<size_t>(count)]);
    if (values_ == nullptr) {
      return false;
    }
    for (int64_t n = 0; n < count; ++n) {
      values_[n] = from.get(n / strides_[0], n / strides_[1] % shape[1],
                            n / strides_[2] % shape[2], n % shape[3]);
    }
    tensor->data = values_.get();
    tensor->byte_offset = 0;
    tensor->strides = strides_;
    tensor->dtype = kF32;
    return true;
  }

 private:
  std::unique_ptr<float[]> values_;
  int64_t strides_[4] = {};
};

// The kernel of such a fault: a hook that asks rounded_storage().
template <class Hooks>
struct BesideF32 {
  static qkvet_status supports(const qkvet_kernel* self,
                               const qkvet_forward_args* args,
                               qkvet_text* why) {
    qkvet_forward_args known = {};
    Storage type = Storage::kF32;
    const qkvet_status status = read_struct(args, &known, why);
    if (status != QKVET_OK || !is_beside_f32(known, &type)) {
      return status == QKVET_OK ? supports_forward(self, args, why) : status;
    }
    known.k.dtype = known.v.dtype = kF32;
    const qkvet_kernel in_f32 = of_f32(*self, &type);
    return supports_forward(&in_f32, &known, why);
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    qkvet_forward_args known = {};
    Storage type = Storage::kF32;
    qkvet_status status = supports(self, args, why);
    status = status == QKVET_OK ? read_struct(args, &known, why) : status;
    if (status != QKVET_OK) {
      return status;
    }
    if (!is_beside_f32(known, &type)) {
      return HooksKernel<Hooks>::kForward(self, context, args, exec, why);
    }
    Widened k, v;
    if (!k.widen(type, &known.k) || !v.widen(type, &known.v)) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory to widen k and v");
    }
    const qkvet_kernel in_f32 = of_f32(*self, &type);
    return HooksKernel<Hooks>::kForward(&in_f32, context, &known, exec, why);
  }

 private:
  static bool is_beside_f32(const qkvet_forward_args& args, Storage* type) {
    return is_same(args.q.dtype, kF32) && is_same(args.o.dtype, kF32) &&
           is_same(args.k.dtype, args.v.dtype) &&
           storage_of(args.k.dtype, type) && *type != Storage::kF32;
  }
  static qkvet_kernel of_f32(const qkvet_kernel& self, Storage* type) {
    qkvet_kernel kernel = self;
    kernel.capabilities = &kF32Capabilities;
    kernel.user = type;
    return kernel;
  }
};

template <class Hooks>
constexpr qkvet_kernel half_fault(const char* name, const char* description,
                                  Place place) {
  qkvet_kernel kernel =
      plain_kernel(name, description, place, &kHooksPrecision,
                   BesideF32<Hooks>::forward, &kHalfAndBesideF32);
  kernel.supports = BesideF32<Hooks>::supports;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_BESIDE_F32_H_
