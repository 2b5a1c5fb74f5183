// SPDX-License-Identifier: Apache-2.0
// What a kernel's forward() returns in front of its gradient, kept in memory of
// our own: with dropout no caller can know it before.
#ifndef QKVET_CORE_DOOR_FORWARD_OUTPUTS_H_
#define QKVET_CORE_DOOR_FORWARD_OUTPUTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "qkvet/kernel.h"

namespace qkvet {

// o and lse, laid out as the arguments of backward() have them.
class ForwardOutputs {
 public:
  // Aligned as the kernel declares of every tensor; 0: to 16 bytes.
  ForwardOutputs(const qkvet_forward_args& args, int64_t alignment)
      : args_(args),
        alignment_(std::max<size_t>(static_cast<size_t>(alignment), 16)) {}

  // A call that returns o and lse into this.
  const qkvet_forward_args& own_outputs() {
    mask_ = args_.dropout_mask;
    args_.dropout_mask = {};
    give_room(&o_, &args_.o);
    give_room(&lse_, &args_.lse);
    return args_;
  }
  // What backward() is given of it, once it has returned.
  const qkvet_forward_args& as_given() {
    args_.dropout_mask = mask_;
    return args_;
  }

 private:
  void give_room(std::vector<std::byte>* room, qkvet_tensor* tensor) const {
    int64_t elements = 1;
    for (int32_t i = 0; i < tensor->ndim; ++i)
      elements += (tensor->shape[i] - 1) * tensor->strides[i];
    const auto bytes = static_cast<size_t>(std::max<int64_t>(elements, 1) *
                                           tensor->dtype.bits / 8);
    size_t space = bytes + alignment_;
    room->assign(space, std::byte{0});
    void* place = room->data();
    tensor->data = std::align(alignment_, bytes, place, space);
    tensor->byte_offset = 0;
  }

  qkvet_forward_args args_;
  size_t alignment_;
  qkvet_tensor mask_{};
  std::vector<std::byte> o_, lse_;
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_FORWARD_OUTPUTS_H_
