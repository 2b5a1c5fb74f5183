// SPDX-License-Identifier: Apache-2.0
// What a kernel's forward() returns in front of its gradient, kept in memory of
// our own: with dropout no caller can know it before.
#ifndef QKVET_CORE_FORWARD_OUTPUTS_H_
#define QKVET_CORE_FORWARD_OUTPUTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "qkvet/kernel.h"

namespace qkvet {

// o and lse, laid out as the arguments of backward() have them.
class ForwardOutputs {
 public:
  explicit ForwardOutputs(const qkvet_forward_args& args) : args_(args) {}

  // A call that returns o and lse into this.
  const qkvet_forward_args& own_outputs() {
    mask_ = args_.dropout_mask;
    args_.dropout_mask = {};
    args_.o.data = room_for(args_.o, &o_);
    args_.lse.data = room_for(args_.lse, &lse_);
    return args_;
  }
  // What backward() is given of it, once it has returned.
  const qkvet_forward_args& as_given() {
    args_.dropout_mask = mask_;
    return args_;
  }

 private:
  static void* room_for(const qkvet_tensor& tensor,
                        std::vector<uint64_t>* room) {
    int64_t elements = 1;
    for (int32_t i = 0; i < tensor.ndim; ++i)
      elements += (tensor.shape[i] - 1) * tensor.strides[i];
    const int64_t bytes =
        std::max<int64_t>(elements, 1) * tensor.dtype.bits / 8;
    room->assign(static_cast<size_t>(bytes) / sizeof(uint64_t) + 1, 0);
    return room->data();
  }

  qkvet_forward_args args_;
  qkvet_tensor mask_{};
  std::vector<uint64_t> o_, lse_;
};

}  // namespace qkvet

#endif  // QKVET_CORE_FORWARD_OUTPUTS_H_
