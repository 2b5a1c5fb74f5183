// SPDX-License-Identifier: Apache-2.0
// Kernels that misbehave, each in one way, for the tests of the door and the
// sandbox. Before that each one copies q to o, so that tests can tell a
// finished call. QKVET_BAD_* builds variants of the library that cannot be
// opened, or that speak an older header.
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
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/testdata/pool.h"
#include "qkvet/kernel.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

int64_t elements(const qkvet_tensor& t) {
  int64_t n = t.ndim > 0 ? 1 : 0;
  for (int i = 0; i < t.ndim; ++i) n *= t.shape[i];
  return n;
}

volatile float* floats(const qkvet_tensor& t) {
  return static_cast<volatile float*>(t.data);
}

// o[n] = q[n mod size of q], all of it.
void copy(const qkvet_forward_args* a) {
  const int64_t count = elements(a->q);
  const volatile float* q = floats(a->q);
  volatile float* o = floats(a->o);
  for (int64_t n = 0; n < elements(a->o); ++n) o[n] = q[n % count];
  for (int64_t n = 0; n < elements(a->lse); ++n) floats(a->lse)[n] = 0;
}

void say(qkvet_text* why, const char* text) {
  if (why != nullptr) std::snprintf(why->data, why->capacity, "%s", text);
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
  const auto* const bytes = static_cast<const volatile char*>(a->k.data);
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
  say(why, "more than 4 queries");
  return QKVET_UNSUPPORTED;
}

struct Row {
  const char* name;
  Deed deed;
};

const Row kRows[] = {
    {"bad/copy", deed([](auto*) {})},
    {"bad/null_write", deed([](auto*) { wild_write(16); })},
    {"bad/divide", deed([](auto*) { g_sink = 7 / g_zero; })},
    {"bad/abort", deed([](auto*) { std::abort(); })},
    {"bad/null_read", deed([](auto*) { wild_read(16); })},
    {"bad/endless", deed([](auto*) {
       for (;;) g_sink = g_sink + 1;
     })},
    {"bad/sleep", deed([](auto*) { sleep_forever(); })},
    {"bad/read_past_k",
     deed([](auto* a) { touch(floats(a->k)[elements(a->k)]); })},
    {"bad/read_before_q", deed([](auto* a) { touch(floats(a->q)[-1]); })},
    {"bad/write_v", deed([](auto* a) { floats(a->v)[2] = 1; })},
    // Without the lock: where that is refused, the write still happens.
    {"bad/unlock_v", deed([](auto* a) {
       const auto address = reinterpret_cast<uintptr_t>(a->v.data);
       const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
       mprotect(reinterpret_cast<void*>(address / page * page), page,
                PROT_READ | PROT_WRITE);
       floats(a->v)[2] = 1;
     })},
    {"bad/fork", deed([](auto*) { fork(); })},
    {"bad/fork_and_wait", deed([](auto*) {
       const pid_t child = fork();
       if (child == 0) _exit(0);
       waitpid(child, nullptr, 0);
     })},
    {"bad/child", deed([](auto*) {
       if (fork() == 0) sleep_forever();
     })},
    {"bad/daemon", deed([](auto*) { start_daemon(); })},
    {"bad/daemon_and_exit", deed([](auto*) {
       start_daemon();
       _exit(3);
     })},
    {"bad/stop", deed([](auto*) { std::raise(SIGSTOP); })},
    {"bad/write_past_o",
     deed([](auto* a) { floats(a->o)[elements(a->o)] = 3; })},
    {"bad/write_before_o", deed([](auto* a) { floats(a->o)[-1] = 3; })},
    {"bad/far_past_k",
     deed([](auto* a) { touch(floats(a->k)[elements(a->k) + 2048]); })},
    {"bad/follow_stride",
     deed([](auto* a) { floats(a->o)[a->o.strides[0]] = 3; })},
    {"bad/stack", deed([](auto*) { g_sink = recurse(0); })},
    {"bad/big_frame", deed([](auto*) {
       volatile char frame[64 << 20];
       g_pointer = const_cast<char*>(frame);
       frame[0] = 1;
     })},
    {"bad/fiber_past_k", deed([](auto* a) { on_fiber<read_past_k>(a); })},
    {"bad/fiber_stack", deed([](auto* a) { on_fiber<run_out_of_stack>(a); })},
    {"bad/exit", deed([](auto*) { _exit(0); })},
    {"bad/throw",
     deed([](auto*) { throw std::runtime_error("thrown by bad/throw"); })},
    {"bad/rounding", deed([](auto*) { std::fesetround(FE_UPWARD); })},
    {"bad/flush", deed([](auto*) {
#if defined(__x86_64__)
       _mm_setcsr(_mm_getcsr() | 0x8040);
#else
       std::fesetround(FE_UPWARD);
#endif
     })},
    {"bad/print", deed([](auto*) {
       for (int i = 0; i < 20; ++i) std::printf("line %d\n", i);
       std::printf("about to fail\n");
       std::abort();
     })},
    {"bad/allocate", deed([](auto*) {
       for (;;) {
         g_pointer = std::malloc(1 << 20);
         std::memset(g_pointer, 1, 1 << 20);
       }
     })},
    {"bad/raise", deed([](auto*) { std::raise(SIGSEGV); })},
    {"bad/kill", deed([](auto*) { kill(getpid(), SIGKILL); })},
    {"bad/own_handler", deed([](auto*) {
       std::signal(SIGSEGV, SIG_IGN);
       std::signal(SIGFPE, SIG_IGN);
     })},
    {"bad/thread",
     deed([](auto*) { std::thread([] { wild_write(32); }).join(); })},
    {"bad/pool", deed([](auto* a) { copy_in_pool(a); })},
    {"bad/pool_past_k", deed([](auto* a) {
       copy_in_pool(a);
       pool().run([&](int part) {
         if (part == 1) touch(floats(a->k)[elements(a->k) + 2]);
       });
     })},
    {"bad/pool_all_past_k", deed([](auto* a) {
       pool().run([&](int) { touch(floats(a->k)[elements(a->k)]); });
     })},
    {"bad/scratch", with_scratch([](auto* a, auto* scratch) {
       for (int64_t n = 0; n < kScratch; ++n) scratch[n] = floats(a->q)[0];
       floats(a->o)[0] = scratch[kScratch - 1];
     })},
    {"bad/scratch_not_cleared", with_scratch([](auto* a, auto* scratch) {
       floats(a->o)[0] = scratch[0] + floats(a->q)[0];
     })},
    {"bad/read_past_scratch",
     with_scratch([](auto*, auto* scratch) { touch(scratch[kScratch]); })},
    {"bad/write_past_scratch",
     with_scratch([](auto*, auto* scratch) { scratch[kScratch + 1] = 1; })},
    {"bad/write_before_scratch",
     with_scratch([](auto*, auto* scratch) { scratch[-2] = 1; })},
    // Kept, and never given back.
    {"bad/write_past_kept", deed([](auto*) {
       static auto* const kept = static_cast<volatile char*>(std::malloc(13));
       kept[14] = 1;
     })},
    {"bad/scratch_freed_twice",
     with_scratch([](auto*, auto*) { std::free(g_pointer); })},
    {"bad/write_freed_scratch", deed([](auto*) {
       g_pointer = std::malloc(kScratch);
       auto* const scratch = static_cast<volatile char*>(g_pointer);
       std::free(g_pointer);
       scratch[0] = 1;
       for (int n = 0; n < 1000; ++n) {
         g_pointer = std::malloc(kScratch);
         std::free(g_pointer);
       }
     })},
    {"bad/stack_not_cleared", deed([](auto* a) {
       volatile float frame[1024];
       g_pointer = const_cast<float*>(frame);
       floats(a->o)[0] = frame[512];
     })},
    {"bad/allocates", deed([](auto* a) {
       floats(a->o)[0] = static_cast<float>(allocate_in_all_ways());
     })},
    {"bad/unwritten",
     [](auto* a, auto*, auto*) -> qkvet_status {
       const uint32_t blank = 0x7ffb7ffb;
       std::memcpy(static_cast<char*>(a->o.data) + 4 * 3, &blank, 4);
       return QKVET_OK;
     }},
    {"bad/refuse",
     [](auto*, auto*, auto* why) -> qkvet_status {
       say(why, "changed\nmy mind");
       return QKVET_INVALID_ARGUMENT;
     }},
    {"bad/unsupported", deed([](auto*) {})},
    {"bad/supports_crash", deed([](auto*) {})},
    {"bad/unavailable", deed([](auto*) {})},
    {"bad/workspace",
     [](auto*, auto* exec, auto*) -> qkvet_status {
       auto* memory = static_cast<volatile float*>(exec->workspace);
       const bool nan = memory[0] != memory[0];
       for (size_t i = 0; i < exec->workspace_size / 4; ++i) memory[i] = 1;
       return nan ? QKVET_OK : QKVET_INTERNAL;
     }},
    {"bad/past_workspace",
     [](auto*, auto* exec, auto*) -> qkvet_status {
       static_cast<volatile float*>(exec->workspace)[1024] = 1;
       return QKVET_OK;
     }},
    {"bad/huge_workspace", deed([](auto*) {})},
    {"bad/tells", deed([](auto*) {})},
    {"bad/compiles", deed([](auto*) {})},
    {"bad/aligned", deed([](auto*) {})},
    {"bad/threads_past_k",
     [](auto* a, auto* exec, auto*) -> qkvet_status {
       if (exec->threads > 1) touch(floats(a->k)[elements(a->k)]);
       return QKVET_OK;
     }},
    // Each but bad/breaks_promise declares that forward() may refuse.
    {"bad/refuses_in_call", refuse_in_call},
    {"bad/silent_in_call",
     [](auto*, auto*, auto*) -> qkvet_status { return QKVET_UNSUPPORTED; }},
    {"bad/breaks_promise", refuse_in_call},
    {"bad/fails_in_call",
     [](auto*, auto*, auto* why) -> qkvet_status {
       say(why, "no such tile");
       return QKVET_INTERNAL;
     }},
};
constexpr int kCount = sizeof kRows / sizeof kRows[0];

qkvet_kernel g_kernels[kCount];
const qkvet_kernel* g_list[kCount];
qkvet_capabilities g_capabilities;
qkvet_capabilities g_compiles;
qkvet_capabilities g_aligned;
qkvet_capabilities g_refuses;

bool is(const qkvet_kernel* self, const char* name) {
  return std::strcmp(self->name, name) == 0;
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
  if (is(self, "bad/compiles")) {
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
  if (is(self, "bad/tells")) tell(context, args);
  return kRows[self - g_kernels].deed(args, exec, why);
}

qkvet_status open_context(const qkvet_kernel* self, const qkvet_exec*,
                          qkvet_context** context, qkvet_text* why) {
  static uintptr_t opened = 0;
  if (is(self, "bad/tells"))
    *context = reinterpret_cast<qkvet_context*>(++opened);
  if (!is(self, "bad/unavailable")) return QKVET_OK;
  say(why, "needs a part that no machine has");
  return QKVET_UNAVAILABLE;
}

qkvet_status supports(const qkvet_kernel* self, const qkvet_forward_args*,
                      qkvet_text* why) {
  if (is(self, "bad/supports_crash")) wild_write(16);
  if (!is(self, "bad/unsupported")) return QKVET_OK;
  say(why, "not today");
  return QKVET_UNSUPPORTED;
}

qkvet_status workspace(const qkvet_kernel* self, qkvet_context*,
                       const qkvet_forward_args*, size_t* bytes) {
  if (is(self, "bad/workspace") || is(self, "bad/past_workspace"))
    *bytes = 4096;
  if (is(self, "bad/huge_workspace")) *bytes = size_t{1} << 50;
  return QKVET_OK;
}

const char* const kKilledBy[] = {"first-law", "second-law", nullptr};
qkvet_fault g_fault;

const void* extension(const qkvet_kernel* self, const char* id) {
  if (!is(self, "bad/abort") || std::strcmp(id, QKVET_EXTENSION_FAULT) != 0)
    return nullptr;
  g_fault.struct_size = sizeof g_fault;
  g_fault.mechanism = "calls abort()";
  g_fault.fix = "do not";
  g_fault.killed_by = kKilledBy;
  return &g_fault;
}

void declare() {
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
  for (int i = 0; i < kCount; ++i) {
    qkvet_kernel& kernel = g_kernels[i];
    kernel.struct_size = sizeof kernel;
    kernel.name = kRows[i].name;
    kernel.capabilities = &g_capabilities;
    kernel.open = open_context;
    kernel.supports = supports;
    kernel.workspace = workspace;
    kernel.forward = forward;
    kernel.get_extension = extension;
    if (is(&kernel, "bad/compiles")) kernel.capabilities = &g_compiles;
    if (is(&kernel, "bad/aligned")) kernel.capabilities = &g_aligned;
    for (const char* name :
         {"bad/refuses_in_call", "bad/silent_in_call", "bad/fails_in_call"})
      if (is(&kernel, name)) kernel.capabilities = &g_refuses;
    g_list[i] = &kernel;
  }
}

}  // namespace

#if !defined(QKVET_BAD_NO_ENTRY)
extern "C" qkvet_status qkvet_open(const qkvet_host*, const char* config,
                                   qkvet_library* out, qkvet_text* why) {
#if defined(QKVET_BAD_CRASHING_OPEN)
  wild_write(16);
#elif defined(QKVET_BAD_HANGING_OPEN)
  sleep_forever();
#endif
  declare();
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "bad";
  out->kernel_count = kCount;
  out->kernels = g_list;
#if defined(QKVET_BAD_NEWER)
  out->abi_major = QKVET_ABI_MAJOR + 1;
#elif defined(QKVET_BAD_SILENT)
  g_kernels[1].capabilities = nullptr;
#elif defined(QKVET_BAD_NAME)
  g_kernels[0].name = "Bad Kernel";
#elif defined(QKVET_BAD_PATHS)
  g_capabilities.path_count = 1;
  g_capabilities.paths[0] = {QKVET_AXIS_TK, -64};
#elif defined(QKVET_BAD_WIDTHS)
  g_capabilities.width_count = 2;
  g_capabilities.widths[0].d = 64;
#elif defined(QKVET_BAD_SHORT)
  // An older header: kernels end before `cache`, capabilities before `dv`.
  // What lies behind is garbage here, and must not be read.
  g_kernels[0].struct_size = offsetof(qkvet_kernel, cache);
  g_kernels[0].get_extension =
      reinterpret_cast<const void* (*)(const qkvet_kernel*, const char*)>(8);
  g_capabilities.struct_size = offsetof(qkvet_capabilities, dv);
  g_capabilities.dv.max = -1;
  out->kernel_count = 1;
#endif
  if (std::strcmp(config, "pool") == 0) pool();
  if (std::strcmp(config, "exit") == 0) {
    std::puts("no licence\nfor this machine");
    std::exit(7);
  }
  if (std::strcmp(config, "bad_close") == 0)
    out->close = [](qkvet_library*) { wild_write(16); };
  if (std::strcmp(config, "refuse") == 0) {
    say(why, "this config is not for me");
    return QKVET_INVALID_ARGUMENT;
  }
  return QKVET_OK;
}
#endif
