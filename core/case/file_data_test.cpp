// SPDX-License-Identifier: Apache-2.0
// Cases with data from files.
#include "core/case/file_data.h"

#include <gtest/gtest.h>

#include "core/testing/case_calls.h"

namespace qkvet::file_data_test {
namespace {

constexpr uint64_t kMark = 0x00c0ffee00c0ffee;

// q [1,2,3,2] = 0, 1, ...; k the same negated; a mask [1,1,3,3].
void add_data() {
  auto data = std::make_shared<FileData>();
  FileData::Tensor& q = data->tensors[TensorName::kQ];
  q.extents = {1, 2, 3, 2};
  for (int i = 0; i < 12; ++i) q.values.push_back(i);
  data->tensors[TensorName::kK] = q;
  for (double& value : data->tensors[TensorName::kK].values) value = -value;
  data->tensors[TensorName::kMask] = {{1, 1, 3, 3},
                                      {1, 0, 0, 1, 1, 0, 0, 1, 1}};
  data->tensors[TensorName::kSink] = {{2, 1, 1, 1}, {0.5, -0.5}};
  add_file_data(kMark, std::move(data));
}

const std::string kMarkText = ",file=00c0ffee00c0ffee";

TEST(FileData, ValuesTakeTheirPlaces) {
  add_data();
  const Inputs inputs = inputs_of(
      "f32,B1,H2,Tq3,Tk3,d2,mask=file.qk,sink=file,q=file,k=file,v=one" +
      kMarkText);
  EXPECT_EQ(inputs.q[7], 7);
  EXPECT_EQ(inputs.k[11], -11);
  EXPECT_EQ(inputs.v[3], 1);
  EXPECT_EQ(inputs.mask, (std::vector<uint8_t>{1, 0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(inputs.sink, (std::vector<double>{0.5, -0.5}));
  EXPECT_EQ(inputs.q_bytes.size(), 12 * sizeof(float));
}

TEST(FileData, ASmallerCaseHasTheFirstElements) {
  add_data();
  const Inputs inputs =
      inputs_of("f32,B1,H2,Tq2,Tk2,d1,mask=file.k,q=file" + kMarkText);
  EXPECT_EQ(inputs.q, (std::vector<double>{0, 2, 6, 8}));
  EXPECT_EQ(inputs.mask, (std::vector<uint8_t>{1, 0}));
}

TEST(FileData, TheSpellingReadsBack) {
  add_data();
  expect_canonical("f32,B1,H2,Tq3,Tk3,d2",
                   {",mask=file.qk,q=file,k=file" + kMarkText,
                    ",sink=file" + kMarkText + ",seed=7"});
  EXPECT_EQ(error_of("f32,B1,H2,Tq3,Tk3,d2,data=file" + kMarkText),
            "case: file=00c0ffee00c0ffee: the file has no v");
}

TEST(FileData, SingleValuesAndPoisonComeOnTop) {
  add_data();
  const Inputs inputs = inputs_of("f32,B1,H2,Tq3,Tk3,d2,qlen=2,q=file" +
                                  kMarkText + ",set=q.0.0.1.0:0x1p+4");
  EXPECT_EQ(inputs.q[2], 16);
  EXPECT_EQ(inputs.q[3], 3);
  EXPECT_NE(inputs.q[4], inputs.q[4]);
}

TEST(FileData, WhatCannotBeHadIsOneLine) {
  add_data();
  const std::string shape = "f32,B1,H2,Tq3,Tk3,d2";
  expect_refused(
      "", {{shape + ",q=file",
            "case: q comes from a file: file= with 16 hexadecimal digits is "
            "missing"},
           {shape + kMarkText,
            "case: file=00c0ffee00c0ffee: no tensor of the case comes from a "
            "file; write q=file, k=file, mask=file, ..."},
           {shape + ",q=file,file=1234567812345678",
            "case: file=1234567812345678: the data are not at hand; --data "
            "FILE names the file that has them"},
           {"f32,B1,H2,Tq4,Tk3,d2,q=file" + kMarkText,
            "case: file=00c0ffee00c0ffee: q of the file is [1,2,3,2], the "
            "case needs [1,2,4,2]"},
           {shape + ",q=file3" + kMarkText, "takes no number"}});
  for (const std::string wrong : {"12", "00c0ffee00c0ffe", "0000000000000000",
                                  "00c0ffee00c0ffeg", "-0c0ffee00c0ffee"})
    expect_refused(shape,
                   {{",q=file,file=" + wrong, "16 hexadecimal digits, as"}});
}

TEST(FileData, OfALayer) {
  auto data = std::make_shared<FileData>();
  data->tensors[TensorName::kX] = {{1, 1, 2, 1}, {3, 4}};
  for (const TensorName w :
       {TensorName::kWq, TensorName::kWk, TensorName::kWv, TensorName::kWo})
    data->tensors[w] = {{2, 2, 1, 1}, {1, 2, 3, static_cast<double>(w)}};
  data->tensors[TensorName::kBo] = {{2, 1, 1, 1}, {5, 6}};
  add_file_data(7, std::move(data));
  const Inputs inputs = inputs_of(
      "f32,B1,H1,T1,D2,biases=o,x=file,w=file,bias=file,"
      "file=0000000000000007");
  EXPECT_EQ(inputs.values(TensorName::kX), (std::vector<double>{3, 4}));
  EXPECT_EQ(inputs.values(TensorName::kWo)[3],
            static_cast<double>(TensorName::kWo));
  EXPECT_EQ(inputs.values(TensorName::kBo), (std::vector<double>{5, 6}));
}

}  // namespace
}  // namespace qkvet::file_data_test
