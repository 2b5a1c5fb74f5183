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
#include "impl/skeletons/plain_scores.h"
#include "impl/skeletons/race_window.h"

namespace qkvet::impl {

// Work divided by integer division.
struct ThreadsDropLastKeys : OptionHooks {
  static void share(int64_t threads, ForwardCall* call) {
    call->keys -= threads > 1 ? call->keys % threads : 0;
  }
};
QKVET_FAULT(threads_drop_last_keys) = {
    .kernel = option_fault<ThreadsDropLastKeys>,
    .mechanism =
        "each of n threads takes Tk / n keys, and nobody the remainder",
    .symptom = "the last keys are lost when several threads run",
    .cause = "integer division where the last share must be larger",
    .fix = "round up, or give the remainder to the last thread",
    .source = "textbook, cf. NVIDIA/TransformerEngine#3331",
    .trigger = "several threads, and Tk is not a multiple of their number",
    .killed_by = {"threads_change_nothing"},
    .when = "threads > 1 && Tk % threads != 0",
};

// Each thread numbers the heads of its share from 0.
struct ShardHooks : OptionHooks {
  static void share(int64_t threads, ForwardCall*) {
    shards() = std::max<int64_t>(threads, 1);
  }

 protected:
  // What a shard takes for the number of head h.
  static int64_t local(const ForwardCall& call, int64_t h) {
    const int64_t heads = (call.heads + shards() - 1) / shards();
    return h % heads;
  }

 private:
  static int64_t& shards() {
    thread_local int64_t count = 1;
    return count;
  }
};

// A shard counts its query heads from 0 and has all keys.
struct KvHeadOfShard : ShardHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, local(call, at.h) / call.group(), 0};
  }
};
QKVET_FAULT(kv_head_of_shard) = {
    .kernel = option_fault<KvHeadOfShard>,
    .mechanism =
        "each thread numbers its query heads from 0 and finds their keys by "
        "that number",
    .symptom =
        "one thread is right; with several all but the first attend to the "
        "keys of the first heads",
    .cause =
        "query heads are divided, key/value heads are not, and the offset of "
        "the share is left out",
    .fix = "add the first head of the share before the division by the group",
    .source = "GenerelSchwerz/llama.cpp#48",
    .trigger = "several threads, and Hkv > 1",
    .killed_by = {"threads_change_nothing"},
    .when = "threads > 1 && Hkv > 1",
};

// A shard counts the heads of its slopes from 0.
struct AlibiSlopesOfShard : ShardHooks {
  static float slope(const ForwardCall& call, RowAt at) {
    return call.options.slope_of(at.b, local(call, at.h));
  }
};
QKVET_FAULT(alibi_slopes_of_shard) = {
    .kernel = option_fault<AlibiSlopesOfShard, QKVET_OPTION_ALIBI>,
    .mechanism =
        "each thread numbers its heads from 0 and takes the slopes of those "
        "numbers",
    .symptom =
        "one thread is right; with several all but the first use the slopes of "
        "the first heads",
    .cause =
        "the slopes are a function of the head, and the head is that of the "
        "share",
    .fix = "add the first head of the share",
    .source = "flashinfer-ai/flashinfer#1606, vllm-project/vllm#9136",
    .trigger = "ALiBi, several threads, and H > 1",
    .killed_by = {"threads_change_nothing"},
    .when = "alibi && threads > 1 && H > 1",
};

// Partial sums meet in any order.
constexpr qkvet_precision kRacePrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  return p;
}();

// Threads add to the same sums without a lock.
struct ThreadsRaceForSums {
  // Sums of the weights and of the weighted values of one head, row by row.
  // Each load and store is atomic, but not the two together: the order of the
  // threads is wrong, a number is never torn.
  struct SharedSums {
    SharedSums(size_t count, size_t threads)
        : sums(count), parts(threads, std::vector<float>(count)) {}
    std::vector<std::atomic<float>> sums;   // [Tq, 1 + dv]
    std::vector<std::vector<float>> parts;  // what each thread adds
    std::atomic<int64_t> readers = 0;
  };

  using Scores = PlainScores<OptionHooks>;

  static float row_maximum(const ForwardCall& call, RowAt at) {
    float max = OptionHooks::kNone;
    for (int64_t j = 0; j < call.keys; ++j) {
      if (Scores::sees(call, at, j)) {
        max = std::fmax(max, Scores::score(call, at, j));
      }
    }
    return max;
  }

  // What every nth key from `first` on adds to the sums of head h of member b.
  static void add_part(const ForwardCall& call, RowAt head, int64_t first,
                       int64_t n, std::vector<float>* part) {
    const RowAt kv = OptionHooks::kv_head(call, head);
    float* sums = part->data();
    for (int64_t i = 0; i < call.queries; ++i, sums += 1 + call.value_width) {
      const RowAt at = {head.b, head.h, i};
      const float max = row_maximum(call, at);
      for (int64_t j = first; j < call.keys; j += n) {
        if (!Scores::sees(call, at, j)) {
          continue;
        }
        const float weight = std::exp(Scores::score(call, at, j) - max);
        sums[0] += weight;
        for (int64_t c = 0; c < call.value_width; ++c) {
          sums[1 + c] += weight * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
        }
      }
    }
  }

  static void add_share(const ForwardCall& call, RowAt head, int64_t first,
                        int64_t n, SharedSums* shared) {
    std::vector<float>& part = shared->parts[static_cast<size_t>(first)];
    add_part(call, head, first, n, &part);
    for (size_t at = 0; at < part.size(); ++at) {
      part[at] += shared->sums[at].load(std::memory_order_relaxed);
    }
    ++shared->readers;
    wait_for_readers(shared->readers, n);
    for (size_t at = 0; at < part.size(); ++at) {
      shared->sums[at].store(part[at], std::memory_order_relaxed);
    }
  }

  static void write_head(const ForwardCall& call, RowAt head,
                         const SharedSums& shared) {
    const std::atomic<float>* sums = shared.sums.data();
    for (int64_t i = 0; i < call.queries; ++i, sums += 1 + call.value_width) {
      const RowAt at = {head.b, head.h, i};
      const float max = row_maximum(call, at);
      const bool seen = max > OptionHooks::kNone;
      for (int64_t c = 0; c < call.value_width; ++c) {
        call.o.at(at.b, at.h, i)[c * call.o.step[3]] =
            seen ? sums[1 + c] / sums[0] : 0;
      }
      if (call.lse.data != nullptr) {
        *call.lse.at(at.b, at.h, i) =
            seen ? max + std::log(sums[0]) : OptionHooks::kNone;
      }
    }
  }

  static void compute_head(const ForwardCall& call, RowAt head, int64_t n) {
    SharedSums shared(
        static_cast<size_t>(call.queries * (1 + call.value_width)),
        static_cast<size_t>(n));
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(n));
    for (int64_t first = 1; first < n; ++first) {
      try {
        threads.emplace_back(add_share, std::cref(call), head, first, n,
                             &shared);
      } catch (const std::system_error&) {  // no such thread: it is done here
        add_share(call, head, first, n, &shared);
      }
    }
    add_share(call, head, 0, n, &shared);
    for (std::thread& thread : threads) {
      thread.join();
    }
    write_head(call, head, shared);
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    ForwardCall call;
    qkvet_status status = check_exec(exec, why);
    status = status == QKVET_OK ? read_forward(self, args, &call, why) : status;
    try {
      for (int64_t n = 0; status == QKVET_OK && n < call.batch * call.heads;
           ++n) {
        compute_head(call, {n / call.heads, n % call.heads, 0},
                     std::max<int64_t>(threads_of(exec), 1));
      }
    } catch (const std::bad_alloc&) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the sums");
    }
    return status;
  }
};
QKVET_FAULT(threads_race_for_sums) = {
    .kernel = forward_fault<ThreadsRaceForSums::forward, &kF32Capabilities,
                            &kRacePrecision>,
    .mechanism =
        "each thread reads the sums of a row, adds its keys and writes them "
        "back, and others do so in between",
    .symptom =
        "right with one thread; with more the keys of all threads but one may "
        "be lost, and seldom twice the same",
    .cause = "a sum is shared, and to add to it is taken for one step",
    .fix =
        "sum in memory of the thread and add up at the end, or lock, or add "
        "atomically",
    .source = "textbook",
    .trigger = "more than one thread",
    .killed_by = {"threads_change_nothing"},
    .when = "threads > 1",
};

// rowsum(do o) of a row, on its way through memory of the library.
struct BackwardScratchShared : PlainBackward {
  static float delta(const ForwardCall& call, const float* d_o,
                     const float* o) {
    return SharedNumber<BackwardScratchShared>::pass(
        PlainBackward::delta(call, d_o, o));
  }
};
QKVET_FAULT(backward_scratch_shared_by_calls) = {
    .kernel = backward_fault<BackwardScratchShared>,
    .mechanism =
        "rowsum(do o) is kept in memory of the library, which is the same for "
        "all calls",
    .symptom =
        "gradients are right one by one; of calls from several threads at once "
        "each may subtract the row sum of another",
    .cause = "a static buffer of the first pass, as if there were one caller",
    .fix = "keep it in the workspace",
    .source = "textbook",
    .trigger = "two gradients at once, each with a context of its own",
    .killed_by = {"backward_calls_at_once_change_nothing"},
    .when = "",
};

// An element of y, on its way through memory of the library.
struct LayerScratchShared : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    return SharedNumber<LayerScratchShared>::pass(
        PlainLayer::output(call, merged, column));
  }
};
constexpr qkvet_kernel layer_scratch_kernel(const char* name,
                                            const char* description,
                                            Place place) {
  return layer_kernel(name, description, place, &kLayerPrecision,
                      &kLayerTable<LayerScratchShared>);
}
QKVET_FAULT(layer_scratch_shared_by_calls) = {
    .kernel = layer_scratch_kernel,
    .mechanism = "y is summed up in memory of the library",
    .symptom =
        "layers are right one by one; at once a row of y may hold numbers of "
        "another call",
    .cause = "the activations of a layer are allocated once for all calls",
    .fix = "one buffer for each call, or for each context",
    .source = "textbook",
    .trigger = "two layers at once, each with a context of its own",
    .killed_by = {"layer_calls_at_once_change_nothing"},
    .when = "",
};

// An element of the gradient of a matrix, on the same way.
struct LayerGradientScratchShared : PlainLayerGradient {
  static void keep(const Projection& to, int64_t i, int64_t column, float sum) {
    PlainLayerGradient::keep(
        to, i, column, SharedNumber<LayerGradientScratchShared>::pass(sum));
  }
};
constexpr qkvet_kernel layer_gradient_scratch_kernel(const char* name,
                                                     const char* description,
                                                     Place place) {
  return with_backward(layer_kernel(name, description, place, &kLayerPrecision,
                                    &kLayerTable<PlainLayer>),
                       &kLayerGradientTable<LayerGradientScratchShared>);
}
QKVET_FAULT(layer_backward_scratch_shared_by_calls) = {
    .kernel = layer_gradient_scratch_kernel,
    .mechanism = "gradients of matrices are summed in memory of the library",
    .symptom =
        "gradients of layers are right one by one; at once each may hold "
        "numbers of another call",
    .cause = "buffers of the backward pass are allocated once for all calls",
    .fix = "one buffer for each call, or for each context",
    .source = "textbook",
    .trigger = "two gradients of layers at once",
    .killed_by = {"layer_backward_calls_at_once_change_nothing"},
    .when = "",
};

// The queries of a step, on their way through memory of the library.
class CacheScratchShared : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
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
QKVET_FAULT(cache_scratch_shared_by_calls) = {
    .kernel = cache_fault<CacheScratchShared>,
    .mechanism =
        "the queries of a step are copied into memory of the library, which is "
        "the same for all caches",
    .symptom =
        "one cache is right; of two that decode at once one may ask with the "
        "queries of the other",
    .cause = "a static buffer, as if there were one cache",
    .fix = "keep scratch in the cache or in the context",
    .source = "textbook",
    .trigger = "two caches at once, each with a context of its own",
    .killed_by = {"cache_calls_at_once_change_nothing"},
    .when = "",
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

 private:
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
QKVET_FAULT(scratch_shared_by_calls) = {
    .kernel = forward_fault<ScratchSharedByCalls::forward>,
    .mechanism =
        "the sum of a row is kept in memory of the library, which is the same "
        "for all calls",
    .symptom =
        "right one by one; of calls from several threads at once each may be "
        "divided by the sum of another",
    .cause = "scratch is static, as if there were one caller",
    .fix = "keep scratch on the stack, in the workspace or in the context",
    .source = "textbook",
    .trigger = "two calls at once, each with a context of its own",
    .killed_by = {"calls_at_once_change_nothing"},
    .when = "",
};

// Threads add to the same dq without a lock.
struct BackwardThreadsRaceForDq {
  // Loads and stores are atomic each and not together, so that what is wrong is
  // the order of the threads and never a torn number.
  struct SharedRows {
    SharedRows(size_t count, size_t threads)
        : d_q(count), parts(threads, std::vector<float>(count)) {}
    std::vector<std::atomic<float>> d_q;    // [rows, d]
    std::vector<std::vector<float>> parts;  // what each thread adds
    std::atomic<int64_t> readers = 0;
  };

  // Every nth key from `first` on; dk and dv of a key belong to one thread.
  static void add_share(const BackwardPiece& piece, int64_t first, int64_t n,
                        SharedRows* shared) {
    using Skeleton = BackwardRows<PlainBackward>;
    std::vector<float>& part = shared->parts[static_cast<size_t>(first)];
    BackwardPiece own = piece;
    own.d_q = part.data();
    for (int64_t r = 0; r < piece.rows; ++r) {
      for (int64_t j = first; j < piece.call->keys; j += n) {
        if (PlainBackward::sees(*piece.call, piece.b, piece.h, piece.first + r,
                                j)) {
          Skeleton::pair(own, r, j);
        }
      }
    }
    for (size_t at = 0; at < part.size(); ++at) {
      part[at] += shared->d_q[at].load(std::memory_order_relaxed);
    }
    ++shared->readers;
    wait_for_readers(shared->readers, n);
    for (size_t at = 0; at < part.size(); ++at) {
      shared->d_q[at].store(part[at], std::memory_order_relaxed);
    }
  }

  static void add_piece(const BackwardPiece& piece, int64_t n) {
    const auto count = static_cast<size_t>(piece.rows * piece.call->width);
    SharedRows shared(count, static_cast<size_t>(n));
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(n));
    for (int64_t first = 1; first < n; ++first) {
      try {
        threads.emplace_back(add_share, std::cref(piece), first, n, &shared);
      } catch (const std::system_error&) {  // no such thread: it is done here
        add_share(piece, first, n, &shared);
      }
    }
    add_share(piece, 0, n, &shared);
    for (std::thread& thread : threads) {
      thread.join();
    }
    std::copy(shared.d_q.begin(), shared.d_q.end(), piece.d_q);
  }

  static qkvet_status race(const BackwardPiece& piece, qkvet_context*,
                           qkvet_text* why) {
    try {
      add_piece(piece, std::max<int64_t>(piece.threads, 1));
    } catch (const std::bad_alloc&) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the sums");
    }
    return QKVET_OK;
  }
};
QKVET_FAULT(backward_threads_race_for_dq) = {
    .kernel = backward_fault<PlainBackward, 0, BackwardThreadsRaceForDq::race>,
    .mechanism =
        "each thread reads dq of a row, adds its keys and writes it back, and "
        "others do so in between",
    .symptom =
        "right with one thread; with more dq may lack the keys of all threads "
        "but one, and seldom twice the same; dk and dv are right",
    .cause = "keys are divided among threads, which suits dk and dv alone",
    .fix =
        "sum dq in memory of the thread and add up at the end, or add "
        "atomically, or walk once more by rows",
    .source = "textbook, cf. Dao-AILab/flash-attention#359",
    .trigger = "more than one thread",
    .killed_by = {"backward_threads_change_nothing"},
    .when = "threads > 1",
};

}  // namespace qkvet::impl
