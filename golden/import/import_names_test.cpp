// SPDX-License-Identifier: Apache-2.0
// Names and layouts of tensors in other programs, and messages about files in
// which they are ambiguous.
#include "golden/import/import_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/files/call_tensors.h"

namespace qkvet::golden::import_names_test {
namespace {

using Shape = std::vector<int64_t>;

// Numbers 0, 1, 2, ... of f32.
NamedTensor counted(const Shape& shape) {
  NamedTensor tensor = {FileDtype::kF32, shape, {}};
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  for (int64_t n = 0; n < count; ++n) {
    const auto number = static_cast<float>(n);
    const auto bytes = std::as_bytes(std::span(&number, 1));
    tensor.data.insert(tensor.data.end(), bytes.begin(), bytes.end());
  }
  return tensor;
}

NamedTensor bools(const Shape& shape, std::string_view text) {
  NamedTensor tensor = {FileDtype::kBool, shape, {}};
  for (const char c : text) tensor.data.push_back(std::byte(c == '1'));
  return tensor;
}

ImportedTensors imported(const NamedTensors& file,
                         const ImportRules& rules = {}) {
  std::string error;
  const auto result = import_tensors(file, rules, &error);
  EXPECT_TRUE(result.has_value()) << error;
  return result.value_or(ImportedTensors{});
}

std::string error_of(const NamedTensors& file, const ImportRules& rules = {}) {
  std::string error;
  EXPECT_FALSE(import_tensors(file, rules, &error).has_value());
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

ImportRules mapped(std::string_view text) {
  ImportRules rules;
  EXPECT_EQ(parse_name_map(text, rules), "");
  return rules;
}

std::string names_of(const ImportedTensors& result) {
  std::string names;
  for (const auto& [name, tensor] : result.tensors) names += name + " ";
  names += "|";
  for (const std::string& name : result.ignored) names += " " + name;
  return names;
}

TEST(ImportNames, WellKnownNamesAreTaken) {
  const NamedTensor t = counted({1, 1, 2, 2});
  EXPECT_EQ(names_of(imported({{"query", t},
                               {"Key", t},
                               {"VALUE", t},
                               {"attn_output", t},
                               {"softmax_lse", counted({1, 1, 2})},
                               {"attn_weights", t},
                               {"present_key", t}})),
            "k lse o q v weights | present_key");
  EXPECT_EQ(names_of(imported({{"q", t}, {"k", t}, {"v", t}, {"Y", t}})),
            "k o q v |");
  // The output of a layer is y.
  EXPECT_EQ(names_of(imported(
                {{"hidden_states", t}, {"wq", t}, {"b_o", t}, {"output", t}})),
            "b_o w_q x y |");
  for (const ImportAliases& row : import_aliases()) {
    EXPECT_EQ(row.aliases[0], row.name);
    for (const ImportAliases& other : import_aliases())
      for (const std::string_view alias : other.aliases)
        if (&row != &other) {
          EXPECT_EQ(std::find(row.aliases.begin(), row.aliases.end(), alias),
                    row.aliases.end());
        }
  }
}

TEST(ImportNames, WhatAUserMapsComesFirst) {
  const NamedTensor t = counted({1, 1, 2, 2});
  const NamedTensors file = {{"q", counted({1, 1, 1, 2})}, {"query", t}};
  EXPECT_EQ(error_of(file),
            "\"q\" and \"query\" would both be q; --map q=... says which it "
            "is");
  const ImportedTensors result = imported(file, mapped("q=query"));
  EXPECT_EQ(names_of(result), "q | q");
  EXPECT_EQ(result.tensors.at("q").shape, t.shape);
  // A mapped tensor is not taken for another one as well.
  EXPECT_EQ(
      names_of(imported({{"key", t}, {"value", t}}, mapped("q=key,o=value"))),
      "o q |");
  EXPECT_EQ(error_of(file, mapped("k=kay")),
            "--map k=kay: there is no \"kay\"; the file has q f32 [1, 1, 1, "
            "2], query f32 [1, 1, 2, 2]");
}

TEST(ImportNames, AMaskIsWhatItsNumbersAre) {
  const NamedTensor flags = bools({2, 2}, "1001");
  ImportedTensors result = imported({{"attn_mask", flags}});
  EXPECT_EQ(names_of(result), "mask |");
  EXPECT_EQ(result.tensors.at("mask").shape, (Shape{1, 1, 2, 2}));
  EXPECT_EQ(result.tensors.at("mask").data, flags.data);
  EXPECT_EQ(names_of(imported({{"mask", counted({2, 2})}})), "bias |");
  EXPECT_EQ(
      names_of(imported({{"attn_mask", flags}, {"bias", counted({2, 2})}})),
      "bias mask |");
  EXPECT_EQ(names_of(imported({{"m", counted({2})}}, mapped("mask=m"))),
            "bias |");
  EXPECT_EQ(error_of({{"mask", counted({2})}, {"bias", counted({2})}}),
            "\"mask\" and \"bias\" would both be bias; --map bias=... says "
            "which it is");
  // Whole numbers are a mask: nonzero attends.
  NamedTensor whole = {FileDtype::kInt64, {3}, std::vector<std::byte>(24)};
  whole.data[8] = std::byte{2};
  result = imported({{"attention_mask", whole}});
  EXPECT_EQ(result.tensors.at("mask").dtype, FileDtype::kBool);
  EXPECT_EQ(result.tensors.at("mask").data, bools({3}, "010").data);
  EXPECT_EQ(error_of({{"mask", bools({1, 1, 1, 1, 1}, "1")}}),
            "mask is bool [1, 1, 1, 1, 1], but [B,H,Tq,Tk], or the last of "
            "these, is wanted");
}

TEST(ImportNames, EveryLayoutBecomesOne) {
  // Element (t, h, c) of [2,3,2] is 6 t + 2 h + c.
  const std::vector<double> turned = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11};
  const Shape wanted = {1, 3, 2, 2};
  const struct {
    const char *layout, *heads;
    Shape shape;
  } rows[] = {{"bthd", "", {1, 2, 3, 2}},
              {"thd", "", {2, 3, 2}},
              {"bhtd", "H3", {1, 2, 6}},
              {"bthd", "H3,Hkv3", {1, 2, 6}}};
  for (const auto& row : rows) {
    ImportRules rules;
    EXPECT_EQ(parse_import_layout(row.layout, rules), "");
    if (*row.heads != '\0') {
      EXPECT_EQ(parse_import_layout(row.heads, rules), "");
    }
    for (const char* name : {"q", "k", "v", "o"}) {
      const NamedTensor tensor =
          imported({{name, counted(row.shape)}}, rules).tensors.at(name);
      EXPECT_EQ(tensor.shape, wanted) << row.layout << row.heads;
      EXPECT_EQ(numbers_of(tensor), turned) << row.layout << row.heads;
    }
  }
  const NamedTensor same = imported({{"q", counted(wanted)}}).tensors.at("q");
  EXPECT_EQ(numbers_of(same), numbers_of(counted(wanted)));
  // Keys have heads of their own.
  ImportRules rules;
  EXPECT_EQ(parse_import_layout("H6,Hkv2", rules), "");
  EXPECT_EQ(imported({{"k", counted({1, 2, 6})}}, rules).tensors.at("k").shape,
            (Shape{1, 2, 2, 3}));
}

TEST(ImportNames, SumsOfRowsLieAsTheirQueriesDo) {
  const NamedTensor q = counted({1, 2, 3, 1});
  const auto lse_of = [&](const Shape& shape) {
    return imported({{"q", q}, {"lse", counted(shape)}}).tensors.at("lse");
  };
  for (const Shape& shape : {Shape{1, 2, 3}, Shape{2, 3}}) {
    EXPECT_EQ(lse_of(shape).shape, (Shape{1, 2, 3}));
    EXPECT_EQ(numbers_of(lse_of(shape)),
              (std::vector<double>{0, 1, 2, 3, 4, 5}));
  }
  for (const Shape& shape : {Shape{1, 3, 2}, Shape{3, 2}}) {
    EXPECT_EQ(lse_of(shape).shape, (Shape{1, 2, 3}));
    EXPECT_EQ(numbers_of(lse_of(shape)),
              (std::vector<double>{0, 2, 4, 1, 3, 5}));
  }
  EXPECT_EQ(error_of({{"q", q}, {"lse", counted({1, 2, 4})}}),
            "lse is f32 [1, 2, 4], but [B,H,Tq] of q, f32 [1, 2, 3], is "
            "wanted");
  EXPECT_EQ(
      imported({{"weights", counted({2, 3, 4})}}).tensors.at("weights").shape,
      (Shape{1, 2, 3, 4}));
}

TEST(ImportNames, WhatDoesNotFitIsNamed) {
  ImportRules thd, heads;
  EXPECT_EQ(parse_import_layout("thd", thd), "");
  EXPECT_EQ(parse_import_layout("H4", heads), "");
  EXPECT_EQ(error_of({{"q", counted({1, 2, 6})}}),
            "q is f32 [1, 2, 6], but [B,H,T,d] of layout bhtd, [B,T,H*d] with "
            "--layout H8, or [T,H,d] with --layout thd is wanted");
  EXPECT_EQ(error_of({{"k", counted({1, 2, 3, 4})}}, thd),
            "k is f32 [1, 2, 3, 4], but [T,H,d] of layout thd is wanted");
  EXPECT_EQ(error_of({{"o", counted({1, 2, 6})}}, heads),
            "o is f32 [1, 2, 6], but [B,T,H*d] with 4 heads is wanted");
  NamedTensor cut = counted({1, 1, 2, 2});
  cut.data.pop_back();
  EXPECT_EQ(error_of({{"v", cut}}),
            "v is 15 bytes of data, but f32 [1, 1, 2, 2] takes 16");
}

TEST(ImportNames, ArgumentsThatAreWrongAreNamed) {
  const std::string names =
      "; allowed is a list of NAME=THEIRS, with NAME one of q, k, v, x, w_q, "
      "w_k, w_v, w_o, b_q, b_k, b_v, b_o, mask, bias, sink, slopes, "
      "key_indices, topk_length, segments_q, segments_k, full_ranges, "
      "tree_mask, o, lse, weights, y";
  for (const std::string text : {"", "q", "q=", "kay=k", "=x"}) {
    ImportRules rules;
    EXPECT_EQ(parse_name_map(text, rules), "--map \"" + text + "\"" + names);
  }
  ImportRules rules;
  EXPECT_EQ(parse_name_map("q=a,k=b,", rules), "--map \"\"" + names);
  EXPECT_EQ(parse_name_map("v=a,v=b", rules), "--map names v twice" + names);
  for (const std::string text :
       {"", "bht", "H0", "H3,Hkv2", "H2,", ",H2", "H-1", "Hkv2", "2"})
    EXPECT_EQ(parse_import_layout(text, rules),
              "--layout \"" + text +
                  "\"; allowed are bhtd, bthd or thd, and H8,Hkv2 with H a "
                  "multiple of Hkv");
  EXPECT_EQ(rules.heads, 0);
}

// Every tensor of a recorded call can be imported.
TEST(ImportNames, AreThoseOfRecordedCalls) {
  for (const ImportAliases& row : import_aliases()) {
    EXPECT_TRUE(recorded_input(row.name) || parse_output_name(row.name))
        << row.name;
    EXPECT_EQ(row.aliases.front(), row.name);
  }
  const std::string names = recorded_names();
  const std::string plain = names.substr(0, names.find(','));
  EXPECT_EQ(std::ssize(import_aliases()),
            std::count(plain.begin(), plain.end(), ' ') + 1);
}

TEST(ImportNames, ArraysOfNumPyLieRowByRow) {
  const NamedTensor rows = counted({2, 3});
  const NamedTensor columns = counted({3, 2});
  std::string error;
  // The numbers 0 .. 5 with the first index running fastest: 0 2 4, 1 3 5.
  const auto file = npy_bytes({FileDtype::kF32, {2, 3}, columns.data},
                              /*fortran_order=*/true, &error);
  ASSERT_TRUE(file.has_value()) << error;
  NpzArrays arrays;
  arrays["f"] = {*parse_npy(*file, &error), *file};
  const auto plain = npy_bytes({FileDtype::kF32, {2, 3}, rows.data},
                               /*fortran_order=*/false, &error);
  arrays["c"] = {*parse_npy(*plain, &error), *plain};
  const NamedTensors tensors = named_tensors(arrays);
  EXPECT_EQ(tensors.at("f").shape, (Shape{2, 3}));
  EXPECT_EQ(numbers_of(tensors.at("f")),
            (std::vector<double>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(numbers_of(tensors.at("c")),
            (std::vector<double>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace qkvet::golden::import_names_test
