// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/options_fixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace qkvet::impl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr qkvet_dtype kBool = {QKVET_DTYPE_BOOL, 8, 1};
constexpr qkvet_dtype kInt64 = {QKVET_DTYPE_INT, 64, 1};
// Rows that no mask empties by chance are wanted too.
constexpr uint64_t kHiddenOfTen = 4;

std::vector<int64_t> own_extents(const Problem& p, uint8_t own) {
  return {(own & kOwnB) != 0 ? p.batch : 1, (own & kOwnH) != 0 ? p.heads : 1,
          (own & kOwnQ) != 0 ? p.queries : 1, (own & kOwnK) != 0 ? p.keys : 1};
}

// Strides of a tensor that is broadcast where it has no extent of its own.
void set_strides(const qkvet_tensor& t, uint8_t own, int64_t* strides) {
  for (int axis = 0; axis < 4; ++axis) {
    const bool has = (own >> axis & 1) != 0 && t.shape[axis] > 1;
    strides[axis] = has ? t.strides[axis] : 0;
  }
}

void fill_with(AnyTensor* t, Storage type, uint64_t seed, float factor) {
  const std::vector<int64_t>& n = t->shape();
  uint64_t index = 0;
  for (int64_t a = 0; a < n[0]; ++a) {
    for (int64_t b = 0; b < n[1]; ++b) {
      for (int64_t c = 0; c < n[2]; ++c) {
        for (int64_t d = 0; d < n[3]; ++d) {
          t->set(a, b, c, d, factor * any_value(type, seed, ++index));
        }
      }
    }
  }
}

int64_t slope_rows(const Asked& a) {
  if (!a.has(QKVET_OPTION_ALIBI_PER_MEMBER)) {
    return 1;
  }
  return a.cu_q.empty() ? a.problem.batch
                        : static_cast<int64_t>(a.cu_q.size()) - 1;
}

}  // namespace

std::string Asked::text() const {
  std::ostringstream out;
  out << problem.text() << ",options" << std::hex << options << std::dec
      << ",own" << int(own) << ",left" << left << ",right" << right;
  for (const auto& [name, list] :
       {std::pair{",qlen", &q_len}, std::pair{",kvlen", &kv_len},
        std::pair{",cuq", &cu_q}, std::pair{",cuk", &cu_k}}) {
    for (const int64_t n : *list) {
      out << name << n;
    }
  }
  return out.str();
}

OptionCall::OptionCall(const Asked& a, Storage storage)
    : asked(a),
      type(storage),
      q(storage,
        {a.problem.batch, a.problem.heads, a.problem.queries, a.problem.width},
        a.problem.layout),
      k(storage,
        {a.problem.batch, a.problem.kv_heads, a.problem.keys, a.problem.width},
        a.problem.layout),
      v(storage,
        {a.problem.batch, a.problem.kv_heads, a.problem.keys,
         a.problem.value_width},
        a.problem.layout),
      o(storage,
        {a.problem.batch, a.problem.heads, a.problem.queries,
         a.problem.value_width},
        a.problem.layout),
      lse({a.problem.batch, a.problem.heads, a.problem.queries},
          a.problem.layout, Placement::kEndFlush),
      bias(a.bias_in_half ? storage : Storage::kF32,
           own_extents(a.problem, a.own)),
      mask(own_extents(a.problem, a.own), Layout::kBhtd, Placement::kEndFlush,
           kBool),
      sink(storage, {1, 1, 1, a.problem.heads}),
      slopes(Storage::kF32, {1, 1, slope_rows(a), a.problem.heads}) {
  const uint64_t seed = 8 * a.problem.seed;
  fill_with(&q, type, seed, 2);
  fill_with(&k, type, seed + 1, 2);
  fill_with(&v, type, seed + 2, 2);
  fill_with(&bias, a.bias_in_half ? type : Storage::kF32, seed + 3, 2);
  fill_with(&sink, type, seed + 4, 2);
  fill_with(&slopes, Storage::kF32, seed + 5, 0.25f);
  const std::vector<int64_t>& n = mask.shape();
  uint64_t index = 0;
  for (int64_t b = 0; b < n[0]; ++b) {
    for (int64_t h = 0; h < n[1]; ++h) {
      for (int64_t i = 0; i < n[2]; ++i) {
        for (int64_t j = 0; j < n[3]; ++j) {
          const bool hidden =
              hash(seed + 6, ++index) % 10 < kHiddenOfTen || i == a.empty_row;
          mask.at(b, h, i, j) = hidden ? 0 : 1;
        }
      }
    }
  }
  set_strides(mask.tensor(), a.own, mask_strides_);
  set_strides(bias.tensor(), a.own, bias_strides_);
  const int64_t shape[] = {a.problem.batch, a.problem.heads, a.problem.queries,
                           a.problem.keys};
  std::copy(shape, shape + 4, one_shape_);
  lengths_[0] = a.q_len;
  lengths_[1] = a.kv_len;
  lengths_[2] = a.cu_q;
  lengths_[3] = a.cu_k;
}

qkvet_forward_args OptionCall::args() {
  o.fill(kUnwritten);
  lse.fill(kUnwritten);
  qkvet_forward_args args = {};
  args.struct_size = sizeof(args);
  args.q = q.tensor();
  args.k = k.tensor();
  args.v = v.tensor();
  args.o = o.tensor();
  args.lse = lse.tensor();
  args.scale = asked.problem.scale;
  args.scale_given = asked.problem.scale_given;
  args.causal = asked.problem.causal;
  args.has_window = asked.has(QKVET_OPTION_WINDOW);
  args.window_left = asked.left;
  args.window_right = asked.right;
  args.softcap = asked.has(QKVET_OPTION_SOFTCAP) ? asked.softcap : 0;
  const auto broadcast = [this](qkvet_tensor t, int64_t* strides) {
    t.shape = one_shape_;
    t.strides = strides;
    return t;
  };
  if (asked.has(QKVET_OPTION_MASK)) {
    args.mask = broadcast(mask.tensor(), mask_strides_);
  }
  if (asked.has(QKVET_OPTION_BIAS)) {
    args.bias = broadcast(bias.tensor(), bias_strides_);
  }
  if (asked.has(QKVET_OPTION_SINK)) {
    args.sink = sink.tensor(1);
  }
  if (asked.has(QKVET_OPTION_ALIBI)) {
    const bool per_member = asked.has(QKVET_OPTION_ALIBI_PER_MEMBER);
    args.slopes = slopes.tensor(per_member ? 2 : 1);
  }
  qkvet_tensor* const to[] = {&args.q_len, &args.kv_len, &args.cu_seqlens_q,
                              &args.cu_seqlens_k};
  for (int n = 0; n < 4; ++n) {
    if (!lengths_[n].empty()) {
      length_shape_[n] = static_cast<int64_t>(lengths_[n].size());
      to[n]->data = lengths_[n].data();
      to[n]->device_type = QKVET_DEVICE_CPU;
      to[n]->ndim = 1;
      to[n]->dtype = kInt64;
      to[n]->shape = &length_shape_[n];
      to[n]->strides = &length_stride_;
    }
  }
  return args;
}

std::vector<float> OptionCall::outputs() const {
  const Problem& p = asked.problem;
  std::vector<float> all;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < p.queries; ++i) {
        for (int64_t c = 0; c < p.value_width; ++c) {
          all.push_back(o.get(b, h, i, c));
        }
        all.push_back(lse.at(b, h, i));
      }
    }
  }
  return all;
}

std::vector<OptionCall::Member> OptionCall::members() const {
  const Problem& p = asked.problem;
  std::vector<Member> list;
  for (size_t n = 0; n + 1 < asked.cu_q.size(); ++n) {
    list.push_back({0, asked.cu_q[n], asked.cu_q[n + 1] - asked.cu_q[n],
                    asked.cu_k[n], asked.cu_k[n + 1] - asked.cu_k[n],
                    static_cast<int64_t>(n)});
  }
  for (int64_t b = 0; asked.cu_q.empty() && b < p.batch; ++b) {
    const auto at = static_cast<size_t>(b);
    list.push_back({b, 0, asked.q_len.empty() ? p.queries : asked.q_len[at], 0,
                    asked.kv_len.empty() ? p.keys : asked.kv_len[at], b});
  }
  return list;
}

bool OptionCall::visible(const Member& m, int64_t h, int64_t i, int64_t j,
                         bool complement) const {
  const int64_t d =
      asked.problem.causal == QKVET_CAUSAL_TOP_LEFT ? 0 : m.keys - m.rows;
  if (asked.problem.causal != QKVET_CAUSAL_NONE && j > i + d) {
    return false;
  }
  if (asked.has(QKVET_OPTION_WINDOW) &&
      ((asked.left >= 0 && j < i + d - asked.left) ||
       (asked.right >= 0 && j > i + d + asked.right))) {
    return false;
  }
  if (!asked.has(QKVET_OPTION_MASK)) {
    return true;
  }
  const uint8_t own = asked.own;
  const bool attend =
      mask.at((own & kOwnB) != 0 ? m.b : 0, (own & kOwnH) != 0 ? h : 0,
              (own & kOwnQ) != 0 ? m.row + i : 0,
              (own & kOwnK) != 0 ? m.key + j : 0) != 0;
  return attend != complement;
}

double OptionCall::score(const Member& m, int64_t h, int64_t i, int64_t j,
                         bool cap_last) const {
  const Problem& p = asked.problem;
  const int64_t kv = h / (p.heads / p.kv_heads);
  double s = 0;
  for (int64_t c = 0; c < p.width; ++c) {
    s += double(q.get(m.b, h, m.row + i, c)) *
         double(k.get(m.b, kv, m.key + j, c));
  }
  s *= double(p.effective_scale());
  const double cap = asked.has(QKVET_OPTION_SOFTCAP) ? asked.softcap : 0;
  if (cap > 0 && !cap_last) {
    s = cap * std::tanh(s / cap);
  }
  if (asked.has(QKVET_OPTION_BIAS)) {
    const uint8_t own = asked.own;
    s += double(bias.get((own & kOwnB) != 0 ? m.b : 0,
                         (own & kOwnH) != 0 ? h : 0,
                         (own & kOwnQ) != 0 ? m.row + i : 0,
                         (own & kOwnK) != 0 ? m.key + j : 0));
  }
  if (cap > 0 && cap_last) {
    s = cap * std::tanh(s / cap);
  }
  if (asked.has(QKVET_OPTION_ALIBI)) {
    const int64_t d = p.causal == QKVET_CAUSAL_TOP_LEFT ? 0 : m.keys - m.rows;
    const int64_t row = asked.has(QKVET_OPTION_ALIBI_PER_MEMBER) ? m.number : 0;
    s -= double(slopes.get(0, 0, row, h)) * std::fabs(double(i + d - j));
  }
  return s;
}

// Writes o [dv] and lse of a row.
void OptionCall::expect_row(const Member& m, int64_t h, int64_t i,
                            const Expect& expect, double* to) const {
  const Problem& p = asked.problem;
  const qkvet_dialect& d = expect.dialect;
  const int64_t kv = h / (p.heads / p.kv_heads), dv = p.value_width;
  const bool cap_last = d.softcap_order == QKVET_SOFTCAP_AFTER_MASK;
  const bool masked = asked.has(QKVET_OPTION_MASK);
  const int32_t empty_o =
      masked && d.empty_row_by_mask != 0 ? d.empty_row_by_mask : d.empty_row;
  const int32_t empty_lse = masked && d.empty_row_lse_by_mask != 0
                                ? d.empty_row_lse_by_mask
                                : d.empty_row_lse;
  double keys = 0;  // sum of exp(score): the scores here are small
  std::vector<double> sums(static_cast<size_t>(dv)), plain(sums);
  bool empty = true;
  for (int64_t j = 0; j < m.keys; ++j) {
    const bool sees = visible(m, h, i, j, expect.complement);
    const double w = sees ? std::exp(score(m, h, i, j, cap_last)) : 0;
    keys += w;
    empty = empty && !sees;
    for (int64_t c = 0; c < dv; ++c) {
      const double value = double(v.get(m.b, kv, m.key + j, c));
      sums[size_t(c)] += sees ? w * value : 0;
      plain[size_t(c)] += value / double(m.keys);
    }
  }
  const double sunk =
      asked.has(QKVET_OPTION_SINK) ? std::exp(double(sink.get(0, 0, 0, h))) : 0;
  for (int64_t c = 0; c < dv; ++c) {
    to[c] = !empty                            ? sums[size_t(c)] / (keys + sunk)
            : empty_o == QKVET_EMPTY_ROW_NAN  ? kNan
            : empty_o == QKVET_EMPTY_ROW_MEAN ? plain[size_t(c)]
                                              : 0;
  }
  const bool counts = d.sink_in_lse != QKVET_SINK_NOT_IN_LSE;
  const double base = d.lse_base == QKVET_LSE_BASE2 ? std::log(2.0) : 1;
  to[dv] = !empty ? std::log(keys + (counts ? sunk : 0)) / base
           : empty_lse == QKVET_EMPTY_LSE_NAN      ? kNan
           : empty_lse == QKVET_EMPTY_LSE_PLUS_INF ? kInfinity
                                                   : -kInfinity;
}

std::vector<double> OptionCall::expected(const Expect& expect) const {
  const Problem& p = asked.problem;
  const int64_t row = p.value_width + 1;
  std::vector<double> all(
      static_cast<size_t>(p.batch * p.heads * p.queries * row), kUnwritten);
  for (const Member& m : members()) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < m.rows; ++i) {
        const int64_t at = (m.b * p.heads + h) * p.queries + m.row + i;
        expect_row(m, h, i, expect, &all[static_cast<size_t>(at * row)]);
      }
    }
  }
  return all;
}

void OptionCall::poison(bool masked_too) {
  const Problem& p = asked.problem;
  const int64_t group = p.heads / p.kv_heads;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t j = 0; j < p.keys; ++j) {
      for (int64_t kv = 0; kv < p.kv_heads; ++kv) {
        bool inside = false, seen = false;
        for (const Member& m : members()) {
          if (m.b != b || j < m.key || j >= m.key + m.keys) {
            continue;
          }
          inside = true;
          for (int64_t n = 0; n < group * m.rows; ++n) {
            seen = seen || visible(m, kv * group + n % group, n / group,
                                   j - m.key, false);
          }
        }
        for (int64_t c = 0; !inside || (masked_too && !seen); ++c) {
          if (c >= std::max(p.width, p.value_width)) {
            break;
          }
          constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
          if (c < p.width) {
            k.set(b, kv, j, c, kPoison);
          }
          if (c < p.value_width) {
            v.set(b, kv, j, c, kPoison);
          }
        }
      }
    }
  }
}

}  // namespace qkvet::impl
