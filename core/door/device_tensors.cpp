// SPDX-License-Identifier: Apache-2.0
#include "core/door/device_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/door/canary.h"
#include "core/door/guarded.h"

namespace qkvet {
namespace {

// A margin is as wide as the tensor's window, within these bounds: the last
// tile of a kernel goes a tile too far, and small tensors have large tiles.
constexpr int64_t kLeastMarginPages = 4;
constexpr int64_t kWidestMargin = int64_t{16} << 20;

// A block is kept while it is not larger than this many times the need.
constexpr int64_t kMostSlack = 4;

// Copies below this size are made without checking the free memory.
constexpr int64_t kSmallCopy = int64_t{32} << 20;

constexpr int64_t kWorkspaceElement = 4;  // workspaces mostly hold floats
constexpr uint16_t kCanaryUnit = 0x7ffb;  // canary.h

int64_t margin_of(int64_t window) {
  return std::clamp(window, kLeastMarginPages * page_bytes(), kWidestMargin);
}

int64_t round_up(int64_t bytes, int64_t step) {
  return (bytes + step - 1) / step * step;
}

// The margin beside a workspace, which begins on a page.
int64_t margin_beside(int64_t workspace) {
  return round_up(margin_of(workspace), page_bytes());
}

// A tensor in the block. The window and its margins are whole pages, so that
// the tensor has the same alignment as on the host.
struct Region {
  int64_t begin = 0;   // of the margin before the window
  int64_t window = 0;  // after that margin
  int64_t first = 0;   // of the tensor
  int64_t last = 0;    // after the end of the tensor
  int64_t end = 0;     // of the margin after the window
  int64_t size = 0;    // of the window
};

using Regions = std::array<Region, kTensorCount>;

int64_t lay_out_regions(const CallPlan& plan, Regions* regions) {
  int64_t at = 0;
  for (size_t t = 0; t < kTensorCount; ++t) {
    if (!plan.has_window_of_its_own(t)) continue;
    Region& r = (*regions)[t];
    r.size = window_bytes(plan.places[t].size_class);
    r.begin = at;
    r.window = at + margin_of(r.size);
    r.first = r.window + plan.places[t].start;
    r.last = r.first + plan.places[t].bytes;
    r.end = r.window + r.size + margin_of(r.size);
    at = r.end;
  }
  return at;
}

// Looks for forbidden writes in the tensor's region as it came back: in the
// canaries beside the tensor, and in an input, compared with its window on the
// host. The arena checks outputs and their gaps.
DeviceTrace trace_in(const std::byte* staged, const Region& r,
                     const TensorSpec& spec, TensorName tensor,
                     const std::byte* on_host) {
  using Side = DeviceTrace::Side;
  const int64_t element = dtype_bytes(spec.dtype);
  const Canary canary(element);
  int64_t at = canary.first_damage(staged, r.last, r.end);
  if (at >= 0)
    return {Side::kBehind, tensor, (at - r.last) / element * element};
  at = canary.last_damage(staged, r.begin, r.first);
  if (at >= 0) return {Side::kBefore, tensor, round_up(r.first - at, element)};
  if (is_output(tensor)) return {};
  const std::byte* const there = staged + r.first;
  const std::byte* const changed =
      std::mismatch(there, staged + r.last, on_host).first;
  if (changed == staged + r.last) return {};
  return {Side::kInside, tensor, (changed - there) / element * element};
}

}  // namespace

DeviceBlock::~DeviceBlock() { release(); }

void DeviceBlock::release() {
  // Memory of a lost context is gone with it.
  if (memory_ != nullptr && !driver_->lost()) driver_->free(memory_);
  memory_ = begin_ = nullptr;
  bytes_ = 0;
}

std::string DeviceBlock::reserve(DeviceDriver& driver, int64_t bytes) {
  if (bytes_ >= bytes && bytes_ <= kMostSlack * bytes) return "";
  release();
  driver_ = &driver;
  const int64_t page = page_bytes();
  const std::string bad = driver.allocate(bytes + page, &memory_);
  if (!bad.empty()) return bytes_text(bytes + page) + ": " + bad;
  const auto address = reinterpret_cast<uint64_t>(memory_);
  begin_ = memory_ + (round_up(static_cast<int64_t>(address), page) -
                      static_cast<int64_t>(address));
  bytes_ = bytes;
  return "";
}

std::string DeviceTensors::put(DeviceDriver& driver, const CallPlan& plan,
                               const TensorAddresses& host,
                               TensorAddresses* there) {
  Regions regions{};
  const int64_t total = lay_out_regions(plan, &regions);
  if (total == 0) return "";
  if (total > kSmallCopy && total > available_memory())
    return "a copy of " + bytes_text(total) + " has no room on the host";
  if (std::string bad = block_.reserve(driver, total); !bad.empty()) return bad;
  const auto size = static_cast<size_t>(total);
  if (staged_.size() < size || staged_.size() > kMostSlack * size)
    std::vector<std::byte>(size).swap(staged_);
  for (size_t t = 0; t < kTensorCount; ++t) {
    if (!plan.has_window_of_its_own(t)) continue;
    const Region& r = regions[t];
    const Canary canary(dtype_bytes(plan.tensors[t].dtype));
    canary.fill(staged_.data(), r.begin, r.window);
    std::memcpy(staged_.data() + r.window, host[t] - plan.places[t].start,
                static_cast<size_t>(r.size));
    canary.fill(staged_.data(), r.window + r.size, r.end);
    (*there)[t] = block_.begin() + r.first;
  }
  for (size_t t = 0; t < kTensorCount; ++t) {
    const int32_t within = plan.places[t].within;
    if (!plan.tensors[t].present() || within < 0) continue;
    const auto holder = static_cast<size_t>(within);
    (*there)[t] = (*there)[holder] + (host[t] - host[holder]);
  }
  // The copy may still be on its way when the function returns, and a stream of
  // its own does not wait for it.
  std::string bad = driver.to_device(block_.begin(), staged_.data(), total);
  return bad.empty() ? driver.synchronize() : bad;
}

std::string DeviceTensors::get(DeviceDriver& driver, const CallPlan& plan,
                               const TensorAddresses& host,
                               DeviceTrace* trace) {
  *trace = {};
  Regions regions{};
  const int64_t total = lay_out_regions(plan, &regions);
  if (total == 0) return "";
  const std::string bad = driver.to_host(staged_.data(), block_.begin(), total);
  if (!bad.empty()) return bad;
  for (size_t t = 0; t < kTensorCount; ++t) {
    if (!plan.has_window_of_its_own(t)) continue;
    const Region& r = regions[t];
    const auto name = static_cast<TensorName>(t);
    if (trace->side == DeviceTrace::Side::kNone)
      *trace = trace_in(staged_.data(), r, plan.tensors[t], name, host[t]);
    if (is_output(name))
      std::memcpy(host[t] - plan.places[t].start, staged_.data() + r.window,
                  static_cast<size_t>(r.size));
  }
  return "";
}

std::byte* DeviceWorkspace::prepare(DeviceDriver& driver, int64_t bytes,
                                    std::string* why) {
  const int64_t margin = margin_beside(bytes);
  const int64_t total = round_up(2 * margin + bytes, 2);
  bytes_ = bytes;
  *why = block_.reserve(driver, total);
  if (why->empty())
    *why = driver.fill_units(block_.begin(), kCanaryUnit, total / 2);
  if (why->empty()) *why = driver.synchronize();
  return why->empty() ? block_.begin() + margin : nullptr;
}

std::optional<int64_t> DeviceWorkspace::damage(DeviceDriver& driver,
                                               std::string* why) const {
  const Canary canary(kWorkspaceElement);
  const int64_t margin = margin_beside(bytes_);
  const int64_t odd = bytes_ % 2;  // the canary's phase is the block's
  const int64_t behind = margin + bytes_ - odd;
  std::vector<std::byte> copy(static_cast<size_t>(odd + margin));
  const auto size = static_cast<int64_t>(copy.size());
  *why = driver.to_host(copy.data(), block_.begin() + behind, size);
  if (!why->empty()) return std::nullopt;
  int64_t at = canary.first_damage(copy.data(), odd, size);
  if (at >= 0) return at - odd;
  *why = driver.to_host(copy.data(), block_.begin(), margin);
  if (!why->empty()) return std::nullopt;
  at = canary.last_damage(copy.data(), 0, margin);
  return at >= 0 ? std::optional<int64_t>(at - margin) : std::nullopt;
}

}  // namespace qkvet
