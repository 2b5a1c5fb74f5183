// SPDX-License-Identifier: Apache-2.0
#include "core/door/call_plan.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "core/call/layout.h"
#include "core/call/tensor_table.h"
#include "core/door/guarded.h"

namespace qkvet {
namespace {

// The line of a cache, and the width of the widest vector.
constexpr int64_t kCacheLine = 64;

// Each part is a mapping of its own, of which a process has 65,530, and a
// call's tensors are a dozen.
constexpr int64_t kMostFarParts = 4096;

// Empty extents count as 1 here: they are also factors of strides.
bool countable(int ndim, const Extents& shape) {
  int64_t n = 1;
  for (int i = 0; i < ndim; ++i) {
    const int64_t extent = std::max<int64_t>(shape[i], 1);
    if (extent > kMostElements / n) return false;
    n *= extent;
  }
  return true;
}

struct Row {
  int ndim = 0;
  Dtype dtype = Dtype::kF32;
  Extents shape{};
};

class Rows {
 public:
  Rows(const KernelCall& call, Dtype stage) : call_(call), stage_(stage) {}

  Row& operator[](TensorName tensor) {
    return rows_[static_cast<size_t>(tensor)];
  }
  // As the table has it.
  void add(TensorName tensor) {
    const TensorRow& of = tensor_row(tensor);
    Row& row = (*this)[tensor];
    row.ndim = of.rank();
    row.dtype =
        of.type == TensorType::kStage ? stage_ : stored_type(call_, of.type);
    for (size_t n = 0; n < static_cast<size_t>(row.ndim); ++n)
      row.shape[n] = extent_of(call_, of.extents[n]);
  }
  void add(std::initializer_list<TensorName> tensors) {
    for (const TensorName tensor : tensors) add(tensor);
  }
  // Adds the tensors that the call gives, from the first to the last.
  void add_given(TensorName first, TensorName last) {
    for (auto t = static_cast<int>(first); t <= static_cast<int>(last); ++t)
      if (const auto name = static_cast<TensorName>(t);
          call_.*input_member(name) != nullptr)
        add(name);
  }

 private:
  const KernelCall& call_;
  Dtype stage_;
  std::array<Row, kTensorCount> rows_{};
};

void add_forward(const KernelCall& call, Rows* rows) {
  const Shape& s = call.shape;
  rows->add(TensorName::kQ);
  const bool paged = call.page_size > 0, appends = call.k_new != nullptr;
  const int64_t first = paged ? call.pages : s.B;
  const int64_t tokens = paged ? call.page_size : s.Tk;
  Row& keys = (*rows)[appends ? TensorName::kKCache : TensorName::kK];
  keys = {4, call.kv_dtype, {first, s.Hkv, tokens, s.d}};
  if (const int64_t x = call.channel_group; x > 0)
    keys = {5, call.kv_dtype, {first, s.Hkv, tokens, s.d / x, x}};
  (*rows)[appends ? TensorName::kVCache : TensorName::kV] = {
      4, call.kv_dtype, {first, s.Hkv, tokens, s.dv}};
  rows->add(TensorName::kO);
  if (call.want_lse) rows->add(TensorName::kLse);
  if (call.want_weights) rows->add(TensorName::kWeights);
  if (call.want_dropout_mask) rows->add(TensorName::kDropoutMask);
}

// The outputs of forward() are inputs here.
void add_backward(const KernelCall& call, Rows* rows) {
  add_forward(call, rows);
  (*rows)[TensorName::kO] = {};
  rows->add({TensorName::kDO, TensorName::kGivenO, TensorName::kGivenLse,
             TensorName::kDQ, TensorName::kDK, TensorName::kDV});
  if (call.want_d_bias) rows->add(TensorName::kDBias);
  if (call.want_d_sink) rows->add(TensorName::kDSink);
}

// Slopes of all members alike have one extent.
void add_scores_of_heads(const KernelCall& call, Rows* rows) {
  rows->add_given(TensorName::kSink, TensorName::kSlopes);
  Row& slopes = (*rows)[TensorName::kSlopes];
  if (slopes.ndim == 0) return;
  const int64_t H = call.shape.H;
  slopes = call.member_slopes
               ? Row{2, slopes.dtype, {extent_of(call, Extent::kMembers), H}}
               : Row{1, slopes.dtype, {H}};
}

void add_options(const KernelCall& call, Rows* rows) {
#define QKVET_FORWARD_SCALE(...)
#define QKVET_FORWARD_TENSOR(field, name, options)       \
  if ((options) != 0 && !is_output(TensorName::k##name)) \
    rows->add_given(TensorName::k##name, TensorName::k##name);
#include "qkvet/tensors.def"
  add_scores_of_heads(call, rows);
}

// The positions of a layer are those of its tokens.
void add_rope(const KernelCall& call, Rows* rows) {
  if (call.rope == RopeStyle::kNone) return;
  rows->add({TensorName::kRopeCos, TensorName::kRopeSin});
  rows->add_given(TensorName::kQPositions, TensorName::kKPositions);
}

// The tensors of create() and of read_back().
void add_create(const KernelCall& call, Rows* rows) {
  add_scores_of_heads(call, rows);
  if (call.cache.per_channel())
    rows->add({TensorName::kKScale, TensorName::kVScale});
}

void add_read_back(const KernelCall& call, Rows* rows) {
  const Shape& s = call.shape;
  (*rows)[TensorName::kStageK] = {4, Dtype::kF32, {1, s.Hkv, s.Tk, s.d}};
  (*rows)[TensorName::kStageV] = {4, Dtype::kF32, {1, s.Hkv, s.Tk, s.dv}};
}

// Inputs that a step does not take are absent, not empty.
void add_step(const KernelCall& call, Rows* rows) {
  add_forward(call, rows);
  const Shape& s = call.shape;
  if (s.Tk == 0) (*rows)[TensorName::kK] = (*rows)[TensorName::kV] = {};
  if (s.Tq == 0)
    for (const auto name : {TensorName::kQ, TensorName::kO, TensorName::kLse})
      (*rows)[name] = {};
  // Over the tokens that are held, not those that are appended.
  rows->add_given(TensorName::kMask, TensorName::kBias);
  for (const auto name : {TensorName::kMask, TensorName::kBias})
    (*rows)[name].shape[3] = call.tokens;
}

void add_layer(const KernelCall& call, Rows* rows) {
  const Shape& s = call.shape;
  rows->add({TensorName::kX, TensorName::kWq, TensorName::kWk, TensorName::kWv,
             TensorName::kWo, TensorName::kY});
  rows->add_given(TensorName::kBq, TensorName::kBo);
  rows->add_given(TensorName::kWqkv, TensorName::kMaskBuffer);
  if (call.unbatched)
    for (const auto name : {TensorName::kX, TensorName::kY})
      (*rows)[name] = {2, (*rows)[name].dtype, {s.Tq, s.D}};
  if (call.want_weights) rows->add(TensorName::kWeights);
  if (call.want_stages)
    rows->add({TensorName::kStageQ, TensorName::kStageK, TensorName::kStageV,
               TensorName::kAttended});
}

// Everything but y, and for every input the gradient of its shape.
void add_layer_backward(const KernelCall& call, Rows* rows) {
  add_layer(call, rows);
  (*rows)[TensorName::kDY] = (*rows)[TensorName::kY];
  (*rows)[TensorName::kY] = {};
  constexpr auto kFirst = static_cast<int>(TensorName::kX);
  constexpr auto kLast = static_cast<int>(TensorName::kBo);
  constexpr int kStep = static_cast<int>(TensorName::kDX) - kFirst;
  for (int n = kFirst; n <= kLast; ++n)
    (*rows)[static_cast<TensorName>(n + kStep)] =
        (*rows)[static_cast<TensorName>(n)];
}

// The state in o and lse is not among the others.
void add_merge(const KernelCall& call, Rows* rows) {
  const Shape& s = call.shape;
  const Dtype lse = stored_type(call, TensorType::kLse);
  if (call.indptr != nullptr) {
    (*rows)[TensorName::kStates] = {
        3, call.kv_dtype, {call.total_states, s.H, s.dv}};
    (*rows)[TensorName::kStatesLse] = {2, lse, {call.total_states, s.H}};
    (*rows)[TensorName::kIndptr] = {1, Dtype::kInt64, {s.B + 1}};
  } else {
    const int64_t others = s.Tk - (call.in_place ? 1 : 0);
    (*rows)[TensorName::kStates] = {4, call.kv_dtype, {others, s.B, s.H, s.dv}};
    (*rows)[TensorName::kStatesLse] = {3, lse, {others, s.B, s.H}};
  }
  rows->add_given(TensorName::kRowMask, TensorName::kRowMask);
  (*rows)[TensorName::kO] = {3, call.o_dtype, {s.B, s.H, s.dv}};
  (*rows)[TensorName::kLse] = {2, lse, {s.B, s.H}};
}

// The tensors of a call without its mistake.
Rows right_rows(const KernelCall& call, Dtype stage) {
  Rows rows(call, stage);
  switch (call.operation) {
    case Operation::kForward:
      add_forward(call, &rows);
      add_options(call, &rows);
      break;
    case Operation::kBackward:
      add_backward(call, &rows);
      add_options(call, &rows);
      break;
    case Operation::kLayer:
      add_layer(call, &rows);
      break;
    case Operation::kLayerBackward:
      add_layer_backward(call, &rows);
      break;
    case Operation::kMerge:
      add_merge(call, &rows);
      break;
    case Operation::kCacheStep:
      add_step(call, &rows);
      break;
    case Operation::kCacheCreate:
      add_create(call, &rows);
      break;
    case Operation::kCacheReadBack:
      add_read_back(call, &rows);
      break;
    default:  // no tensors
      break;
  }
  add_rope(call, &rows);
  return rows;
}

// The lengths, or starts of members, in which a mistake is made.
TensorName lengths_of(const KernelCall& call) {
  if (call.cu_q != nullptr) return TensorName::kCuQ;
  return call.kv_len != nullptr ? TensorName::kKvLen : TensorName::kQLen;
}

void add_mistake(const KernelCall& call, Rows* rows) {
  const bool layer = call.operation == Operation::kLayer;
  const bool packed = call.cu_q != nullptr;
  switch (call.mistake) {
    case Mistake::kKeyWidth:
      if (layer)
        ++(*rows)[TensorName::kWk].shape[1];
      else
        ++(*rows)[TensorName::kK].shape[3];
      break;
    case Mistake::kValueAbsent:
      (*rows)[TensorName::kV] = {};
      break;
    case Mistake::kHeads:
      if (!layer) ++(*rows)[TensorName::kV].shape[1];
      break;
    case Mistake::kInputRows:
      if (layer)
        ++(*rows)[TensorName::kWq].shape[0];
      else
        ++(*rows)[TensorName::kV].shape[2];
      break;
    case Mistake::kOutputRows:
      ++(*rows)[TensorName::kWo].shape[0];
      break;
    case Mistake::kBiasExtent:
      if (layer)
        ++(*rows)[TensorName::kBq].shape[0];
      else
        ++(*rows)[TensorName::kBias].shape[3];
      break;
    case Mistake::kMaskExtent:
      ++(*rows)[TensorName::kMask].shape[3];
      break;
    case Mistake::kKeyListsExtent:
      ++(*rows)[TensorName::kKeyIndices].shape[2];
      break;
    case Mistake::kTopkLengthExtent:
      ++(*rows)[TensorName::kTopkLength].shape[1];
      break;
    case Mistake::kSegmentsExtent:
      ++(*rows)[TensorName::kSegmentsK].shape[1];
      break;
    case Mistake::kSegmentsAbsent:
      (*rows)[TensorName::kSegmentsK] = {};
      break;
    case Mistake::kFullRangesExtent:
      ++(*rows)[TensorName::kFullRanges].shape[2];
      break;
    case Mistake::kTreeMaskExtent:
      ++(*rows)[TensorName::kTreeMask].shape[1];
      ++(*rows)[TensorName::kTreeMask].shape[2];
      break;
    case Mistake::kSlopesExtent:
      ++(*rows)[TensorName::kSlopes].shape[0];
      break;
    case Mistake::kLengthsExtent:
      ++(*rows)[packed ? TensorName::kCuQ : TensorName::kQLen].shape[0];
      break;
    case Mistake::kFusedWidth:
      ++(*rows)[TensorName::kWqkv].shape[1];
      break;
    case Mistake::kLengthsType:
      (*rows)[lengths_of(call)].dtype = Dtype::kF32;
      break;
    case Mistake::kLengthsRank: {
      Row& row = (*rows)[lengths_of(call)];
      row = {2, row.dtype, {row.shape[0], 1}};
      break;
    }
    case Mistake::kNone:
    case Mistake::kUnknownField:  // no tensor's
    case Mistake::kOffsetsFall:   // only changed numbers, or one tensor more
    case Mistake::kOffsetsStart:
    case Mistake::kOffsetsEnd:
    case Mistake::kLengthNegative:
    case Mistake::kLengthBeyond:
    case Mistake::kBothForms:
    case Mistake::kPagesFall:
    case Mistake::kPagesStart:
    case Mistake::kPagesEnd:
    case Mistake::kLastPageEmpty:
    case Mistake::kLastPageBeyond:
    case Mistake::kBothTables:
      break;
  }
}

// Whether q, k and v of the call are the parts of one block: the same number of
// rows, one width and one type, without pools, views or tensors enlarged by a
// mistake.
bool are_one_block(const KernelCall& call) {
  return call.layout == Layout::kPacked && takes_options(call.operation) &&
         fit_one_block(call.shape, call.q_dtype, call.kv_dtype) &&
         call.page_size == 0 && call.k_new == nullptr && call.share == 0 &&
         !call.values_in_keys && call.mistake == Mistake::kNone;
}

// Kernels that take q, k and v in one block get them in one, at q's place.
void plan_block(const KernelCall& call, const KernelInfo& kernel,
                CallPlan* plan) {
  if (!are_one_block(call) ||
      (kernel.capabilities.layouts & QKVET_LAYOUT_PACKED_QKV) == 0)
    return;
  const Shape& s = call.shape;
  const TensorSpec block =
      packed_spec(call.q_dtype, 3, {s.B, s.Tq, (s.H + 2 * s.Hkv) * s.d});
  const Place place =
      place_tensor(block, call.placement, kernel.capabilities.alignment);
  const int64_t element = dtype_bytes(call.q_dtype);
  constexpr auto kOwner = static_cast<int32_t>(TensorName::kQ);
  const std::pair<TensorName, int64_t> parts[] = {
      {TensorName::kQ, 0},
      {TensorName::kK, s.H * s.d},
      {TensorName::kV, (s.H + s.Hkv) * s.d}};
  for (const auto& [name, first] : parts) {
    const auto t = static_cast<size_t>(name);
    Place& part = plan->places[t];
    part = place;
    if (block.elements() > 0) part.start += first * element;
    if (name == TensorName::kQ) continue;
    part.within = kOwner;
    part.bytes = plan->tensors[t].span_bytes();
  }
}

// Values in keys have the place and the steps of the keys.
void plan_values(const KernelCall& call, CallPlan* plan) {
  if (!call.values_in_keys) return;
  constexpr auto k = static_cast<size_t>(TensorName::kK);
  constexpr auto v = static_cast<size_t>(TensorName::kV);
  TensorSpec& spec = plan->tensors[v];
  spec.strides = plan->tensors[k].strides;
  Place& place = plan->places[v];
  place = plan->places[k];
  place.within = static_cast<int32_t>(TensorName::kK);
  place.bytes = spec.span_bytes();
}

// Parts have no memory of their own; a mistake in one is its view's.
void plan_parts(const KernelCall& call, Rows* rows, CallPlan* plan) {
  plan->fused = call.fused;
  if (call.fused == FusedOrder::kNone) return;
  const Shape& s = call.shape;
  const auto columns = [&s](Extent extent) { return *extent_of(s, extent); };
  const auto first = fused_columns(
      call.fused, {columns(Extent::kQColumns), columns(Extent::kKColumns),
                   columns(Extent::kVColumns)});
  for (size_t n = 0; n < plan->parts.size(); ++n) {
    TensorPart& part = plan->parts[n];
    part = part_of_fused(n, first[n % 3]);
    Row& row = (*rows)[part.name];
    if (row.ndim > 0 && countable(row.ndim, row.shape))
      part.spec = packed_spec(row.dtype, row.ndim, row.shape);
    if (row.ndim == 2) part.spec.strides[0] = (*rows)[part.whole].shape[1];
    make_unit_strides_absurd(part.spec);
    row = {};
  }
}

void plan_scalars(const KernelCall& call, CallPlan* plan) {
  const Shape& s = call.shape;
  static_cast<ScoreRule&>(*plan) = call;
  plan->operation = call.operation;
  plan->page_size = call.page_size;
  plan->channel_group = call.channel_group;
  plan->key_block_size = call.listed.block > 1 ? call.listed.block : 0;
  plan->rope = call.rope;
  plan->dropout = call.dropout.value_or(Dropout{});
  plan->threads = call.threads;
  plan->fresh_memory = call.fresh_memory;
  plan->at_once = call.at_once;
  plan->repeats = call.repeats;
  plan->second_context = call.second_context;
  plan->plan_use = call.plan_use;
  plan->plan_slot = std::clamp(call.plan_slot, 0, kMostPlans - 1);
  plan->in_place = call.in_place;
  plan->stream = call.placement == Placement::kEndAligned;
  plan->heads = s.H + (call.mistake == Mistake::kHeads ? 1 : 0);
  plan->unknown_field = call.mistake == Mistake::kUnknownField;
  plan->kv_heads = s.Hkv;
  plan->d = s.d;
  plan->dv = s.dv;
  plan->q_dtype = call.q_dtype;
  plan->kv_dtype = call.kv_dtype;
  plan->o_dtype = call.o_dtype;
  if (call.operation == Operation::kCacheCreate) plan->sequences = s.B;
  plan->sequence = call.sequence;
  plan->tokens = call.tokens;
  plan->first = call.first;
  plan->other = call.other;
  std::copy_n(call.parents.begin(),
              std::min(call.parents.size(), plan->parents.size()),
              plan->parents.begin());
  plan->cache = call.cache;
}

}  // namespace

int64_t window_bytes(int size_class) { return page_bytes() << size_class; }

Place place_tensor(const TensorSpec& spec, Placement placement,
                   int64_t alignment) {
  const int64_t size = spec.span_bytes();
  Place place;
  place.bytes = size;
  while (window_bytes(place.size_class) < size) ++place.size_class;
  if (placement == Placement::kStart) return place;
  int64_t step = std::max(alignment, dtype_bytes(spec.dtype));
  if (placement == Placement::kEndAligned) step = std::max(step, kCacheLine);
  place.start = (window_bytes(place.size_class) - size) / step * step;
  return place;
}

Place place_far(TensorSpec& spec, size_t axis, Placement placement,
                int64_t alignment) {
  TensorSpec part = spec;
  part.shape[axis] = 1;
  Place place = place_tensor(part, placement, alignment);
  const int64_t room = window_bytes(place.size_class);
  place.far_axis = static_cast<int32_t>(axis);
  place.far_stride = spec.strides[axis];
  spec.strides[axis] = room / dtype_bytes(spec.dtype);
  while (window_bytes(place.size_class) < spec.shape[axis] * room)
    ++place.size_class;
  place.bytes = spec.span_bytes();
  return place;
}

TensorSpec CallPlan::seen(size_t tensor) const {
  TensorSpec spec = tensors[tensor];
  if (is_far(tensor))
    spec.strides[static_cast<size_t>(places[tensor].far_axis)] =
        places[tensor].far_stride;
  return spec;
}

bool CallPlan::has_far() const {
  return std::any_of(places.begin(), places.end(),
                     [](const Place& place) { return place.far_stride > 0; });
}

int64_t CallPlan::parts_of(size_t tensor) const {
  const auto axis = static_cast<size_t>(places[tensor].far_axis);
  return is_far(tensor) ? tensors[tensor].shape[axis] : 1;
}

int64_t CallPlan::part_offset(size_t tensor, int64_t part) const {
  return part * places[tensor].far_stride * dtype_bytes(tensors[tensor].dtype);
}

int64_t CallPlan::part_bytes(size_t tensor) const {
  TensorSpec part = tensors[tensor];
  if (is_far(tensor))
    part.shape[static_cast<size_t>(places[tensor].far_axis)] = 1;
  return part.span_bytes();
}

int64_t CallPlan::kernel_room(size_t tensor) const {
  const Place& place = places[tensor];
  if (!is_far(tensor)) return window_bytes(place.size_class);
  const TensorSpec& spec = tensors[tensor];
  const auto axis = static_cast<size_t>(place.far_axis);
  return part_offset(tensor, spec.shape[axis] - 1) +
         spec.strides[axis] * dtype_bytes(spec.dtype);
}

// An offset that was cut to 32 bits, with or without a sign, stays within the
// guards of parts that are far apart.
int64_t CallPlan::kernel_guard(size_t tensor) const {
  return is_far(tensor)
             ? (int64_t{1} << 31) * dtype_bytes(tensors[tensor].dtype)
             : guard_bytes();
}

int64_t CallPlan::window_total() const {
  int64_t total = 0;
  for (int t = 0; t < kTensorCount; ++t)
    if (has_window_of_its_own(static_cast<size_t>(t)))
      total += window_bytes(places[t].size_class);
  return total;
}

bool plan_call(const KernelCall& call, const KernelInfo& kernel, CallPlan* plan,
               std::string* why) {
  Rows rows = right_rows(call, kernel.stage_dtype(call.q_dtype));
  add_mistake(call, &rows);
  *plan = {};
  plan_parts(call, &rows, plan);
  for (int t = 0; t < kTensorCount; ++t) {
    const Row& row = rows[static_cast<TensorName>(t)];
    if (row.ndim == 0) continue;
    TensorSpec& spec = plan->tensors[t];
    const auto name = static_cast<TensorName>(t);
    const bool fits = countable(row.ndim, row.shape);
    std::optional<size_t> far;
    if (fits) {
      spec = packed_spec(row.dtype, row.ndim, row.shape);
      lay_out(call, name, spec);
      far = far_dimension(call, name, spec);
    }
    if (far && spec.shape[*far] > kMostFarParts) {
      *why = std::string(tensor_name(name)) + " has " +
             std::to_string(spec.shape[*far]) + " parts, and at most " +
             std::to_string(kMostFarParts) + " are put far apart";
      return false;
    }
    Place& place = plan->places[t];
    const int64_t alignment = kernel.capabilities.alignment;
    if (far) place = place_far(spec, *far, call.placement, alignment);
    if (!fits || spec.span_bytes() > window_bytes(kSizeClassCount - 1)) {
      *why = std::string(tensor_name(name)) + " is too large for any memory";
      return false;
    }
    if (!far) place = place_tensor(spec, call.placement, alignment);
  }
  plan_block(call, kernel, plan);
  plan_values(call, plan);
  plan_scalars(call, plan);
  if (call.placement == Placement::kStart)
    plan->byte_offset =
        std::max<int64_t>(kCacheLine, kernel.capabilities.alignment);
  return true;
}

const std::byte* content_of(const KernelCall& call, TensorName tensor) {
  if (is_cache(tensor)) return tensor == TensorName::kKCache ? call.k : call.v;
  if (call.operation == Operation::kMerge && call.in_place) {
    if (tensor == TensorName::kO) return call.given_o;
    if (tensor == TensorName::kLse) return call.given_lse;
  }
  return is_output(tensor) ? nullptr : call.*input_member(tensor);
}

TensorSpec given_part(const KernelCall& call, TensorName tensor,
                      const TensorSpec& planned) {
  TensorSpec given = planned;
  if (call.mistake != Mistake::kNone)
    if (const Row row = right_rows(call, planned.dtype)[tensor];
        row.ndim == planned.ndim)
      given.shape = row.shape;
  if (tensor == TensorName::kMask || tensor == TensorName::kBias) {
    const uint8_t broadcast = broadcast_dimensions(call, tensor);
    for (size_t i = 0; i < 4; ++i)
      if ((broadcast >> i & 1) != 0)
        given.shape[i] = std::min<int64_t>(given.shape[i], 1);
  }
  return given;
}

}  // namespace qkvet
