// SPDX-License-Identifier: Apache-2.0
// The spelling and the data of cases about layers and caches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/philox.h"
#include "core/testing/case_calls.h"

namespace qkvet::case_subjects_test {
namespace {

TEST(LayerText, HeadWidthsFollowFromTheModelWidth) {
  const std::string text =
      "f32,B2,H4,Hkv2,T5,D8,causal,biases=qo,x=lattice,w=onehot,seed=7";
  const Case c = parsed(text);
  EXPECT_EQ(c.subject(), Subject::kLayer);
  EXPECT_EQ(c.shape, (Shape{2, 4, 2, 5, 5, 2, 2, 8}));
  EXPECT_EQ(c.causal, Causal::kBottomRight);
  EXPECT_EQ(c.biases, kBiasQ | kBiasO);
  EXPECT_EQ(to_string(c), text);
  EXPECT_EQ(to_string(parsed("f32,B2,H4,Hkv2,T5,D8,causal=tl,biases=oq,"
                             "x=lattice,w=onehot,seed=7")),
            text);
}

TEST(LayerText, HeadWidthsMayBeGiven) {
  const std::string text = "bf16,B1,H3,T2,D7,d4,dv5,unbatched";
  const Case c = parsed(text);
  EXPECT_EQ(c.shape, (Shape{1, 3, 3, 2, 2, 4, 5, 7}));
  EXPECT_TRUE(c.unbatched);
  EXPECT_EQ(to_string(c), text);
}

TEST(StoryCaseText, ExtentsFollowFromTheStory) {
  const std::string text =
      "f32,B2,H2,Hkv1,d4,dv3,cap8,k=onehot,seed=3,"
      "story=step.a.3+append.b.2+attend.a.2";
  const Case c = parsed(text);
  EXPECT_EQ(c.subject(), Subject::kCache);
  EXPECT_EQ(c.shape, (Shape{2, 2, 1, 5, 3, 4, 3}));
  EXPECT_EQ(c.capacity, 8);
  EXPECT_EQ(to_string(c), text);
}

TEST(StoryCaseText, CachesHaveForms) {
  const std::string text =
      "f32,B2,H2,d4,cap8,win5,first2,rollback3,stored=fp8channel,"
      "story=step.a.3+fork.a.b+reorder.ba";
  const Case c = parsed(text);
  EXPECT_EQ(c.cache, (CacheForm{5, 2, 3, StoredAs::kFp8PerChannel}));
  EXPECT_EQ(to_string(c), text);
  for (const char* stored : {"int8token", "int8channel", "fp8token"})
    EXPECT_NE(to_string(parsed("f32,B1,H1,d1,cap4,story=step.a.1,stored=" +
                               std::string(stored)))
                  .find(stored),
              std::string::npos);
}

// The largest magnitude of a channel over all tokens, as the largest code.
TEST(StoryData, ScalesAreThoseOfTheChannels) {
  const Case c = parsed(
      "f32,B2,H2,Hkv1,d3,dv2,cap8,stored=int8channel,story=append.a.4+step.b."
      "2");
  const Inputs inputs = make_inputs(c);
  ASSERT_EQ(inputs.k_scale.size(), 3u);
  ASSERT_EQ(inputs.v_scale_bytes.size(), 2 * sizeof(float));
  for (size_t column = 0; column < 3; ++column) {
    double most = 0;
    for (size_t n = column; n < inputs.k.size(); n += 3)
      most = std::max(most, std::fabs(inputs.k[n]));
    EXPECT_EQ(inputs.k_scale[column],
              static_cast<double>(static_cast<float>(most / 127)));
  }
  EXPECT_TRUE(inputs_of("f32,B1,H1,d1,cap4,stored=int8token,"
                        "story=step.a.1")
                  .k_scale.empty());
}

TEST(BackwardText, IsAttentionWithATokenMore) {
  const std::string text =
      "f32,B1,H4,Hkv2,Tq17,Tk33,d64,causal=br,window=3.0,mask=random,bias="
      "small,"
      "softcap=2,sink=one,alibi=one,qlen=3,kvlen=9,layout=bthd,backward,"
      "k=onehot,do=onehot1,seed=7,set=do.0.3.16.63:0x1p+1";
  const Case c = parsed(text);
  EXPECT_EQ(c.subject(), Subject::kBackward);
  EXPECT_TRUE(c.has_options());
  EXPECT_EQ(c.d_o, (Recipe{RecipeKind::kOnehotN, 1}));
  EXPECT_EQ(to_string(c), text);
  EXPECT_EQ(parsed("f32,B1,H1,Tq1,Tk1,d1").subject(), Subject::kAttention);
  EXPECT_EQ(to_string(parsed("backward,B1,H1,Tq0,Tk2,d1,f32,cuq=0.0,cuk=0.1")),
            "f32,B1,H1,Tq0,Tk2,d1,cuq=0.0,cuk=0.1,backward");
}

// Stored as o is, of numbers of its own, and poison beyond the lengths.
TEST(BackwardData, HasTheExtentsOfO) {
  const Case c =
      parsed("q=f32,kv=f32,o=bf16,B2,H2,Hkv1,Tq3,Tk4,d2,dv5,qlen=3.1,backward");
  const Inputs inputs = make_inputs(c);
  ASSERT_EQ(inputs.d_o.size(), 2u * 2 * 3 * 5);
  EXPECT_EQ(inputs.d_o_bytes.size(), inputs.d_o.size() * 2);
  EXPECT_EQ(std::count_if(inputs.d_o.begin(), inputs.d_o.end(),
                          [](double x) { return std::isnan(x); }),
            2 * 2 * 5);
  EXPECT_NE(inputs.d_o[0], inputs.q[0]);
  EXPECT_TRUE(inputs.given_o.empty());
  Case other = c;
  other.d_o = make_recipe(RecipeKind::kOne);
  EXPECT_NE(input_digest(make_inputs(other)), input_digest(inputs));
  other.backward = false;
  EXPECT_TRUE(make_inputs(other).d_o.empty());
}

TEST(LayerBackwardText, IsALayerWithATokenMore) {
  const std::string text =
      "bf16,B1,H4,Hkv2,T17,D32,d6,dv5,causal,scale=0.5,rope=half,backward,"
      "dy=onehot1,unbatched,biases=qo,x=one,seed=7,set=dy.0.16.31:0x1p+1";
  const Case c = parsed(text);
  EXPECT_EQ(c.subject(), Subject::kLayerBackward);
  EXPECT_TRUE(c.is_layer());
  EXPECT_FALSE(c.has_options());
  EXPECT_EQ(c.d_o, (Recipe{RecipeKind::kOnehotN, 1}));
  EXPECT_EQ(to_string(c), text);
  Case forward = parsed("f32,B1,H1,T1,D1");
  EXPECT_EQ(forward.subject(), Subject::kLayer);
  EXPECT_EQ(to_string(parsed("backward,B1,H1,T1,D1,f32")),
            "f32,B1,H1,T1,D1,backward");
}

// It has numbers of its own, in the extents of y; the layer's are what they are
// without it.
TEST(LayerBackwardData, HasTheExtentsOfY) {
  Case c = parsed("f16,B2,H2,T3,D4,biases=k,backward");
  const Inputs inputs = make_inputs(c);
  ASSERT_EQ(inputs.d_y.size(), 2u * 3 * 4);
  EXPECT_EQ(inputs.d_y_bytes.size(), inputs.d_y.size() * 2);
  EXPECT_TRUE(inputs.d_o.empty());
  EXPECT_TRUE(inputs.q.empty());
  EXPECT_NE(inputs.d_y, inputs.values(TensorName::kX));
  EXPECT_NE(inputs.d_y[0], inputs.d_y[1]);
  Case other = c;
  other.d_o = make_recipe(RecipeKind::kOne);
  const Inputs changed = make_inputs(other);
  for (const TensorName name : kLayerInputs)
    EXPECT_EQ(changed.values(name), inputs.values(name));
  EXPECT_NE(input_digest(changed), input_digest(inputs));
  c.set = {{TensorName::kDY, {1, 2, 3}, 8}};
  EXPECT_EQ(make_inputs(c).d_y.back(), 8);
  c.backward = false;
  c.set.clear();
  EXPECT_TRUE(make_inputs(c).d_y.empty());
  const Inputs forward = make_inputs(c);
  for (const TensorName name : kLayerInputs)
    EXPECT_EQ(forward.values(name), inputs.values(name));
}

TEST(SubjectText, BadInputGetsOneClearLine) {
  expect_refused(
      "",
      {
          {"f32,B1,H1,d1,cap4,first2,story=step.a.1", "win is missing"},
          {"f32,B1,H1,d1,cap4,win0,story=step.a.1", "win0: allowed 1"},
          {"f32,B1,H1,d1,cap4,stored=int4,story=step.a.1", "allowed int8token"},
          {"f32,B1,H1,Tq1,Tk1,d1,win2", "only a cache has win"},
          {"f32,B1,H1,Tq1,Tk1,d1,do=one", "only a backward case has do="},
          {"f32,B1,H1,Tq1,Tk1,d1,set=do.0.0.0.0:0x1p+0", "the case has no do"},
          {"f32,B1,H1,Tq1,Tk1,d1,backward,backward", "backward is given twice"},
          {"f32,B1,H1,Tq1,Tk1,d1,backward,do=some", "unknown recipe"},
          {"f32,B1,H1,Tq1,Tk1,d2,page=1,backward",
           "backward has no page=; allowed beside it: causal="},
          {"f32,B1,H1,Tq1,Tk1,d1,share=b,backward", "backward has no share="},
          {"f32,B1,H1,Tq1,Tk1,d1,append=1,backward", "backward has no append="},
          {"f32,B1,H1,T1,D1,dy=one", "only a backward case has dy="},
          {"f32,B1,H1,T1,D1,backward,do=one", "a layer has no do recipe"},
          {"f32,B1,H1,T1,D1,set=dy.0.0.0:0x1p+0", "the case has no dy"},
          {"f32,B1,H1,T1,D1,backward,set=do.0.0.0.0:0x1p+0",
           "the case has no do"},
          {"f32,B1,H1,Tq1,Tk1,d1,backward,dy=one",
           "a case without D and T has no dy recipe"},
          {"f32,B1,H1,d1,cap4,backward,story=step.a.1",
           "a story has no backward"},
          {"f32,B1,H4,T5,D10", "D must be a multiple of H"},
          {"f32,B1,H4,D8", "T is missing; a layer needs"},
          {"f32,B1,H4,T5", "D is missing; a layer needs"},
          {"f32,B1,H4,Tq5,T5,D8", "a layer has no Tq"},
          {"f32,B1,H4,T5,D8,q=zero", "a layer has no q recipe"},
          {"f32,B2,H4,T5,D8,unbatched", "[T,D] has no batch"},
          {"f32,B1,H4,T5,D8,biases=qq", "each once"},
          {"f32,B1,H4,T5,D8,biases=x", "letters q k v o"},
          {"f32,B1,H4,T0,D8", "T0: allowed"},
          {"q=f32,kv=f16,o=f32,B1,H4,T5,D8", "one storage type"},
          {"f32,B1,H4,T5,D8,set=q.0.0.0.0:0x1p+0", "the case has no q"},
          {"f32,B1,H4,T5,D8,set=w_q.8.0:0x1p+0", "outside of w_q"},
          {"f32,B1,H4,T5,D8,set=x.0.0:0x1p+0", "write set="},
          {"f32,B1,H1,Tq1,Tk1,d1,set=x.0.0.0:0x1p+0", "the case has no x"},
          {"f32,B1,H1,Tq1,Tk1,d1,unbatched",
           "without D and T has no unbatched"},
          {"f32,B1,H1,d1,cap4", "story is missing"},
          {"f32,B1,H1,d1,story=step.a.1", "cap is missing"},
          {"f32,B1,H1,Tq1,d1,cap4,story=step.a.1", "a story has no Tq"},
          {"f32,B1,H1,d1,cap4,causal,story=step.a.1", "a story has no causal"},
          {"f32,B9,H1,d1,cap4,story=step.a.1", "at most 8 sequences"},
          {"f32,B1,H1,d1,cap4,story=jump.a.1", "write append.a.N"},
          {"f32,B1,H1,T1,D1,cap4,story=step.a.1", "one or the other"},
          {"f32,B1,H1,d1,cap2000000,story=step.a.1", "cap2000000: allowed"},
      });
}

// A case with options and data at random.
Case random_case(uint32_t n) {
  const auto draw = [n](uint32_t field) { return philox_u64(13, n, field, 0); };
  const auto extent = [&](uint32_t f) {
    return static_cast<int64_t>(1 + draw(f) % 4);
  };
  Case c;
  c.shape.Hkv = extent(0);
  c.shape.H = c.shape.Hkv * extent(1);
  c.shape.d = extent(2);
  c.shape.dv = draw(3) % 2 ? c.shape.d : extent(4);
  c.seed = draw(5);
  if (n % 2 == 0) {
    c.shape.Tq = c.shape.Tk = extent(6);
    c.shape.D = draw(7) % 2 ? c.shape.H * c.shape.d : extent(8);
    c.unbatched = draw(9) % 2 == 0;
    c.shape.B = c.unbatched ? 1 : extent(10);
    c.biases = static_cast<uint8_t>(draw(11) % 16);
    if (draw(12) % 2) c.causal = Causal::kBottomRight;
    c.x.kind = draw(13) % 2 ? RecipeKind::kLattice : RecipeKind::kNormal;
    c.w = make_recipe(RecipeKind::kScaledN);
    if (draw(14) % 2) c.bias.kind = RecipeKind::kOne;
    if (draw(15) % 2) c.set.push_back({TensorName::kWo, {0, 0, 0, 0}, 1.5});
  } else {
    c.shape.B = extent(6);
    c.capacity = extent(7) * 3;
    for (uint32_t i = 0; i < 1 + draw(8) % 6; ++i) {
      StoryCommand command;
      command.verb = static_cast<StoryVerb>(draw(20 + 3 * i) % 5);
      command.sequence = static_cast<int64_t>(draw(21 + 3 * i) % 8);
      if (command.verb != StoryVerb::kReset)
        command.count = static_cast<int64_t>(1 + draw(22 + 3 * i) % 9);
      c.story.push_back(command);
    }
    constrain_extents_to_story(c);
  }
  return c;
}

TEST(SubjectText, RoundTripIsTheIdentity) { expect_round_trips(random_case); }

TEST(LayerData, EveryTensorHasItsExtents) {
  const Case c = parsed("f32,B2,H4,Hkv2,T3,D5,d2,dv3,biases=kv");
  const Inputs inputs = make_inputs(c);
  const std::pair<TensorName, size_t> sizes[] = {
      {TensorName::kX, 2 * 3 * 5},  {TensorName::kWq, 5 * 4 * 2},
      {TensorName::kWk, 5 * 2 * 2}, {TensorName::kWv, 5 * 2 * 3},
      {TensorName::kWo, 4 * 3 * 5}, {TensorName::kBq, 0},
      {TensorName::kBk, 2 * 2},     {TensorName::kBv, 2 * 3},
      {TensorName::kBo, 0}};
  for (const auto& [name, size] : sizes) {
    EXPECT_EQ(inputs.values(name).size(), size) << tensor_name(name);
    EXPECT_EQ(inputs.bytes(name).size(), size * 4) << tensor_name(name);
  }
  EXPECT_TRUE(inputs.q.empty());
}

TEST(LayerData, MatricesAreNotEachOther) {
  const Inputs inputs = inputs_of("f32,B1,H2,T2,D4");
  EXPECT_NE(inputs.values(TensorName::kWq), inputs.values(TensorName::kWk));
  EXPECT_NE(inputs.values(TensorName::kWk), inputs.values(TensorName::kWv));
  EXPECT_NE(inputs.values(TensorName::kWv), inputs.values(TensorName::kWo));
}

TEST(LayerData, SetReplacesOneWeight) {
  const Case c = parsed("f32,B1,H1,T1,D3,w=zero,set=w_k.1.2:0x1.8p+1");
  const Inputs inputs = make_inputs(c);
  const std::vector<double>& w_k = inputs.values(TensorName::kWk);
  for (size_t i = 0; i < w_k.size(); ++i)
    EXPECT_EQ(w_k[i], i == 5 ? 3.0 : 0.0) << i;
}

// Frozen: golden sets and corpora depend on the data of a case.
TEST(SubjectData, DigestIsTheSameOnEveryMachine) {
  EXPECT_EQ(input_digest(inputs_of("f32,B1,H2,T3,D4,biases=qkvo")),
            0xba6f812du);
  EXPECT_EQ(
      input_digest(inputs_of("f32,B2,H2,Hkv1,d3,cap8,story=step.a.3+step.b.2")),
      0xb45e09b1u);
}

}  // namespace
}  // namespace qkvet::case_subjects_test
