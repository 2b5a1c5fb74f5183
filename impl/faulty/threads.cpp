// SPDX-License-Identifier: Apache-2.0
// Faults of several threads: what each does, and what they share.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "impl/faulty/cache_fault.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/cache_memory.h"
#include "impl/skeletons/layer_gradient.h"
#include "impl/skeletons/layer_skeleton.h"
#include "impl/skeletons/race_window.h"

namespace qkvet::impl {

struct ThreadsDropLastKeys : OptionHooks {
  static void share(int64_t threads, ForwardCall* call) {
    call->keys -= threads > 1 ? call->keys % threads : 0;
  }
};
QKVET_FAULT(threads_drop_last_keys, kOptionFault<ThreadsDropLastKeys>) = {
    .when = "threads > 1 && Tk % threads != 0",
    .cause = "each of n threads takes Tk / n keys, and the remainder is lost: "
             "the division rounds down",
    .fix = "round up, or give the remainder to the last thread",
    .source = "NVIDIA/TransformerEngine#3331, NVIDIA/TransformerEngine#1930",
    .killed_by = {"threads_change_nothing"},
};

// Each thread numbers the heads of its share from 0.
struct ShardHooks : OptionHooks {
  static void share(int64_t threads, ForwardCall*) {
    shards() = std::max<int64_t>(threads, 1);
  }
  // What a shard takes for the number of head h.
  static int64_t local(const ForwardCall& call, int64_t h) {
    const int64_t heads = (call.heads + shards() - 1) / shards();
    return h % heads;
  }
  static int64_t& shards() {
    thread_local int64_t count = 1;
    return count;
  }
};

struct KvHeadOfShard : ShardHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, local(call, at.h) / call.group(), 0};
  }
};
QKVET_FAULT(kv_head_of_shard, kOptionFault<KvHeadOfShard>) = {
    .when = "threads > 1 && Hkv > 1",
    .cause = "each thread numbers its query heads from 0 and finds their keys "
             "by that number: the offset of its share is missing",
    .fix = "add the first head of the share before the division by the group",
    .source = "GenerelSchwerz/llama.cpp#48",
    .killed_by = {"threads_change_nothing"},
};

struct AlibiSlopesOfShard : ShardHooks {
  static float slope(const ForwardCall& call, RowAt at) {
    return call.options.slope_of(at.b, local(call, at.h));
  }
};
QKVET_FAULT(alibi_slopes_of_shard,
            kOptionFault<AlibiSlopesOfShard, QKVET_OPTION_ALIBI>) = {
    .when = "alibi && threads > 1 && H > 1",
    .cause = "each thread numbers its heads from 0 and uses the slopes of "
             "those numbers: the offset of its share is missing",
    .fix = "add the first head of the share",
    .source = "flashinfer-ai/flashinfer#1606, vllm-project/vllm#9136",
    .killed_by = {"threads_change_nothing"},
};

// Partial sums meet in any order.
constexpr qkvet_precision kRacePrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  return p;
}();

// Sums that threads share. Each load and store is atomic, but not the two
// together: the order of the threads is wrong, a number is never torn.
class RacedSums {
 public:
  RacedSums(int64_t count, int64_t threads)
      : sums_(static_cast<size_t>(count)),
        parts_(static_cast<size_t>(threads),
               std::vector<float>(static_cast<size_t>(count))) {}
  const std::vector<std::atomic<float>>& sums() const { return sums_; }

  // share(n, part): thread number n writes what it adds.
  template <class Share>
  void race(const Share& share) {
    const auto run = [&](size_t n) {
      std::vector<float>& part = parts_[n];
      share(static_cast<int64_t>(n), part.data());
      for (size_t at = 0; at < part.size(); ++at)
        part[at] += sums_[at].load(std::memory_order_relaxed);
      ++readers_;
      wait_for_readers(readers_, static_cast<int64_t>(parts_.size()));
      for (size_t at = 0; at < part.size(); ++at)
        sums_[at].store(part[at], std::memory_order_relaxed);
    };
    std::vector<std::thread> threads;
    threads.reserve(parts_.size());
    for (size_t n = 1; n < parts_.size(); ++n) {
      try {
        threads.emplace_back(run, n);
      } catch (const std::system_error&) {  // no such thread: it is done here
        run(n);
      }
    }
    run(0);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::atomic<float>> sums_;
  std::vector<std::vector<float>> parts_;  // what each thread adds
  std::atomic<int64_t> readers_ = 0;
};

struct ThreadsRaceForSums {
  using Scores = OptionRowBase<OptionHooks>;

  static float row_maximum(const ForwardCall& call, RowAt at) {
    float max = OptionHooks::kNone;
    for (int64_t j = 0; j < call.keys; ++j)
      if (Scores::sees(call, at, j))
        max = std::fmax(max, Scores::score(call, at, j));
    return max;
  }

  // What every nth key from `first` on adds to the sums of the weights and of
  // the weighted values of a head, [Tq, 1 + dv].
  static void add_part(const ForwardCall& call, RowAt head, int64_t first,
                       int64_t n, float* sums) {
    const RowAt kv = OptionHooks::kv_head(call, head);
    for (int64_t i = 0; i < call.queries; ++i, sums += 1 + call.value_width) {
      const RowAt at = {head.b, head.h, i};
      const float max = row_maximum(call, at);
      for (int64_t j = first; j < call.keys; j += n) {
        if (!Scores::sees(call, at, j)) continue;
        const float weight = std::exp(Scores::score(call, at, j) - max);
        sums[0] += weight;
        for (int64_t c = 0; c < call.value_width; ++c)
          sums[1 + c] += weight * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
      }
    }
  }

  static void write_head(const ForwardCall& call, RowAt head,
                         const std::atomic<float>* sums) {
    for (int64_t i = 0; i < call.queries; ++i, sums += 1 + call.value_width) {
      const RowAt at = {head.b, head.h, i};
      const float max = row_maximum(call, at);
      const bool seen = max > OptionHooks::kNone;
      for (int64_t c = 0; c < call.value_width; ++c)
        call.o.at(at.b, at.h, i)[c * call.o.step[3]] =
            seen ? sums[1 + c] / sums[0] : 0;
      if (call.lse.data != nullptr)
        *call.lse.at(at.b, at.h, i) =
            seen ? max + std::log(sums[0]) : OptionHooks::kNone;
    }
  }

  static void compute_head(const ForwardCall& call, RowAt head, int64_t n) {
    RacedSums shared(call.queries * (1 + call.value_width), n);
    shared.race([&](int64_t first, float* part) {
      add_part(call, head, first, n, part);
    });
    write_head(call, head, shared.sums().data());
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    ForwardCall call;
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_forward(self, args, &call, why));
    try {
      for (int64_t n = 0; n < call.batch * call.heads; ++n) {
        compute_head(call, {n / call.heads, n % call.heads, 0},
                     std::max<int64_t>(threads_of(exec), 1));
      }
    } catch (const std::bad_alloc&) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the sums");
    }
    return QKVET_OK;
  }
};
QKVET_FAULT(threads_race_for_sums,
            kForwardFault<ThreadsRaceForSums::forward, &kF32Capabilities,
                          &kRacePrecision>) = {
    .when = "threads > 1",
    .cause = "each thread reads the sums of a row, adds its keys and writes "
             "them back while others do the same",
    .fix = "sum in memory of the thread and add up at the end, or lock, or add "
           "atomically",
    .killed_by = {"threads_change_nothing"},
};

struct BackwardScratchShared : PlainBackward {
  static float delta(const ForwardCall& call, const float* d_o,
                     const float* o) {
    return SharedNumber<BackwardScratchShared>::pass(
        PlainBackward::delta(call, d_o, o));
  }
};
QKVET_FAULT(backward_scratch_shared_by_calls,
            kBackwardFault<BackwardScratchShared>) = {
    .cause = "rowsum(do o) is kept in static memory, which all calls share",
    .fix = "keep it in the workspace",
    .killed_by = {"backward_calls_at_once_change_nothing"},
};

struct LayerScratchShared : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    return SharedNumber<LayerScratchShared>::pass(
        PlainLayer::output(call, merged, column));
  }
};
QKVET_FAULT(layer_scratch_shared_by_calls, kLayerFault<LayerScratchShared>) = {
    .cause = "y is summed up in static memory, which all calls share",
    .fix = "one buffer for each call, or for each context",
    .killed_by = {"layer_calls_at_once_change_nothing"},
};

struct LayerGradientScratchShared : PlainLayerGradient {
  static void keep(const Projection& to, int64_t i, int64_t column, float sum) {
    PlainLayerGradient::keep(
        to, i, column, SharedNumber<LayerGradientScratchShared>::pass(sum));
  }
};
QKVET_FAULT(layer_backward_scratch_shared_by_calls,
            kLayerBackwardFault<LayerGradientScratchShared>) = {
    .cause = "gradients of matrices are summed in static memory, which all "
             "calls share",
    .fix = "one buffer for each call, or for each context",
    .killed_by = {"layer_backward_calls_at_once_change_nothing"},
};

struct CacheScratchShared : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    const auto count =
        static_cast<size_t>(call.heads * call.queries * call.width);
    std::vector<float> q(call.q.data, call.q.data + count);
    for (float& value : q)
      value = SharedNumber<CacheScratchShared>::pass(value);
    ForwardCall own = call;
    own.q.data = q.data();
    return ContiguousCache::attend_rows(own, why);
  }
};
QKVET_FAULT(cache_scratch_shared_by_calls, kCacheFault<CacheScratchShared>) = {
    .cause = "the queries of a step are copied into static memory, which all "
             "caches share",
    .fix = "keep scratch in the cache or in the context",
    .killed_by = {"cache_calls_at_once_change_nothing"},
};

// Scratch that belongs to the library and not to a call. What is shared is
// atomic, so that what is wrong is whose sum is read and never a torn number.
// Where calls come from several threads, each row waits until another call has
// put in a sum that can be told from its own. It sleeps, which lets that call
// run on a busy machine, too, where yield() gives way to anybody. The rows of a
// call share one window, so that of two calls the longer one goes on first.
struct ScratchSharedByCalls : OptionHooks {
  using Clock = std::chrono::steady_clock;

  static float denominator(float sum, float, int64_t) {
    Shared& all = shared();
    all.sum = sum;
    const auto end = Clock::now() + window_of_row();
    while (all.sum == sum && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    return all.sum;
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    int64_t rows = 1;
    for (int32_t n = 0; n + 1 < args->q.ndim; ++n) rows *= args->q.shape[n];
    const bool same_caller =
        shared().last_caller.exchange(std::this_thread::get_id()) ==
        std::this_thread::get_id();
    window_of_row() = std::chrono::microseconds(
        same_caller ? 0 : race_window_us() / std::max<int64_t>(rows, 1));
    return OptionsKernel<ScratchSharedByCalls>::forward(self, context, args,
                                                        exec, why);
  }
  struct Shared {
    std::atomic<float> sum = 0;
    std::atomic<std::thread::id> last_caller = std::this_thread::get_id();
  };
  static Shared& shared() {
    static Shared of_all_calls;
    return of_all_calls;
  }
  static std::chrono::microseconds& window_of_row() {
    thread_local std::chrono::microseconds window{0};
    return window;
  }
};
QKVET_FAULT(scratch_shared_by_calls,
            kForwardFault<ScratchSharedByCalls::forward>) = {
    .cause = "the sum of a row is kept in static memory, which all calls share",
    .fix = "keep scratch on the stack, in the workspace or in the context",
    .killed_by = {"calls_at_once_change_nothing"},
};

struct BackwardThreadsRaceForDq {
  // Every nth key from `first` on; dk and dv of a key belong to one thread.
  static void add_part(const BackwardPiece& piece, int64_t first, int64_t n,
                       float* d_q) {
    BackwardPiece own = piece;
    own.d_q = d_q;
    for (int64_t r = 0; r < piece.rows; ++r) {
      for (int64_t j = first; j < piece.call->keys; j += n) {
        if (PlainBackward::sees(*piece.call, piece.b, piece.h, piece.first + r,
                                j)) {
          BackwardRows<PlainBackward>::pair(own, r, j);
        }
      }
    }
  }

  static qkvet_status race(const BackwardPiece& piece, qkvet_context*,
                           qkvet_text* why) {
    const int64_t n = std::max<int64_t>(piece.threads, 1);
    try {
      RacedSums shared(piece.rows * piece.call->width, n);
      shared.race(
          [&](int64_t first, float* part) { add_part(piece, first, n, part); });
      std::copy(shared.sums().begin(), shared.sums().end(), piece.d_q);
    } catch (const std::bad_alloc&) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the sums");
    }
    return QKVET_OK;
  }
};
QKVET_FAULT(
    backward_threads_race_for_dq,
    kBackwardFault<PlainBackward, 0, BackwardThreadsRaceForDq::race>) = {
    .when = "threads > 1",
    .cause = "each thread reads dq of a row, adds its keys and writes it back "
             "while others do the same: keys are divided among threads",
    .fix = "sum dq in memory of the thread and add up at the end, or add "
           "atomically, or walk once more by rows",
    .source = "textbook, cf. Dao-AILab/flash-attention#359",
    .killed_by = {"backward_threads_change_nothing"},
};

}  // namespace qkvet::impl
