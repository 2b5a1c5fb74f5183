// SPDX-License-Identifier: Apache-2.0
// The Case: everything that determines one call, or one story of calls, in one
// text spelling.
#ifndef QKVET_CORE_CASE_CASE_H_
#define QKVET_CORE_CASE_CASE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
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

// The subject of a case: attention on q, k and v; a KV cache; a layer from X to
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
  std::array<int64_t, 4> index{};      // tensor_rank() of them are used
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
  // The values are the first dv channels of the keys, in the same memory.
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
  bool backward = false;   // the gradient of the call is requested
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
  uint64_t file = 0;  // fingerprint for its `file` recipes; 0: none
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
  // Attention and its gradient have the options of core/call/options.h. A merge
  // has some of them: it is attention with given scores (core/case/merge.h).
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

// "" or one line with the reason why no tensors can be made of `value`.
std::string invalid_reason(const Case& value);

// The extents of an input, the first tensor_rank() of the four. Masks and
// biases [B,H,Tq,Tk]; lengths are only known to a Case.
int tensor_rank(TensorName input);
// As a kernel and files have it: slopes of all members alike are [H].
int given_rank(const Case& value, TensorName input);
std::array<int64_t, 4> tensor_extents(const Shape& shape, TensorName input);
// Whether the case has the input, for inputs that the spelling of a case
// determines; pages, new tokens and states of a merge are others.
bool has_tensor(const Case& value, TensorName input);
// The extents that its values have of their own: 1 where a mask or a bias is
// broadcast or k and v are shared. All 0 for an option that the case has not.
std::array<int64_t, 4> tensor_extents(const Case& value, TensorName input);
// The members of a batch or of a packed batch.
int64_t member_count(const Case& value);
// The storage type of the input.
Dtype storage_type(const Case& value, TensorName input);
// The name of the input in set=: "alibi" for the slopes, tensor_name() for all
// others.
const char* set_name(TensorName input);

// Rows of member b that count. The rows after them in q, k and v are NaN and
// must not matter; where k and v are shared along B, the rows after the longest
// member.
int64_t counted_queries(const Case& value, int64_t b);
int64_t counted_keys(const Case& value, int64_t b);

// x, W_Q, ..., b_O.
inline constexpr TensorName kLayerInputs[] = {
    TensorName::kX,  TensorName::kWq, TensorName::kWk,
    TensorName::kWv, TensorName::kWo, TensorName::kBq,
    TensorName::kBk, TensorName::kBv, TensorName::kBo};

// The inputs of a case, as core/call/tensors.def has them: exact, as doubles,
// integers or bytes of a mask, and the bytes that the kernel gets (of a mask
// its values). Those that the case does not have are empty. given_o and
// given_lse are for laws to fill, and so are k_error and v_error.
struct Inputs {
#define QKVET_HOLD_kBytes(member) std::vector<std::byte> member##_bytes;
#define QKVET_HOLD_kValues(member) \
  std::vector<double> member;      \
  QKVET_HOLD_kBytes(member)
#define QKVET_HOLD_kNumbers(member) \
  std::vector<int64_t> member;      \
  QKVET_HOLD_kBytes(member)
#define QKVET_HOLD_kShortNumbers(member) \
  std::vector<int32_t> member;           \
  QKVET_HOLD_kBytes(member)
#define QKVET_HOLD_kMask(member) std::vector<uint8_t> member;
#define QKVET_INPUT(name, member, text, data, ...) QKVET_HOLD_##data(member)
#include "core/call/tensors.def"
#undef QKVET_HOLD_kBytes
#undef QKVET_HOLD_kValues
#undef QKVET_HOLD_kNumbers
#undef QKVET_HOLD_kShortNumbers
#undef QKVET_HOLD_kMask

  // The positions of the tokens that a step on a cache with ALiBi sees: [Tk].
  std::vector<int64_t> token_places;
  // How far the k and v that a cache has stored may be from those above; empty:
  // not at all.
  std::vector<double> k_error, v_error;
  // For a case with pages or new tokens (core/case/paging.h): what k and v are
  // in the call, [pages,Hkv,page,width] or [B,Hkv,Tk,width].
  std::vector<std::byte> k_cache_bytes, v_cache_bytes;
  int64_t pages = 0;
  int64_t table_columns = 0;
  int64_t page_entries = 0;
  int64_t new_tokens = 0;

  // The values of an input that has doubles.
  std::vector<double>& values(TensorName input);
  const std::vector<double>& values(TensorName input) const;
  // The bytes of any input.
  std::span<const std::byte> bytes(TensorName input) const;
};

// Calls visit(values) with the doubles, integers or bytes of a mask that an
// input has; does not call it for an input that only has bytes.
template <class Visit>
void visit_values(Inputs& inputs, TensorName input, Visit visit) {
#define QKVET_VISIT_kBytes(member)
#define QKVET_VISIT_kValues(member) visit(inputs.member);
#define QKVET_VISIT_kNumbers QKVET_VISIT_kValues
#define QKVET_VISIT_kShortNumbers QKVET_VISIT_kValues
#define QKVET_VISIT_kMask QKVET_VISIT_kValues
  switch (input) {
#define QKVET_INPUT(name, member, text, data, ...) \
  case TensorName::k##name:                        \
    QKVET_VISIT_##data(member) break;
#include "core/call/tensors.def"
    default:
      break;
  }
#undef QKVET_VISIT_kBytes
#undef QKVET_VISIT_kValues
#undef QKVET_VISIT_kNumbers
#undef QKVET_VISIT_kShortNumbers
#undef QKVET_VISIT_kMask
}

// Whether this program can make tensors of the type: f64, f32, f16, bf16.
bool can_store(Dtype dtype);

// `value` is valid and all its types can be stored.
Inputs make_inputs(const Case& value);
// Rounds all values to the storage types and fills the bytes from them; for
// laws that edit values. Lengths are the case's.
void store_inputs(const Case& value, Inputs& inputs);

// Replaces the NaN beyond the lengths, in rows of q, k, v and dO, by finite
// numbers, for a kernel that needs them; the inputs must be stored again.
// Finite values there stay. False: there are no such rows.
bool put_numbers_beyond_lengths(const Case& value, Inputs& inputs);

// Lengths, or starts of members, as the case's call has them.
void store_lengths(const Case& value, const std::vector<int64_t>& lengths,
                   std::vector<std::byte>& bytes);
// The inverse.
std::vector<int64_t> lengths_in(const Case& value,
                                std::span<const std::byte> bytes);
// Whether the call has any.
bool gives_lengths(const Case& value);

// How many positions the tables of a rotation have.
int64_t rope_rows(const Case& value);
// How many channels a rotation turns; 0 without one.
int64_t rope_channels(const Case& value);
// Fills only the positions of a rotation; does nothing if the case has none.
void fill_positions(const Case& value, Inputs& inputs);

// [B,H,Tq,Tk], nonzero = attend, and the bias on scaled scores; empty if the
// case has none. `inputs` are those of `value`.
std::vector<uint8_t> full_mask(const Case& value, const Inputs& inputs);
std::vector<double> full_bias(const Case& value, const Inputs& inputs);

// The call of the case: this operation with its extents, types, options and
// inputs, as far as the operation has them. The caller requests outputs beyond
// o. The call points into `inputs`, which are those of `value`.
KernelCall call_of(const Case& value, const Inputs& inputs,
                   Operation operation);

// A short fingerprint of the stored inputs (FNV-1a, 32 bits): the same case
// must give the same digest on every machine.
uint32_t input_digest(const Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_CASE_H_
