// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

#include <algorithm>
#include <array>

#include "core/case/mask_fields.h"
#include "core/case/option_data.h"
#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace {

using Places = std::vector<int64_t>;

// Some queries and some keys of one member, in ascending order, and the causal
// rule among them.
struct MaskedPart {
  int64_t b = 0;
  Places queries, keys;
  Causal causal = Causal::kNone;
  // The sequence, and its element of the batch: more than once for copies.
  Places members = {b}, elements = {b};
};

Places from_to(int64_t from, int64_t end) {
  Places places;
  for (int64_t n = from; n < end; ++n) places.push_back(n);
  return places;
}

MaskedPart part_of_member(const Case& value, int64_t member) {
  const auto m = static_cast<size_t>(member);
  const bool packed = !value.cu_q.empty();
  if (!packed)
    return {member, from_to(0, counted_queries(value, member)),
            from_to(0, counted_keys(value, member)), value.causal};
  return {.queries = from_to(value.cu_q[m], value.cu_q[m + 1]),
          .keys = from_to(value.cu_k[m], value.cu_k[m + 1]),
          .causal = value.causal,
          .members = {member}};
}

// Keeps the listed places of the extent `axis` of a tensor, in this order. A
// broadcast extent of 1 stays.
template <class Value>
void pick(std::array<int64_t, 4>& extents, size_t axis, bool is_own,
          const Places& places, std::vector<Value>& values) {
  if (!is_own) return;
  int64_t inner = 1, outer = 1;
  for (size_t n = 0; n < 4; ++n)
    (n < axis ? outer : inner) *= n == axis ? 1 : extents[n];
  std::vector<Value> kept;
  for (int64_t n = 0; n < outer; ++n)
    for (const int64_t place : places) {
      const auto at = values.begin() + (n * extents[axis] + place) * inner;
      kept.insert(kept.end(), at, at + inner);
    }
  extents[axis] = static_cast<int64_t>(places.size());
  values = std::move(kept);
}

// [B,heads,rows,width]: some rows of one member.
void pick_rows(const Case& value, TensorName tensor, const Places& elements,
               const Places& rows, std::vector<double>& values) {
  auto extents = tensor_extents(value.shape, tensor);
  pick(extents, 0, true, elements, values);
  pick(extents, 2, true, rows, values);
}

// [B,H,Tq,Tk], as far as the mask or the bias has these extents of its own.
template <class Value>
void pick_pairs(const Case& value, TensorName tensor, uint8_t own,
                const MaskedPart& part, std::vector<Value>& values) {
  if (values.empty()) return;
  auto extents = tensor_extents(value, tensor);
  pick(extents, 0, (own & kOwnB) != 0, part.elements, values);
  pick(extents, 2, (own & kOwnQ) != 0, part.queries, values);
  pick(extents, 3, (own & kOwnK) != 0, part.keys, values);
}

void pick_positions(int64_t B, int64_t T, const Places& elements,
                    const Places& places, std::vector<int64_t>& positions) {
  if (positions.empty()) return;
  std::array<int64_t, 4> extents = {1, 1, B, T};
  pick(extents, 2, true, elements, positions);
  pick(extents, 3, true, places, positions);
}

// A call of its own about that part.
Case part_case(Case value, const MaskedPart& part) {
  value.shape.B = 1;
  value.shape.Tq = static_cast<int64_t>(part.queries.size());
  value.shape.Tk = static_cast<int64_t>(part.keys.size());
  value.q_len.clear();
  value.kv_len.clear();
  value.cu_q.clear();
  value.cu_k.clear();
  value.int32_lengths = false;
  // Kernels that only take [B, T, H, d] get the part in that layout.
  if (value.layout != Layout::kBthd) value.layout = Layout::kBhtd;
  value.share = 0;
  value.member_slopes = false;
  value.set.clear();
  return value;
}

// The inputs of the part, picked out of those of the case, without the mask.
void pick_part(const Case& value, const MaskedPart& part, Inputs& inputs) {
  pick_rows(value, TensorName::kQ, part.elements, part.queries, inputs.q);
  pick_rows(value, TensorName::kK, part.elements, part.keys, inputs.k);
  pick_rows(value, TensorName::kV, part.elements, part.keys, inputs.v);
  pick_pairs(value, TensorName::kBias, value.score_bias_own, part, inputs.bias);
  const Shape& s = value.shape;
  pick_positions(s.B, s.Tq, part.elements, part.queries, inputs.q_positions);
  pick_positions(s.B, s.Tk, part.elements, part.keys, inputs.k_positions);
  if (!value.member_slopes) return;
  auto extents = tensor_extents(value, TensorName::kSlopes);
  pick(extents, 0, true, part.members, inputs.slopes);
}

void pick_with_mask(const Case& value, const MaskedPart& part, Inputs& inputs) {
  pick_part(value, part, inputs);
  pick_pairs(value, TensorName::kMask, value.mask.own, part, inputs.mask);
}

void pick_member(const Case& value, int64_t member, Inputs& inputs) {
  pick_with_mask(value, part_of_member(value, member), inputs);
}

// Maps an element of the case's o and lse to its element in a call about the
// part, of the last copy.
ElementMap place_in(MaskedPart of) {
  return [part = std::move(of)](const Element& at) -> std::optional<Element> {
    const auto found =
        std::find(part.queries.rbegin(), part.queries.rend(), at.i);
    if (at.b != part.b || found == part.queries.rend()) return std::nullopt;
    Element to = at;
    to.b = std::ssize(part.elements) - 1;
    to.i = part.queries.rend() - found - 1;
    return to;
  };
}

// ---- Copies of a member as a batch of the same form

constexpr int64_t kMostCopies = 4;

Places repeated(const Places& places, int64_t copies) {
  Places all;
  for (int64_t n = 0; n < copies; ++n)
    all.insert(all.end(), places.begin(), places.end());
  return all;
}

// With lengths, Tq and Tk stay.
MaskedPart copies_of_member(const Case& value, int64_t member, int64_t copies) {
  MaskedPart part = part_of_member(value, member);
  part.members = repeated(part.members, copies);
  if (value.cu_q.empty()) {
    part.queries = from_to(0, value.shape.Tq);
    part.keys = from_to(0, value.shape.Tk);
    part.elements = part.members;
  } else {
    part.queries = repeated(part.queries, copies);
    part.keys = repeated(part.keys, copies);
  }
  return part;
}

MaskedPart copies_of_argument(const Case& value, int64_t argument) {
  return copies_of_member(value, argument / (kMostCopies + 1),
                          argument % (kMostCopies + 1));
}

void pick_copies(const Case& value, int64_t argument, Inputs& inputs) {
  pick_with_mask(value, copies_of_argument(value, argument), inputs);
}

Case case_of_copies(Case value, const MaskedPart& part) {
  const auto member = static_cast<size_t>(part.members.front());
  const size_t copies = part.members.size();
  value.shape.B = std::ssize(part.elements);
  value.shape.Tq = std::ssize(part.queries);
  value.shape.Tk = std::ssize(part.keys);
  for (auto* lengths : {&value.q_len, &value.kv_len})
    if (!lengths->empty()) lengths->assign(copies, (*lengths)[member]);
  for (auto* starts : {&value.cu_q, &value.cu_k}) {
    if (starts->empty()) continue;
    const int64_t length = (*starts)[member + 1] - (*starts)[member];
    starts->resize(copies + 1);
    for (size_t n = 0; n <= copies; ++n)
      (*starts)[n] = static_cast<int64_t>(n) * length;
  }
  value.set.clear();
  return value;
}

// ---- Parts of a text that a mask separates ----------------------------------

// A part of a row as a planned call requests it, in its argument.
struct AskedPart {
  int64_t b = 0, i = 0;
  bool alone = false;      // as of masked_part()
  bool in_window = false;  // the dialect: a window cuts ranges, too
  FieldPart of = FieldPart::kNone;

  int64_t argument() const {
    return (b << 28 | i) << 4 | static_cast<int64_t>(of) << 2 |
           int64_t{in_window} << 1 | int64_t{alone};
  }
};
AskedPart asked_part(int64_t argument) {
  return {argument >> 32, argument >> 4 & 0xFFFFFFF, (argument & 1) != 0,
          (argument >> 1 & 1) != 0, static_cast<FieldPart>(argument >> 2 & 3)};
}
MaskedPart part_of(const Case& value, const AskedPart& asked);
MaskedPart part_of_argument(const Case& value, int64_t argument) {
  return part_of(value, asked_part(argument));
}

// The parent of a draft in the tree of the case, a mask or a field.
int64_t parent_of(const Case& value, int64_t b, int64_t n) {
  if (value.fields.tree) return parent_in_tree(value, b, n);
  return parent_of_draft(value, (value.mask.own & kOwnB) != 0 ? b : 0, n);
}
// A mask is of all rows and keys, whatever the lengths.
int64_t history_in(const Case& value, int64_t b) {
  return value.fields.tree ? history_of(value, b)
                           : value.shape.Tk - value.shape.Tq;
}

void keep_masked_part(const Case& value, int64_t argument, Inputs& inputs) {
  pick_part(value, part_of_argument(value, argument), inputs);
  inputs.mask.clear();
  inputs.segments_q.clear();
  inputs.segments_k.clear();
  inputs.full_ranges.clear();
  inputs.tree_mask.clear();
}

// Siblings share a position: the history plus their depth. Drafts beyond the
// lengths keep their positions: the tables may end after the last of the
// others.
void stand_by_depth(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  if (inputs.q_positions.empty() || value.rope.random_positions) return;
  for (int64_t b = 0; b < s.B; ++b) {
    const int64_t history = history_in(value, b);
    const int64_t drafts = value.fields.tree ? counted_queries(value, b) : s.Tq;
    std::vector<int64_t> depth;
    for (int64_t n = 0; n < drafts; ++n) {
      const int64_t parent = parent_of(value, b, n);
      depth.push_back(parent < 0 ? 0 : depth[static_cast<size_t>(parent)] + 1);
      const int64_t position =
          value.rope.first + std::max<int64_t>(history, 0) + depth.back();
      inputs.q_positions[static_cast<size_t>(b * s.Tq + n)] = position;
      if (history + n >= 0 && history + n < s.Tk)
        inputs.k_positions[static_cast<size_t>(b * s.Tk + history + n)] =
            position;
    }
  }
}

void edit_masked_part(const Case& value, int64_t argument, Inputs& inputs) {
  const bool is_branch = asked_part(argument).of == FieldPart::kBranch;
  if (value.mask.kind == MaskKind::kTreeN || is_branch)
    stand_by_depth(value, 0, inputs);
  keep_masked_part(value, argument, inputs);
}

Case case_of_part(const Case& value, const MaskedPart& part) {
  Case alone = part_case(value, part);
  alone.mask = {};
  if (alone.fields != MaskFields{} || alone.chunk > 0) alone.window.reset();
  alone.fields = {};
  alone.chunk = 0;
  alone.causal = part.causal;
  alone.append = 0;
  return alone;
}

MaskedPart branch_of(const Case& value, int64_t b, int64_t i, bool alone) {
  const int64_t history = history_in(value, b);
  Places path;
  for (int64_t n = i; n >= 0 && history + n >= 0; n = parent_of(value, b, n))
    path.insert(path.begin(), n);
  MaskedPart part = {b, path, from_to(0, history), Causal::kBottomRight};
  for (const int64_t n : path) part.keys.push_back(history + n);
  if (alone && !path.empty()) part.queries = {i}, part.causal = Causal::kNone;
  return part;
}

// For a case without a mask: all heads see the same.
MaskedPart part_of_fields(const Case& value, const AskedPart& asked) {
  const int64_t b = asked.b, i = asked.i;
  const Visibility visibility(value, asked.in_window);
  if (!visibility.counted(b, i)) return {};
  if (asked.of == FieldPart::kBranch)
    return branch_of(value, b, i, asked.alone);
  MaskedPart part = {b, {i}, {}, Causal::kNone};
  for (int64_t j = 0; j < value.shape.Tk; ++j)
    if (visibility.sees(b, 0, i, j)) part.keys.push_back(j);
  if (asked.of == FieldPart::kRow || part.keys.empty()) return part;
  // Rows of one segment see the same keys, none of them others'.
  part.queries.clear();
  for (int64_t row = 0; row < value.shape.Tq; ++row)
    if (visibility.counted(b, row) &&
        visibility.sees(b, 0, row, part.keys.front()))
      part.queries.push_back(row);
  return part;
}

// The part of a text that row i of member b belongs to, if the mask of the case
// follows a text (MaskKind::kPrefixN and the next). If `alone`, a row that
// would need the causal rule within its part is a part by itself (a step of
// decoding).
MaskedPart masked_part(const Case& value, int64_t b, int64_t i, bool alone) {
  const Shape& s = value.shape;
  const int64_t history = s.Tk - s.Tq, token = i + history;
  const int64_t n = value.mask.parameter;
  const int64_t text = (value.mask.own & kOwnB) != 0 ? b : 0;
  const MaskKind kind = value.mask.kind;
  if (kind == MaskKind::kTreeN) return branch_of(value, b, i, alone);
  // The tokens [from, end), which are the rows of the part, and its first key.
  int64_t from = 0, end = std::min(n, s.Tk), first = 0;
  MaskedPart part = {b, {}, {}, Causal::kNone};
  if (kind == MaskKind::kPrefixN) {
    if (token < end)
      from = history;  // rows before the first token, too
    else
      from = end, end = s.Tk, part.causal = Causal::kBottomRight;
  } else {
    if (token < 0) return part;
    TokenRange range = {0, s.Tk, false};
    if (kind == MaskKind::kChunkN && n > 0)
      range = {token / n * n, std::min(token / n * n + n, s.Tk), false};
    if (kind != MaskKind::kChunkN) range = range_of_token(value, text, token);
    from = range.from, end = range.end;
    first = kind == MaskKind::kRangesN ? 0 : from;
    part.causal = kind != MaskKind::kRangesN ? value.causal
                  : range.both_ways          ? Causal::kNone
                                             : Causal::kBottomRight;
  }
  // Only parts that are not in the case itself need a causal rule, which may be
  // missing.
  const bool is_asked =
      kind == MaskKind::kPrefixN || kind == MaskKind::kRangesN;
  if (alone && is_asked && part.causal != Causal::kNone)
    return {b, {i}, from_to(0, token + 1), Causal::kNone};
  part.queries = from_to(std::max<int64_t>(from - history, 0), end - history);
  part.keys = from_to(first, end);
  return part;
}

MaskedPart part_of(const Case& value, const AskedPart& asked) {
  return asked.of == FieldPart::kNone
             ? masked_part(value, asked.b, asked.i, asked.alone)
             : part_of_fields(value, asked);
}

}  // namespace

Case with_mask_of_text(Case value, MaskKind kind, bool any_causal) {
  Shape& s = value.shape;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (value.mask.kind != kind) {
    const int64_t n = value.mask.parameter;
    const bool is_tree = kind == MaskKind::kTreeN;
    value.mask = {kind, is_tree ? n % 4 : 1 + n % 6, value.mask.own};
  }
  value.mask.own |= kOwnQ | kOwnK;
  if (!any_causal) value.causal = Causal::kNone;
  // Elsewhere a diagonal from the top left is not that of any part.
  if (value.causal == Causal::kTopLeft) s.Tq = s.Tk;
  return value;
}

void plan_parts(const Case& value, const KernelInfo& kernel, FieldPart of,
                Plan& plan) {
  PlannedCall call = plan.calls[0];
  plan.calls.pop_back();
  if ((value.mask.kind == MaskKind::kTreeN || of == FieldPart::kBranch) &&
      value.rope.style != RopeStyle::kNone)
    plan.calls[0].edit = stand_by_depth;
  const Shape& s = value.shape;
  const bool alone = !kernel.has_option(QKVET_OPTION_CAUSAL_BOTTOM_RIGHT);
  call.edit = edit_masked_part;
  std::vector<MaskedPart> parts;
  if (s.B > 0 && s.Tq > 0)
    for (const int64_t i :
         {int64_t{0}, pick_by_seed(value.seed, s.Tq), s.Tq - 1}) {
      const int64_t b = pick_by_seed(value.seed, s.B);
      const AskedPart asked = {b, i, alone, ranges_in_window(kernel.dialect),
                               of};
      MaskedPart part = part_of(value, asked);
      const bool known =
          std::any_of(parts.begin(), parts.end(), [&](const MaskedPart& other) {
            return other.queries == part.queries && other.keys == part.keys;
          });
      if (part.queries.empty() || part.keys.empty() || known) continue;
      call.argument = asked.argument();
      call.variant = case_of_part(value, part);
      plan.calls.push_back(call);
      parts.push_back(std::move(part));
    }
  if (parts.empty()) plan.not_applicable = "no part has queries and keys";
}

void rows_of_part(const JudgeInput& input, CallPair& pair) {
  pair.map = place_in(part_of_argument(
      input.value, input.calls[pair.second].planned->argument));
}

int64_t chosen_member(const Case& value) {
  const int64_t members = member_count(value);
  if (members < 1) return -1;
  const int64_t first = pick_by_seed(value.seed, members);
  for (int64_t n = 0; n < members; ++n) {
    const int64_t member = (first + n) % members;
    const MaskedPart part = part_of_member(value, member);
    if (!part.queries.empty() && !part.keys.empty()) return member;
  }
  return -1;
}

Case with_two_members(Case value) {
  if (value.cu_q.empty()) {
    value.paging = {};  // not every kernel that takes pages takes both
    value.append = 0;
  }
  Shape& s = value.shape;
  s.B = 1;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 1);
  value.cu_q = {0, s.Tq / 2, s.Tq};
  value.cu_k = {0, s.Tk / 2, s.Tk};
  return value;
}

void plan_member(const Case& value, const KernelInfo&, Plan& plan) {
  const int64_t member = chosen_member(value);
  if (member < 0) {
    plan.not_applicable = "no member has queries and keys";
    return;
  }
  PlannedCall& alone = plan.calls[1];
  alone.variant = part_case(value, part_of_member(value, member));
  alone.edit = pick_member;
  alone.argument = member;
}

void plan_mates(const Case& value, const KernelInfo& kernel, Plan& plan) {
  const int64_t member = chosen_member(value);
  PlannedCall call = plan.calls[1];
  plan.calls.pop_back();
  if (!kernel.has_flag(QKVET_FLAG_BATCH_MATES_INVARIANT))
    plan.unsupported = "batch_mates_invariant is not declared";
  if (member < 0) plan.not_applicable = "no member has queries and keys";
  if (member < 0 || !plan.unsupported.empty()) return;
  call.edit = pick_copies;
  for (const int64_t copies : {int64_t{1}, kMostCopies}) {
    call.argument = member * (kMostCopies + 1) + copies;
    call.variant =
        case_of_copies(value, copies_of_argument(value, call.argument));
    plan.calls.push_back(call);
  }
}

void rows_among_copies(const JudgeInput& input, CallPair& pair) {
  const int64_t argument = input.calls[pair.second].planned->argument;
  pair.map = place_in(copies_of_argument(input.value, argument));
  if (argument % (kMostCopies + 1) > 1) pair.second_name = "among its copies";
}

void rows_of_member(const JudgeInput& input, CallPair& pair) {
  pair.map =
      place_in(part_of_member(input.value, input.calls[1].planned->argument));
}

}  // namespace qkvet::properties
