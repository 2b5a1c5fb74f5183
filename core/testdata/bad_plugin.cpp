// SPDX-License-Identifier: Apache-2.0
// Kernels that misbehave, each in one way, for the tests of the door and the
// sandbox. Before that each one copies q to o, so that tests can tell a
// finished call. The config of the library names what is wrong with it as a
// whole; QKVET_BAD_* builds variants that are so before they are opened.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

#include "core/testdata/library.h"
#include "core/testdata/pool.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

volatile float* floats(const qkvet_tensor& t) {
  return data_of<volatile float>(t);
}

// o[n] = q[n mod size of q], all of it.
void copy(const qkvet_forward_args* a) {
  const int64_t count = elements(a->q);
  const volatile float* q = floats(a->q);
  volatile float* o = floats(a->o);
  for (int64_t n = 0; n < elements(a->o); ++n) o[n] = q[n % count];
  for (int64_t n = 0; n < elements(a->lse); ++n) floats(a->lse)[n] = 0;
}

// What a kernel does after the copy. `why` may be filled; the status is
// forward's.
using Deed = qkvet_status (*)(const qkvet_forward_args* a,
                              const qkvet_exec* exec, qkvet_text* why);

volatile int g_zero = 0;
volatile int g_sink = 0;
void* volatile g_pointer = nullptr;  // keeps compilers honest
constexpr int64_t kScratch = 20;

void touch(float) {}

void wild_write(uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
}

void wild_read(uintptr_t address) {
  g_sink = *reinterpret_cast<volatile int*>(address);
}

int recurse(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return recurse(depth + 1) + frame[0];
}

// Runs the deed on a stack of its own, with a page below it that may not be
// touched, as emulators and coroutines do.
ucontext_t g_caller, g_fiber;
const qkvet_forward_args* g_args = nullptr;
template <void (*action)(const qkvet_forward_args* a)>
void on_fiber(const qkvet_forward_args* a) {
  constexpr size_t kStack = size_t{64} << 10, kPage = 4096;
  void* const memory = mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kPage, PROT_NONE) != 0) return;
  g_args = a;
  getcontext(&g_fiber);
  g_fiber.uc_stack.ss_sp = static_cast<char*>(memory) + kPage;
  g_fiber.uc_stack.ss_size = kStack;
  g_fiber.uc_link = &g_caller;
  makecontext(
      &g_fiber, [] { action(g_args); }, 0);
  swapcontext(&g_caller, &g_fiber);
  munmap(memory, kStack + kPage);
}

void run_out_of_stack(const qkvet_forward_args*) { g_sink = recurse(0); }

// Two bytes past the end of k.
void read_past_k(const qkvet_forward_args* a) {
  const auto* const bytes = data_of<const volatile char>(a->k);
  g_sink = bytes[elements(a->k) * 4 + 2];
}

// Made with its first use.
Pool& pool() {
  static Pool pool;
  return pool;
}

// The copy once more, a third of it by each thread.
void copy_in_pool(const qkvet_forward_args* a) {
  const int64_t count = elements(a->o);
  pool().run([&](int part) {
    for (int64_t n = part; n < count; n += Pool::kThreads)
      floats(a->o)[n] = floats(a->q)[n % elements(a->q)];
  });
}

[[noreturn]] void sleep_forever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

template <class Action>
constexpr Deed deed(Action) {
  return [](const qkvet_forward_args* a, const qkvet_exec* exec,
            qkvet_text* why) -> qkvet_status {
    (void)exec;
    (void)why;
    Action{}(a);
    return QKVET_OK;
  };
}

// Scratch of a kernel: 20 floats that it allocates, and what it does to them.
// It keeps its compiler from knowing which memory that is.
template <class Use>
constexpr Deed with_scratch(Use) {
  return deed([](const qkvet_forward_args* a) {
    g_pointer = std::malloc(kScratch * sizeof(float));
    auto* const scratch = static_cast<volatile float*>(g_pointer);
    Use{}(a, scratch);
    std::free(g_pointer);
  });
}

// How many promises of the C library about memory are broken.
int allocate_in_all_ways() {
  int broken = 0;
  const auto expect = [&](bool holds) { broken += holds ? 0 : 1; };
  const auto lies_on = [](const void* memory, size_t bytes) {
    return reinterpret_cast<uintptr_t>(memory) % bytes == 0;
  };
  void* grown = nullptr;
  for (const size_t size : {0, 1, 15, 16, 4095, 4096, 70'000, 5'000'000}) {
    auto* const bytes = static_cast<unsigned char*>(std::calloc(size, 1));
    expect(bytes != nullptr && lies_on(bytes, 16));
    for (size_t n = 0; n < size; n += 7) {
      expect(bytes[n] == 0);
      bytes[n] = 3;
    }
    grown = std::realloc(bytes, size + 100);
    for (size_t n = 0; n < size; n += 7)
      expect(static_cast<unsigned char*>(grown)[n] == 3);
    expect(malloc_usable_size(grown) >= size + 100);
    grown = std::realloc(grown, size / 2 + 1);
    expect(size == 0 || *static_cast<unsigned char*>(grown) == 3);
    std::free(grown);
    for (const size_t alignment : {8, 64, 4096, 65'536}) {
      void* const aligned = std::aligned_alloc(alignment, size);
      expect(lies_on(aligned, alignment));
      std::memset(aligned, 1, size);
      std::free(aligned);
      void* other = nullptr;
      expect(posix_memalign(&other, alignment, size) == 0 &&
             lies_on(other, alignment));
      std::free(other);
    }
  }
  void* other = nullptr;
  expect(posix_memalign(&other, 24, 8) == EINVAL);
  volatile size_t most = static_cast<size_t>(-1);
  expect(std::calloc(most, 2) == nullptr);
  // More than are guarded, so that some come from elsewhere.
  std::vector<std::unique_ptr<int>> many;
  for (int n = 0; n < 40'000; ++n) many.push_back(std::make_unique<int>(n));
  for (int n = 0; n < 40'000; ++n) expect(*many[static_cast<size_t>(n)] == n);
  return broken;
}

// A process in a session of its own, as those that serve start.
void start_daemon() {
  const pid_t child = fork();
  if (child != 0) {
    waitpid(child, nullptr, 0);
    return;
  }
  setsid();
  if (fork() != 0) _exit(0);
  sleep_forever();
}

qkvet_status refuse_in_call(const qkvet_forward_args*, const qkvet_exec*,
                            qkvet_text* why) {
  return say(why, QKVET_UNSUPPORTED, "more than 4 queries");
}

qkvet_capabilities g_capabilities, g_compiles, g_aligned, g_refuses;

struct Row {
  std::string name;
  Deed deed;
  const qkvet_capabilities* can = &g_capabilities;
  size_t workspace = 0;
};

const Row kRows[] = {
    {"copy", deed([](auto*) {})},
    {"null_write", deed([](auto*) { wild_write(16); })},
    {"divide", deed([](auto*) { g_sink = 7 / g_zero; })},
    {"abort", deed([](auto*) { std::abort(); })},
    {"null_read", deed([](auto*) { wild_read(16); })},
    {"endless", deed([](auto*) {
       for (;;) g_sink = g_sink + 1;
     })},
    {"sleep", deed([](auto*) { sleep_forever(); })},
    {"read_past_k", deed([](auto* a) { touch(floats(a->k)[elements(a->k)]); })},
    {"read_before_q", deed([](auto* a) { touch(floats(a->q)[-1]); })},
    {"write_v", deed([](auto* a) { floats(a->v)[2] = 1; })},
    // Without the lock: where that is refused, the write still happens.
    {"unlock_v", deed([](auto* a) {
       const auto address = reinterpret_cast<uintptr_t>(a->v.data);
       const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
       mprotect(reinterpret_cast<void*>(address / page * page), page,
                PROT_READ | PROT_WRITE);
       floats(a->v)[2] = 1;
     })},
    {"fork", deed([](auto*) { fork(); })},
    {"fork_and_wait", deed([](auto*) {
       const pid_t child = fork();
       if (child == 0) _exit(0);
       waitpid(child, nullptr, 0);
     })},
    {"child", deed([](auto*) {
       if (fork() == 0) sleep_forever();
     })},
    {"daemon", deed([](auto*) { start_daemon(); })},
    {"daemon_and_exit", deed([](auto*) {
       start_daemon();
       _exit(3);
     })},
    {"stop", deed([](auto*) { std::raise(SIGSTOP); })},
    {"write_past_o", deed([](auto* a) { floats(a->o)[elements(a->o)] = 3; })},
    {"write_before_o", deed([](auto* a) { floats(a->o)[-1] = 3; })},
    {"far_past_k",
     deed([](auto* a) { touch(floats(a->k)[elements(a->k) + 2048]); })},
    {"follow_stride", deed([](auto* a) { floats(a->o)[a->o.strides[0]] = 3; })},
    {"stack", deed([](auto*) { g_sink = recurse(0); })},
    {"big_frame", deed([](auto*) {
       volatile char frame[64 << 20];
       g_pointer = const_cast<char*>(frame);
       frame[0] = 1;
     })},
    {"fiber_past_k", deed([](auto* a) { on_fiber<read_past_k>(a); })},
    {"fiber_stack", deed([](auto* a) { on_fiber<run_out_of_stack>(a); })},
    {"exit", deed([](auto*) { _exit(0); })},
    {"throw",
     deed([](auto*) { throw std::runtime_error("thrown by bad/throw"); })},
    {"rounding", deed([](auto*) { std::fesetround(FE_UPWARD); })},
    {"flush", deed([](auto*) {
#if defined(__x86_64__)
       _mm_setcsr(_mm_getcsr() | 0x8040);
#else
       std::fesetround(FE_UPWARD);
#endif
     })},
    {"print", deed([](auto*) {
       for (int i = 0; i < 20; ++i) std::printf("line %d\n", i);
       std::printf("about to fail\n");
       std::abort();
     })},
    {"allocate", deed([](auto*) {
       for (;;) {
         g_pointer = std::malloc(1 << 20);
         std::memset(g_pointer, 1, 1 << 20);
       }
     })},
    {"raise", deed([](auto*) { std::raise(SIGSEGV); })},
    {"kill", deed([](auto*) { kill(getpid(), SIGKILL); })},
    {"own_handler", deed([](auto*) {
       std::signal(SIGSEGV, SIG_IGN);
       std::signal(SIGFPE, SIG_IGN);
     })},
    {"thread", deed([](auto*) { std::thread([] { wild_write(32); }).join(); })},
    {"pool", deed([](auto* a) { copy_in_pool(a); })},
    {"pool_past_k", deed([](auto* a) {
       copy_in_pool(a);
       pool().run([&](int part) {
         if (part == 1) touch(floats(a->k)[elements(a->k) + 2]);
       });
     })},
    {"pool_all_past_k", deed([](auto* a) {
       pool().run([&](int) { touch(floats(a->k)[elements(a->k)]); });
     })},
    {"scratch", with_scratch([](auto* a, auto* scratch) {
       for (int64_t n = 0; n < kScratch; ++n) scratch[n] = floats(a->q)[0];
       floats(a->o)[0] = scratch[kScratch - 1];
     })},
    {"scratch_not_cleared", with_scratch([](auto* a, auto* scratch) {
       floats(a->o)[0] = scratch[0] + floats(a->q)[0];
     })},
    {"read_past_scratch",
     with_scratch([](auto*, auto* scratch) { touch(scratch[kScratch]); })},
    {"write_past_scratch",
     with_scratch([](auto*, auto* scratch) { scratch[kScratch + 1] = 1; })},
    {"write_before_scratch",
     with_scratch([](auto*, auto* scratch) { scratch[-2] = 1; })},
    // Kept, and never given back.
    {"write_past_kept", deed([](auto*) {
       static auto* const kept = static_cast<volatile char*>(std::malloc(13));
       kept[14] = 1;
     })},
    {"scratch_freed_twice",
     with_scratch([](auto*, auto*) { std::free(g_pointer); })},
    {"write_freed_scratch", deed([](auto*) {
       g_pointer = std::malloc(kScratch);
       auto* const scratch = static_cast<volatile char*>(g_pointer);
       std::free(g_pointer);
       scratch[0] = 1;
       for (int n = 0; n < 1000; ++n) {
         g_pointer = std::malloc(kScratch);
         std::free(g_pointer);
       }
     })},
    {"stack_not_cleared", deed([](auto* a) {
       volatile float frame[1024];
       g_pointer = const_cast<float*>(frame);
       floats(a->o)[0] = frame[512];
     })},
    {"allocates", deed([](auto* a) {
       floats(a->o)[0] = static_cast<float>(allocate_in_all_ways());
     })},
    {"unwritten",
     [](auto* a, auto*, auto*) -> qkvet_status {
       const uint32_t blank = 0x7ffb7ffb;
       std::memcpy(data_of<char>(a->o) + 4 * 3, &blank, 4);
       return QKVET_OK;
     }},
    {"refuse",
     [](auto*, auto*, auto* why) -> qkvet_status {
       return say(why, QKVET_INVALID_ARGUMENT, "changed\nmy mind");
     }},
    {"unsupported", deed([](auto*) {})},
    {"supports_crash", deed([](auto*) {})},
    {"unavailable", deed([](auto*) {})},
    {"workspace",
     [](auto*, auto* exec, auto*) -> qkvet_status {
       auto* memory = static_cast<volatile float*>(exec->workspace);
       const bool nan = memory[0] != memory[0];
       for (size_t i = 0; i < exec->workspace_size / 4; ++i) memory[i] = 1;
       return nan ? QKVET_OK : QKVET_INTERNAL;
     },
     &g_capabilities, 4096},
    {"past_workspace",
     [](auto*, auto* exec, auto*) -> qkvet_status {
       static_cast<volatile float*>(exec->workspace)[1024] = 1;
       return QKVET_OK;
     },
     &g_capabilities, 4096},
    {"huge_workspace", deed([](auto*) {}), &g_capabilities, size_t{1} << 50},
    {"tells", deed([](auto*) {})},
    {"compiles", deed([](auto*) {}), &g_compiles},
    {"aligned", deed([](auto*) {}), &g_aligned},
    {"threads_past_k",
     [](auto* a, auto* exec, auto*) -> qkvet_status {
       if (exec->threads > 1) touch(floats(a->k)[elements(a->k)]);
       return QKVET_OK;
     }},
    {"refuses_in_call", refuse_in_call, &g_refuses},
    {"silent_in_call",
     [](auto*, auto*, auto*) -> qkvet_status { return QKVET_UNSUPPORTED; },
     &g_refuses},
    {"breaks_promise", refuse_in_call},
    {"fails_in_call",
     [](auto*, auto*, auto* why) -> qkvet_status {
       return say(why, QKVET_INTERNAL, "no such tile");
     },
     &g_refuses},
};

const Row& row_of(const qkvet_kernel* self) {
  const Row* row = kRows;
  while (!is(self, row->name)) ++row;
  return *row;
}

const pid_t loaded_by = getpid();
#if defined(QKVET_BAD_THREAD_ON_LOAD)
const bool started = (std::thread(pause).detach(), true);
#endif

// What a call can tell of those before it: where q lies (its lowest 24 bits),
// which context was opened for it, how many calls the process has made,
// whether another process has loaded the library, and a byte of what malloc()
// gives, between where it may keep its books.
void tell(const qkvet_context* context, const qkvet_forward_args* args) {
  static int calls = 0;
  constexpr uintptr_t kExact = 0xFFFFFF;
  volatile float* o = floats(args->o);
  o[0] = static_cast<float>(reinterpret_cast<uintptr_t>(args->q.data) & kExact);
  o[1] = static_cast<float>(reinterpret_cast<uintptr_t>(context));
  o[2] = static_cast<float>(++calls);
  o[3] = getpid() == loaded_by ? 0 : 1;
  constexpr size_t kBytes = 4096;
  void* const memory = std::malloc(kBytes);
  o[4] = static_cast<const volatile uint8_t*>(memory)[kBytes / 2];
  std::free(memory);
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  if (is(self, "compiles")) {
    // For each window, as if every call were of one shape.
    constexpr int64_t kNothing = -2, kNoWindow = -1;
    static int64_t compiled = kNothing;
    const int64_t window = args->has_window ? args->window_left : kNoWindow;
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(compiled == window ? 0 : 400);
    while (std::chrono::steady_clock::now() < end) g_sink = g_sink + 1;
    compiled = window;
  }
  copy(args);
  if (is(self, "tells")) tell(context, args);
  return row_of(self).deed(args, exec, why);
}

qkvet_status open_context(const qkvet_kernel* self, const qkvet_exec*,
                          qkvet_context** context, qkvet_text* why) {
  static uintptr_t opened = 0;
  if (is(self, "tells")) *context = reinterpret_cast<qkvet_context*>(++opened);
  return is(self, "unavailable")
             ? say(why, QKVET_UNAVAILABLE, "needs a part that no machine has")
             : QKVET_OK;
}

qkvet_status supports(const qkvet_kernel* self, const qkvet_forward_args*,
                      qkvet_text* why) {
  if (is(self, "supports_crash")) wild_write(16);
  return is(self, "unsupported") ? say(why, QKVET_UNSUPPORTED, "not today")
                                 : QKVET_OK;
}

qkvet_status workspace(const qkvet_kernel* self, qkvet_context*,
                       const qkvet_forward_args*, size_t* bytes) {
  *bytes = row_of(self).workspace;
  return QKVET_OK;
}

Library g_library;
qkvet_fault g_fault;

const void* extension(const qkvet_kernel* self, const char* id) {
  if (!is(self, "abort") || std::strcmp(id, QKVET_EXTENSION_FAULT) != 0)
    return nullptr;
  g_fault.struct_size = sizeof g_fault;
  g_fault.cause = "calls abort()";
  g_fault.fix = "do not";
  g_fault.killed_by[0] = "first-law";
  g_fault.killed_by[1] = "second-law";
  return &g_fault;
}

void declare() {
  g_capabilities = {};
  g_capabilities.struct_size = sizeof g_capabilities;
  g_capabilities.options = QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
                           QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_LSE |
                           QKVET_OPTION_VALUE_WIDTH |
                           QKVET_OPTION_GROUPED_HEADS;
  g_compiles = g_aligned = g_refuses = g_capabilities;
  g_compiles.flags = QKVET_FLAG_COMPILES_PER_SHAPE;
  g_compiles.options |= QKVET_OPTION_WINDOW;
  g_aligned.alignment = 64;
  g_refuses.flags = QKVET_FLAG_REFUSES_IN_CALL;
  for (const Row& row : kRows) {
    qkvet_kernel& kernel = g_library.add("bad/" + row.name, *row.can);
    kernel.open = open_context;
    kernel.supports = supports;
    kernel.workspace = workspace;
    kernel.forward = forward;
    kernel.get_extension = extension;
  }
}

}  // namespace

#if !defined(QKVET_BAD_NO_ENTRY)
extern "C" qkvet_status qkvet_open(const qkvet_host*, const char* text,
                                   qkvet_library* out, qkvet_text* why) {
  const std::string_view config = text;
  if (config == "crash") wild_write(16);
  if (config == "hang") sleep_forever();
  if (config == "exit") {
    std::puts("no licence\nfor this machine");
    std::exit(7);
  }
  if (config == "pool") pool();
  declare();
  g_library.give("bad", out);
  if (config == "bad_close")
    out->close = [](qkvet_library*) { wild_write(16); };
  if (config == "newer") out->abi_major = QKVET_ABI_MAJOR + 1;
  if (config == "silent")
    g_library.add("bad/null_write", g_capabilities).capabilities = nullptr;
  if (config == "name")
    g_library.add("bad/copy", g_capabilities).name = "Bad Kernel";
  if (config == "paths") {
    g_capabilities.path_count = 1;
    g_capabilities.paths[0] = {QKVET_AXIS_TK, -64};
  }
  if (config == "widths") {
    g_capabilities.width_count = 2;
    g_capabilities.widths[0].d = 64;
  }
  if (config == "short") {
    // An older header: kernels end before `cache`, capabilities before `dv`.
    // What lies behind is garbage here, and must not be read.
    qkvet_kernel& copy = g_library.add("bad/copy", g_capabilities);
    copy.forward = forward;
    copy.struct_size = offsetof(qkvet_kernel, cache);
    copy.get_extension =
        reinterpret_cast<const void* (*)(const qkvet_kernel*, const char*)>(8);
    g_capabilities.struct_size = offsetof(qkvet_capabilities, dv);
    g_capabilities.dv.max = -1;
    out->kernel_count = 1;
  }
  return config == "refuse"
             ? say(why, QKVET_INVALID_ARGUMENT, "this config is not for me")
             : QKVET_OK;
}
#endif
