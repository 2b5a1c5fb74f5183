// SPDX-License-Identifier: Apache-2.0
// Replaces malloc() under the names of the C library; calls that are not
// guarded are passed to glibc under its own names. Electric Fence does the same
// with a system call for each block; here a block's pages stay mapped and are
// used again, which costs almost nothing.
#include "core/sandbox/guarded_heap.h"

#include <cstdlib>  // and with it __GLIBC__

#if defined(__GLIBC__) && !defined(QKVET_SANITIZED)

#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}

namespace qkvet {
namespace {

constexpr size_t kPage = 4096;
// The alignment that malloc() promises. A block with a size that is not a
// multiple of it ends up to fifteen bytes before the guard; these are margin,
// as is the rest of the pages before the block.
constexpr size_t kLeastAlignment = alignof(max_align_t);

// A slot of kind n: 2^n pages, with a block at their end, and a guard. Each
// kind has its own range of addresses, so that the slot follows from an
// address.
constexpr size_t kKinds = 15;
constexpr size_t kAddressesOfKind = size_t{1} << 32;
// Above these limits, reached by large libraries, blocks are not guarded:
// systems allow some 65,000 mappings, and a slot is two.
constexpr size_t kMostSlots = 1 << 14;
constexpr size_t kMostBytes = size_t{1} << 29;
// Margins are looked at as far as this from their block.
constexpr size_t kMargin = kPage;
// Freed blocks are not reused at once, so that later writes into them are
// detected; the pages of large blocks are given back to the system instead.
constexpr size_t kResting = 16;
constexpr size_t kLargeKind = 8;
// Blocks that a kernel keeps between calls are checked after each call.
constexpr size_t kMostLooks = 512;

enum class State : uint8_t { kUnused, kTaken, kFree };

struct Slot {
  size_t size;     // as requested
  size_t address;  // of the block
  size_t next;     // of the free slots, 0: none, else a number + 1
  uint8_t byte;    // that it was full of, and its margins are
  State state;
};

struct Kind {
  Slot* slots;
  size_t used;             // ever
  size_t free, last_free;  // number + 1; the first was given back first
  size_t resting;          // how many are free
};

struct Heap {
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  std::atomic<bool> is_guarding = false;
  std::atomic<uint8_t> byte = 0;
  size_t base = 0;  // address
  std::array<Kind, kKinds> kinds{};
  bool is_refused = false;  // the addresses
  size_t slots = 0, bytes = 0, taken = 0;
  size_t live = 0;  // of the requested bytes
  HeapFault write;
};

constinit Heap g_heap;

class Lock {
 public:
  Lock() {
    while (g_heap.lock.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  ~Lock() { g_heap.lock.clear(std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

struct Place {
  size_t kind, number;

  size_t bytes() const { return kPage << kind; }
  size_t begin() const {
    return g_heap.base + kind * kAddressesOfKind + number * (bytes() + kPage);
  }
  size_t end() const { return begin() + bytes(); }  // where its guard begins
  Slot& slot() const { return g_heap.kinds[kind].slots[number]; }
};

size_t most_of(size_t kind) {
  return std::min(kMostSlots, kAddressesOfKind / ((kPage << kind) + kPage));
}

std::byte* at(size_t address) { return reinterpret_cast<std::byte*>(address); }

bool is_ours(size_t address) {
  return g_heap.base != 0 && address - g_heap.base < kKinds * kAddressesOfKind;
}

Place place_of(size_t address) {
  const size_t offset = address - g_heap.base;
  const size_t kind = offset / kAddressesOfKind;
  return {kind, offset % kAddressesOfKind / ((kPage << kind) + kPage)};
}

// Once: a system that has too few addresses (`ulimit -v`) leaves the heap as it
// comes.
bool reserve() {
  if (g_heap.base != 0 || g_heap.is_refused) return g_heap.base != 0;
  g_heap.is_refused = true;
  const auto map = [](size_t bytes, int access) {
    return mmap(nullptr, bytes, access,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  for (size_t kind = 0; kind < kKinds; ++kind) {
    void* const table =
        map(most_of(kind) * sizeof(Slot), PROT_READ | PROT_WRITE);
    if (table == MAP_FAILED) return false;
    g_heap.kinds[kind].slots = static_cast<Slot*>(table);
  }
  void* const all = map(kKinds * kAddressesOfKind, PROT_NONE);
  if (all == MAP_FAILED) return false;
  g_heap.base = reinterpret_cast<size_t>(all);
  return true;
}

// The first byte of [from, to) that is not `byte`; `to` if all are.
size_t first_other(size_t from, size_t to, uint8_t byte) {
  if (from >= to) return to;
  const std::byte* const memory = at(from);
  if (memory[0] == std::byte{byte} &&
      std::memcmp(memory, memory + 1, to - from - 1) == 0)
    return to;
  while (*at(from) == std::byte{byte}) ++from;
  return from;
}

[[noreturn]] void end_for(const HeapFault& fault) {
  g_heap.write = fault;
  std::abort();
}

[[noreturn]] void end_with(const char* text) {
  std::fprintf(stderr, "%s\n", text);
  std::abort();
}

void expect_margins(const Place& place) {
  const Slot& slot = place.slot();
  const size_t front =
      std::max(place.begin(), slot.address - std::min(kMargin, slot.address));
  const size_t behind = slot.address + slot.size;
  const auto size = static_cast<int64_t>(slot.size);
  if (const size_t hit = first_other(behind, place.end(), slot.byte);
      hit != place.end())
    end_for({true, true, false, static_cast<int64_t>(hit - behind), size});
  if (const size_t hit = first_other(front, slot.address, slot.byte);
      hit != slot.address)
    end_for({true, true, true, static_cast<int64_t>(slot.address - hit), size});
}

// The number + 1 of a slot for a block of this kind; 0: none.
size_t take_slot(size_t kind) {
  Kind& of = g_heap.kinds[kind];
  const size_t bytes = kPage << kind;
  if (g_heap.bytes + bytes > kMostBytes) return 0;
  const bool is_full = of.used == most_of(kind) || g_heap.slots == kMostSlots;
  const size_t rest = kind < kLargeKind && !is_full ? kResting : 0;
  size_t number = 0;
  if (of.resting > rest) {
    number = of.free - 1;
    of.free = of.slots[number].next;
    --of.resting;
  } else {
    number = of.used;
    if (is_full || mprotect(at(Place{kind, number}.begin()), bytes,
                            PROT_READ | PROT_WRITE) != 0)
      return 0;
    ++of.used;
    ++g_heap.slots;
  }
  g_heap.bytes += bytes;
  ++g_heap.taken;
  return number + 1;
}

// Null where it is not to be guarded, or cannot be.
void* take(size_t size, size_t alignment, bool zeros) {
  if (!g_heap.is_guarding.load(std::memory_order_relaxed)) return nullptr;
  alignment = std::max(alignment, kLeastAlignment);
  if (alignment > kPage || size > kMostBytes) return nullptr;
  const size_t pages =
      std::max<size_t>(1, (size + alignment - 1 + kPage - 1) / kPage);
  const auto kind = static_cast<size_t>(std::bit_width(pages - 1));
  if (kind >= kKinds) return nullptr;
  Place place{kind, 0};
  const uint8_t byte = g_heap.byte.load(std::memory_order_relaxed);
  {
    const Lock lock;
    if (!reserve()) return nullptr;
    const size_t number = take_slot(kind);
    if (number == 0) return nullptr;
    place.number = number - 1;
    Slot& slot = place.slot();
    if (slot.state == State::kFree && kind < kLargeKind &&
        first_other(place.begin(), place.end(), slot.byte) != place.end())
      end_with("memory was written to after it had been freed");
    slot = {size, (place.end() - size) & ~(alignment - 1), 0, byte,
            State::kTaken};
    g_heap.live += size;
  }
  const size_t address = place.slot().address;
  const size_t front = std::max(place.begin(), address - kMargin);
  std::memset(at(front), byte, place.end() - front);
  if (zeros) std::memset(at(address), 0, size);
  return at(address);
}

void give_back(size_t address) {
  const Place place = place_of(address);
  const Lock lock;
  Slot& slot = place.slot();
  if (slot.state != State::kTaken) end_with("memory was freed twice");
  if (slot.address != address)
    end_with("an address was freed that was never allocated");
  expect_margins(place);
  if (place.kind < kLargeKind)
    std::memset(at(place.begin()), slot.byte, place.bytes());
  else
    madvise(at(place.begin()), place.bytes(), MADV_DONTNEED);
  slot.state = State::kFree;
  slot.next = 0;
  Kind& of = g_heap.kinds[place.kind];
  (of.resting == 0 ? of.free : of.slots[of.last_free - 1].next) =
      place.number + 1;
  of.last_free = place.number + 1;
  ++of.resting;
  g_heap.bytes -= place.bytes();
  g_heap.live -= slot.size;
  --g_heap.taken;
}

size_t size_of(size_t address) { return place_of(address).slot().size; }

void begin_call(uint8_t fresh_byte) {
  g_heap.byte = fresh_byte;
  g_heap.is_guarding = true;
}

void end_call() {
  g_heap.is_guarding = false;
  const Lock lock;
  if (g_heap.taken > kMostLooks) return;
  size_t left = g_heap.taken;
  for (size_t kind = 0; kind < kKinds; ++kind)
    for (size_t n = 0; n < g_heap.kinds[kind].used && left > 0; ++n)
      if (const Place place{kind, n}; place.slot().state == State::kTaken) {
        expect_margins(place);
        --left;
      }
}

// An access to a guard most likely comes from the block before it.
HeapFault fault_at(uint64_t address) {
  if (!is_ours(address)) return {};
  const Place place = place_of(address);
  if (place.number >= g_heap.kinds[place.kind].used ||
      place.slot().state != State::kTaken)
    return {};
  const Slot& slot = place.slot();
  return {true, false, false,
          static_cast<int64_t>(address - slot.address - slot.size),
          static_cast<int64_t>(slot.size)};
}

int64_t live_bytes() {
  const struct mallinfo2 of_libc = mallinfo2();
  const Lock lock;
  return static_cast<int64_t>(g_heap.live + of_libc.uordblks + of_libc.hblkhd);
}

constexpr KernelHeap kHeap = {begin_call, end_call, [] { return g_heap.write; },
                              fault_at, live_bytes};

}  // namespace

const KernelHeap* kernel_heap() { return &kHeap; }

}  // namespace qkvet

#pragma GCC visibility push(default)
extern "C" {

void* malloc(size_t size) {
  void* const memory = qkvet::take(size, 1, false);
  return memory != nullptr ? memory : __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  void* const memory = __builtin_mul_overflow(count, size, &bytes)
                           ? nullptr
                           : qkvet::take(bytes, 1, true);
  return memory != nullptr ? memory : __libc_calloc(count, size);
}

void free(void* memory) {
  const auto address = reinterpret_cast<size_t>(memory);
  if (qkvet::is_ours(address))
    qkvet::give_back(address);
  else
    __libc_free(memory);
}

void* realloc(void* memory, size_t size) {
  const auto address = reinterpret_cast<size_t>(memory);
  if (memory == nullptr) return malloc(size);
  if (!qkvet::is_ours(address)) return __libc_realloc(memory, size);
  void* const other = size == 0 ? nullptr : malloc(size);
  if (other == nullptr && size != 0) return nullptr;
  if (other != nullptr)
    std::memcpy(other, memory, std::min(size, qkvet::size_of(address)));
  free(memory);
  return other;
}

void* memalign(size_t alignment, size_t size) {
  void* const memory = std::has_single_bit(alignment)
                           ? qkvet::take(size, alignment, false)
                           : nullptr;
  return memory != nullptr ? memory : __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0)
    return EINVAL;
  void* const block = memalign(alignment, size);
  if (block == nullptr) return ENOMEM;
  *memory = block;
  return 0;
}

size_t malloc_usable_size(void* memory) {
  using SizeOf = size_t (*)(void*);
  static const auto of_libc =
      reinterpret_cast<SizeOf>(dlsym(RTLD_NEXT, "malloc_usable_size"));
  const auto address = reinterpret_cast<size_t>(memory);
  return qkvet::is_ours(address) ? qkvet::size_of(address) : of_libc(memory);
}

}  // extern "C"
#pragma GCC visibility pop

#else

namespace qkvet {

const KernelHeap* kernel_heap() { return nullptr; }

}  // namespace qkvet

#endif
