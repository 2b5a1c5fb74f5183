// SPDX-License-Identifier: Apache-2.0
// The outputs of a kernel's forward() before its gradient, in memory of our
// own: with dropout no caller can know them in advance.
#ifndef QKVET_CORE_DOOR_FORWARD_OUTPUTS_H_
#define QKVET_CORE_DOOR_FORWARD_OUTPUTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "qkvet/kernel.h"

namespace qkvet {

// o and lse, laid out as in the arguments of backward(); but in one piece if
// the parts of o are far apart (Layout::kFar).
class ForwardOutputs {
 public:
  // Aligned as the kernel declares of every tensor; 0: to 16 bytes.
  ForwardOutputs(const qkvet_forward_args& args, int64_t alignment)
      : args_(args),
        alignment_(std::max<size_t>(static_cast<size_t>(alignment), 16)) {
    constexpr int64_t kFar = int64_t{1} << 32;
    if (span_of(args_.o) <= kFar) return;
    int64_t stride = 1;
    for (int32_t i = args_.o.ndim; i-- > 0;) {
      o_strides_[static_cast<size_t>(i)] = stride;
      stride *= args_.o.shape[i];
    }
    args_.o.strides = o_strides_.data();
  }
  ForwardOutputs(const ForwardOutputs&) = delete;
  ForwardOutputs& operator=(const ForwardOutputs&) = delete;

  // The memory that both need if it begins on `alignment`.
  int64_t bytes() const {
    return static_cast<int64_t>(room_for(args_.o) + room_for(args_.lse));
  }
  // The arguments of a call that returns o and lse in this memory, of any
  // device.
  const qkvet_forward_args& outputs_in(std::byte* memory) {
    mask_ = args_.dropout_mask;
    args_.dropout_mask = {};
    place(memory, &args_.o);
    place(memory + room_for(args_.o), &args_.lse);
    return args_;
  }
  // The same in memory of this process.
  const qkvet_forward_args& own_outputs() {
    const auto wanted = static_cast<size_t>(bytes());
    size_t space = wanted + alignment_;
    own_.assign(space, std::byte{0});
    void* begin = own_.data();
    return outputs_in(
        static_cast<std::byte*>(std::align(alignment_, wanted, begin, space)));
  }
  // The arguments for backward(), after forward() has returned.
  const qkvet_forward_args& as_given() {
    args_.dropout_mask = mask_;
    return args_;
  }

 private:
  // The number of elements from the first to the last, gaps included.
  static int64_t span_of(const qkvet_tensor& tensor) {
    int64_t elements = 1;
    for (int32_t i = 0; i < tensor.ndim; ++i)
      elements += (tensor.shape[i] - 1) * tensor.strides[i];
    return std::max<int64_t>(elements, 1);
  }
  // In bytes, up to where the next one may begin.
  size_t room_for(const qkvet_tensor& tensor) const {
    const auto bytes =
        static_cast<size_t>(span_of(tensor) * tensor.dtype.bits / 8);
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
  }
  static void place(std::byte* memory, qkvet_tensor* tensor) {
    tensor->data = memory;
    tensor->byte_offset = 0;
  }

  qkvet_forward_args args_;
  size_t alignment_;
  std::array<int64_t, 4> o_strides_{};
  qkvet_tensor mask_{};
  std::vector<std::byte> own_;
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_FORWARD_OUTPUTS_H_
