// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/backward_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace qkvet::impl {
namespace {

constexpr double kUnwritten = OptionCall::kUnwritten;
constexpr double kF32Unit = 0x1p-24;
// Where exp underflows: some vector functions give 0 from e^-87 on, some never
// less than 2^-128.
constexpr double kExpFloor = 0x1p-125;

std::vector<int64_t> shape_of(const Problem& p, int64_t heads, int64_t rows,
                              int64_t width) {
  return {p.batch, heads, rows, width};
}

// A row of the forward call, in double.
struct Row {
  std::vector<int64_t> keys;  // that it sees
  std::vector<double> p, dp, slope;
  std::vector<double> dp_size;  // sums of absolute values
  double lse = -std::numeric_limits<double>::infinity();
  double delta = 0, delta_size = 0, largest = 0;
  std::vector<double> o;
};

using Member = OptionCall::Member;

double scaled_score(const OptionCall& call, const Member& m, int64_t h,
                    int64_t i, int64_t j) {
  const Problem& p = call.asked.problem;
  const int64_t kv = h / (p.heads / p.kv_heads);
  double sum = 0;
  for (int64_t c = 0; c < p.width; ++c) {
    sum += double(call.q.get(m.b, h, m.row + i, c)) *
           double(call.k.get(m.b, kv, m.key + j, c));
  }
  return sum * double(p.effective_scale());
}

double slope_at(const Asked& asked, double scaled) {
  if (!asked.has(QKVET_OPTION_SOFTCAP)) {
    return 1;
  }
  const double t = std::tanh(scaled / double(asked.softcap));
  return 1 - t * t;
}

// Keys, p and lse.
void weigh(const OptionCall& call, const Member& m, int64_t h, int64_t i,
           Row* row) {
  std::vector<double> scores;
  for (int64_t j = 0; j < m.keys; ++j) {
    if (call.visible(m, h, i, j, /*complement=*/false)) {
      row->keys.push_back(j);
      scores.push_back(call.score(m, h, i, j, /*cap_last=*/false));
      const double scaled = scaled_score(call, m, h, i, j);
      row->slope.push_back(slope_at(call.asked, scaled));
      row->largest =
          std::max({row->largest, std::fabs(scores.back()), std::fabs(scaled)});
    }
  }
  if (row->keys.empty()) {
    return;
  }
  double sum = call.asked.has(QKVET_OPTION_SINK)
                   ? std::exp(double(call.sink.get(0, 0, 0, h)))
                   : 0;
  for (const double s : scores) {
    sum += std::exp(s);
  }
  row->lse = std::log(sum);
  for (const double s : scores) {
    row->p.push_back(std::exp(s - row->lse));
  }
}

Row row_of(const GradientCall& backward, const Member& m, int64_t h,
           int64_t i) {
  const OptionCall& call = backward.call;
  const Problem& p = call.asked.problem;
  const int64_t kv = h / (p.heads / p.kv_heads);
  Row row;
  weigh(call, m, h, i, &row);
  row.o.resize(size_t(p.value_width));
  for (size_t n = 0; n < row.keys.size(); ++n) {
    double dp = 0, size = 0;
    for (int64_t c = 0; c < p.value_width; ++c) {
      const double v = double(call.v.get(m.b, kv, m.key + row.keys[n], c));
      const double term = double(backward.d_o.get(m.b, h, m.row + i, c)) * v;
      dp += term;
      size += std::fabs(term);
      row.o[size_t(c)] += row.p[n] * v;
    }
    row.dp.push_back(dp);
    row.dp_size.push_back(size);
  }
  for (int64_t c = 0; c < p.value_width; ++c) {
    const double term =
        double(backward.d_o.get(m.b, h, m.row + i, c)) * row.o[size_t(c)];
    row.delta += term;
    row.delta_size += std::fabs(term);
  }
  return row;
}

// Where a row adds to the gradients.
struct Sums {
  const GradientCall& backward;
  GradientTruth* truth;
  double operands;

  const Problem& problem() const { return backward.call.asked.problem; }
  // Terms of relative error `relative`, and of absolute size `size`.
  static void add(std::vector<double>* exact, std::vector<double>* allowed,
                  int64_t at, double term, double size) {
    (*exact)[size_t(at)] += term;
    (*allowed)[size_t(at)] += size;
  }

  void add_row(const Member& m, int64_t h, int64_t i, const Row& row) {
    const Problem& p = problem();
    const OptionCall& call = backward.call;
    Gradients &exact = truth->exact, &allowed = truth->allowed;
    const int64_t kv = h / (p.heads / p.kv_heads);
    const int64_t q_row = (m.b * p.heads + h) * p.queries + m.row + i;
    const double scale = double(p.effective_scale());
    const double u = 16 * kF32Unit *
                     (8 + row.largest + std::fabs(row.lse) +
                      double(p.width + p.value_width) +
                      double(p.queries * p.heads + p.keys));
    // delta is made of the o that is given, which is rounded.
    const double delta_error =
        row.delta_size *
        (u + (call.type == Storage::kF32 ? 0 : 1.01) * unit_of(call.type));
    for (size_t n = 0; n < row.keys.size(); ++n) {
      const int64_t j = m.key + row.keys[n];
      const int64_t k_row = (m.b * p.kv_heads + kv) * p.keys + j;
      const double ds = row.p[n] * (row.dp[n] - row.delta);
      const double ds_error =
          row.p[n] * (u * (row.dp_size[n] + row.delta_size) + delta_error) +
          kExpFloor * (row.dp_size[n] + row.delta_size);
      const double dz = ds * row.slope[n] * scale;
      const double dz_error =
          ds_error * std::fabs(scale) + operands * std::fabs(dz);
      add(&exact.bias, &allowed.bias, q_row * p.keys + j, ds, ds_error);
      for (int64_t c = 0; c < p.width; ++c) {
        const double q = double(call.q.get(m.b, h, m.row + i, c));
        const double k = double(call.k.get(m.b, kv, j, c));
        add(&exact.q, &allowed.q, q_row * p.width + c, dz * k,
            dz_error * std::fabs(k));
        add(&exact.k, &allowed.k, k_row * p.width + c, dz * q,
            dz_error * std::fabs(q));
      }
      for (int64_t c = 0; c < p.value_width; ++c) {
        const double d_o = double(backward.d_o.get(m.b, h, m.row + i, c));
        add(&exact.v, &allowed.v, k_row * p.value_width + c, row.p[n] * d_o,
            ((u + operands) * row.p[n] + kExpFloor) * std::fabs(d_o));
      }
    }
    if (call.asked.has(QKVET_OPTION_SINK) && !row.keys.empty()) {
      const double sink = double(call.sink.get(0, 0, 0, h));
      const double p_sink = std::exp(sink - row.lse);
      add(&exact.sink, &allowed.sink, h, -p_sink * row.delta,
          p_sink * (u * row.delta_size + delta_error));
    }
  }
};

// What is written becomes 0.
void clear(const Problem& p, const Member& m, Gradients* exact) {
  const auto fill = [](std::vector<double>* to, int64_t row, int64_t rows,
                       int64_t width) {
    std::fill_n(to->begin() + row * width, rows * width, 0.0);
  };
  for (int64_t h = 0; h < p.heads; ++h) {
    const int64_t row = (m.b * p.heads + h) * p.queries + m.row;
    fill(&exact->q, row, m.rows, p.width);
    fill(&exact->bias, row, m.rows, p.keys);
  }
  for (int64_t kv = 0; kv < p.kv_heads; ++kv) {
    const int64_t row = (m.b * p.kv_heads + kv) * p.keys + m.key;
    fill(&exact->k, row, m.keys, p.width);
    fill(&exact->v, row, m.keys, p.value_width);
  }
}

Gradients filled(const Problem& p, double value) {
  const auto of = [&](int64_t heads, int64_t rows, int64_t width) {
    return std::vector<double>(size_t(p.batch * heads * rows * width), value);
  };
  return {of(p.heads, p.queries, p.width), of(p.kv_heads, p.keys, p.width),
          of(p.kv_heads, p.keys, p.value_width), of(p.heads, p.queries, p.keys),
          std::vector<double>(size_t(p.heads), 0.0)};
}

// The last rounding, and what is too small for the type.
void allow_storage(const std::vector<double>& exact, Storage type,
                   std::vector<double>* allowed) {
  for (size_t n = 0; n < exact.size(); ++n) {
    (*allowed)[n] += 1.01 * unit_of(type) * std::fabs(exact[n]) +
                     (type == Storage::kF32 ? 1e-37 : 6e-8);
  }
}

}  // namespace

// Arrays of these tests begin at any element: kernels that declare an alignment
// are judged by the laws alone.
std::vector<const qkvet_kernel*> differentiable(bool faulty) {
  return kernels_that(faulty, [](const qkvet_kernel& kernel) {
    return kernel.backward != nullptr && kernel.backward->backward != nullptr &&
           kernel.capabilities->alignment == 0 &&
           OpenKernel(&kernel).status() == QKVET_OK;
  });
}

GradientCall::GradientCall(const Asked& a, Storage type)
    : call(a, type),
      d_o(type,
          shape_of(a.problem, a.problem.heads, a.problem.queries,
                   a.problem.value_width),
          a.problem.layout),
      d_q(type, call.q.shape(), a.problem.layout),
      d_k(type, call.k.shape(), a.problem.layout),
      d_v(type, call.v.shape(), a.problem.layout),
      d_bias(a.bias_in_half ? type : Storage::kF32,
             shape_of(a.problem, a.problem.heads, a.problem.queries,
                      a.problem.keys),
             a.problem.layout),
      d_sink(Storage::kF32, {1, 1, 1, a.problem.heads}) {
  const std::vector<int64_t>& n = d_o.shape();
  uint64_t index = 0;
  for (int64_t b = 0; b < n[0]; ++b) {
    for (int64_t h = 0; h < n[1]; ++h) {
      for (int64_t t = 0; t < n[2]; ++t) {
        for (int64_t c = 0; c < n[3]; ++c) {
          d_o.set(b, h, t, c,
                  2 * any_value(type, 8 * a.problem.seed + 7, ++index));
        }
      }
    }
  }
}

qkvet_backward_args GradientCall::args() {
  const Problem& p = call.asked.problem;
  forward_ = call.args();
  call.o.fill(std::numeric_limits<float>::quiet_NaN());
  call.lse.fill(std::numeric_limits<float>::quiet_NaN());
  for (const OptionCall::Member& m : call.members()) {
    for (int64_t n = 0; n < p.heads * m.rows; ++n) {
      const int64_t h = n / m.rows, i = n % m.rows;
      const Row row = row_of(*this, m, h, i);
      for (int64_t c = 0; c < p.value_width; ++c) {
        call.o.set(m.b, h, m.row + i, c, static_cast<float>(row.o[size_t(c)]));
      }
      call.lse.at(m.b, h, m.row + i) = static_cast<float>(row.lse);
    }
  }
  for (AnyTensor* const out : {&d_q, &d_k, &d_v, &d_bias, &d_sink}) {
    out->fill(OptionCall::kUnwritten);
  }
  qkvet_backward_args args = {};
  args.struct_size = sizeof(args);
  args.forward = &forward_;
  args.d_o = d_o.tensor();
  args.d_q = d_q.tensor();
  args.d_k = d_k.tensor();
  args.d_v = d_v.tensor();
  if (call.asked.has(QKVET_OPTION_BIAS)) {
    args.d_bias = d_bias.tensor();
  }
  if (call.asked.has(QKVET_OPTION_SINK)) {
    args.d_sink = d_sink.tensor(1);
  }
  return args;
}

std::vector<float> GradientCall::outputs() const {
  std::vector<float> all;
  const auto append = [&all](const AnyTensor& t) {
    const std::vector<float> values = t.values();
    all.insert(all.end(), values.begin(), values.end());
  };
  append(d_q);
  append(d_k);
  append(d_v);
  if (call.asked.has(QKVET_OPTION_BIAS)) {
    append(d_bias);
  }
  if (call.asked.has(QKVET_OPTION_SINK)) {
    append(d_sink);
  }
  return all;
}

std::vector<double> flat(const Gradients& g) {
  std::vector<double> all;
  for (const std::vector<double>* part : {&g.q, &g.k, &g.v, &g.bias, &g.sink}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

GradientTruth truth_of(const GradientCall& backward, double operands) {
  const Asked& asked = backward.call.asked;
  const Problem& p = asked.problem;
  GradientTruth truth = {filled(p, kUnwritten), filled(p, 0)};
  for (const Member& m : backward.call.members()) {
    clear(p, m, &truth.exact);
    Sums sums = {backward, &truth, operands};
    for (int64_t n = 0; n < p.heads * m.rows; ++n) {
      const int64_t h = n / m.rows, i = n % m.rows;
      sums.add_row(m, h, i, row_of(backward, m, h, i));
    }
  }
  Gradients &exact = truth.exact, &allowed = truth.allowed;
  const Storage type = backward.call.type;
  allow_storage(exact.q, type, &allowed.q);
  allow_storage(exact.k, type, &allowed.k);
  allow_storage(exact.v, type, &allowed.v);
  allow_storage(exact.bias, asked.bias_in_half ? type : Storage::kF32,
                &allowed.bias);
  for (Gradients* const g : {&exact, &allowed}) {
    g->bias.resize(asked.has(QKVET_OPTION_BIAS) ? g->bias.size() : 0);
    g->sink.resize(asked.has(QKVET_OPTION_SINK) ? g->sink.size() : 0);
  }
  return truth;
}

double loss_of(const GradientCall& backward) {
  const Problem& p = backward.call.asked.problem;
  qkvet_dialect dialect = {};
  dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  const std::vector<double> o_and_lse = backward.call.expected({dialect});
  double sum = 0;
  for (size_t n = 0; n < o_and_lse.size(); ++n) {
    const int64_t row = int64_t(n) / (p.value_width + 1);
    const int64_t c = int64_t(n) % (p.value_width + 1);
    if (c < p.value_width && o_and_lse[n] != kUnwritten) {
      sum += o_and_lse[n] * double(backward.d_o.get(row / p.queries / p.heads,
                                                    row / p.queries % p.heads,
                                                    row % p.queries, c));
    }
  }
  return sum;
}

GradientAnswer run_backward(const qkvet_kernel* kernel,
                            const qkvet_backward_args& args, int32_t threads) {
  GradientAnswer answer;
  Reason reason;
  qkvet_exec exec = {};
  exec.struct_size = sizeof(exec);
  exec.device_type = QKVET_DEVICE_CPU;
  exec.threads = threads;
  exec.deterministic = 1;
  qkvet_context* context = nullptr;
  if (kernel->open != nullptr) {
    EXPECT_EQ(kernel->open(kernel, &exec, &context, nullptr), QKVET_OK);
  }
  answer.status =
      kernel->backward->backward(kernel, context, &args, &exec, &reason.text);
  answer.reason = reason.room;
  if (kernel->close != nullptr) {
    kernel->close(kernel, context);
  }
  return answer;
}

GradientAnswer run_backward(const qkvet_kernel* kernel, GradientCall* call,
                            int32_t threads) {
  GradientAnswer answer = run_backward(kernel, call->args(), threads);
  answer.outputs = call->outputs();
  return answer;
}

int64_t first_error(const std::vector<float>& outputs,
                    const GradientTruth& truth) {
  const std::vector<double> exact = flat(truth.exact);
  const std::vector<double> allowed = flat(truth.allowed);
  EXPECT_EQ(outputs.size(), exact.size());
  for (size_t n = 0; n < std::min(outputs.size(), exact.size()); ++n) {
    const double actual = double(outputs[n]);
    const bool fine = exact[n] == kUnwritten
                          ? actual == kUnwritten
                          : std::fabs(actual - exact[n]) <= allowed[n];
    if (!fine) {
      return int64_t(n);
    }
  }
  return -1;
}

}  // namespace qkvet::impl
