// SPDX-License-Identifier: Apache-2.0
// The memory planned for a tensor covers everything that is written into it:
// all layouts, with all ways to give lengths, pages and options, for every
// subject.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/capability/capability.h"
#include "core/door/arena.h"
#include "core/door/call_plan.h"
#include "core/testing/case_calls.h"

namespace qkvet::planned_memory_test {
namespace {

// Options of a call with extents B2, H4, Hkv2, Tq3, Tk5, and B1 if sequences
// are packed. "" is a call without options.
const std::vector<std::string> kForms = {"",
                                         "B2,qlen=1.3",
                                         "B2,kvlen=5.2",
                                         "B2,qlen=0.2,kvlen=3.1,lens=i32",
                                         "B1,cuq=0.1.3,cuk=0.2.5",
                                         "B1,cuq=0.2,cuk=0.4,lens=i32",
                                         "B2,page=2",
                                         "B2,page=2,kvlen=5.2",
                                         "B2,page=3,table=csr",
                                         "B2,page=2,pool=x",
                                         "B1,page=2,cuq=0.1.3,cuk=0.2.5",
                                         "B2,page=2,append=1",
                                         "B2,append=2,kvlen=4.3",
                                         "B2,values=keys",
                                         "B2,share=b",
                                         "B2,share=bh",
                                         "B2,mask=random",
                                         "B2,mask=random.q",
                                         "B2,bias=normal.k",
                                         "B2,bias=normal.hq",
                                         "B2,sink=normal,alibi=normal",
                                         "B2,keys=2.hn",
                                         "B2,keys=2x2.n",
                                         "B2,segments=2.i64",
                                         "B2,ranges=2",
                                         "B2,tree=0",
                                         "B2,rope=half"};

std::string extents(const std::string& form, bool square, bool one_width) {
  const std::string members = form.empty() ? "B2" : form.substr(0, 2);
  return "f32," + members + ",H4,Hkv2,Tq" + (square ? "5" : "3") +
         ",Tk5,d4,dv" + (one_width ? "4" : "2") +
         (form.empty() ? "" : form.substr(2));
}

std::optional<Case> case_of(const std::string& text) {
  return parse_case(text).value;
}

// The outputs of forward(), for its gradient.
void give_forward(const Case& value, Inputs& inputs) {
  const Shape& s = value.shape;
  const auto rows = static_cast<size_t>(s.B * s.H * s.Tq);
  inputs.given_o.assign(rows * static_cast<size_t>(s.dv), 1);
  inputs.given_lse.assign(rows, 1);
  store_inputs(value, inputs);
}

// Every tensor is inside of its window and of what holds it, and each holds
// what it was given once all of them are written: none is in another.
void expect_covered(const KernelCall& call, const KernelInfo& kernel,
                    const std::string& what, Arena& arena) {
  CallPlan plan;
  std::string why;
  ASSERT_TRUE(plan_call(call, kernel, &plan, &why)) << what << ": " << why;
  for (size_t t = 0; t < kTensorCount; ++t) {
    if (!plan.tensors[t].present()) continue;
    const TensorSpec given =
        given_part(call, static_cast<TensorName>(t), plan.tensors[t]);
    const Place& place = plan.places[t];
    EXPECT_LE(place.start + given.span_bytes(), window_bytes(place.size_class))
        << what << ": " << tensor_name(static_cast<TensorName>(t));
  }
  ASSERT_TRUE(arena.prepare(0, plan, call, &why)) << what << ": " << why;
  WindowTable host(arena.fd(), WindowTable::Side::kHost);
  TensorAddresses at{};
  ASSERT_TRUE(host.locate(0, plan, &at, &why)) << what << ": " << why;
  for (size_t t = 0; t < kTensorCount; ++t) {
    const auto name = static_cast<TensorName>(t);
    const std::byte* const content = content_of(call, name);
    if (!plan.tensors[t].present() || content == nullptr) continue;
    const TensorSpec given = given_part(call, name, plan.tensors[t]);
    std::vector<std::byte> seen(
        static_cast<size_t>(given.elements() * dtype_bytes(given.dtype)));
    if (seen.empty()) continue;
    gather(given, at[t], seen.data());
    EXPECT_EQ(std::memcmp(seen.data(), content, seen.size()), 0)
        << what << ": " << tensor_name(name);
  }
}

KernelInfo kernel_of(uint64_t layouts) {
  KernelInfo kernel;
  kernel.capabilities.layouts = layouts;
  return kernel;
}

const std::vector<uint64_t> kDeclared = {
    QKVET_LAYOUT_BHTD, QKVET_LAYOUT_PACKED_QKV, QKVET_LAYOUT_ANY_STRIDES,
    QKVET_LAYOUT_PACKED_QKV | QKVET_LAYOUT_ANY_STRIDES};

// How many calls were planned.
int expect_all_layouts(const std::string& text, Operation operation,
                       Arena& arena) {
  const auto parsed = case_of(text);
  if (!parsed) return 0;
  int planned = 0;
  for (int layout = 0; layout < kLayoutCount; ++layout) {
    Case value = *parsed;
    value.layout = static_cast<Layout>(layout);
    value.backward = operation == Operation::kBackward;
    // Laws change extents of a case and leave it its layout.
    if (value.layout != Layout::kPacked && !invalid_reason(value).empty())
      continue;
    Inputs inputs = make_inputs(value);
    if (value.backward) give_forward(value, inputs);
    KernelCall call = call_of(value, inputs, operation);
    call.want_lse = operation == Operation::kForward;
    call.want_d_bias = value.backward && value.score_bias;
    call.want_d_sink = value.backward && value.sink;
    for (const Placement placement : {Placement::kEnd, Placement::kStart})
      for (const uint64_t declared : kDeclared) {
        call.placement = placement;
        expect_covered(call, kernel_of(declared), to_string(value), arena);
        ++planned;
      }
  }
  return planned;
}

class PlannedMemory : public testing::Test {
 protected:
  PlannedMemory() {
    std::string error;
    arena_ = Arena::create(&error);
  }
  std::unique_ptr<Arena> arena_;
};

TEST_F(PlannedMemory, CoversAttentionInEveryLayout) {
  for (const std::string& form : kForms) {
    int planned = 0;
    for (const bool square : {true, false})
      for (const bool one_width : {true, false})
        for (const Operation operation :
             {Operation::kForward, Operation::kBackward})
          planned += expect_all_layouts(extents(form, square, one_width),
                                        operation, *arena_);
    EXPECT_GT(planned, 0) << form;
  }
}

// A call that claims a block which its tensors do not fill.
TEST_F(PlannedMemory, CoversABlockOfOtherExtents) {
  for (const char* text : {"f32,B2,H4,Hkv2,Tq3,Tk5,d4", "f32,B1,H1,Tq5,Tk3,d4",
                           "f32,B2,H2,Tq4,Tk4,d4,dv2"}) {
    const CaseCall one(text);
    KernelCall call = one.call;
    call.layout = Layout::kPacked;
    std::string why;
    const KernelInfo kernel = kernel_of(QKVET_LAYOUT_PACKED_QKV);
    EXPECT_FALSE(capability_allows(kernel, call, &why)) << text;
    EXPECT_EQ(why,
              "q, k and v in one block have as many rows and channels of one "
              "type");
    expect_covered(call, kernel, text, *arena_);
  }
}

// A mistake makes one tensor larger than the rest of the call requires.
TEST_F(PlannedMemory, CoversMistakes) {
  for (const std::string& form : kForms)
    for (const Layout layout :
         {Layout::kBhtd, Layout::kPacked, Layout::kGaps, Layout::kTurned})
      for (int n = 0; n <= static_cast<int>(Mistake::kTreeMaskExtent); ++n) {
        auto parsed = case_of(extents(form, /*square=*/true, true));
        ASSERT_TRUE(parsed) << form;
        parsed->layout = layout;
        if (!invalid_reason(*parsed).empty()) continue;
        const Inputs inputs = make_inputs(*parsed);
        KernelCall call = call_of(*parsed, inputs, Operation::kForward);
        call.mistake = static_cast<Mistake>(n);
        expect_covered(call, kernel_of(QKVET_LAYOUT_PACKED_QKV),
                       to_string(*parsed) + " mistake " + std::to_string(n),
                       *arena_);
      }
}

TEST_F(PlannedMemory, CoversLayersMergesAndCaches) {
  const struct {
    const char* text;
    Operation operation;
  } rows[] = {
      {"f32,B2,H4,Hkv2,T3,d2,dv3,D5,biases=qkvo", Operation::kLayer},
      {"f32,B1,H2,T3,d2,D4,unbatched", Operation::kLayer},
      {"f32,B2,H4,Hkv2,T3,d2,dv3,D5,fused=vqk,biases=qkv", Operation::kLayer},
      {"f32,B2,H2,T3,d2,D4,causal,context=7", Operation::kLayer},
      {"f32,B2,H4,Hkv2,T3,d2,D8,rope=half", Operation::kLayer},
      {"f32,B3,H2,Tk4,dv5,merge", Operation::kMerge},
      {"f32,B3,H2,Tk4,dv5,merge,kvlen=4.0.2", Operation::kMerge}};
  for (const auto& row : rows) {
    for (int layout = 0; layout < kLayoutCount; ++layout) {
      Case value = parsed(row.text);
      value.layout = static_cast<Layout>(layout);
      if (!invalid_reason(value).empty()) continue;
      const Inputs inputs = make_inputs(value);
      const KernelCall call = call_of(value, inputs, row.operation);
      for (const uint64_t declared : kDeclared)
        expect_covered(call, kernel_of(declared), to_string(value), *arena_);
    }
  }
}

}  // namespace
}  // namespace qkvet::planned_memory_test
