// SPDX-License-Identifier: Apache-2.0
// One call of a kernel as data: its inputs, and its result. Only executors
// (core/door/executor.h) turn the one into the other.
#ifndef QKVET_CORE_CALL_CALL_H_
#define QKVET_CORE_CALL_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/call/cache_form.h"
#include "core/call/fused.h"
#include "core/call/options.h"

namespace qkvet {

// The place of each tensor between its two guard pages, or on a device between
// two margins of NaN.
enum class Placement : uint8_t {
  kEnd,         // the last element touches the guard page after it
  kEndAligned,  // the same, moved down to a multiple of 64 bytes
  kStart        // the first element touches the guard page before it
};
inline constexpr int kPlacementCount = 3;

// Inputs and then outputs (core/call/tensors.def).
enum class TensorName : uint8_t {
#define QKVET_INPUT(name, ...) k##name,
#define QKVET_OUTPUT(name, ...) k##name,
#include "core/call/tensors.def"
};
inline constexpr int kInputCount = 0
#define QKVET_INPUT(...) +1
#include "core/call/tensors.def"
    ;
inline constexpr int kOutputCount = 0
#define QKVET_OUTPUT(...) +1
#include "core/call/tensors.def"
    ;
inline constexpr int kTensorCount = kInputCount + kOutputCount;
// "q", "k", ..., "weights" (core/call/tensor_table.h).
const char* tensor_name(TensorName tensor);

enum class Operation : uint8_t {
  kForward,
  kBackward,
  kLayer,
  kMerge,
  // A story: create, and then commands to what it made. The cache lives until
  // the next create.
  kCacheCreate,
  kCacheStep,
  kCacheReset,
  kCacheTruncate,
  kCacheEvict,
  kCacheFork,
  kCacheReorder,
  kCacheReadBack,
  kLayerBackward
};

// forward() and its gradient: what takes masks, lengths and layouts.
constexpr bool takes_options(Operation operation) {
  return operation == Operation::kForward || operation == Operation::kBackward;
}

constexpr bool is_layer(Operation operation) {
  return operation == Operation::kLayer ||
         operation == Operation::kLayerBackward;
}

// How a call of forward() uses plans (qkvet/plan.h). A plan stays in its slot
// until the next one is made there.
enum class PlanUse : uint8_t {
  kNone,    // nothing; a kernel without forward() gets a plan that is made, run
            // and destroyed
  kMake,    // a plan is made, replacing the one in the slot, and run
  kUpdate,  // the plan in the slot gets the call's lengths and tables, and is
            // run
  kRun      // the plan in the slot is run, whatever lengths the call has
};
// How many plans there are room for. Making number 0 destroys all others.
inline constexpr int kMostPlans = 2;

// A contradiction that is put into a call on purpose: the kernel must refuse.
enum class Mistake : uint8_t {
  kNone,
  kKeyWidth,       // k has d + 1 channels; layer: w_k one column more
  kValueAbsent,    // forward, step: k without v
  kHeads,          // forward: v has a head more than k; layer: one more head,
                   // which does not divide the columns
  kInputRows,      // forward: v has a token more than k; layer: w_q D + 1 rows
  kOutputRows,     // layer: w_o has one row more
  kBiasExtent,     // forward: a bias of Tk + 1 keys; layer: b_q has one element
                   // more
  kFusedWidth,     // layer: w_qkv has one column more
  kMaskExtent,     // forward: a mask of Tk + 1 keys
  kLengthsExtent,  // forward: one length, or one start of a member, too many
  kUnknownField,   // forward: what follows the struct as it is known is set
  // These are about the numbers in lengths and starts of members, which the
  // caller has put there, and about the tensors that hold them.
  kOffsetsFall,     // forward: a member ends before it begins
  kOffsetsStart,    // forward: the first member begins at row 1
  kOffsetsEnd,      // forward: the last member ends after the last row
  kLengthNegative,  // forward: a length of -1
  kLengthBeyond,    // forward: a length beyond the rows, or the block table
  kLengthsType,     // forward: lengths, or starts of members, in f32
  kLengthsRank,     // forward: lengths, or starts of members, as [n, 1]
  kBothForms,       // forward: starts of members, and lengths beside them
  kPagesFall,       // forward: page_indptr: pages that end before they begin
  kPagesStart,      // forward: page_indptr: the first page is number 1
  kPagesEnd,        // forward: page_indptr: more pages than page_indices has
  kLastPageEmpty,   // forward: last_page_len: 0 of a member that has pages
  kLastPageBeyond,  // forward: last_page_len: more than a page has slots
  kBothTables,    // forward: page_indptr, and block_table and kv_len beside it
  kSlopesExtent,  // forward: slopes of one head too many, or of one member
  kKeyListsExtent,    // forward: lists of keys of one row too many
  kTopkLengthExtent,  // forward: topk_length of one row too many
  kSegmentsExtent,    // forward: segments of one key too many
  kSegmentsAbsent,    // forward: segments of the rows, and none of the keys
  kFullRangesExtent,  // forward: ranges of three numbers each
  kTreeMaskExtent     // forward: a tree of one draft too many
};

// The inputs are contiguous, row-major, in their storage type, and must outlive
// the call. Absent inputs are null.
//
// A layer has Tq = Tk = T and x [B,T,D], in one storage type (q_dtype). A cache
// is created with B sequences and `tokens` as capacity, for the heads and
// widths of the shape. The other operations of a cache:
//   step       appends Tk tokens (k, v) and takes Tq queries, either may be 0;
//              B = 1. `tokens` is the length afterwards, and the number of
//              columns of a mask and a bias
//   truncate   keeps `tokens`
//   evict      removes `tokens` tokens from `first` on
//   fork       copies `sequence` to `other`
//   reorder    takes as many parents as there are sequences
//   read_back  returns Tk tokens as stage_k and stage_v
//
// The options below `want_stages` are those of forward() and, down to the
// packed batch, of its gradient. k and v are given in full where they are
// shared: the kernel gets one copy in memory.
struct KernelCall : ScoreRule {
#define QKVET_INPUT(name, member, ...) const std::byte* member = nullptr;
#include "core/call/tensors.def"
  Operation operation = Operation::kForward;
  Mistake mistake = Mistake::kNone;
  Shape shape;
  Dtype q_dtype = Dtype::kF32;
  Dtype kv_dtype = Dtype::kF32;
  Dtype o_dtype = Dtype::kF32;
  bool want_lse = false;
  bool want_weights = false;
  Placement placement = Placement::kEnd;
  int threads = 1;  // that the call may use, and parallel_for uses
  // The tensors get the addresses of the last call with this flag and the same
  // extents; their content is this call's.
  bool same_place = false;
  bool second_context = false;  // of forward() on the CPU
  PlanUse plan_use = PlanUse::kNone;
  int plan_slot = 0;
  // Needs a process without earlier calls, if a new one costs little.
  bool new_process = false;
  // The byte that fills fresh memory: what malloc() returns, in a worker and
  // where the C library is glibc, and the stack of a worker. 0: 0xff where the
  // worker guards the heap (guarded_heap.h), otherwise unspecified.
  uint8_t fresh_memory = 0;
  // The byte in all memory before, between and after the elements of inputs of
  // a kernel on the CPU. 0: the NaN of canary.h.
  uint8_t around_inputs = 0;
  // Made at the same time as the neighbouring calls with this flag: forward()
  // on the CPU only, each from a thread and with a context of its own. The
  // calls are made several times, and the outputs are those of one of these
  // times.
  bool at_once = false;
  // The number of times that the call is made, together with the neighbouring
  // calls with repeats, one group after the other; 0: once. The outputs are
  // those of the first group that gives other bits, or of the last.
  int64_t repeats = 0;
  double oracle_seconds = 0;  // time of the oracle, for the limit on a hang
  // Seconds at the kernel's measured pace, for the same limit; 0: unknown.
  double expected_seconds = 0;

  bool unbatched = false;  // x and y are [T,D]; B = 1
  bool want_stages = false;
  // w_q, w_k and w_v are views into w_qkv then, and their biases into b_qkv.
  FusedOrder fused = FusedOrder::kNone;
  int64_t context = 0;  // C; 0: no mask buffer

  uint8_t mask_own = kOwnAll;     // kOwnB, ...: what mask and bias are given
  uint8_t bias_own = kOwnAll;     // for; along the others they are broadcast
  Layout layout = Layout::kBhtd;  // of q, k, v, o
  uint8_t share = 0;              // kShareB, kShareH: of k and v
  int64_t members = 0;            // of a packed batch
  bool member_slopes = false;     // slopes are [B,H], packed [members,H]
  bool int32_lengths = false;     // q_len, kv_len, cu_q and cu_k are int32

  // Pages: k and v are then the pool, [pages,Hkv,page_size,width]; Tk is still
  // the most tokens that a member has. With new tokens kv_len counts only the
  // tokens before them, and k and v hold arbitrary values at the new positions.
  // In a packed batch kv_len, table and new tokens have a row for each member
  // instead of B rows, there is no cu_k, and Tk counts the tokens of all
  // members.
  int64_t page_size = 0;  // 0: none
  // The number of adjacent channels of k in PageForm::kGroups, where v is
  // stored token by token; 0: k and v are rows. The values of k and v are the
  // same in both forms.
  int64_t channel_group = 0;
  // v is k's memory: its first dv channels, which is what v holds.
  bool values_in_keys = false;
  int64_t pages = 0;          // of the pool
  int64_t table_columns = 0;  // of the block table
  int64_t new_tokens = 0;     // of every member, to be appended
  // The other form of the table: with these there is neither block_table nor
  // kv_len, and what they count are all tokens, new ones included.
  int64_t page_entries = 0;  // of page_indices

  // topk_length is there if lists have lengths.
  KeyLists listed;

  // Masks in a few numbers; `chunk` is a ScoreRule's.
  MaskFields fields;

  // A gradient is given the o and lse of forward(). The gradient of a layer
  // gets no output of its forward pass.
  bool want_d_bias = false;
  bool want_d_sink = false;

  // A rotation of q and k: of forward(), a layer, or a step. A layer has one
  // row of positions for both, q_positions [B,T]. A step has none: a token's
  // position is its position in its sequence.
  RopeStyle rope = RopeStyle::kNone;
  int64_t rope_rows = 0;
  int64_t rope_channels = 0;  // d, or less: the others are not turned

  // For forward(), and for its gradient. For a gradient the kernel's forward()
  // is called first, and its o and lse become the inputs, because no caller can
  // know them.
  std::optional<Dropout> dropout;
  bool want_dropout_mask = false;

  // A merge of states (merge.h): B rows, Tk states of each and Tq = d = 1, as
  // attention. In place, o and lse contain the first state.
  int64_t total_states = 0;  // of all rows, where indptr is there
  bool in_place = false;

  int64_t sequence = 0;
  int64_t tokens = 0;
  int64_t first = 0;
  int64_t other = 0;
  std::vector<int64_t> parents;  // one for every sequence
  CacheForm cache;               // of create
};

enum class CallStatus : uint8_t {
  kDone,         // forward() returned QKVET_OK
  kUnsupported,  // supports() or the capabilities say no
  kUnavailable,  // the context could not be opened
  kRefused,  // an error, for forward() after supports() had accepted the call
  kFault,    // a guard page or a read-only input was touched; on a
             // device: an input was changed, or memory beside one
  kCrash,    // any other deadly signal, abort, exit or exception
  kHang,
  kOutOfMemory,
  kNotRun  // an earlier call of the batch hung or took all memory, or of the
           // story ended its process
};

// A touch outside a tensor, or a write into an input.
struct MemoryFault {
  std::optional<TensorName> tensor;  // absent: what follows, the workspace, or
                                     // far from every tensor
  // For these the size is also `tensor_bytes`.
  bool of_reason = false;  // the text that gives the reason for a refusal
  bool of_heap = false;    // memory that the kernel allocated in a worker
  bool is_write = false;
  bool before_start = false;
  int64_t bytes = 0;  // distance past the end or before the start; inside: from
                      // the start
  bool inside = false;
  bool between = false;  // inside, between parts that are far apart
  int64_t tensor_bytes = 0;
};

// "k", "the workspace", "memory that the kernel allocated".
std::string owner_name(const MemoryFault& fault);

// A call that was made many times over (KernelCall::repeats).
struct RepeatedCall {
  int64_t made = 0;
  int64_t first_other = 0;  // the first that gave other bits; 0: none did
  // Growth from one part of the later half of the calls to the next, and the
  // number of calls in which it grew; 0: none.
  int64_t bytes = 0, descriptors = 0, threads = 0;
  int64_t grown_in = 0;
};

struct CallOutcome {
  CallStatus status = CallStatus::kDone;
  std::string text;           // the kernel's reason, or what the signal was
  bool on_device = false;     // the tensors were in memory of a CUDA device
  bool undeclared = false;    // kUnsupported: by the declaration
  bool asked_kernel = false;  // the kernel itself was reached
  bool gave_reason = false;   // the kernel refused, and gave its reason
  std::string output;         // last lines that a crashed kernel printed
  std::optional<MemoryFault> fault;  // kFault: what the guard pages saw
  // kCrash, by an access to memory near no tensor: whether it wrote.
  std::optional<bool> died_writing;
  std::optional<MemoryFault> damage;    // a canary that was overwritten
  bool dirty_environment = false;       // MXCSR or rounding mode left changed
  std::optional<TensorName> unwritten;  // an output with elements never written
  int64_t unwritten_index = 0;          // the first of them, packed
  // With a plan: an output that was written in a row that does not count, or
  // although the call was refused.
  std::optional<TensorName> overwritten;
  int64_t overwritten_index = 0;  // the first such element, packed
  double seconds = 0;             // inside the requested function
  RepeatedCall repeated;
  int64_t workspace_bytes = 0;  // that the kernel requested

  // Packed, row-major. Empty unless kDone.
#define QKVET_OUTPUT(name, member, ...) std::vector<std::byte> member;
#include "core/call/tensors.def"

  // After a call to a cache: tokens held, sequence by sequence.
  std::vector<int64_t> lengths;
  // Bytes that the cache has allocated for tokens; -1: unknown.
  int64_t cache_bytes = -1;
};

// The member that holds an input's data.
const std::byte* KernelCall::*input_member(TensorName tensor);
// The member that holds an output's data.
std::vector<std::byte> CallOutcome::*output_member(TensorName output);

// Most sequences of a cache. A story that a Case spells has fewer (story.h), a
// recorded one (story_log.h) as many as were live at once.
inline constexpr int64_t kMostCacheSequences = 256;

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_CALL_H_
