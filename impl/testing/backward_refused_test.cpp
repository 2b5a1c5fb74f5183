// SPDX-License-Identifier: Apache-2.0
// Gradients that contradict themselves, or that a kernel does not know, are
// refused with the name of what is wrong, and nothing is written.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "impl/testing/backward_fixture.h"
#include "impl/testing/options_problems.h"

namespace qkvet::impl::backward_refused_test {
namespace {

struct Mistake {
  const char* reason;  // a part of it
  qkvet_status status;
  std::function<void(qkvet_backward_args&, qkvet_forward_args&, GradientCall&)>
      make;
};

// Mistakes in the call below; `other` has other extents.
std::vector<Mistake> mistakes() {
  using A = qkvet_backward_args;
  using F = qkvet_forward_args;
  using O = GradientCall;
  constexpr qkvet_status kInvalid = QKVET_INVALID_ARGUMENT;
  constexpr qkvet_status kUnsupported = QKVET_UNSUPPORTED;
  return {{"there are no arguments", kInvalid,
           [](A& a, F&, O&) { a.forward = nullptr; }},
          {"lse: needed", kInvalid, [](A&, F& f, O&) { f.lse = {}; }},
          {"weights: absent", kInvalid,
           [](A&, F& f, O& o) { f.weights = o.d_bias.tensor(); }},
          {"d_o: a required tensor is absent", kInvalid,
           [](A& a, F&, O&) { a.d_o = {}; }},
          {"d_o has 9 at axis 2, 7 are needed", kInvalid,
           [](A& a, F&, O& o) { a.d_o = o.d_o.tensor(); }},
          {"d_q has 9 at axis 2, 7 are needed", kInvalid,
           [](A& a, F&, O& o) { a.d_q = o.d_q.tensor(); }},
          {"d_k has 4 at axis 1, 2 are needed", kInvalid,
           [](A& a, F&, O&) { a.d_k = a.d_q; }},
          {"d_v has 7 at axis 2, 9 are needed", kInvalid,
           [](A& a, F&, O& o) { a.d_v = o.d_v.tensor(); }},
          {"d_v: a tensor has the wrong rank", kInvalid,
           [](A& a, F&, O&) { a.d_v.ndim = 3; }},
          {"d_bias has 9 at axis 2, 7 are needed", kInvalid,
           [](A& a, F&, O& o) { a.d_bias = o.d_bias.tensor(); }},
          {"d_bias: is the gradient of a tensor that is absent", kInvalid,
           [](A&, F& f, O&) { f.bias = {}; }},
          {"d_sink: is the gradient of a tensor that is absent", kInvalid,
           [](A&, F& f, O&) { f.sink = {}; }},
          {"a window counts keys", kInvalid,
           [](A&, F& f, O&) { f.has_window = 1, f.window_left = -2; }},
          {"d_k: has another storage type", kUnsupported,
           [](A& a, F&, O&) { a.d_k.dtype = kF16; }},
          {"d_sink: must be f32 or of the type of q", kUnsupported,
           [](A& a, F&, O&) { a.d_sink.dtype = kBf16; }},
          {"k_new", kUnsupported,
           [](A&, F& f, O&) { f.k_new = f.k, f.v_new = f.v; }},
          {"block_table", kUnsupported,
           [](A&, F& f, O&) { f.block_table = f.sink; }}};
}

TEST(BackwardRefused, ContradictionsByNameAndNothingIsWritten) {
  const uint64_t options = QKVET_OPTION_BIAS | QKVET_OPTION_SINK;
  const Asked asked = asked_with(options, 0);
  GradientCall call(asked, Storage::kF32);
  GradientCall other(asked_with(options, 1), Storage::kF32);
  for (const qkvet_kernel* kernel : differentiable(/*faulty=*/false)) {
    if (!takes(kernel, Storage::kF32)) {
      continue;
    }
    for (const Mistake& mistake : mistakes()) {
      qkvet_backward_args args = call.args();
      qkvet_forward_args forward = *args.forward;
      args.forward = &forward;
      mistake.make(args, forward, other);
      const GradientAnswer answer = run_backward(kernel, args);
      EXPECT_EQ(answer.status, mistake.status)
          << kernel->name << " " << mistake.reason << " | " << answer.reason;
      EXPECT_NE(answer.reason.find(mistake.reason), std::string::npos)
          << answer.reason << " | " << mistake.reason;
      EXPECT_EQ(answer.reason.find('\n'), std::string::npos);
      for (const float value : call.outputs()) {
        ASSERT_EQ(value, OptionCall::kUnwritten) << mistake.reason;
      }
    }
    EXPECT_EQ(run_backward(kernel, &call).status, QKVET_OK);
  }
}

// Some take dropout, and none a probability of 1.
TEST(BackwardRefused, DropoutThatIsNotDeclaredOrNoProbability) {
  GradientCall call(asked_with(0, 0), Storage::kF32);
  int takers = 0;
  for (const qkvet_kernel* kernel : differentiable(/*faulty=*/false)) {
    if (!takes(kernel, Storage::kF32)) {
      continue;
    }
    const bool declared =
        (kernel->capabilities->options & QKVET_OPTION_DROPOUT) != 0;
    takers += declared ? 1 : 0;
    qkvet_backward_args args = call.args();
    qkvet_forward_args forward = *args.forward;
    args.forward = &forward;
    forward.dropout_p = 0.5f;
    EXPECT_EQ(run_backward(kernel, args).status,
              declared ? QKVET_OK : QKVET_UNSUPPORTED)
        << kernel->name;
    forward.dropout_p = 1;
    EXPECT_EQ(run_backward(kernel, args).status,
              declared ? QKVET_INVALID_ARGUMENT : QKVET_UNSUPPORTED)
        << kernel->name;
  }
  EXPECT_GE(takers, 2);
}

// Lengths are data: what they say is looked at before anything is written, too.
TEST(BackwardRefused, LengthsBeyondTheExtents) {
  Asked asked = asked_with(QKVET_OPTION_LENGTHS, 0);
  asked.kv_len = {1, 2, asked.problem.keys + 1};
  Asked fine = asked;
  fine.kv_len.back() -= 1;
  // The extents are those of the tensors: the truth is that of `fine`.
  GradientCall call(fine, Storage::kF32);
  for (const qkvet_kernel* kernel : differentiable(/*faulty=*/false)) {
    if (!takes(kernel, Storage::kF32)) {
      continue;
    }
    qkvet_backward_args args = call.args();
    qkvet_forward_args forward = *args.forward;
    forward.kv_len.data = asked.kv_len.data();
    args.forward = &forward;
    EXPECT_EQ(run_backward(kernel, args).status, QKVET_INVALID_ARGUMENT);
    for (const float value : call.outputs()) {
      ASSERT_EQ(value, OptionCall::kUnwritten) << kernel->name;
    }
  }
}

TEST(BackwardRefused, StructsOfOlderAndNewerHosts) {
  GradientCall call(asked_with(0, 0), Storage::kF32);
  for (const qkvet_kernel* kernel : differentiable(/*faulty=*/false)) {
    if (!takes(kernel, Storage::kF32)) {
      continue;
    }
    struct Newer {
      qkvet_backward_args args;
      uint64_t field;
    } newer = {call.args(), 1};
    newer.args.struct_size = sizeof(newer);
    EXPECT_EQ(run_backward(kernel, newer.args).status, QKVET_UNSUPPORTED);
    newer.field = 0;
    EXPECT_EQ(run_backward(kernel, newer.args).status, QKVET_OK);
    // A host that knows neither d_bias nor d_sink; what stands there is noise.
    qkvet_backward_args older = call.args();
    older.struct_size = offsetof(qkvet_backward_args, d_bias);
    older.d_bias.ndim = older.d_sink.ndim = 77;
    EXPECT_EQ(run_backward(kernel, older).status, QKVET_OK) << kernel->name;
  }
}

// What need not be asked for.
TEST(BackwardRefused, GradientsOfBiasAndSinkAreOptional) {
  const uint64_t options = QKVET_OPTION_BIAS | QKVET_OPTION_SINK;
  GradientCall call(asked_with(options, 0), Storage::kF32);
  for (const qkvet_kernel* kernel : differentiable(/*faulty=*/false)) {
    if (!takes(kernel, Storage::kF32)) {
      continue;
    }
    run_backward(kernel, &call);
    const std::vector<float> with = call.d_k.values();
    qkvet_backward_args args = call.args();
    args.d_bias = args.d_sink = {};
    EXPECT_EQ(run_backward(kernel, args).status, QKVET_OK);
    EXPECT_EQ(call.d_k.values(), with) << kernel->name;
    EXPECT_EQ(call.d_sink.get(0, 0, 0, 0), OptionCall::kUnwritten);
  }
}

}  // namespace
}  // namespace qkvet::impl::backward_refused_test
