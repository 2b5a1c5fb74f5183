// SPDX-License-Identifier: Apache-2.0
// The Case: everything that determines one call, or one story of calls, in one
// text spelling.
#ifndef QKVET_CORE_CASE_CASE_H_
#define QKVET_CORE_CASE_CASE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/call/cache_form.h"
#include "core/call/options.h"
#include "core/case/call_sequence.h"
#include "core/case/recipe.h"
#include "core/case/story.h"

namespace qkvet {

inline constexpr size_t kMaxCaseText = 4096;  // characters of a spelling
inline constexpr size_t kMaxSetValues = 64;   // single values per case
inline constexpr size_t kMaxMembers = 64;     // that have lengths of their own
inline constexpr int64_t kMaxExtent = int64_t{1} << 24;
// Limit of numbers that take no memory: windows and chunks. Such a number plus
// a position fits into 64 bits.
inline constexpr int64_t kMaxCount = int64_t{1} << 62;
inline constexpr int64_t kMaxElements = int64_t{1} << 28;  // of one tensor
inline constexpr uint64_t kDefaultSeed = 1;

// What a case is about: attention on q, k and v; a KV cache; a layer from X to
// Y; the gradient of attention; that of a layer; the merge of states.
enum class Subject : uint8_t {
  kAttention,
  kCache,
  kLayer,
  kBackward,
  kLayerBackward,
  kMerge
};

// One value that replaces what the recipe makes: what shrinking writes.
struct SetValue {
  TensorName tensor = TensorName::kQ;  // an input
  std::array<int64_t, 4> index{};      // as many as tensor_rank() says
  double value = 0;

  friend bool operator==(const SetValue&, const SetValue&) = default;
};

// The biases of a layer, as bits of Case::biases.
enum : uint8_t { kBiasQ = 1, kBiasK = 2, kBiasV = 4, kBiasO = 8 };

struct Case : ScoreRule {
  Dtype q_dtype = Dtype::kF32;
  Dtype kv_dtype = Dtype::kF32;
  Dtype o_dtype = Dtype::kF32;
  // A layer has D > 0 and Tq = Tk = T. A story has B sequences; Tk tokens and
  // Tq queries are the most that one sequence uses.
  Shape shape;

  // Options of attention (core/call/options.h) beside those of ScoreRule.
  Mask mask;
  std::optional<Recipe> score_bias;  // added to the scaled scores
  uint8_t score_bias_own = kOwnAll;
  std::optional<Recipe> sink;    // [H]: a logit that joins the denominator
  std::optional<Recipe> slopes;  // [H]: ALiBi, score -= slope * distance
  bool member_slopes = false;    // [B,H] of them, packed [members,H]
  std::vector<int64_t> q_len;    // [B]; empty: all rows count
  std::vector<int64_t> kv_len;   // [B]; empty: all keys count
  // A packed batch, B = 1: where its members begin, and the end; or empty.
  std::vector<int64_t> cu_q;   // [members + 1]
  std::vector<int64_t> cu_k;   // [members + 1]
  bool int32_lengths = false;  // these four lists are int32, not int64
  Layout layout = Layout::kBhtd;
  uint8_t share = 0;  // kShareB, kShareH
  // The values are the first dv channels of the keys, and lie there.
  bool values_in_keys = false;
  KeyLists listed;
  MaskFields fields;
  Paging paging;
  // The last tokens of every member, which the kernel itself is to append to k
  // and v; no member has fewer.
  int64_t append = 0;
  Rope rope;                     // also of a layer and of a story
  CallSequence calls;            // made of the call, one after the other
  std::optional<float> dropout;  // p; the seed is the case's

  Recipe q, k, v;
  bool backward = false;   // the gradient of the call is asked for
  Recipe d_o;              // of a backward call: dO, of a layer dY
  bool merge = false;      // states are merged: v their o, the bias their lse
  Recipe x, w, bias;       // of a layer: x, all four matrices, all biases
  uint8_t biases = 0;      // of a layer: which ones are given
  bool unbatched = false;  // of a layer: x is [T,D]
  FusedOrder fused = FusedOrder::kNone;  // of a layer: how it is given W_QKV
  int64_t context = 0;   // of a causal layer: C of its mask buffer; 0: none
  int64_t capacity = 0;  // of a story: tokens per sequence
  CacheForm cache;       // of a story
  Story story;
  uint64_t seed = kDefaultSeed;
  uint64_t file = 0;  // fingerprint of what `file` recipes stand for; 0: none
  std::vector<SetValue> set;

  Subject subject() const {
    return is_layer() ? (backward ? Subject::kLayerBackward : Subject::kLayer)
           : !story.empty() ? Subject::kCache
           : backward       ? Subject::kBackward
           : merge          ? Subject::kMerge
                            : Subject::kAttention;
  }
  // A layer or its gradient.
  bool is_layer() const { return shape.D > 0; }
  // Attention and its gradient: what has the options of core/call/options.h. A
  // merge has some: it is attention whose scores are given (core/case/merge.h).
  bool has_options() const { return !is_layer() && story.empty(); }
  friend bool operator==(const Case&, const Case&) = default;
};

// Gives a story's case the Tq and Tk that its story needs.
void constrain_extents_to_story(Case& value);

// The canonical spelling, e.g. "f32,B1,H4,Hkv2,Tq17,Tk33,d64,causal=br,
// k=onehot,seed=7" (one line): fixed key order, defaults left out.
std::string to_string(const Case& value);

struct ParsedCase {
  std::optional<Case> value;
  std::string error;  // one line: what is wrong and what is allowed
};
// Keys in any order. parse_case(to_string(c)).value == c for every valid c.
ParsedCase parse_case(std::string_view text);

// "" or one line that says why no tensors can be made of `value`.
std::string invalid_reason(const Case& value);

// The extents of an input, the first tensor_rank() of the four. Masks and
// biases [B,H,Tq,Tk]; lengths are only known to a Case.
int tensor_rank(TensorName input);
// As a kernel and files have it: slopes of all members alike are [H].
int given_rank(const Case& value, TensorName input);
std::array<int64_t, 4> tensor_extents(const Shape& shape, TensorName input);
// Those that its values have of their own: 1 where a mask or a bias is
// broadcast or k and v are shared. All 0 for an option that the case has not.
std::array<int64_t, 4> tensor_extents(const Case& value, TensorName input);
// The members of a batch or of a packed batch.
int64_t member_count(const Case& value);
// What the input is stored in.
Dtype storage_type(const Case& value, TensorName input);
// What set= calls it: "alibi" for the slopes, tensor_name() for all others.
const char* set_name(TensorName input);

// Rows of member b that count. What lies behind them in q, k and v is NaN and
// must not matter; where k and v are shared along B, behind the longest.
int64_t counted_queries(const Case& value, int64_t b);
int64_t counted_keys(const Case& value, int64_t b);

inline constexpr int kLayerInputCount = 9;

// The inputs of a case: exact in double, and as the kernel gets them. Those
// that the case does not have are empty.
struct Inputs {
  std::vector<double> q;  // [B,H,Tq,d], rounded to storage
  std::vector<double> k;  // [B,Hkv,Tk,d]
  std::vector<double> v;  // [B,Hkv,Tk,dv]
  std::vector<std::byte> q_bytes, k_bytes, v_bytes;  // in the storage types
  // x, w_q, ..., b_o, in the order of TensorName.
  std::array<std::vector<double>, kLayerInputCount> layer;
  std::array<std::vector<std::byte>, kLayerInputCount> layer_bytes;
  // Those, side by side, if the case is fused; and [C,C], nonzero = attend.
  std::vector<std::byte> w_qkv_bytes, b_qkv_bytes;
  std::vector<uint8_t> mask_buffer;
  // For a backward call dO, and what forward() gave, which laws fill in and
  // nothing here.
  std::vector<double> d_o;        // [B,H,Tq,dv], rounded to o's storage
  std::vector<double> given_o;    // the same
  std::vector<double> given_lse;  // [B,H,Tq] f32, f64 where o is f64
  std::vector<std::byte> d_o_bytes, given_o_bytes, given_lse_bytes;
  std::vector<double> d_y;  // of a layer's backward call, [B,T,D]
  std::vector<std::byte> d_y_bytes;
  // Options of attention. Mask and bias in the extents of their own.
  std::vector<uint8_t> mask;   // [B or 1, H or 1, Tq or 1, Tk or 1]
  std::vector<double> bias;    // the same; stored as q is
  std::vector<double> sink;    // [H] f32, f64 where q is f64
  std::vector<double> slopes;  // [H] or [members,H], the same
  std::vector<std::byte> bias_bytes, sink_bytes, slopes_bytes;
  // The tables of a rotation, [rope_rows(), d/2] f32, f64 where q is f64, and
  // the rows of them that queries and keys use.
  std::vector<double> rope_cos, rope_sin;
  std::vector<int64_t> q_positions;  // [B,Tq]
  std::vector<int64_t> k_positions;  // [B,Tk]
  // Of a step on a cache with ALiBi: where its tokens stand.
  std::vector<int64_t> token_places;  // [Tk]
  std::vector<std::byte> rope_cos_bytes, rope_sin_bytes;
  std::vector<std::byte> q_positions_bytes, k_positions_bytes;
  // The scales of a cache that stores codes per channel, [Hkv,d] and [Hkv,dv]:
  // the largest magnitude of the channel is the largest code.
  std::vector<double> k_scale, v_scale;
  std::vector<std::byte> k_scale_bytes, v_scale_bytes;
  // How far the k and v that a cache has stored may be from those above; empty:
  // not at all. For laws, filled by nothing here.
  std::vector<double> k_error, v_error;
  // int64 numbers of the case; with new tokens kv_len counts those in front.
  std::vector<std::byte> q_len_bytes, kv_len_bytes, cu_q_bytes, cu_k_bytes;
  // For a case with pages or new tokens (core/case/paging.h): what k and v are
  // in the call, [pages,Hkv,page,width] or [B,Hkv,Tk,width], the block table,
  // and the tokens to append [B,Hkv,new,width].
  int64_t pages = 0;
  int64_t table_columns = 0;
  int64_t new_tokens = 0;
  std::vector<std::byte> k_cache_bytes, v_cache_bytes, block_table_bytes;
  // In the place of the table and of kv_len, where the case says so.
  int64_t page_entries = 0;
  std::vector<std::byte> page_indptr_bytes, page_indices_bytes;
  std::vector<std::byte> last_page_len_bytes;
  std::vector<std::byte> k_new_bytes, v_new_bytes;
  // Lists of keys (core/case/key_lists.h).
  std::vector<int32_t> key_indices;  // [B,Hkv or 1,Tq,entries]
  std::vector<int32_t> topk_length;  // [B,Tq], where the case has them
  std::vector<std::byte> key_indices_bytes, topk_length_bytes;
  // Masks in a few numbers (core/case/mask_fields.h).
  std::vector<int64_t> segments_q, segments_k;  // [B,Tq], [B,Tk]
  std::vector<int64_t> full_ranges;             // [B,ranges,2]
  std::vector<uint8_t> tree_mask;               // [B,Tq,Tq]
  std::vector<std::byte> segments_q_bytes, segments_k_bytes, full_ranges_bytes;
  // For a merge (core/case/merge.h): the states as a kernel gets them, v and
  // the bias in another order, and the rows that are merged where some are not.
  std::vector<std::byte> states_bytes;      // [Tk,B,H,dv], ragged [S,H,dv]
  std::vector<std::byte> states_lse_bytes;  // [Tk,B,H], ragged [S,H]
  std::vector<std::byte> indptr_bytes;      // [B + 1] int64, where it is ragged
  std::vector<uint8_t> row_mask;            // [B]

  // The values of all inputs but masks, lengths and positions, which are no
  // floating numbers.
  std::vector<double>& values(TensorName input);
  const std::vector<double>& values(TensorName input) const;
  // The bytes of all inputs but masks, whose values are bytes already.
  const std::vector<std::byte>& bytes(TensorName input) const;
};

// Whether this program can make tensors of the type: f64, f32, f16, bf16.
bool can_store(Dtype dtype);

// `value` is valid and all its types can be stored.
Inputs make_inputs(const Case& value);
// Rounds all values to the storage types and fills the bytes from them; for
// laws that edit values. Lengths are the case's.
void store_inputs(const Case& value, Inputs& inputs);

// Finite numbers where the lengths leave NaN, in rows of q, k, v and dO, for a
// kernel that needs them; to be stored again. False: there are no such rows.
// What is finite there stays.
bool put_numbers_beyond_lengths(const Case& value, Inputs& inputs);

// Lengths, or starts of members, as the case's call has them.
void store_lengths(const Case& value, const std::vector<int64_t>& lengths,
                   std::vector<std::byte>& bytes);
// The other way round.
std::vector<int64_t> lengths_in(const Case& value,
                                const std::vector<std::byte>& bytes);
// Whether the call has any.
bool gives_lengths(const Case& value);

// How many positions the tables of a rotation have.
int64_t rope_rows(const Case& value);
// Fills the positions of a rotation alone; nothing if the case has none.
void fill_positions(const Case& value, Inputs& inputs);

// [B,H,Tq,Tk], nonzero = attend, and the bias on scaled scores; empty if the
// case has none. `inputs` are those of `value`.
std::vector<uint8_t> full_mask(const Case& value, const Inputs& inputs);
std::vector<double> full_bias(const Case& value, const Inputs& inputs);

// The call that the case means: this operation with its extents, types, options
// and inputs, as far as the operation has them; outputs beyond o are asked for
// by the caller. It points into `inputs`, which are those of `value`.
KernelCall call_of(const Case& value, const Inputs& inputs,
                   Operation operation);

// A short fingerprint of the stored inputs (FNV-1a, 32 bits): the same case
// must give the same digest on every machine.
uint32_t input_digest(const Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_CASE_H_
