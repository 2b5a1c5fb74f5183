// SPDX-License-Identifier: Apache-2.0
// Faults of a process that has made a thousand calls, and of what it has left
// behind by then.
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "impl/faulty/cache_fault.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/cache_memory.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr int64_t kRightCalls = 1000;

// Number of the call, counted from its first member on; each fault counts its
// own.
template <class Fault>
int64_t number_of_call(int64_t member) {
  static std::atomic<int64_t> calls = 0;
  return member == 0 ? ++calls : calls.load();
}

// Of which nobody knows any more.
void leak() {
  static void* volatile last = nullptr;
  last = std::malloc(64);
}

}  // namespace

// The counter of calls has three digits.
struct ScaleAfterThousandCalls : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall* member) {
    if (number_of_call<ScaleAfterThousandCalls>(n) > kRightCalls) {
      member->scale *= 1.5f;
    }
  }
};
QKVET_FAULT(wrong_after_thousand_calls) = {
    .kernel = option_fault<ScaleAfterThousandCalls>,
    .mechanism = "from the 1,001st call of a process on the scale is wrong",
    .symptom = "right in every test, wrong in a server after some seconds",
    .cause = "a number is kept between calls and grows with each of them",
    .fix = "compute what a call needs from its arguments",
    .source = "textbook",
    .trigger = "more than 1,000 calls in one process",
    .killed_by = {"long_use_changes_nothing"},
    .when = "Tk > 1",
};

// The slot of a call in a ring of a thousand is its number.
struct ReadAfterThousandCalls : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall*) {
    if (number_of_call<ReadAfterThousandCalls>(n) <= kRightCalls ||
        whole.keys == 0 || whole.k.data == nullptr) {
      return;
    }
    const float* const last =
        whole.k.at(whole.batch - 1, whole.kv_heads - 1, whole.keys - 1) +
        (whole.width - 1) * whole.k.step[3];
    static_cast<void>(*static_cast<const volatile float*>(last + 1));
  }
};
QKVET_FAULT(reads_past_keys_after_thousand_calls) = {
    .kernel = option_fault<ReadAfterThousandCalls>,
    .mechanism =
        "from the 1,001st call of a process on the number past the last key is "
        "read",
    .symptom = "right in every test; a server dies after some seconds",
    .cause = "an offset is kept between calls and grows",
    .fix = "begin each call at the first row",
    .source = "textbook",
    .trigger = "more than 1,000 calls in one process",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

// The table of calls is full.
struct DeathAfterThousandCalls : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (number_of_call<DeathAfterThousandCalls>(n) > kRightCalls) {
      std::abort();
    }
  }
};
QKVET_FAULT(dies_after_thousand_calls) = {
    .kernel = option_fault<DeathAfterThousandCalls>,
    .mechanism = "the 1,001st call of a process ends it",
    .symptom = "right in every test; a server dies after some seconds",
    .cause = "a table with one entry for each call is full",
    .fix = "take the entry of a call out of the table when the call ends",
    .source = "textbook",
    .trigger = "more than 1,000 calls in one process",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

struct MemoryLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (n == 0) {
      leak();
    }
  }
};
QKVET_FAULT(leaks_memory) = {
    .kernel = option_fault<MemoryLeak>,
    .mechanism = "each call allocates 64 bytes that nothing frees",
    .symptom = "answers are right; a server is out of memory after a week",
    .cause = "scratch is allocated in the call and its pointer is forgotten",
    .fix = "free it at each end of the call, or keep it in the context",
    .source = "textbook",
    .trigger = "any call",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

struct DescriptorLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (n == 0) {
      static_cast<void>(open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
  }
};
QKVET_FAULT(leaks_descriptors) = {
    .kernel = option_fault<DescriptorLeak>,
    .mechanism = "each call opens a file that nothing closes",
    .symptom =
        "answers are right; after a thousand calls the process can open no "
        "file and accept no connection",
    .cause = "a file with tuned parameters is opened in the call",
    .fix = "read it once, and close it",
    .source = "textbook",
    .trigger = "any call",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

struct ThreadLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    // A machine has few of them.
    constexpr int64_t kMostThreads = 300;
    if (n != 0 || number_of_call<ThreadLeak>(n) > kMostThreads) {
      return;
    }
    try {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::hours(1));
      }).detach();
    } catch (const std::system_error&) {  // there is none left
    }
  }
};
QKVET_FAULT(leaks_threads) = {
    .kernel = option_fault<ThreadLeak>,
    .mechanism = "each call starts a thread that does not end",
    .symptom = "answers are right; a server slows down and dies after an hour",
    .cause = "a pool of threads is made for each call and never told to stop",
    .fix = "make one pool for the process, or join its threads",
    .source = "textbook",
    .trigger = "any call",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

// The sum of a row's products with its gradient is kept.
struct BackwardLeak : PlainBackward {
  static float delta(const ForwardCall& call, const float* d_o,
                     const float* o) {
    leak();
    return PlainBackward::delta(call, d_o, o);
  }
};
QKVET_FAULT(backward_leaks_memory) = {
    .kernel = backward_fault<BackwardLeak>,
    .mechanism = "each row of a gradient allocates 64 bytes that nothing frees",
    .symptom = "gradients are right; training is out of memory after a day",
    .cause = "scratch is allocated in the call and its pointer is forgotten",
    .fix = "free it at each end of the call, or ask for a workspace",
    .source = "textbook",
    .trigger = "any call of backward()",
    .killed_by = {"backward_long_use_changes_nothing"},
    .when = "Tq > 0",
};

// A row of the layer.
struct LayerLeak : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    if (column == 0) {
      leak();
    }
    return PlainLayer::output(call, merged, column);
  }
};
constexpr qkvet_kernel leaking_layer(const char* name, const char* description,
                                     Place place) {
  return layer_kernel(name, description, place, &kLayerPrecision,
                      &kLayerTable<LayerLeak>);
}
QKVET_FAULT(layer_leaks_memory) = {
    .kernel = leaking_layer,
    .mechanism = "each token of a layer allocates 64 bytes that nothing frees",
    .symptom = "layers are right; a server is out of memory after a day",
    .cause = "activations are allocated in the call and forgotten",
    .fix = "free them at each end of the call, or keep them in the context",
    .source = "textbook",
    .trigger = "any call of a layer",
    .killed_by = {"layer_long_use_changes_nothing"},
    .when = "",
};

class CacheLeak : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    leak();
    return ContiguousCache::attend_rows(call, why);
  }
};
QKVET_FAULT(cache_leaks_memory) = {
    .kernel = cache_fault<CacheLeak>,
    .mechanism =
        "each attention of a cache allocates 64 bytes that are not freed with "
        "it",
    .symptom = "answers are right; a server is out of memory after a day",
    .cause = "scratch of a step belongs to no cache",
    .fix = "free it with the step, or with the cache",
    .source = "textbook",
    .trigger = "any step with queries",
    .killed_by = {"cache_long_use_changes_nothing"},
    .when = "commands(queries > 0)",
};

}  // namespace qkvet::impl
