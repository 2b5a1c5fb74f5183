// SPDX-License-Identifier: Apache-2.0
// The options of a call beyond q, k, v, a causal rule and a scale.
//
// Windows and ALiBi count from the diagonal of a batch member with Lq queries
// and Lk keys: query i is at key i for causal=tl, and at key i + Lk - Lq
// otherwise. A pair (i, j) is visible if all of these hold: i < Lq and j < Lk;
// the causal rule, the window and the mask allow it; j is in the key list of i,
// if there are lists; and no mask in a few numbers hides it (MaskFields).
#ifndef QKVET_CORE_CALL_OPTIONS_H_
#define QKVET_CORE_CALL_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "core/base/shape.h"

namespace qkvet {

// Keys beside the diagonal that stay visible, inclusive counts; -1: all.
struct Window {
  int64_t left = -1;
  int64_t right = -1;

  friend bool operator==(const Window&, const Window&) = default;
};

// The rules for which scores count, and how, that need no tensor. Cases, calls
// and plans have them.
struct ScoreRule {
  Causal causal = Causal::kNone;
  std::optional<float> scale;  // absent: 1/sqrt(d), left to the kernel
  std::optional<Window> window;
  int64_t chunk = 0;  // > 0: only keys of the diagonal's own chunk of this size
#define QKVET_OPTION_NUMBER(name, ...) float name = 0;
#include "core/call/option_numbers.def"

  friend bool operator==(const ScoreRule&, const ScoreRule&) = default;
};

// Which extents of [B,H,Tq,Tk] a mask or a bias has of its own; along the
// others it is broadcast, with stride 0.
enum : uint8_t { kOwnB = 1, kOwnH = 2, kOwnQ = 4, kOwnK = 8, kOwnAll = 15 };

enum class MaskKind : uint8_t {
  kNone,
  kRandomN,    // a pair attends with a chance of N percent
  kBandN,      // |i - j| <= N
  kOnlyN,      // every row sees only key N % Tk
  kButN,       // every row sees all keys but N % Tk
  kEmptyRowN,  // row N % Tq sees nothing, all others everything
  kPaddingN,   // the last N keys are hidden
  // As in serving (core/cases.md). Query i is token i + Tk - Tq.
  kPrefixN,  // the first N keys for all, and what is not ahead (prefix LM)
  kRangesN,  // what is not ahead, and some ranges of tokens both ways (images)
  kDocsN,    // the tokens of the row's own document
  kChunkN,   // the tokens of the row's own chunk of N
  kTreeN,    // a visible history, and of a tree of drafts the row's own branch
  kFile      // out of a file (file_data.h)
};
inline constexpr int kMaskKindCount = 12;  // of those above kFile

struct Mask {
  MaskKind kind = MaskKind::kNone;
  int64_t parameter = 0;  // the N of the names above
  uint8_t own = kOwnAll;  // an extent that is broadcast counts as index 0

  friend bool operator==(const Mask&, const Mask&) = default;
};

// The order of the elements of q, k, v and o in memory. Layouts from kGaps on
// need a kernel that takes any strides; they are those of the other inputs,
// too.
enum class Layout : uint8_t {
  kBhtd,    // contiguous [B,H,T,d]
  kBthd,    // contiguous [B,T,H,d], seen as [B,H,T,d]
  kPacked,  // the strides of one [B,T,H + 2 Hkv,d]; o as in kBthd
  kGaps,    // unused elements after every row, head and member
  kApart,   // unused elements between the channels; else as in kBhtd
  kFar,     // as in kBhtd, but the last member begins after 2^32 elements
  kTurned   // contiguous [B,H,d,T], seen as [B,H,T,d]
};
inline constexpr int kLayoutCount = 7;

// Rotary position embedding of q and k (Su et al., "RoFormer: Enhanced
// Transformer with Rotary Position Embedding", 2021, 3.2): the pairs of
// channels that are turned.
enum class RopeStyle : uint8_t {
  kNone,
  kHalf,        // (c, c + r/2), r the number of channels that are turned
  kInterleaved  // (2c, 2c + 1)
};
inline constexpr int kRopeStyleCount = 3;

// The positions of queries and keys. Keys are at first, first + 1, ..., and the
// queries at the end of them: the last query has the position of the last key.
// If a member has more queries than keys, its queries begin at `first`. With
// random_positions all positions are arbitrary.
struct Rope {
  RopeStyle style = RopeStyle::kNone;
  bool random_positions = false;
  int64_t first = 0;
  int64_t channels = 0;  // only the first ones are turned; 0: all d

  friend bool operator==(const Rope&, const Rope&) = default;
};

// The place of page n of a member in the pool.
enum class PageOrder : uint8_t {
  kPermuted,  // anywhere
  kInOrder,   // one after the other, member by member
  kReverse    // the same, from the end
};
inline constexpr int kPageOrderCount = 3;

// The content of slots that no member owns.
enum class Unowned : uint8_t {
  kNan,
  kOthers,  // tokens of other sequences
  kZero
};
inline constexpr int kUnownedCount = 3;

// How a call assigns pages to members (kernel.h).
enum class PageTable : uint8_t {
  kBlocks,  // block_table: a row of pages for each member, and kv_len
  kCsr      // page_indptr: one list of pages, and what is in the last of each
};
inline constexpr int kPageTableCount = 2;

// How the tokens of a page are stored in the pool.
enum class PageForm : uint8_t {
  kRows,  // k and v of a token are rows of channels
  // As vLLM's paged_attention_v1 and _v2 have them: keys
  // [pages,Hkv,d/x,page,x] in groups of x channels, which are 16 bytes, and
  // values [pages,Hkv,dv,page].
  kGroups
};
inline constexpr int kPageFormCount = 2;
inline constexpr int64_t kChannelGroupBytes = 16;

// Keys and values in pages of a pool, found by block tables (Kwon et al.,
// "Efficient Memory Management for Large Language Model Serving with
// PagedAttention", 2023, 4.1), or by lists of pages (Ye et al., "FlashInfer",
// 2025, 3.1).
struct Paging {
  int64_t size = 0;  // tokens of a page; 0: k and v are not paged
  PageOrder order = PageOrder::kPermuted;
  Unowned unowned = Unowned::kNan;
  PageTable table = PageTable::kBlocks;
  PageForm pool = PageForm::kRows;

  friend bool operator==(const Paging&, const Paging&) = default;
};

// Lists of the keys that a query sees, as sparse attention selects them
// (DeepSeek-AI, "DeepSeek-V3.2", 2025, 2.1; Yuan et al., "Native Sparse
// Attention", 2025, 3.3): in any order, each at most once, -1 for none. Keys
// are counted from the first of their member.
struct KeyLists {
  int64_t entries = 0;     // of each list; 0: there are no lists
  bool per_head = false;   // one list for each key/value head
  bool lengths = false;    // each row has a number of entries that count
  bool from_file = false;  // file_data.h
  int64_t block = 1;       // keys of an entry; the last block may have fewer

  friend bool operator==(const KeyLists&, const KeyLists&) = default;
};

// Masks that a call gives as a few numbers instead of a mask of all pairs
// (kernel.h: segments_q, full_ranges, tree_mask), as in serving. A case
// contains the parameters of their generator, spelled as those of a mask
// (MaskKind).
struct MaskFields {
  bool segments = false;
  int64_t tokens = 0;  // one in so many begins a segment; 0: there is but one
  bool wide_segments = false;  // int64, not int32
  int64_t ranges = 0;          // seen both ways; 0: none are given
  bool wide_ranges = false;
  bool tree = false;
  int64_t children = 0;  // of a draft; 0: any
  // file_data.h
  bool segments_from_file = false, ranges_from_file = false;
  bool tree_from_file = false;

  friend bool operator==(const MaskFields&, const MaskFields&) = default;
};

// Dropout of weights with probability p (kernel.h).
struct Dropout {
  float p = 0;
  uint64_t seed = 0;
  uint64_t offset = 0;

  friend bool operator==(const Dropout&, const Dropout&) = default;
};
inline constexpr float kMostDropout = 0.99f;  // of a case

// Along which extents k and v are the same, with stride 0.
enum : uint8_t { kShareB = 1, kShareH = 2 };

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_OPTIONS_H_
