// SPDX-License-Identifier: Apache-2.0
// The buffers of a call in the memory of a device. Each tensor's window
// (arena.h) is copied there unchanged, with its canaries, between two margins
// of the same canary. After the call it is copied back, so that wrong writes
// are found as on the CPU. A device has no guard pages: a read beside a tensor
// shows only if the NaN that it returns does.
#ifndef QKVET_CORE_DOOR_DEVICE_TENSORS_H_
#define QKVET_CORE_DOOR_DEVICE_TENSORS_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/door/arena.h"
#include "core/door/call_plan.h"
#include "core/door/device_driver.h"

namespace qkvet {

// Memory that begins on a page, kept from call to call.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  ~DeviceBlock();
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  // "" or why there is not so much.
  std::string reserve(DeviceDriver& driver, int64_t bytes);
  std::byte* begin() const { return begin_; }

 private:
  void release();

  DeviceDriver* driver_ = nullptr;
  std::byte* memory_ = nullptr;
  std::byte* begin_ = nullptr;
  int64_t bytes_ = 0;  // from begin_ on
};

// The place of a forbidden write.
struct DeviceTrace {
  enum class Side : uint32_t { kNone, kBehind, kBefore, kInside };
  Side side = Side::kNone;
  TensorName tensor = TensorName::kQ;
  int64_t bytes = 0;  // as MemoryFault::bytes
};

class DeviceTensors {
 public:
  // Both return "" or what failed. `host` are the tensors in their windows,
  // `there` will be the same on the device.
  std::string put(DeviceDriver& driver, const CallPlan& plan,
                  const TensorAddresses& host, TensorAddresses* there);
  // Outputs come back into their windows; `trace` is the first thing found.
  std::string get(DeviceDriver& driver, const CallPlan& plan,
                  const TensorAddresses& host, DeviceTrace* trace);

 private:
  DeviceBlock block_;
  std::vector<std::byte> staged_;  // the block, for the host
};

// workspace.h on a device.
class DeviceWorkspace {
 public:
  // Null with the reason in *why.
  std::byte* prepare(DeviceDriver& driver, int64_t bytes, std::string* why);
  // As Workspace::damage(); sets *why if it is unknown.
  std::optional<int64_t> damage(DeviceDriver& driver, std::string* why) const;

 private:
  DeviceBlock block_;
  int64_t bytes_ = 0;
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_DEVICE_TENSORS_H_
