// SPDX-License-Identifier: Apache-2.0
// Heads, keys, batch elements and states in another order: none is special.
#include <algorithm>
#include <utility>

#include "properties/calls/gradient_calls.h"
#include "properties/calls/member_part.h"
#include "properties/calls/merge_calls.h"
#include "properties/calls/permutations.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_order {

// With pages, another order of members is another place of their tokens.
uint64_t in_pages(const Case& value) {
  return value.paging.size > 0 ? QKVET_FLAG_PAGE_PLACEMENT_INVARIANT : 0;
}

// ---- Heads

void move_heads(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  permute_heads(value, s.group(), s.Tq * s.d, inputs.q);
  permute_heads(value, 1, s.Tk * s.d, inputs.k);
  permute_heads(value, 1, s.Tk * s.dv, inputs.v);
}

void find_head(const JudgeInput& input, CallPair& pair) {
  pair.map = [&value = input.value](Element at) {
    at.h = place_of_head(value, at.h);
    return std::optional(at);
  };
}

// ---- Heads and batch elements of gradients

// Lengths stay where they are, and so do the members that they belong to; a
// packed batch is one member.
bool members_move(const Case& value) {
  return value.shape.B > 1 && value.q_len.empty() && value.kv_len.empty();
}

uint64_t where_members_move(const Case& value) {
  return members_move(value) ? QKVET_FLAG_BATCH_INVARIANT : 0;
}

void move_where_owned(const Case& value, Inputs& inputs) {
  const auto [members, heads, rows, columns] =
      tensor_extents(value, TensorName::kBias);
  if (heads > 1)
    permute_heads(value, value.shape.group(), rows * columns, inputs.bias);
  if (members > 1 && members_move(value)) permute_members(value, inputs.bias);
  permute_heads(value, value.shape.group(), 1, inputs.sink);
  permute_heads(value, value.shape.group(), 1, inputs.slopes);
  if (value.member_slopes && members_move(value))
    permute_members(value, inputs.slopes);
}

void move_all(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  move_heads(value, 0, inputs);
  permute_heads(value, s.group(), s.Tq * s.dv, inputs.d_o);
  if (members_move(value))
    for (auto* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_o})
      permute_members(value, *tensor);
  move_where_owned(value, inputs);
}

// Bounds are wide for gradients of sums that cancel, and of one weight that is
// nearly 1.
Case with_movable_gradients(Case value) {
  value = with_moderate_data(std::move(value));
  for (Recipe* recipe : {&value.v, &value.d_o})
    if (recipe->kind == RecipeKind::kCancellingN)
      *recipe = make_recipe(RecipeKind::kNormal);
  if (value.slopes) value.slopes = make_recipe(RecipeKind::kSmall);
  return members_move(value) ? value : with_two_kv_heads(std::move(value));
}

void find_gradient(const JudgeInput& input, CallPair& pair) {
  const Case& value = input.value;
  const bool bitwise =
      claims_same_bits(input.kernel, QKVET_FLAG_HEAD_ORDER_INVARIANT |
                                         where_members_move(value));
  pair.map = [&value, bitwise](const Element& at) -> std::optional<Element> {
    const bool of_keys =
        at.tensor == TensorName::kDK || at.tensor == TensorName::kDV;
    Element to = at;
    to.h = of_keys ? place_of_kv_head(value, at.h) : place_of_head(value, at.h);
    if (!members_move(value)) return to;
    if (at.tensor != TensorName::kDSink)
      to.b = place_of_member(value, at.b);
    else if (bitwise)
      return std::nullopt;  // a sum over members, in another order
    return to;
  };
}

// ---- Keys

Case without_positions(Case value) {
  value.causal = Causal::kNone;
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  return value;
}

void move_keys(const Case& value, int64_t, Inputs& inputs) {
  permute_keys(value, value.shape.d, inputs.k);
  permute_keys(value, value.shape.dv, inputs.v);
  if ((value.score_bias_own & kOwnK) != 0) permute_keys(value, 1, inputs.bias);
}

void find_weight(const JudgeInput& input, CallPair& pair) {
  pair.map = [&value = input.value](Element at) {
    if (at.tensor == TensorName::kWeights) at.x = place_of_key(value, at.x);
    return std::optional(at);
  };
}

void find_key_gradient(const JudgeInput& input, CallPair& pair) {
  pair.map = [&value = input.value](Element at) {
    if (at.tensor == TensorName::kDK || at.tensor == TensorName::kDV)
      at.i = place_of_key(value, at.i);
    if (at.tensor == TensorName::kDBias) at.x = place_of_key(value, at.x);
    return std::optional(at);
  };
}

// ---- Batch elements

void move_members(const Case& value, int64_t, Inputs& inputs) {
  for (std::vector<double>* tensor : {&inputs.q, &inputs.k, &inputs.v})
    permute_members(value, *tensor);
  if (value.member_slopes) permute_members(value, inputs.slopes);
}

void find_member(const JudgeInput& input, CallPair& pair) {
  pair.map = [&value = input.value](Element at) {
    at.b = place_of_member(value, at.b);
    return std::optional(at);
  };
}

// ---- Members of a packed batch, from the last to the first, with their keys,
// and with their rows of lengths and block table if keys are in pages.

using Starts = std::vector<int64_t>;

// The starts of the members in the opposite order.
Starts turned(const Starts& starts) {
  Starts out = starts;
  for (size_t n = 0; n < starts.size(); ++n)
    out[n] = starts.back() - starts[starts.size() - 1 - n];
  return out;
}

// The new place of row i; rows after the last member stay.
int64_t place_of_row(const Starts& starts, int64_t i) {
  if (i >= starts.back()) return i;
  const auto next = std::upper_bound(starts.begin(), starts.end(), i);
  return starts.back() - *next + (i - *(next - 1));
}

// [heads, rows, width].
void turn_rows(const Starts& starts, int64_t rows, int64_t width,
               std::vector<double>& values) {
  const std::vector<double> from = values;
  const auto all =
      static_cast<int64_t>(from.size()) / std::max<int64_t>(width, 1);
  for (int64_t row = 0; row < all; ++row) {
    const int64_t head = row / rows;
    const int64_t to = head * rows + place_of_row(starts, row % rows);
    std::copy_n(from.begin() + row * width, width, values.begin() + to * width);
  }
}

Case with_packed_members(Case value) {
  return value.cu_q.size() > 2 ? value : with_two_members(value);
}

Case with_mates(Case value) {
  if (!value.cu_q.empty()) return with_packed_members(std::move(value));
  value = with_two_in_batch(std::move(value));
  // Lengths that a smaller batch has do not come back: shrinking ends.
  for (auto* lengths : {&value.q_len, &value.kv_len})
    if (std::ssize(*lengths) != value.shape.B) lengths->clear();
  return value;
}

void turn_starts(Case& value) {
  value.cu_q = turned(value.cu_q);
  value.cu_k = turned(value.cu_k);
  value.set.clear();
}

void turn_members(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  turn_rows(value.cu_q, s.Tq, s.d, inputs.q);
  turn_rows(value.cu_k, s.Tk, s.d, inputs.k);
  turn_rows(value.cu_k, s.Tk, s.dv, inputs.v);
  if (!value.member_slopes) return;
  const std::vector<double> slopes = inputs.slopes;
  const int64_t members = member_count(value);
  for (int64_t m = 0; m < members; ++m)
    std::copy_n(slopes.begin() + m * s.H, s.H,
                inputs.slopes.begin() + (members - 1 - m) * s.H);
}

void find_turned_row(const JudgeInput& input, CallPair& pair) {
  pair.map = [&starts = input.value.cu_q](Element at) {
    at.i = place_of_row(starts, at.i);
    return std::optional(at);
  };
}

// ---- States of a merge

// The last state of a row becomes the first one, and so on.
void turn_states(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    const int64_t first = place_of_state(s, t, h, 0);
    const int64_t count = counted_keys(value, t);
    for (int64_t n = 0; n < count / 2; ++n) {
      const int64_t a = first + n, b = first + count - 1 - n;
      std::swap(inputs.bias[static_cast<size_t>(a)],
                inputs.bias[static_cast<size_t>(b)]);
      std::swap_ranges(inputs.v.begin() + a * s.dv,
                       inputs.v.begin() + (a + 1) * s.dv,
                       inputs.v.begin() + b * s.dv);
    }
  });
}

constexpr Law kRows[] = {
    {.id = "permuted_heads_permute_output",
     .sentence =
         "Heads permuted together permute the output: no head is special.",
     .formula = "forward(P q, P k, P v) = P forward(q, k, v), P over heads",
     .precondition = "two key/value heads; no sink, slopes or mask per head",
     .reason = "Every head is computed by the same formula from its own data.",
     .rounding = "Bit for bit where the kernel declares head_order_invariant; "
                 "else each side within its own bound.",
     .kept_for = "(d) it needs no oracle: a wrong map from query heads to "
                 "key/value heads does not commute with permutations",
     .rank = 220,
     .domain = {.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_LENGTHS |
                          QKVET_OPTION_PACKED | QKVET_OPTION_SOFTCAP |
                          kOptionLayout | kAllowServing},
     .constrain = with_two_kv_heads,
     .relation = {.first = "heads in order",
                  .second = "heads permuted",
                  .looks = "where a head stands decides what it computes",
                  .edit = move_heads,
                  .claim = QKVET_FLAG_HEAD_ORDER_INVARIANT,
                  .pair = find_head}},
    {.id = "permuted_keys_change_nothing",
     .sentence = "Without a mask the order of the keys is nothing: keys and "
                 "values permuted together give the same.",
     .formula = "forward(q, P k, P v) = forward(q, k, v)",
     .precondition = "nothing depends on positions; at least two keys",
     .reason = "Sums over keys do not depend on their order.",
     .rounding = kNeverBitwise,
     .kept_for = kWrongAlike,
     .rank = 210,
     .domain = {.allows =
                    QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | kAllowMemory},
     .constrain = without_positions,
     .relation = {.first = "keys in order",
                  .second = "keys permuted",
                  .looks = "where a key stands decides what it is worth",
                  .edit = move_keys,
                  .weights = true,
                  .pair = find_weight}},
    {.id = "permuted_members_permute_output",
     .sentence =
         "Batch members permuted permute the output: no member is special.",
     .formula = "forward(P q, P k, P v) = P forward(q, k, v), P over the batch",
     .precondition = "two batch members; no mask or lengths per member",
     .reason =
         "Every member is computed by the same formula from its own data.",
     .rounding = kBatchInvariant,
     .kept_for = "(d) it needs no oracle",
     .rank = 230,
     .domain = {.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_SOFTCAP |
                          QKVET_OPTION_SINK | QKVET_OPTION_ALIBI |
                          kOptionLayout | kAllowServing},
     .constrain = with_two_in_batch,
     .relation = {.first = "members in order",
                  .second = "members permuted",
                  .looks =
                      "where a batch member stands decides what it computes",
                  .edit = move_members,
                  .claim = QKVET_FLAG_BATCH_INVARIANT,
                  .also_claim = in_pages,
                  .pair = find_member}},
    {.id = "packed_order_changes_nothing",
     .sentence = "In which order the members of a packed batch stand changes "
                 "nothing: their rows move with them.",
     .formula =
         "forward(members m, ..., 1) = the rows of forward(members 1, ..., m)",
     .precondition =
         "a packed batch of two members; no mask, bias or positions",
     .reason =
         "Every member is computed by the same formula from its own data.",
     .rounding = kBatchInvariant,
     .kept_for = kBitwiseIfClaimed,
     .rank = 445,
     .domain = {.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_PACKED |
                          QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                          QKVET_OPTION_ALIBI | kOptionLayout | kAllowServing,
                .about = QKVET_OPTION_PACKED | QKVET_OPTION_PACKED_PAGES},
     .constrain = with_packed_members,
     .relation = {.first = "members in order",
                  .second = "from the last to the first",
                  .looks =
                      "where a packed member stands decides what it computes",
                  .variant = turn_starts,
                  .edit = turn_members,
                  .claim = QKVET_FLAG_BATCH_INVARIANT,
                  .also_claim = in_pages,
                  .pair = find_turned_row}},
    {.id = "batch_mates_change_nothing",
     .sentence = "A sequence is what it is alone, and among copies of itself: "
                 "neither the number nor the lengths of the others in its "
                 "batch change a bit.",
     .formula = "forward(members 1, ..., m)[n] = forward(member n) = "
                "forward(member n, n, n, n)[4]",
     .precondition = "the kernel declares batch_mates_invariant; a batch of "
                     "two members",
     .reason = kSameOperations,
     .rounding = "Bit for bit, in pages if the kernel also declares "
                 "page_placement_invariant; else each side within its own "
                 "bound.",
     .kept_for = kBitwiseIfClaimed,
     .rank = 235,
     .domain = {.allows = kAllowPairs | kAllowScores | QKVET_OPTION_ROPE |
                          kOptionLayout | kAllowServing,
                .about = QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED |
                         QKVET_OPTION_PACKED_PAGES},
     .constrain = with_mates,
     .relation = {.first = "in its batch",
                  .second = "alone",
                  .looks =
                      "the others in a batch choose the order of sums of a row",
                  .claim = QKVET_FLAG_BATCH_MATES_INVARIANT,
                  .also_claim = in_pages,
                  .more_plan = plan_mates,
                  .pair = rows_among_copies}},
    {.id = "permuted_heads_permute_gradients",
     .sentence = "Heads and batch members permuted together permute the "
                 "gradients: none is special.",
     .formula = "backward(P q, P k, P v, P dO) = P backward(q, k, v, dO), P "
                "over heads and members",
     .precondition = "two members or two key/value heads; no mask",
     .reason = "Every head of every member is computed by the same formula "
               "from its own data.",
     .rounding = "Bit for bit where the kernel declares head_order_invariant "
                 "and, where members move, batch_invariant; else each side "
                 "within its own bound.",
     .kept_for = "(d) it needs no oracle: a wrong map from query heads to "
                 "key/value heads does not commute with permutations",
     .rank = 40,
     .domain = {.subject = Subject::kBackward,
                .free_data = false,
                .allows = QKVET_OPTION_WINDOW | QKVET_OPTION_LENGTHS |
                          QKVET_OPTION_PACKED | kAllowScores | kOptionLayout},
     .constrain = with_movable_gradients,
     .relation =
         {.first = "heads in order",
          .second = "heads permuted",
          .looks = "where a head or member stands decides what its gradient is",
          .edit = move_all,
          .claim = QKVET_FLAG_HEAD_ORDER_INVARIANT,
          .also_claim = where_members_move,
          .pair = find_gradient}},
    {.id = "permuted_keys_permute_gradients",
     .sentence = "Without a mask keys and values permuted together permute dk, "
                 "dv and the columns of dbias, and leave dq and dsink.",
     .formula = "dk(P k, P v) = P dk(k, v), dv alike, dq(P k, P v) = dq(k, v)",
     .precondition = "nothing depends on positions; at least two keys",
     .reason = "Every key adds the same term to the loss, wherever it stands.",
     .rounding = "Each side is within its own bound of the same number; never "
                 "bitwise: dq is a sum over keys.",
     .kept_for = kWrongAlike,
     .rank = 50,
     .domain = {.subject = Subject::kBackward,
                .allows = QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
                          QKVET_OPTION_SINK | kOptionLayout},
     .constrain = without_positions,
     .relation = {.first = "keys in order",
                  .second = "keys permuted",
                  .looks = "where a key stands decides what its gradient is",
                  .edit = move_keys,
                  .pair = find_key_gradient}},
    {.id = "order_of_states_changes_nothing",
     .sentence = "The order of the states is nothing.",
     .formula = "merge(a, b) = merge(b, a)",
     .precondition = "two states",
     .reason = "Sums do not depend on their order.",
     .rounding = kNeverBitwise,
     .kept_for = kWrongAlike,
     .rank = 60,
     .domain = {.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
     .constrain = with_states<2>,
     .relation = {.first = "states in order",
                  .second = "states in the other order",
                  .looks = "where a state stands decides what it is worth",
                  .edit = turn_states}},
};

}  // namespace of_order

extern constinit const LawTable order_laws{of_order::kRows};

}  // namespace qkvet::properties
