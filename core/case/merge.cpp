// SPDX-License-Identifier: Apache-2.0
#include "core/case/merge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "core/base/half.h"
#include "core/case/case_options.h"

namespace qkvet {
namespace {

// The bytes of one element.
size_t bytes_of(Dtype dtype) { return static_cast<size_t>(dtype_bytes(dtype)); }

// Appends `count` elements, from number `first` on.
void append(const std::vector<std::byte>& from, size_t element, int64_t first,
            int64_t count, std::vector<std::byte>& to) {
  const auto begin = from.begin() + static_cast<ptrdiff_t>(first) *
                                        static_cast<ptrdiff_t>(element);
  to.insert(
      to.end(), begin,
      begin + static_cast<ptrdiff_t>(count) * static_cast<ptrdiff_t>(element));
}

// Calls visit(row, state) in the order of the states in memory: all first ones,
// then all second ones, or row by row where the numbers differ.
template <class Visit>
void for_each_state(const Case& c, Visit visit) {
  const Shape& s = c.shape;
  if (c.kv_len.empty()) {
    for (int64_t n = 0; n < s.Tk; ++n)
      for (int64_t t = 0; t < s.B; ++t) visit(t, n);
    return;
  }
  for (int64_t t = 0; t < s.B; ++t)
    for (int64_t n = 0; n < counted_keys(c, t); ++n) visit(t, n);
}

const std::byte* given(const std::byte* data) {
  static constexpr std::byte kNothing{};
  return data == nullptr ? &kNothing : data;
}

}  // namespace

void constrain_to_merge(Case& c) {
  Shape& s = c.shape;
  s.Tq = s.d = 1;
  s.Hkv = s.H;
  if ((c.kv_dtype == Dtype::kF64) != (c.o_dtype == Dtype::kF64))
    c.o_dtype = c.kv_dtype;
  c.q_dtype = c.kv_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  c.q = c.k = make_recipe(RecipeKind::kZero);
  if (!c.score_bias) c.score_bias = Recipe{};
  c.score_bias_own = kOwnAll;
  c.causal = Causal::kNone;
  c.scale.reset();
  if (c.layout == Layout::kPacked) c.layout = Layout::kBthd;
}

std::string merge_reason(const Case& c) {
  if (!c.merge) return "";
  if (c.subject() != Subject::kMerge)
    return "a merge is no layer, no story and no gradient";
  Case nearest = c;
  for (const CaseOption& option : case_options())
    if (option.key != "bias" && option.key != "kvlen" &&
        option.key != "layout" && option.given(c))
      return "a merge has no " + std::string(option.key) +
             "=; allowed beside it: bias= kvlen= layout=";
  if (c.layout == Layout::kPacked)
    return "layout=packed: a merge has no q, k and v in one block; allowed: "
           "bthd gaps apart";
  constrain_to_merge(nearest);
  if (nearest.q_dtype != c.q_dtype || nearest.o_dtype != c.o_dtype)
    return "the lse of a merge are f32, f64 where states and o are (q=f32," +
           std::string("kv=f16,o=f16)");
  return nearest == c ? ""
                      : "a merge has B, H, Tk and dv, bias= without extents "
                        "behind it, v=, and nothing else of attention";
}

void fill_merge(const Case& c, Inputs& inputs) {
  if (!c.merge) return;
  const Shape& s = c.shape;
  inputs.states_bytes.clear();
  inputs.states_lse_bytes.clear();
  for_each_state(c, [&](int64_t t, int64_t n) {
    for (int64_t h = 0; h < s.H; ++h) {
      const int64_t at = (t * s.H + h) * s.Tk + n;
      append(inputs.v_bytes, bytes_of(c.kv_dtype), at * s.dv, s.dv,
             inputs.states_bytes);
      append(inputs.bias_bytes, bytes_of(c.q_dtype), at, 1,
             inputs.states_lse_bytes);
    }
  });
  if (!c.kv_len.empty()) {
    std::vector<int64_t> indptr = {0};
    for (int64_t t = 0; t < s.B; ++t)
      indptr.push_back(indptr.back() + counted_keys(c, t));
    inputs.indptr_bytes.resize(indptr.size() * sizeof(int64_t));
    std::memcpy(inputs.indptr_bytes.data(), indptr.data(),
                inputs.indptr_bytes.size());
  }
  inputs.row_mask.clear();
  for (int64_t t = 0; t < s.B; ++t)
    inputs.row_mask.push_back(
        random_bits(c.seed, TensorName::kRowMask, t, 0, 0, 0) >> 63 & 1);
}

void fill_merge_in_base2(const Case& c, Inputs& inputs) {
  std::vector<double>& bias = inputs.bias;
  const std::vector<std::byte> natural = inputs.bias_bytes;
  for (size_t n = 0; n < bias.size(); ++n) {
    const double most =
        c.q_dtype == Dtype::kF64
            ? std::numeric_limits<double>::max()
            : static_cast<double>(std::numeric_limits<float>::max());
    // The largest of one base is beyond the other; an empty state stays one.
    double scaled = bias[n] * std::numbers::log2e;
    if (std::isfinite(bias[n])) scaled = std::clamp(scaled, -most, most);
    const double in_base2 = round_to(c.q_dtype, scaled);
    bias[n] = in_base2 * std::numbers::ln2;
    const auto stored = static_cast<float>(in_base2);
    if (c.q_dtype == Dtype::kF64)
      std::memcpy(inputs.bias_bytes.data() + n * sizeof in_base2, &in_base2,
                  sizeof in_base2);
    else
      std::memcpy(inputs.bias_bytes.data() + n * sizeof stored, &stored,
                  sizeof stored);
  }
  fill_merge(c, inputs);
  inputs.bias_bytes = natural;
}

void fill_merge_call(const Case& c, const Inputs& inputs, bool in_place,
                     KernelCall& call) {
  const Shape& s = c.shape;
  call.layout = c.layout;
  call.states = given(inputs.states_bytes.data());
  call.states_lse = given(inputs.states_lse_bytes.data());
  if (!c.kv_len.empty()) {
    call.indptr = inputs.indptr_bytes.data();
    call.total_states = 0;
    for (int64_t t = 0; t < s.B; ++t) call.total_states += counted_keys(c, t);
  }
  call.in_place = in_place;
  if (!in_place) return;
  call.given_o = call.states;
  call.given_lse = call.states_lse;
  call.states += static_cast<size_t>(s.B * s.H * s.dv) * bytes_of(c.kv_dtype);
  call.states_lse += static_cast<size_t>(s.B * s.H) * bytes_of(c.q_dtype);
}

}  // namespace qkvet
