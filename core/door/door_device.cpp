// SPDX-License-Identifier: Apache-2.0
// The calls of kernels that run on a device: forward() and backward() as on the
// CPU, with their tensors copied there and back.
#include "core/door/door.h"

namespace qkvet {

std::string Door::open_device() {
  std::string why;
  driver_ = DeviceDriver::of_process(&why);
  if (driver_ == nullptr) return why;
  if (stream_ == nullptr) why = driver_->create_stream(&stream_);
  return why.empty() ? "" : "no CUDA device: " + why;
}

// An error that the driver reports after work on the device has failed comes
// from this call, because the device was idle before. The kernel's own status
// is less specific.
void Door::lose_device(const std::string& why, CallReply* reply) {
  reply->device_lost = 1;
  reply->answer(CallStatus::kCrash, "the work on the device failed: " + why);
}

void Door::call_on_device(const Kernel& kernel, const CallPlan& plan,
                          const TensorAddresses& addresses, CallReply* reply) {
  if (driver_->lost())
    return reply->answer(CallStatus::kNotRun,
                         "an earlier call has lost the device");
  TensorAddresses there{};
  std::string why = driver_->synchronize();  // what open() has left
  if (why.empty()) why = device_tensors_.put(*driver_, plan, addresses, &there);
  if (driver_->lost()) return lose_device(why, reply);
  if (!why.empty())
    return reply->answer(CallStatus::kOutOfMemory,
                         "the device has no room for this call: " + why);
  const AbiCall call(plan, there, kernel.device);
  qkvet_exec exec = kernel.exec(plan.threads);
  // The same call in another place runs on the default stream, and must come to
  // the same.
  if (plan.stream) exec.stream = stream_;
  device_error_.clear();
  if (plan.operation == Operation::kBackward)
    backward(kernel, call, &exec, reply);
  else if (is_planned(kernel, plan))
    planned(kernel, plan, call.forward(), &exec, held_, reply);
  else
    forward(kernel, call.forward(), &exec, reply);
  return_from_device(plan, addresses, reply);
  reply->enter(Phase::kOutside);
}

void Door::return_from_device(const CallPlan& plan,
                              const TensorAddresses& addresses,
                              CallReply* reply) {
  DeviceTrace trace;
  if (device_error_.empty())
    device_error_ = device_tensors_.get(*driver_, plan, addresses, &trace);
  if (!device_error_.empty()) return lose_device(device_error_, reply);
  reply->device_trace = static_cast<uint32_t>(trace.side);
  reply->device_tensor = static_cast<uint32_t>(trace.tensor);
  reply->device_bytes = trace.bytes;
}

}  // namespace qkvet
