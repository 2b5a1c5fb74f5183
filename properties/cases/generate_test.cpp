// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "core/base/at_night.h"
#include "core/capability/option_table.h"
#include "core/case/option_fields.h"
#include "core/door/abi_call.h"
#include "core/door/call_plan.h"
#include "properties/cases/case_generator.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"
#include "properties/judging/visibility.h"
#include "properties/run/runner.h"
#include "qkvet/adapter.h"

namespace qkvet::properties::generate_test {
namespace {

TEST(Generate, PlannedCasesAreValidFitAndRepeatable) {
  for (const Law* law : all_laws())
    for (int64_t n = 1; n <= 2000; ++n) {
      const Case value = planned_case(*law, 5, n);
      ASSERT_EQ(invalid_reason(value), "") << to_string(value);
      ASSERT_EQ(law->constrain(value), value)
          << law->id << " " << to_string(value);
      ASSERT_EQ(planned_case(*law, 5, n), value);
      if (law->domain.causal) {
        ASSERT_GT(rows_with_masked_keys(value), 0);
      }
    }
}

TEST(Generate, EachLawHasAStreamOfItsOwn) {
  std::set<uint32_t> streams;
  for (const Law* law : all_laws())
    EXPECT_TRUE(streams.insert(stream_of(*law)).second) << law->id;
}

TEST(Generate, SeedAndNumberAndLawMatter) {
  const Law& law = *find_law("agrees_with_oracle");
  EXPECT_NE(planned_case(law, 1, 1), planned_case(law, 1, 2));
  EXPECT_NE(planned_case(law, 1, 1), planned_case(law, 2, 1));
}

// The options that qkvet/adapter.h reads off the arguments of a call are those
// that the host counts, except addresses and extents given only by numbers,
// which it cannot read.
TEST(Generate, AdaptersCountTheOptionsThatTheHostCounts) {
  uint64_t seen = 0;
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kAttention) continue;
    for (int64_t n = 1; n <= 40; ++n) {
      const Case value = planned_case(*law, 3, n);
      const Inputs inputs = make_inputs(value);
      KernelCall call = call_of(value, inputs, Operation::kForward);
      call.want_lse = n % 2 == 0;
      call.want_weights = n % 3 == 0;
      CallPlan plan;
      std::string why;
      ASSERT_TRUE(plan_call(call, KernelInfo{}, &plan, &why)) << why;
      const AbiCall abi(plan, TensorAddresses{});
      uint64_t unseen =
          QKVET_OPTION_EMPTY_EXTENTS | QKVET_OPTION_VALUES_IN_KEYS;
      if (call.page_size > 0 || call.members > 0)
        unseen |= QKVET_OPTION_CROSS_LENGTHS;
      if (call.dropout && call.dropout->p == 0) unseen |= QKVET_OPTION_DROPOUT;
      const uint64_t counted = options_in(call) & ~unseen;
      ASSERT_EQ(qkvet_options_of(&abi.forward()) & ~unseen, counted)
          << to_string(value);
      seen |= counted;
    }
  }
  EXPECT_GT(std::popcount(seen), 30);
}

// The aims that the README names are met, not only possible.
TEST(Generate, AimsAreMet) {
  const Law& law = *find_law("agrees_with_oracle");
  std::set<std::string> data;
  std::set<int64_t> groups;
  int longer = 0, shorter = 0, equal = 0, one = 0, wide = 0, scaled = 0;
  constexpr int kCases = 4000;
  for (int64_t n = 1; n <= kCases; ++n) {
    const Case value = planned_case(law, 1, n);
    const Shape& s = value.shape;
    data.insert(recipe_text(make_recipe(value.k.kind)));
    data.insert(recipe_text(make_recipe(value.v.kind)));
    groups.insert(s.group());
    longer += s.Tq > s.Tk;
    shorter += s.Tq < s.Tk;
    equal += s.Tq == s.Tk;
    one += s.Tq == 1;
    wide += s.Tk > 64;
    scaled += value.scale.has_value();
  }
  for (const char* recipe :
       {"normal", "small", "lattice", "count", "onehot", "equal", "ascending",
        "descending", "dominant", "large", "offset", "cancelling", "heavy"})
    EXPECT_TRUE(data.contains(recipe)) << recipe;
  for (const int64_t group : {1, 2, 3, 4, 5, 7})
    EXPECT_TRUE(groups.contains(group)) << group;
  for (const int count : {longer, shorter, equal, one, wide, scaled})
    EXPECT_GT(count, kCases / 100);
}

TEST(Generate, BiasesThatMaskAreDrawnAndShrinkToOthers) {
  const Law& law = *find_law("bias_alone_decides");
  std::set<std::string> biases;
  for (int64_t n = 1; n <= 500; ++n) {
    const Case value = planned_case(law, 1, n);
    if (value.score_bias) biases.insert(recipe_text(*value.score_bias));
  }
  for (const char* recipe : {"normal", "masking", "masking5", "masking9",
                             "masking309", "raised", "raised9"})
    EXPECT_TRUE(biases.contains(recipe)) << recipe;
  const Law& gradient = *find_law("backward_agrees_with_oracle");
  for (int64_t n = 1; n <= 500; ++n) {
    const Case value = planned_case(gradient, 1, n);
    EXPECT_FALSE(value.score_bias && is_of_bias_alone(value.score_bias->kind));
  }
}

// Strides of 2^32 elements have two members or heads, those of 2^31 three.
TEST(Generate, PartsFarApartAreRareAndShrinkToGaps) {
  const Law& law = *find_law("layout_changes_nothing");
  int far = 0, two_members = 0, three_members = 0, two_heads = 0;
  constexpr int kCases = 4000;
  for (int64_t n = 1; n <= kCases; ++n) {
    const Case value = planned_case(law, 1, n);
    if (value.layout != Layout::kFar) continue;
    const Shape& s = value.shape;
    ++far;
    two_members += s.B == 2;
    three_members += s.B == 3;
    two_heads += s.B == 1 && s.Hkv == 2;
  }
  EXPECT_LT(far, kCases / 20);
  for (const int count : {far, two_members, three_members, two_heads})
    EXPECT_GT(count, kCases / 1000);
  const Case value =
      *parse_case("f32,B2,H1,Tq1,Tk1,d1,layout=far,q=zero").value;
  std::set<std::string> simpler;
  for (const Case& other :
       simpler_cases(*find_law("agrees_with_oracle"), value))
    simpler.insert(to_string(other));
  for (const char* const layout : {"", ",layout=bthd", ",layout=gaps"}) {
    const std::string text =
        "f32,B2,H1,Tq1,Tk1,d1" + std::string(layout) + ",q=zero";
    EXPECT_TRUE(simpler.contains(text)) << text;
  }
  const Case gaps = *parse_case("f32,B2,H1,Tq1,Tk1,d1,layout=gaps").value;
  for (const Case& other : simpler_cases(*find_law("agrees_with_oracle"), gaps))
    EXPECT_NE(other.layout, Layout::kFar);
}

TEST(Generate, SequencesOfCallsAreDrawnForTheirLawAlone) {
  const Law& law = *find_law("calls_before_change_nothing");
  std::set<CallStepKind> kinds;
  int hundreds = 0;
  for (int64_t n = 1; n <= 400; ++n) {
    const Case value = planned_case(law, 1, n);
    ASSERT_FALSE(value.calls.empty());
    EXPECT_EQ(value.calls.front().kind, CallStepKind::kAsIs);
    for (const CallStep& step : value.calls) {
      kinds.insert(step.kind);
      hundreds += step.times > 255;
    }
    EXPECT_TRUE(
        planned_case(*find_law("agrees_with_oracle"), 1, n).calls.empty());
  }
  EXPECT_EQ(kinds.size(), kCallStepLetters.size());
  EXPECT_GT(hundreds, 10);
  // Fewer calls are simpler, and one is the least.
  Case value = planned_case(law, 1, 1);
  value.calls = {{CallStepKind::kAsIs}, {CallStepKind::kFew, 260}};
  std::set<std::string> simpler;
  for (const Case& other : simpler_cases(law, value))
    simpler.insert(calls_text(other.calls));
  for (const char* calls : {"a", "af130", "af259"})
    EXPECT_TRUE(simpler.contains(calls)) << calls;
}

// Each kind is drawn, and seldom: most numbers are those of models.
TEST(Generate, NumbersAreDrawnAtTheEdgesOfTypes) {
  constexpr int64_t kCases = 3000, kNarrow = int64_t{1} << 31;
  int windows = 0, beyond = 0, cut = 0, chunks = 0, turned = 0, positions = 0;
  for (int64_t n = 1; n <= kCases; ++n) {
    const Case value = planned_case(*find_law("agrees_with_oracle"), 1, n);
    windows += value.window.has_value();
    turned += value.layout == Layout::kTurned;
    chunks += value.chunk >= kNarrow - 1;
    positions += value.rope.first > 32000;
    if (!value.window) continue;
    const int64_t side = std::max(value.window->left, value.window->right);
    beyond += side >= kNarrow - 1;
    // The low 32 bits are a small number.
    cut += side > kNarrow && (side & 0xFFFFFFFF) < 8;
  }
  EXPECT_LT(beyond, windows / 4);
  for (const int count : {beyond, cut, chunks, turned, positions})
    EXPECT_GT(count, 0);
  int low = 0, high = 0, all = 0;
  for (int64_t n = 1; n <= kCases; ++n) {
    const Case value =
        planned_case(*find_law("merge_agrees_with_oracle"), 1, n);
    all += value.merge;
    low += value.score_bias->kind == RecipeKind::kMaskingN;
    high += value.score_bias->kind == RecipeKind::kRaisedN;
  }
  EXPECT_EQ(all, kCases);
  for (const int count : {low, high}) EXPECT_GT(count, kCases / 50);
}

TEST(Generate, MostCasesAreSmall) {
  const Law& law = *find_law("agrees_with_oracle");
  int small = 0;
  constexpr int kCases = 2000;
  for (int64_t n = 1; n <= kCases; ++n) {
    const Shape s = planned_case(law, 1, n).shape;
    small += s.H <= 8 && s.Tq <= 24 && s.Tk <= 24 && s.d <= 24;
  }
  EXPECT_GT(small, kCases * 8 / 10);
}

TEST(Generate, SimplerCasesAreValidFitAndOther) {
  const int64_t cases = at_night() ? 40 : 15;
  for (const Law* law : all_laws())
    for (int64_t n = 1; n <= cases; ++n) {
      const Case value = planned_case(*law, 3, n);
      for (const Case& simpler : simpler_cases(*law, value)) {
        ASSERT_EQ(invalid_reason(simpler), "");
        ASSERT_EQ(law->constrain(simpler), simpler);
        ASSERT_NE(simpler, value);
      }
    }
}

// A number of an option is replaced by its plain values, by half and by one
// less, for attention and for stories.
TEST(Generate, FieldsOfOptionsBecomeSimpler) {
  const std::string call = "f32,B2,H1,Tq24,Tk24,d2,";
  const std::string story = "f32,B1,H1,d2,cap9,story=step.a.6,";
  const std::pair<const char*, std::string> rows[] = {
      {"window.left", call + "window=9.4"},
      {"chunk", call + "chunk=9"},
      {"segments.tokens", call + "segments=9"},
      {"tree.children", call + "tree=9"},
      {"ranges", call + "ranges=9"},
      {"lists.entries", call + "keys=9"},
      {"lists.block", call + "keys=2x9"},
      {"rope.first", call + "rope=half.9"},
      {"page_size", call + "page=9"},
      {"new_tokens", call + "append=9"},
      {"mask", call + "mask=padding9"},
      {"mask", story + "mask=padding9"},
      {"cache.window", story + "win9"}};
  for (const auto& [word, text] : rows) {
    const ParsedCase parsed = parse_case(text);
    ASSERT_TRUE(parsed.value) << parsed.error;
    const OptionField* field = find_option_field(word);
    for (const OptionField& other : option_fields())
      if (!field->counts && other.counts && other.given(*parsed.value))
        field = &other;  // the number of the mask has no word
    ASSERT_EQ(field->get(*parsed.value), 9) << text;
    std::set<int64_t> numbers;
    for (const Case& simpler :
         simpler_cases(agreement_about(parsed.value->subject()), *parsed.value))
      numbers.insert(field->get(simpler));
    for (const int64_t plain : field->plain)
      EXPECT_TRUE(numbers.contains(plain)) << text << ": " << plain;
    for (const int64_t less : {4, 8})
      EXPECT_TRUE(numbers.contains(less)) << text << ": " << less;
    EXPECT_EQ(*numbers.rbegin(), 9);
  }
  std::set<int64_t> chunks;
  const Case far = *parse_case(call + "chunk=1000").value;
  for (const Case& simpler : simpler_cases(agreement_about(far.subject()), far))
    chunks.insert(simpler.chunk);
  EXPECT_TRUE(chunks.contains(500));
  EXPECT_FALSE(chunks.contains(999));
}

std::vector<std::string> law_ids() {
  std::vector<std::string> ids;
  for (const Law* law : all_laws()) ids.push_back(law->id);
  return ids;
}

class ShrinkingTest : public testing::TestWithParam<std::string> {};

// Always descending to the first simpler case ends: no two cases are each
// simpler than the other.
TEST_P(ShrinkingTest, Ends) {
  const Law& law = *find_law(GetParam());
  const int64_t cases = at_night() ? 8 : 2;
  for (int64_t n = 1; n <= cases; ++n)
    for (const bool last : {false, true}) {
      Case value = planned_case(law, 9, n);
      // A long extent goes down in many steps.
      const int most = is_long(value) ? 10'000 : 1000;
      int steps = 0;
      for (; steps < most; ++steps) {
        const std::vector<Case> simpler = simpler_cases(law, value);
        if (simpler.empty()) break;
        value = last ? simpler.back() : simpler.front();
      }
      EXPECT_LT(steps, most) << to_string(value);
    }
}

INSTANTIATE_TEST_SUITE_P(Laws, ShrinkingTest, testing::ValuesIn(law_ids()),
                         [](const auto& law) { return law.param; });

// The generator shrinks through RapidCheck as well.
TEST(Generate, RapidCheckFindsAndShrinks) {
  const Law& law = *find_law("agrees_with_oracle");
  const auto gen = case_generator(law);
  const auto fails = [](const Case& c) { return c.shape.Tk >= 3; };
  rc::Shrinkable<Case> found = gen(rc::Random(4), 100);
  for (uint64_t seed = 5; !fails(found.value()); ++seed)
    found = gen(rc::Random(seed), 100);
  for (auto simpler = found.shrinks();;) {
    const auto next = simpler.next();
    if (!next) break;
    if (!fails(next->value())) continue;
    found = *next;
    simpler = found.shrinks();
  }
  EXPECT_EQ(found.value().shape.Tk, 3);
  EXPECT_EQ(found.value().shape.d, 1);
}

// A set value at the far end of a tensor is moved into the small one.
TEST(Generate, SingleValuesGoAlongWhenExtentsShrink) {
  const Case value =
      *parse_case("f32,B2,H1,Tq3,Tk4,d8,set=q.1.0.2.7:0x1p+9").value;
  const std::vector<Case> cases =
      simpler_cases(*find_law("agrees_with_oracle"), value);
  const Case smallest =
      *parse_case("f32,B1,H1,Tq1,Tk1,d1,set=q.0.0.0.0:0x1p+9").value;
  EXPECT_NE(std::find(cases.begin(), cases.end(), smallest), cases.end());
  for (const Case& one : cases) EXPECT_EQ(invalid_reason(one), "");
}

// Laws that make both extents alike would make a long one of each.
TEST(Generate, NoCaseIsTooDear) {
  for (const Law* law : all_laws())
    for (int64_t n = 1; n <= 12000; n += 8) {
      const Case value = planned_case(*law, 1, n);
      ASSERT_LE(work_of(value.shape), int64_t{1} << 28)
          << law->id << " " << to_string(value);
    }
}

TEST(Generate, PinsHoldForEveryCaseThatHasTheExtent) {
  Scope scope;
  std::string error;
  scope.pins = parse_pins("d=5,H=3,T=2,Tk=7", &error);
  ASSERT_EQ(error, "");
  for (const Law* law : all_laws()) {
    // T = 1 is its subject: the runner leaves it out.
    if (law == find_law("lone_token_gradients_are_exact")) continue;
    // 5 channels are no groups of 16 bytes.
    if (law == find_law("channel_groups_change_nothing")) continue;
    for (int64_t n = 1; n <= 60; ++n) {
      const Case value = planned_case(*law, 3, n, scope);
      ASSERT_EQ(invalid_reason(value), "") << to_string(value);
      ASSERT_TRUE(keeps_pins(scope, value)) << law->id << to_string(value);
      if (value.subject() == Subject::kMerge) {
        ASSERT_EQ(value.shape.Tk, 7);
        ASSERT_EQ(value.shape.H, 3);
        continue;  // it has states instead of keys
      }
      ASSERT_EQ(value.shape.d, 5);
      if (value.subject() == Subject::kLayer) {
        ASSERT_EQ(value.shape.Tq, 2);
      }
      if (value.subject() == Subject::kAttention) {
        ASSERT_EQ(value.shape.Tk, 7);
      }
    }
  }
  // Control: without pins the same plan has other extents.
  const Case free = planned_case(*find_law("agrees_with_oracle"), 3, 1);
  EXPECT_FALSE(keeps_pins(scope, free));
}

TEST(Generate, LayersAreFusedAndHaveABufferWhereThatIsDeclared) {
  const Law& law = *find_law("layer_agrees_with_oracle");
  std::set<FusedOrder> orders;
  std::set<int64_t> longer;
  Scope scope;
  scope.layer_options = QKVET_LAYER_FUSED_VKQ;
  for (int64_t n = 1; n <= 400; ++n) {
    const Case free = planned_case(law, 9, n);
    orders.insert(free.fused);
    if (free.context > 0) longer.insert(free.context - free.shape.Tq);
    const Case value = planned_case(law, 9, n, scope);
    EXPECT_EQ(value.context, 0);
    EXPECT_TRUE(value.fused == FusedOrder::kNone ||
                value.fused == FusedOrder::kVkq)
        << to_string(value);
  }
  EXPECT_EQ(orders.size(), size_t{kFusedOrderCount});
  EXPECT_TRUE(longer.contains(0));
  EXPECT_TRUE(longer.contains(32));
}

TEST(Generate, BadPinsGetOneClearLine) {
  for (const char* bad :
       {"d", "d=", "d=0", "d=x", "e=3", "d=3,,Tk=2", "d=99999999999"}) {
    std::string error;
    parse_pins(bad, &error);
    EXPECT_NE(error.find("allowed: B H"), std::string::npos) << bad << error;
  }
}

TEST(Generate, CasesKeepToWhatKernelsDeclare) {
  KernelUnderTest kernel;
  qkvet_capabilities& own = kernel.judged.info.capabilities;
  own.options = QKVET_OPTION_CAUSAL_BOTTOM_RIGHT | QKVET_OPTION_DEFAULT_SCALE;
  own.d = {16, 64, 8};
  Scope scope;
  keep_scope_to({kernel}, scope);
  const Law& law = *find_law("agrees_with_oracle");
  bool free_has_groups = false;
  for (int64_t n = 1; n <= 200; ++n) {
    const Case value = planned_case(law, 9, n, scope);
    EXPECT_NE(value.causal, Causal::kTopLeft);
    EXPECT_EQ(value.shape.H, value.shape.Hkv);
    EXPECT_EQ(value.shape.Tq, value.shape.Tk);
    EXPECT_EQ(value.shape.d, value.shape.dv);
    EXPECT_FALSE(value.scale);
    EXPECT_GE(value.shape.d, 16);
    EXPECT_LE(value.shape.d, 64);
    EXPECT_EQ(value.shape.d % 8, 0);
    const Shape& free = planned_case(law, 9, n).shape;
    free_has_groups |= free.Hkv < free.H;
  }
  EXPECT_TRUE(free_has_groups);  // the control
  // Another kernel with more options widens the scope again.
  KernelUnderTest wide = kernel;
  wide.judged.info.capabilities.options = QKVET_OPTION_GROUPED_HEADS;
  wide.judged.info.capabilities.d = {};
  keep_scope_to({kernel, wide}, scope);
  EXPECT_TRUE(scope.options & QKVET_OPTION_GROUPED_HEADS);
  EXPECT_EQ(scope.extents.of(ExtentName::kD).multiple, 0);
}

TEST(Generate, DrawsWhatKernelsDeclareToRefuseNowhere) {
  KernelUnderTest kernel;
  qkvet_capabilities& own = kernel.judged.info.capabilities;
  own.options = QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
                QKVET_OPTION_MASK | QKVET_OPTION_BIAS |
                QKVET_OPTION_CAUSAL_TOP_LEFT;
  struct Drawn {
    int negative = 0, mask_and_bias = 0, bias_and_causal = 0, given = 0;
  };
  const auto drawn = [&kernel] {
    Scope scope;
    keep_scope_to({kernel}, scope);
    Drawn counts;
    for (int64_t n = 1; n <= 1000; ++n) {
      const Case value =
          planned_case(*find_law("agrees_with_oracle"), 9, n, scope);
      counts.given += value.scale.has_value();
      counts.negative += value.scale && *value.scale < 0;
      if (!value.score_bias) continue;
      counts.mask_and_bias += value.mask.kind != MaskKind::kNone;
      counts.bias_and_causal += value.causal != Causal::kNone;
    }
    return counts;
  };
  const Drawn all = drawn();
  EXPECT_GT(all.negative, 10);
  EXPECT_GT(all.mask_and_bias, 10);
  EXPECT_GT(all.bias_and_causal, 10);
  own.flags = QKVET_FLAG_POSITIVE_SCALE | QKVET_FLAG_MASK_OR_BIAS |
              QKVET_FLAG_BIAS_OR_CAUSAL;
  const Drawn left = drawn();
  EXPECT_EQ(left.negative, 0);
  EXPECT_EQ(left.mask_and_bias, 0);
  EXPECT_EQ(left.bias_and_causal, 0);
  EXPECT_GT(left.given, 10);
  own.options &= ~uint64_t{QKVET_OPTION_SCALE};
  EXPECT_EQ(drawn().given, 0);
}

TEST(Generate, DrawsTheDeclaredStyleOfRotationAlone) {
  KernelUnderTest kernel;
  qkvet_capabilities& own = kernel.judged.info.capabilities;
  own.options = QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_ROPE;
  const auto styles = [&kernel] {
    Scope scope;
    keep_scope_to({kernel}, scope);
    std::set<RopeStyle> drawn;
    for (int64_t n = 1; n <= 500; ++n) {
      const Rope rope =
          planned_case(*find_law("agrees_with_oracle"), 9, n, scope).rope;
      if (rope.style != RopeStyle::kNone) drawn.insert(rope.style);
    }
    return drawn;
  };
  using Styles = std::set<RopeStyle>;
  EXPECT_EQ(styles(), (Styles{RopeStyle::kHalf, RopeStyle::kInterleaved}));
  own.flags = QKVET_FLAG_ROPE_HALF_ONLY;
  EXPECT_EQ(styles(), Styles{RopeStyle::kHalf});
  own.flags = QKVET_FLAG_ROPE_INTERLEAVED_ONLY;
  EXPECT_EQ(styles(), Styles{RopeStyle::kInterleaved});
}

TEST(Generate, DrawsListsWhereKernelsTakeThem) {
  KernelUnderTest kernel;
  KernelInfo& info = kernel.judged.info;
  info.has_forward = info.has_backward = true;
  info.capabilities.options =
      QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_CROSS_LENGTHS |
      QKVET_OPTION_LENGTHS | QKVET_OPTION_PAGED | QKVET_OPTION_KEY_LISTS;
  struct Drawn {
    int lists = 0, paged = 0, gradients = 0;
  };
  const auto drawn = [&kernel] {
    Scope scope;
    keep_scope_to({kernel}, scope);
    Drawn counts;
    for (int64_t n = 1; n <= 500; ++n) {
      const Case forward =
          planned_case(*find_law("lists_equal_masks"), 9, n, scope);
      counts.lists += forward.listed.entries > 0;
      const Case any =
          planned_case(*find_law("agrees_with_oracle"), 9, n, scope);
      counts.paged += any.listed.entries > 0 && any.paging.size > 0;
      const Case backward =
          planned_case(*find_law("backward_agrees_with_oracle"), 9, n, scope);
      counts.gradients += backward.listed.entries > 0;
    }
    return counts;
  };
  const Drawn all = drawn();
  EXPECT_GT(all.paged, 5);
  EXPECT_GT(all.gradients, 30);
  info.capabilities.flags =
      QKVET_FLAG_LISTS_OR_PAGES | QKVET_FLAG_LISTS_IN_FORWARD_ONLY;
  const Drawn left = drawn();
  EXPECT_EQ(left.paged, 0);
  EXPECT_EQ(left.gradients, 0);
  EXPECT_GT(left.lists, 400);
}

// Tokens of the longest command of the stories of a law.
int64_t longest_command(const Scope& scope) {
  int64_t longest = 0;
  for (int64_t n = 1; n <= 60; ++n) {
    const Case value =
        planned_case(*find_law("cache_agrees_with_history"), 5, n, scope);
    EXPECT_TRUE(keeps_pins(scope, value)) << to_string(value);
    for (const StoryCommand& command : value.story)
      if (command.verb == StoryVerb::kStep ||
          command.verb == StoryVerb::kAppend)
        longest = std::max(longest, command.count);
  }
  return longest;
}

TEST(Generate, APinnedCapacityIsFilled) {
  Scope scope;
  scope.largest = SizeClass::kSmall;
  EXPECT_LT(longest_command(scope), 30);  // the control
  scope.pins = {{"cap", 600}};
  EXPECT_GT(longest_command(scope), 150);
}

// Laws that no kernel can be asked are recognised once, and no others are left
// out.
TEST(Generate, KnowsTheLawsThatAskForWhatIsNotDeclared) {
  Scope bare;
  bare.options = QKVET_OPTION_CAUSAL_BOTTOM_RIGHT | QKVET_OPTION_SCALE |
                 QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_DEFAULT_SCALE;
  bare.layouts = 0;
  int left_out = 0;
  for (const Law* law : all_laws()) {
    EXPECT_EQ(undeclared_need(*law, Scope{}), "") << law->id;
    if (law->domain.subject != Subject::kAttention) continue;
    int answerable = 0;
    for (int64_t n = 1; n <= 300; ++n)
      answerable +=
          (options_of(planned_case(*law, 5, n, bare)) & ~allowed_by(bare)) == 0;
    const std::string need = undeclared_need(*law, bare);
    EXPECT_EQ(need.empty(), answerable > 0) << law->id << ": " << need;
    left_out += !need.empty();
  }
  EXPECT_GE(left_out, 15);
  EXPECT_EQ(undeclared_need(*find_law("page_size_changes_nothing"), bare),
            "not declared: pages");
}

}  // namespace
}  // namespace qkvet::properties::generate_test
