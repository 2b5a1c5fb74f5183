// SPDX-License-Identifier: Apache-2.0
// Hostile buffers. One file in memory has a window for every call of a batch (a
// slot), tensor and size. The host writes and checks it through plain mappings;
// the kernel sees it between guard pages, inputs read-only. All bytes outside
// of tensors are canaries. Windows are mapped when first used, and only the
// parts that a call has changed are rewritten and checked. Parts of a tensor
// that are far apart for the kernel (Layout::kFar) are adjacent for the host.
#ifndef QKVET_CORE_DOOR_ARENA_H_
#define QKVET_CORE_DOOR_ARENA_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/call/call.h"
#include "core/door/call_plan.h"
#include "core/door/canary.h"
#include "core/door/guarded.h"

namespace qkvet {

inline constexpr int kSlotCount = 32;  // calls per round trip

// The addresses of a call's tensors in one of the two processes; nullptr if
// absent.
using TensorAddresses = std::array<std::byte*, kTensorCount>;

// One T for each window of each size class. There are tens of thousands, and a
// worker that makes two calls uses twenty, so a class is allocated when it is
// first used.
template <class T>
class ByWindow {
 public:
  T& at(int index, int size_class) {
    std::vector<T>& of_class = classes_[static_cast<size_t>(size_class)];
    if (of_class.empty()) of_class.resize(kSlotCount * kTensorCount);
    return of_class[static_cast<size_t>(index)];
  }
  // Visits the classes that were used, with all their windows.
  template <class Visit>
  void each(Visit visit) {
    for (size_t size_class = 0; size_class < classes_.size(); ++size_class)
      for (size_t at = 0; at < classes_[size_class].size(); ++at)
        visit(static_cast<int>(at), static_cast<int>(size_class),
              classes_[size_class][at]);
  }

 private:
  std::array<std::vector<T>, kSizeClassCount> classes_;
};

// The windows as one of the two sides maps them.
class WindowTable {
 public:
  enum class Side { kHost, kKernel };
  WindowTable(int fd, Side side);
  ~WindowTable();
  WindowTable(const WindowTable&) = delete;
  WindowTable& operator=(const WindowTable&) = delete;

  // Null if the window cannot be mapped.
  std::byte* window(int slot, TensorName tensor, int size_class);
  // The window that contains the tensor: its own, or the one of another tensor.
  std::byte* window_of(int slot, const CallPlan& plan, size_t tensor);
  // The first elements of all tensors of the call; false with a line in *why if
  // one cannot be mapped.
  bool locate(int slot, const CallPlan& plan, TensorAddresses* addresses,
              std::string* why);
  // Releases the address space of parts that are far apart, which is large. To
  // be called before other tensors are located; makes the addresses invalid.
  void forget_far() { far_.clear(); }

  static int64_t file_offset(int index, int size_class);
  // The number of a window within its size class.
  static int index(int slot, TensorName tensor);

 private:
  std::byte* far_window(int slot, const CallPlan& plan, size_t tensor,
                        std::string* why);

  // The descriptor of a window. Inputs of a kernel have one that is open only
  // for reading, so that no mprotect() makes them writable.
  int descriptor_of(TensorName tensor) const;

  int fd_, inputs_fd_;
  Side side_;
  ByWindow<GuardedMapping> mapped_;
  std::vector<GuardedMapping> far_;
};

// The host's side.
class Arena {
 public:
  static std::unique_ptr<Arena> create(std::string* error);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_; }

  // Writes inputs and canaries of one call. False with a line in *why if memory
  // is too small for it.
  bool prepare(int slot, const CallPlan& plan, const KernelCall& call,
               std::string* why);
  // After the kernel: outcome->damage, and if the call is done the outputs and
  // outcome->unwritten; with a plan outcome->overwritten.
  void collect(int slot, const CallPlan& plan, CallOutcome* outcome);
  // For a process that died in the middle of a call: all memory that a kernel
  // can write is then unknown.
  void distrust_outputs();
  // Gives memory back if much of it is held. Between batches.
  void trim();

 private:
  // The host's record of a window.
  struct Window {
    bool filled = false;  // all canary except [begin, end)
    Canary canary{4};
    int64_t begin = 0;
    int64_t end = 0;
  };
  struct Spot {  // one tensor of one call
    Window* window;
    std::byte* memory;  // of the window
    int64_t size;       // of the window
    int64_t begin;      // of the tensor, or of the block that begins with it
    int64_t end;
  };

  explicit Arena(int fd);
  // Sets outcome->overwritten, for a call with a plan. `rows`: those that
  // count.
  static void look_for_overwritten(const Spot& spot, const TensorSpec& spec,
                                   TensorName name, std::vector<int64_t> rows,
                                   CallOutcome* outcome);
  bool room_for(const CallPlan& plan, std::string* why);
  bool find(int slot, const CallPlan& plan, int tensor, Spot* spot);
  void refill(const Spot& spot, const TensorSpec& spec, bool output);
  static void fill_all(const Spot& spot, uint8_t byte);
  // The number of rows of every member that must be written, from the call's
  // lengths; empty: all rows. The inputs must still be in their windows.
  std::vector<int64_t> rows_to_write(int slot, const CallPlan& plan,
                                     bool of_keys);
  std::optional<MemoryFault> damage_of(const Spot& spot, const TensorSpec& spec,
                                       TensorName tensor) const;

  int fd_;
  int64_t file_bytes_ = 0;
  int64_t touched_ = 0;  // bytes of windows filled since the last trim
  WindowTable table_;
  ByWindow<Window> windows_;
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_ARENA_H_
