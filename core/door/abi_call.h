// SPDX-License-Identifier: Apache-2.0
// A call in the words of the ABI.
#ifndef QKVET_CORE_DOOR_ABI_CALL_H_
#define QKVET_CORE_DOOR_ABI_CALL_H_

#include "core/call/option_numbers.h"
#include "core/door/arena.h"
#include "core/door/call_plan.h"
#include "qkvet/kernel.h"

namespace qkvet {

// The arguments of the plan's operation; those of all others are empty. They
// point into this object.
class AbiCall {
 public:
  // `device` is QKVET_DEVICE_*: where the addresses are.
  AbiCall(const CallPlan& plan, const TensorAddresses& addresses,
          int32_t device = QKVET_DEVICE_CPU);
  AbiCall(const AbiCall&) = delete;
  AbiCall& operator=(const AbiCall&) = delete;

  const qkvet_forward_args& forward() const { return forward_; }
  const qkvet_backward_args& backward() const { return backward_; }
  const qkvet_layer_args& layer() const { return layer_; }
  const qkvet_layer_backward_args& layer_backward() const {
    return layer_backward_;
  }
  const qkvet_merge_args& merge() const { return merge_; }
  const qkvet_cache_config& create() const { return create_; }
  const qkvet_cache_args& step() const { return step_; }
  // The tensors that read_back() writes.
  const qkvet_tensor& read_k() const { return read_k_; }
  const qkvet_tensor& read_v() const { return read_v_; }

 private:
  void fill_forward(const CallPlan& plan, const TensorAddresses& addresses);
  void fill_backward(const CallPlan& plan, const TensorAddresses& addresses);
  void fill_layer(const CallPlan& plan, const TensorAddresses& addresses);
  void fill_layer_backward(const CallPlan& plan,
                           const TensorAddresses& addresses);
  void fill_merge(const CallPlan& plan, const TensorAddresses& addresses);
  void fill_create(const CallPlan& plan, const TensorAddresses& addresses);
  void fill_step(const CallPlan& plan, const TensorAddresses& addresses);
  // Empty if the plan has no such tensor.
  qkvet_tensor tensor(const CallPlan& plan, const TensorAddresses& addresses,
                      TensorName name);
  qkvet_tensor described(const TensorSpec& spec, std::byte* data,
                         size_t number);

  int32_t device_;
  int64_t byte_offset_;
  int64_t shapes_[kTensorCount][kMostRank];
  int64_t strides_[kTensorCount][kMostRank];
  // The arguments of a newer caller, with one more field, which is set by a
  // call with Mistake::kUnknownField.
  struct NewerArgs {
    qkvet_forward_args known{};
    uint64_t unknown = 0;
  };
  static_assert(sizeof(NewerArgs) == sizeof(qkvet_forward_args) + 8);
  NewerArgs newer_;
  qkvet_forward_args& forward_ = newer_.known;
  qkvet_backward_args backward_{};
  qkvet_layer_args layer_{};
  qkvet_layer_backward_args layer_backward_{};
  qkvet_merge_args merge_{};
  qkvet_cache_config create_{};
  qkvet_cache_args step_{};
  qkvet_tensor read_k_{};
  qkvet_tensor read_v_{};
};

// No stream, no workspace.
qkvet_exec plain_exec(int32_t threads, int32_t device = QKVET_DEVICE_CPU);

// "UNSUPPORTED", or "status 77".
std::string status_name(qkvet_status status);

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_ABI_CALL_H_
