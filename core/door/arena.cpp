// SPDX-License-Identifier: Apache-2.0
#include "core/door/arena.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace qkvet {
namespace {

constexpr int kWindowsPerClass = kSlotCount * kTensorCount;

// The bytes kept between batches. If more are used, every page is given back.
constexpr int64_t kKeptBytes = int64_t{64} << 20;

// Calls below this size are made without checking the free memory.
constexpr int64_t kSmallCallBytes = int64_t{32} << 20;

// The elements at one index of [B,H,T].
int64_t elements_of_row(const TensorSpec& spec) {
  int64_t elements = 1;
  for (int i = 3; i < spec.ndim; ++i)
    elements *= spec.shape[static_cast<size_t>(i)];
  return elements;
}

// The number of the first element that was never written, or -1. In the outputs
// of forward() and its gradient, [B,H,Tq,...] and [B,Hkv,Tk,...], only the
// first rows[b] rows of a member need be written, if `rows` is not empty.
int64_t first_unwritten(const Canary& canary, const TensorSpec& spec,
                        const std::byte* packed,
                        const std::vector<int64_t>& rows) {
  const int64_t element = dtype_bytes(spec.dtype);
  if (rows.empty() || spec.ndim < 3)
    return canary.first_untouched(packed, spec.elements(), element);
  const int64_t Tq = spec.shape[2];
  const int64_t width = elements_of_row(spec);
  for (int64_t b = 0; b < spec.shape[0]; ++b)
    for (int64_t h = 0; h < spec.shape[1]; ++h) {
      const int64_t first = (b * spec.shape[1] + h) * Tq * width;
      const int64_t count = rows[static_cast<size_t>(b)] * width;
      const int64_t at =
          canary.first_untouched(packed + first * element, count, element);
      if (at >= 0) return first + at;
    }
  return -1;
}

// The first element that was written in rows that do not count, of outputs as
// above; all of them where `rows` is empty. -1: none.
int64_t first_overwritten(const Canary& canary, const TensorSpec& spec,
                          const std::byte* packed,
                          const std::vector<int64_t>& rows) {
  const int64_t element = dtype_bytes(spec.dtype);
  if (spec.ndim < 3 || spec.elements() == 0) return -1;
  const int64_t Tq = spec.shape[2];
  const int64_t width = elements_of_row(spec);
  for (int64_t b = 0; b < spec.shape[0]; ++b)
    for (int64_t h = 0; h < spec.shape[1]; ++h) {
      const int64_t first = (b * spec.shape[1] + h) * Tq;
      const int64_t count = rows.empty() ? 0 : rows[static_cast<size_t>(b)];
      const int64_t at =
          canary.first_damage(packed, (first + count) * width * element,
                              (first + Tq) * width * element);
      if (at >= 0) return at / element;
    }
  return -1;
}

}  // namespace

WindowTable::WindowTable(int fd, Side side)
    : fd_(fd), inputs_fd_(-1), side_(side) {
  if (side == Side::kKernel)
    inputs_fd_ = open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                      O_RDONLY | O_CLOEXEC);
}

WindowTable::~WindowTable() {
  if (inputs_fd_ >= 0) close(inputs_fd_);
}

int WindowTable::descriptor_of(TensorName tensor) const {
  // The kernel may have closed it, or opened it as another file.
  struct stat ours {
  }, file{};
  const bool reads = inputs_fd_ >= 0 && !is_output(tensor) &&
                     fstat(inputs_fd_, &ours) == 0 && fstat(fd_, &file) == 0 &&
                     ours.st_ino == file.st_ino && ours.st_dev == file.st_dev;
  return reads ? inputs_fd_ : fd_;
}

int WindowTable::index(int slot, TensorName tensor) {
  return slot * kTensorCount + static_cast<int>(tensor);
}

// Class by class, so that the file is only as long as its largest class.
int64_t WindowTable::file_offset(int index, int size_class) {
  const int64_t pages_before = (int64_t{1} << size_class) - 1;
  return pages_before * kWindowsPerClass * page_bytes() +
         index * window_bytes(size_class);
}

std::byte* WindowTable::window(int slot, TensorName tensor, int size_class) {
  const int at = index(slot, tensor);
  GuardedMapping& mapping = mapped_.at(at, size_class);
  if (mapping.data() == nullptr)
    mapping = GuardedMapping::of_file(
        descriptor_of(tensor), file_offset(at, size_class),
        window_bytes(size_class),
        /*writable=*/side_ == Side::kHost || is_output(tensor));
  return mapping.data();
}

std::byte* WindowTable::window_of(int slot, const CallPlan& plan,
                                  size_t tensor) {
  const Place& place = plan.places[tensor];
  const auto own = static_cast<int32_t>(tensor);
  const int32_t holder = place.within < 0 ? own : place.within;
  return window(slot, static_cast<TensorName>(holder), place.size_class);
}

std::byte* WindowTable::far_window(int slot, const CallPlan& plan,
                                   size_t tensor, std::string* why) {
  const TensorSpec& spec = plan.tensors[tensor];
  const Place& place = plan.places[tensor];
  const auto name = static_cast<TensorName>(tensor);
  const int64_t around = plan.kernel_guard(tensor);
  far_.push_back(GuardedMapping::of_parts(
      descriptor_of(name), file_offset(index(slot, name), place.size_class),
      spec.strides[static_cast<size_t>(place.far_axis)] *
          dtype_bytes(spec.dtype),
      plan.parts_of(tensor), plan.part_offset(tensor, 1), around,
      /*writable=*/is_output(name)));
  if (far_.back().data() == nullptr)
    *why = std::string("this machine, or a limit (ulimit -v), gives no ") +
           bytes_text(plan.kernel_room(tensor) + 2 * around) +
           " of addresses to " + tensor_name(name) +
           ", whose parts lie far apart";
  return far_.back().data();
}

bool WindowTable::locate(int slot, const CallPlan& plan,
                         TensorAddresses* addresses, std::string* why) {
  *why = "no address space for this call's tensors";
  for (int t = 0; t < kTensorCount; ++t) {
    (*addresses)[t] = nullptr;
    if (!plan.tensors[t].present()) continue;
    const auto tensor = static_cast<size_t>(t);
    std::byte* memory = side_ == Side::kKernel && plan.is_far(tensor)
                            ? far_window(slot, plan, tensor, why)
                            : window_of(slot, plan, tensor);
    if (memory == nullptr) return false;
    (*addresses)[t] = memory + plan.places[t].start;
  }
  why->clear();
  return true;
}

Arena::Arena(int fd) : fd_(fd), table_(fd, WindowTable::Side::kHost) {}

Arena::~Arena() { close(fd_); }

std::unique_ptr<Arena> Arena::create(std::string* error) {
  const int fd = memfd_create("qkvet-tensors", MFD_CLOEXEC);
  if (fd < 0) {
    *error = std::string("no shared memory: ") + std::strerror(errno);
    return nullptr;
  }
  return std::unique_ptr<Arena>(new Arena(fd));
}

bool Arena::room_for(const CallPlan& plan, std::string* why) {
  int64_t need = 0;
  int top = 0;
  for (int t = 0; t < kTensorCount; ++t) {
    if (!plan.has_window_of_its_own(static_cast<size_t>(t))) continue;
    const bool output = is_output(static_cast<TensorName>(t));
    // Outputs are copied out before the windows are given back.
    need += window_bytes(plan.places[t].size_class) * (output ? 2 : 1);
    top = std::max<int>(top, plan.places[t].size_class);
  }
  if (need > kSmallCallBytes) {
    const int64_t available = available_memory();
    if (need > available) {
      *why = "the tensors of this call take " + bytes_text(need) + ", " +
             bytes_text(available) + " are free";
      return false;
    }
  }
  const int64_t length = WindowTable::file_offset(0, top + 1);
  if (length <= file_bytes_) return true;
  if (ftruncate(fd_, length) != 0) {
    *why =
        std::string("no shared memory for this call: ") + std::strerror(errno);
    return false;
  }
  file_bytes_ = length;
  return true;
}

bool Arena::find(int slot, const CallPlan& plan, int tensor, Spot* spot) {
  const auto name = static_cast<TensorName>(tensor);
  const Place& place = plan.places[tensor];
  spot->window = &windows_.at(WindowTable::index(slot, name), place.size_class);
  spot->memory = table_.window_of(slot, plan, static_cast<size_t>(tensor));
  spot->size = window_bytes(place.size_class);
  spot->begin = place.start;
  spot->end = place.start + place.bytes;
  return spot->memory != nullptr;
}

// Canary everywhere except where an input is about to be written.
void Arena::refill(const Spot& spot, const TensorSpec& spec, bool output) {
  Window& window = *spot.window;
  const Canary canary(dtype_bytes(spec.dtype));
  if (!window.filled || !(window.canary == canary)) {
    if (!window.filled) touched_ += spot.size;
    canary.fill(spot.memory, 0, spot.size);
  } else {
    const bool same = window.begin == spot.begin && window.end == spot.end;
    if (!same) canary.fill(spot.memory, window.begin, window.end);
    // Gaps between strided elements belong to the span.
    if (output || (same && !spec.packed()))
      canary.fill(spot.memory, spot.begin, spot.end);
  }
  window = {true, canary, spot.begin, spot.end};
}

// Until the next call of the window, which finds no canary in it.
void Arena::fill_all(const Spot& spot, uint8_t byte) {
  std::memset(spot.memory, byte, static_cast<size_t>(spot.size));
  spot.window->begin = 0;
  spot.window->end = spot.size;
}

bool Arena::prepare(int slot, const CallPlan& plan, const KernelCall& call,
                    std::string* why) {
  if (!room_for(plan, why)) return false;
  for (int t = 0; t < kTensorCount; ++t) {
    const TensorSpec& spec = plan.tensors[t];
    if (!spec.present()) continue;
    Spot spot;
    if (!find(slot, plan, t, &spot)) {
      *why = "no address space for this call's tensors";
      return false;
    }
    const auto name = static_cast<TensorName>(t);
    const TensorSpec given = given_part(call, name, spec);
    if (plan.has_window_of_its_own(static_cast<size_t>(t))) {
      refill(spot, given, /*output=*/is_output(name));
      if (call.around_inputs != 0 && !is_output(name))
        fill_all(spot, call.around_inputs);
    }
    const std::byte* content = content_of(call, name);
    if (content != nullptr && given.elements() > 0)
      scatter(given, content, spot.memory + spot.begin);
  }
  return true;
}

std::optional<MemoryFault> Arena::damage_of(const Spot& spot,
                                            const TensorSpec& spec,
                                            TensorName tensor) const {
  const Canary& canary = spot.window->canary;
  const int64_t element = dtype_bytes(spec.dtype);
  MemoryFault fault;
  fault.tensor = tensor;
  fault.is_write = true;
  fault.tensor_bytes = spec.span_bytes();
  int64_t at = canary.first_damage(spot.memory, spot.end, spot.size);
  if (at >= 0) {
    fault.bytes = (at - spot.end) / element * element;
    return fault;
  }
  at = canary.last_damage(spot.memory, 0, spot.begin);
  if (at >= 0) {
    // Counted from the element that was written, like the address of a guard
    // page's fault.
    fault.before_start = true;
    fault.bytes = (spot.begin - at + element - 1) / element * element;
    return fault;
  }
  if (spec.packed() || spot.begin == spot.end) return std::nullopt;
  // The elements are gathered already. With canaries instead of them, any other
  // byte is in a gap.
  std::vector<std::byte> blank(static_cast<size_t>(spec.elements() * element));
  canary.fill(blank.data(), 0, static_cast<int64_t>(blank.size()));
  scatter(spec, blank.data(), spot.memory + spot.begin);
  at = canary.first_damage(spot.memory, spot.begin, spot.end);
  if (at < 0) return std::nullopt;
  fault.inside = true;
  fault.bytes = (at - spot.begin) / element * element;
  return fault;
}

std::vector<int64_t> Arena::rows_to_write(int slot, const CallPlan& plan,
                                          bool of_keys) {
  const auto numbers_of = [&](TensorName name) {
    const auto t = static_cast<int>(name);
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(t)];
    Spot spot;
    std::vector<int64_t> numbers;
    // Lengths of another type are unknown.
    const bool narrow = spec.dtype == Dtype::kInt32;
    if (spec.elements() == 0 || (spec.dtype != Dtype::kInt64 && !narrow) ||
        !find(slot, plan, t, &spot))
      return numbers;
    const auto read = [&](auto stored) {
      stored.resize(static_cast<size_t>(spec.elements()));
      gather(spec, spot.memory + spot.begin,
             reinterpret_cast<std::byte*>(stored.data()));
      numbers.assign(stored.begin(), stored.end());
    };
    if (narrow)
      read(std::vector<int32_t>());
    else
      read(std::vector<int64_t>());
    return numbers;
  };
  const TensorName tensor = of_keys ? TensorName::kK : TensorName::kQ;
  const int64_t most = plan.tensors[static_cast<size_t>(tensor)].shape[2];
  std::vector<int64_t> rows =
      numbers_of(of_keys ? TensorName::kKvLen : TensorName::kQLen);
  if (const auto ends =
          numbers_of(of_keys ? TensorName::kCuK : TensorName::kCuQ);
      !ends.empty())
    rows = {ends.back()};
  for (int64_t& count : rows) count = std::clamp<int64_t>(count, 0, most);
  return rows;
}

void Arena::look_for_overwritten(const Spot& spot, const TensorSpec& spec,
                                 TensorName name, std::vector<int64_t> rows,
                                 CallOutcome* outcome) {
  const bool done = outcome->status == CallStatus::kDone;
  if (outcome->overwritten || (done && rows.empty())) return;
  if (!done) rows.clear();
  const Canary& canary = spot.window->canary;
  std::vector<std::byte> packed(
      static_cast<size_t>(spec.elements() * dtype_bytes(spec.dtype)));
  if (!packed.empty()) gather(spec, spot.memory + spot.begin, packed.data());
  const int64_t first = first_overwritten(canary, spec, packed.data(), rows);
  if (first < 0) return;
  outcome->overwritten = name;
  outcome->overwritten_index = first;
}

void Arena::collect(int slot, const CallPlan& plan, CallOutcome* outcome) {
  const std::vector<int64_t> queries =
      rows_to_write(slot, plan, /*of_keys=*/false);
  const std::vector<int64_t> keys = rows_to_write(slot, plan, /*of_keys=*/true);
  for (int t = static_cast<int>(TensorName::kO); t < kTensorCount; ++t) {
    const TensorSpec& spec = plan.tensors[t];
    Spot spot;
    if (!spec.present() || !find(slot, plan, t, &spot)) continue;
    const auto name = static_cast<TensorName>(t);
    if (plan.plan_use != PlanUse::kNone && !is_cache(name))
      look_for_overwritten(spot, spec, name, queries, outcome);
    if (outcome->status == CallStatus::kDone) {
      std::vector<std::byte>& packed = outcome->*output_member(name);
      const int64_t element = dtype_bytes(spec.dtype);
      packed.resize(static_cast<size_t>(spec.elements() * element));
      if (!packed.empty())
        gather(spec, spot.memory + spot.begin, packed.data());
      const bool of_keys = name == TensorName::kDK || name == TensorName::kDV;
      const std::vector<int64_t>& rows = of_keys ? keys : queries;
      const int64_t first =
          is_cache(name)
              ? -1
              : first_unwritten(spot.window->canary, spec, packed.data(), rows);
      if (first >= 0 && !outcome->unwritten) {
        outcome->unwritten = name;
        outcome->unwritten_index = first;
      }
    }
    const auto damage = damage_of(spot, spec, name);
    if (!damage) continue;
    if (!outcome->damage) outcome->damage = damage;
    touched_ -= spot.size;
    spot.window->filled = false;
  }
}

void Arena::distrust_outputs() {
  windows_.each([this](int index, int size_class, Window& window) {
    if (!window.filled ||
        !is_output(static_cast<TensorName>(index % kTensorCount)))
      return;
    window.filled = false;
    touched_ -= window_bytes(size_class);
  });
}

void Arena::trim() {
  if (touched_ <= kKeptBytes) return;
  if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                file_bytes_) != 0)
    return;
  windows_.each([](int, int, Window& window) { window.filled = false; });
  touched_ = 0;
}

}  // namespace qkvet
