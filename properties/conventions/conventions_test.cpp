// SPDX-License-Identifier: Apache-2.0
// conventions.md: every declaration is valid, and invalid ones are refused with
// the right error.
#include "properties/conventions/conventions.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "core/case/case.h"
#include "core/case/exclusions.h"
#include "properties/conventions/domain.h"
#include "properties/judging/law.h"

namespace qkvet::properties::conventions_test {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

// The smallest page that is right: one convention.
const std::string kPage = R"(# Conventions
| convention | of |
|---|---|
| `mine` | My library |

## mine

What to mind.

| what | how | source |
|---|---|---|
| causal | top left | `mine.c` |

```qkvet
subject = attention
source = mine/mine 1
options = causal_top_left default_scale window lse
dtypes = f32
lse_base = base2
case = f32,B1,H1,Tq4,Tk4,d8,causal=tl
case = f32,B1,H1,Tq4,Tk4,d8,window=1.0
```
)";

std::string replaced(const std::string& from, const std::string& to) {
  std::string page = kPage;
  const size_t at = page.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return page.replace(at, from.size(), to);
}

std::string error_of(const std::string& page) {
  const ParsedConventions parsed = parse_conventions("page.md", page);
  EXPECT_TRUE(parsed.error.empty() || parsed.values.empty());
  EXPECT_EQ(parsed.error.find('\n'), std::string::npos) << parsed.error;
  return parsed.error;
}

TEST(Conventions, ARuleLeavesTheWidthsThatKeepIt) {
  Convention convention;
  const qkvet_capabilities& can = convention.declared.capabilities;
  EXPECT_EQ(declare("widths", "512 576/512", convention), "");
  EXPECT_EQ(declare("d", "min 576 max 576", convention), "");
  ASSERT_EQ(can.width_count, 1);
  EXPECT_EQ(can.widths[0].d, 576);
  // A declaration that allows no width is left for the library's reader to
  // refuse.
  EXPECT_EQ(declare("d", "max 16", convention), "");
  EXPECT_EQ(can.width_count, 1);
}

TEST(Conventions, ThePageIsReadAndIsTheOneInTheProgram) {
  const ParsedConventions now =
      parse_conventions("conventions.md", content_of(QKVET_CONVENTIONS));
  ASSERT_EQ(now.error, "");
  const ParsedConventions& built = built_in_conventions();
  ASSERT_EQ(built.error, "");
  ASSERT_EQ(now.values.size(), built.values.size());
  for (size_t i = 0; i < now.values.size(); ++i)
    EXPECT_EQ(now.values[i].cases, built.values[i].cases);
}

TEST(Conventions, TheLibrariesThatPeopleNameAreThere) {
  std::set<std::string> ids;
  for (const Convention& convention : built_in_conventions().values)
    ids.insert(convention.id);
  for (const char* id :
       {"nanogpt", "hf_gpt2", "torch_sdpa", "flax_attention", "tensorrt_llm",
        "flash_attention_2", "flash_attention_3", "vllm", "flashinfer", "ggml",
        "iree", "triton_tutorial"})
    EXPECT_TRUE(ids.contains(id)) << id;
  EXPECT_EQ(find_convention("xformers"), nullptr);
}

// The known disagreements of these libraries must be found.
TEST(Conventions, TellLibrariesApart) {
  ASSERT_EQ(built_in_conventions().error, "");
  const auto dialect = [](const char* id) {
    return find_convention(id)->declared.dialect;
  };
  const auto has = [](const char* id, uint64_t option) {
    return find_convention(id)->declared.has_option(option);
  };
  EXPECT_TRUE(has("torch_sdpa", QKVET_OPTION_CAUSAL_TOP_LEFT));
  EXPECT_FALSE(has("torch_sdpa", QKVET_OPTION_CAUSAL_BOTTOM_RIGHT));
  EXPECT_TRUE(has("flash_attention_2", QKVET_OPTION_CAUSAL_BOTTOM_RIGHT));
  EXPECT_FALSE(has("flash_attention_2", QKVET_OPTION_CAUSAL_TOP_LEFT));
  EXPECT_EQ(dialect("flash_attention_2").empty_row_lse,
            QKVET_EMPTY_LSE_PLUS_INF);
  EXPECT_EQ(dialect("flash_attention_3").empty_row_lse,
            QKVET_EMPTY_LSE_MINUS_INF);
  EXPECT_EQ(dialect("flash_attention_3").lse_base, QKVET_LSE_NATURAL);
  EXPECT_EQ(dialect("flashinfer").lse_base, QKVET_LSE_BASE2);
  EXPECT_EQ(dialect("triton_tutorial").lse_base, QKVET_LSE_BASE2);
  EXPECT_EQ(dialect("flax_attention").empty_row, QKVET_EMPTY_ROW_MEAN);
  EXPECT_EQ(dialect("iree").empty_row, QKVET_EMPTY_ROW_NAN);
  EXPECT_EQ(find_convention("nanogpt")->layer.weight, WeightOrder::kOutIn);
  EXPECT_EQ(find_convention("hf_gpt2")->layer.weight, WeightOrder::kInOut);
}

TEST(Conventions, EveryFactHasASourceAndEveryCaseIsTaken) {
  ASSERT_EQ(built_in_conventions().error, "");
  for (const Convention& convention : built_in_conventions().values) {
    EXPECT_GE(convention.facts.size(), 5u) << convention.id;
    for (const ConventionFact& fact : convention.facts) {
      EXPECT_LE(fact.what.size(), 11u) << fact.what;  // a column of explain
      EXPECT_GT(fact.source.size(), 3u) << convention.id << " " << fact.what;
    }
    for (const std::string& text : convention.cases)
      EXPECT_EQ(not_taken_reason(convention, text), "");
  }
}

// A word for every bit that the headers define, and no other.
TEST(Conventions, TheWordsAreThoseOfTheHeaders) {
  const std::string headers = content_of(QKVET_INCLUDE "/kernel.h") +
                              content_of(QKVET_INCLUDE "/layer.h");
  size_t words = 0;
  for (const BitKind kind :
       {BitKind::kOption, BitKind::kFlag, BitKind::kLayout, BitKind::kLayer}) {
    std::set<std::string> defined;
    const std::regex define("#define " + std::string(bit_prefix(kind)) +
                            "([A-Z0-9_]+) +\\(UINT64_C\\(1\\) << ([0-9]+)\\)");
    for (std::sregex_iterator it(headers.begin(), headers.end(), define), end;
         it != end; ++it) {
      std::string word = (*it)[1];
      for (char& c : word) c = static_cast<char>(std::tolower(c));
      defined.insert(word + "=" +
                     std::to_string(uint64_t{1} << std::stoi((*it)[2])));
    }
    std::set<std::string> known;
    for (const auto& [word, bit] : all_bits(kind))
      known.insert(word + "=" + std::to_string(bit));
    EXPECT_EQ(known, defined);
    words += known.size();
  }
  EXPECT_GT(words, 40u);
}

TEST(Conventions, AWholePageIsRead) {
  const ParsedConventions parsed = parse_conventions("page.md", kPage);
  ASSERT_EQ(parsed.error, "");
  ASSERT_EQ(parsed.values.size(), 1u);
  const Convention& mine = parsed.values[0];
  EXPECT_EQ(mine.id, "mine");
  EXPECT_EQ(mine.title, "My library");
  EXPECT_EQ(mine.mind, "What to mind.");
  ASSERT_EQ(mine.facts.size(), 1u);
  EXPECT_EQ(mine.facts[0].how, "top left");
  EXPECT_EQ(mine.sources, std::vector<std::string>{"mine/mine 1"});
  EXPECT_EQ(mine.declared.capabilities.options,
            QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_DEFAULT_SCALE |
                QKVET_OPTION_WINDOW | QKVET_OPTION_LSE);
  EXPECT_EQ(mine.declared.dialect.lse_base, QKVET_LSE_BASE2);
  EXPECT_EQ(mine.cases.size(), 2u);
}

TEST(Conventions, WhatIsNoDeclarationIsNamedWithItsLine) {
  const struct {
    std::string page;
    const char* error;
  } rows[] = {
      {replaced("lse_base", "lse_bass"),
       "page.md:19: unknown field \"lse_bass\"; allowed: empty_row"},
      {replaced("base2", "ten"), "page.md:19: \"ten\": allowed: natural base2"},
      {replaced(" window lse", " windows lse"),
       "page.md:17: \"windows\": allowed: causal_top_left"},
      {replaced(" window lse", " lse lse"), "\"lse\" is given twice"},
      {replaced("dtypes = f32", "dtypes = f31"),
       "page.md:18: \"f31\": allowed"},
      {replaced("dtypes = f32", "dtypes f32"), "write field = value"},
      {replaced("dtypes = f32", "dtypes ="), "dtypes has no value"},
      {replaced("dtypes = f32", "dtypes = f32\ndtypes = f16"),
       "dtypes is given twice"},
      {replaced("dtypes = f32", "d = max"), "max needs a number"},
      {replaced("dtypes = f32", "d = at 8"),
       "\"at\": allowed: min max multiple"},
      {replaced("dtypes = f32", "rope = half"), "rope = STYLES comes with"},
      {replaced("dtypes = f32", "pages.order = hdn"),
       "\"hdn\": allowed: nhd hnd"},
      {replaced("dtypes = f32", "pages.order = hnd"), "come with option paged"},
      {replaced("dtypes = f32", "layer.weight = in_out"), "only for one"},
      {replaced("subject = attention", "subject = cache"),
       "\"cache\": allowed: attention layer"}};
  for (const auto& row : rows)
    EXPECT_NE(error_of(row.page).find(row.error), std::string::npos)
        << row.error << "\n"
        << error_of(row.page);
}

TEST(Conventions, ACaseHasToFitItsDeclaration) {
  const struct {
    const char *to, *error;
  } rows[] = {{"window=1.0,softcap=2",
               "page.md:21: \"f32,B1,H1,Tq4,Tk4,d8,window=1.0,softcap=2\": a "
               "softcap is "
               "not declared"},
              {"scale=2", "a given scale is not declared"},
              {"causal=br", "causal from the bottom right is not declared"},
              {"mask=padding", "a mask is not declared"},
              {"rope=half", "this style of rope is not declared"},
              {"layout=bthd", "contiguous [B, T, H, d] is not declared"},
              {"page=2", "pages (block_table) is not declared"},
              {"window=1", "case: \"window=1\": write window=LEFT.RIGHT"},
              {"colour=red", "case: unknown key \"colour\""},
              {"causal", "is spelled \"f32,B1,H1,Tq4,Tk4,d8,causal=br\""}};
  for (const auto& row : rows)
    EXPECT_NE(error_of(replaced("window=1.0", row.to)).find(row.error),
              std::string::npos)
        << row.to << "\n"
        << error_of(replaced("window=1.0", row.to));
  EXPECT_NE(error_of(replaced("case = f32,B1,H1,Tq4,Tk4,d8,window=1.0",
                              "case = f32,B1,H1,T4,D8"))
                .find("no layer is declared"),
            std::string::npos);
  EXPECT_NE(error_of(replaced("case = f32,B1,H1,Tq4,Tk4,d8,window=1.0",
                              "case = fp8e4m3,B1,H1,Tq4,Tk4,d8"))
                .find("no tensors can be made of fp8e4m3"),
            std::string::npos);
}

TEST(Conventions, AStyleOfRopeHasToBeDeclared) {
  const auto page = [](const std::string& styles, const std::string& style) {
    std::string text = replaced("window lse", "window lse rope");
    text.replace(text.find("dtypes = f32"), 0, "rope = " + styles + "\n");
    const std::string from = "window=1.0";
    return text.replace(text.find(from), from.size(), "rope=" + style);
  };
  EXPECT_EQ(error_of(page("half", "half")), "");
  EXPECT_EQ(error_of(page("half interleaved", "interleaved")), "");
  EXPECT_NE(error_of(page("half", "interleaved"))
                .find("this style of rope is not declared"),
            std::string::npos);
}

TEST(Conventions, EverySectionIsListedAndHasItsParts) {
  const std::string end = "case = f32,B1,H1,Tq4,Tk4,d8,window=1.0\n```\n";
  const struct {
    std::string page;
    const char* error;
  } rows[] = {
      {replaced("| `mine` | My library |",
                "| `mine` | My library |\n| `other` | Missing |"),
       "\"other\" is listed and has no section"},
      {replaced("| `mine` | My library |",
                "| `mine` | My library |\n| `mine` | Again |"),
       "page.md:5: \"mine\" is listed twice"},
      {replaced("## mine", "## yours"),
       "page.md:6: \"yours\" has a section and is not listed"},
      {replaced(end, end + "\n## mine\n"), "\"mine\" has two sections"},
      {replaced(end, end + "```qkvet\n"), "a section has one block"},
      {replaced(end, ""), "the block does not end"},
      {replaced("```qkvet", "```"), "\"mine\" has no block"},
      {replaced("What to mind.", ""), "\"mine\" has no paragraph"},
      {replaced("| causal | top left | `mine.c` |\n", ""),
       "\"mine\" has no table"},
      {replaced("top left", ""), "page.md:12: a row has three cells"},
      {replaced("subject = attention\n", ""), "\"mine\" has no subject"},
      {replaced("source = mine/mine 1\n", ""), "\"mine\" has no source"},
      {"# Nothing\n", "no convention is listed"},
      {"", "no convention is listed"}};
  for (const auto& row : rows)
    EXPECT_NE(error_of(row.page).find(row.error), std::string::npos)
        << row.error << "\n"
        << error_of(row.page);
}

// ---- Storage, by the definition of the libraries' own operations -----------

constexpr TensorName kFused[] = {TensorName::kWq, TensorName::kWk,
                                 TensorName::kWv};

// A number that encodes row and column of the fused projection.
int64_t code(int64_t in, int64_t out) { return 1000 * in + out; }

TEST(ConventionStorage, FusedMatricesAreSplitAsTheLibrariesSplitThem) {
  Shape s;
  s.H = 4, s.Hkv = 2, s.d = s.dv = 3, s.D = 5;
  const int64_t columns = (s.H + 2 * s.Hkv) * s.d;
  for (const WeightOrder order : {WeightOrder::kInOut, WeightOrder::kOutIn}) {
    // The array of the framework: weight[out][in] or weight[in][out].
    std::vector<int64_t> weight(static_cast<size_t>(columns * s.D));
    for (int64_t in = 0; in < s.D; ++in)
      for (int64_t out = 0; out < columns; ++out)
        weight[static_cast<size_t>(order == WeightOrder::kOutIn
                                       ? out * s.D + in
                                       : in * columns + out)] = code(in, out);
    // Its output is split into H d columns of q, Hkv d of k, Hkv d of v.
    int64_t first = 0;
    for (const TensorName name : kFused) {
      const MatrixView view = matrix_view({true, order, {}}, s, name);
      const int64_t width = (name == TensorName::kWq ? s.H : s.Hkv) * s.d;
      for (int64_t r = 0; r < s.D; ++r)
        for (int64_t c = 0; c < width; ++c)
          ASSERT_EQ(
              weight[static_cast<size_t>(view.offset + r * view.strides[0] +
                                         c * view.strides[1])],
              code(r, first + c))
              << tensor_name(name) << " " << r << " " << c;
      const auto bias = static_cast<TensorName>(
          static_cast<int>(name) - static_cast<int>(TensorName::kWq) +
          static_cast<int>(TensorName::kBq));
      EXPECT_EQ(matrix_view({true, order, {}}, s, bias).offset, first);
      first += width;
    }
    EXPECT_EQ(first, columns);
  }
}

TEST(ConventionStorage, MatricesOfTheirOwnBeginAtZero) {
  Shape s;
  s.H = 4, s.Hkv = 2, s.d = 3, s.dv = 2, s.D = 5;
  const LayerStorage out_in{false, WeightOrder::kOutIn, {}};
  const LayerStorage in_out{false, WeightOrder::kInOut, {}};
  for (const TensorName name : kFused) {
    EXPECT_EQ(matrix_view(out_in, s, name).offset, 0);
    EXPECT_EQ(matrix_view(out_in, s, name).strides,
              (std::array<int64_t, 2>{1, 5}));
  }
  EXPECT_EQ(matrix_view(in_out, s, TensorName::kWv).strides,
            (std::array<int64_t, 2>{4, 1}));
  EXPECT_EQ(matrix_view(in_out, s, TensorName::kWo).strides,
            (std::array<int64_t, 2>{5, 1}));
  EXPECT_EQ(matrix_view(out_in, s, TensorName::kWo).strides,
            (std::array<int64_t, 2>{1, 8}));
}

TEST(ConventionStorage, PoolsAreIndexedAsTheLibrariesIndexThem) {
  constexpr int64_t kPages = 3, kHeads = 2, kTokens = 4, kWidth = 5;
  // The element of [pages, heads, tokens, width], by each library's own shape.
  const auto place = [&](PagePool pool, PageAxes axes, int64_t kv, int64_t p,
                         int64_t h, int64_t t, int64_t c) {
    const int64_t in_page = axes == PageAxes::kTokensFirst
                                ? (t * kHeads + h) * kWidth + c
                                : (h * kTokens + t) * kWidth + c;
    constexpr int64_t kPerPage = kHeads * kTokens * kWidth;
    switch (pool) {
      case PagePool::kHalves:  // [2, pages, ...]
        return (kv * kPages + p) * kPerPage + in_page;
      case PagePool::kPairs:  // [pages, 2, ...]
        return (p * 2 + kv) * kPerPage + in_page;
      default:
        return p * kPerPage + in_page;
    }
  };
  for (const PagePool pool :
       {PagePool::kApart, PagePool::kHalves, PagePool::kPairs})
    for (const PageAxes axes : {PageAxes::kTokensFirst, PageAxes::kHeadsFirst})
      for (int64_t n = 0; n < 2 * kPages * kHeads * kTokens * kWidth; ++n) {
        const int64_t c = n % kWidth, t = n / kWidth % kTokens,
                      h = n / kWidth / kTokens % kHeads,
                      p = n / kWidth / kTokens / kHeads % kPages,
                      kv = n / kWidth / kTokens / kHeads / kPages;
        const PoolView view =
            pool_view({axes, pool}, {kPages, kHeads, kTokens, kWidth}, kv == 1);
        ASSERT_EQ(view.offset + p * view.strides[0] + h * view.strides[1] +
                      t * view.strides[2] + c * view.strides[3],
                  place(pool, axes, kv, p, h, t, c));
      }
}

// vLLM's key_cache[p][h][c / x][t][c % x] and value_cache[p][h][c][t].
TEST(ConventionStorage, ChannelGroupsAreIndexedAsVllmIndexesThem) {
  constexpr int64_t kPages = 3, kHeads = 2, kTokens = 5, kWidth = 12, kX = 4;
  const PageStorage storage = {PageAxes::kChannelGroups, PagePool::kApart};
  const PoolExtents pool = {kPages, kHeads, kTokens, kWidth, kX};
  const PoolView k = pool_view(storage, pool, /*is_value=*/false);
  const PoolView v = pool_view(storage, pool, /*is_value=*/true);
  for (int64_t p = 0; p < kPages; ++p)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t t = 0; t < kTokens; ++t)
        for (int64_t c = 0; c < kWidth; ++c) {
          const int64_t head = p * kHeads + h;
          ASSERT_EQ(
              k.offset + p * k.strides[0] + h * k.strides[1] +
                  t * k.strides[2] + c / kX * k.strides[3] +
                  c % kX * k.strides[4],
              ((head * (kWidth / kX) + c / kX) * kTokens + t) * kX + c % kX);
          ASSERT_EQ(v.offset + p * v.strides[0] + h * v.strides[1] +
                        t * v.strides[2] + c * v.strides[3],
                    (head * kWidth + c) * kTokens + t);
        }
}

// An option without a row would never be drawn, named or taken away.
TEST(Domain, EveryOptionOfACaseIsListedAndHasAName) {
  for (const CaseOption& option : case_options())
    EXPECT_NE(option_names(option.option), "") << option.key;
  EXPECT_EQ(option_names(uint64_t{1} << 59), "") << "an option of no row";
}

// A law about an option is not drawn with a part that excludes it, and a
// repaired case keeps the subject of its law.
TEST(Domain, WhatExcludesAnotherIsReadFromOneList) {
  const uint64_t beside_no = options_beside_no(CallPart::kValuesInKeys);
  int allowing = 0, about = 0;
  for (const Law* law : all_laws()) {
    const bool allows =
        (allowed_in(law->domain) & QKVET_OPTION_VALUES_IN_KEYS) != 0;
    allowing += allows;
    if ((law->domain.about & beside_no) == 0) continue;
    EXPECT_FALSE(allows) << law->id;
    ++about;
  }
  EXPECT_GT(allowing, 10);
  EXPECT_GT(about, 2);
  Case value = *parse_case("f32,B2,H2,Tq4,Tk4,d4,page=2,lens=i32").value;
  value.share = kShareB | kShareH;
  value.layout = Layout::kPacked;
  value.append = 1;
  value.values_in_keys = true;
  EXPECT_NE(invalid_reason(value), "");
  EXPECT_EQ(to_string(keep_allowed(value, ~uint64_t{0})),
            "f32,B2,H2,Tq4,Tk4,d4,lens=i32,layout=bthd,values=keys,page=2");
}

}  // namespace
}  // namespace qkvet::properties::conventions_test
