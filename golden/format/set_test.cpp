// SPDX-License-Identifier: Apache-2.0
// Golden sets as files: what is read, and what is refused in one line.
#include "golden/format/set.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/case/file_data.h"

namespace qkvet::golden::set_test {
namespace {

template <class Number>
NamedTensor tensor(FileDtype dtype, std::vector<int64_t> shape,
                   std::vector<Number> numbers) {
  NamedTensor made{dtype, std::move(shape), {}};
  made.data.resize(numbers.size() * sizeof(Number));
  std::memcpy(made.data.data(), numbers.data(), made.data.size());
  return made;
}

NamedTensor f32(std::vector<int64_t> shape, std::vector<float> numbers) {
  return tensor(FileDtype::kF32, std::move(shape), std::move(numbers));
}
NamedTensor f64(std::vector<int64_t> shape, std::vector<double> numbers) {
  return tensor(FileDtype::kF64, std::move(shape), std::move(numbers));
}

// One query, two keys with equal scores: the mean of 1 and 3.
NamedTensors mean_tensors() {
  return {{"q", f32({1, 1, 1, 1}, {0})},
          {"k", f32({1, 1, 2, 1}, {1, 2})},
          {"v", f32({1, 1, 2, 1}, {1, 3})},
          {"o", f64({1, 1, 1, 1}, {2})}};
}

SafetensorsMetadata mean_metadata() {
  return {{"qkvet", "golden 1"},
          {"case", "f32,B1,H1,Tq1,Tk2,d1,q=file,k=file,v=file"},
          {"pins", "equal scores make a mean"},
          {"source", "by hand"},
          {"generator", ""},
          {"arithmetic", "exact"}};
}

std::optional<GoldenSet> read(const NamedTensors& tensors,
                              const SafetensorsMetadata& metadata,
                              std::string* error) {
  const auto bytes = safetensors_bytes(tensors, metadata, error);
  EXPECT_TRUE(bytes) << *error;
  return read_golden_set(*bytes, "mean", "mean.safetensors", error);
}

std::string error_of(const NamedTensors& tensors,
                     const SafetensorsMetadata& metadata) {
  std::string error;
  EXPECT_FALSE(read(tensors, metadata, &error));
  EXPECT_EQ(error.find('\n'), error.npos);
  return error;
}

TEST(GoldenSet, IsReadWithItsData) {
  std::string error;
  const auto set = read(mean_tensors(), mean_metadata(), &error);
  ASSERT_TRUE(set) << error;
  EXPECT_EQ(set->pins, "equal scores make a mean");
  EXPECT_EQ(set->arithmetic, Arithmetic::kExact);
  const Inputs inputs = make_inputs(set->value());
  EXPECT_EQ(inputs.v, (std::vector<double>{1, 3}));
  EXPECT_EQ(find_file_data(set->value().file)->path, "mean.safetensors");
  EXPECT_EQ(set->recording.outputs.at("o").dtype, Dtype::kF64);
}

TEST(GoldenSet, OtherDataIsAnotherCase) {
  std::string error;
  NamedTensors other = mean_tensors();
  other["k"] = f32({1, 1, 2, 1}, {1, 3});
  NamedTensors same = mean_tensors();
  same["o"] = f64({1, 1, 1, 1}, {5});
  const uint64_t mark =
      read(mean_tensors(), mean_metadata(), &error)->value().file;
  EXPECT_NE(read(other, mean_metadata(), &error)->value().file, mark);
  EXPECT_EQ(read(same, mean_metadata(), &error)->value().file, mark);
}

TEST(GoldenSet, MetadataThatAreNotOnesAreRefused) {
  const auto with = [](const char* key, const char* value) {
    SafetensorsMetadata metadata = mean_metadata();
    metadata[key] = value;
    return error_of(mean_tensors(), metadata);
  };
  EXPECT_EQ(with("qkvet", "golden 2"),
            "no golden set: the metadata say qkvet = \"golden 2\"; allowed "
            "\"golden 1\"");
  EXPECT_EQ(with("arithmetic", "f16"),
            "arithmetic \"f16\": allowed exact, f64, storage, kernel");
  EXPECT_EQ(with("tolerance", "1e-3"),
            "metadata \"tolerance\": unknown; allowed: qkvet case pins source "
            "generator arithmetic dialect finding digest");
  EXPECT_NE(with("dialect", "empty_row = maybe").find("dialect:1: \"maybe\""),
            std::string::npos);
  EXPECT_NE(with("case", "f32,B1").find("case: "), std::string::npos);
  EXPECT_NE(with("digest", "00000000").find("had the digest \"00000000\""),
            std::string::npos);
  SafetensorsMetadata metadata = mean_metadata();
  metadata.erase("pins");
  EXPECT_EQ(error_of(mean_tensors(), metadata),
            "the metadata have no \"pins\"");
}

TEST(GoldenSet, TensorsThatDoNotFitTheCaseAreRefused) {
  const auto with = [](const char* name, const NamedTensor& made) {
    NamedTensors tensors = mean_tensors();
    tensors[name] = made;
    return error_of(tensors, mean_metadata());
  };
  EXPECT_EQ(with("k", f32({1, 1, 1, 2}, {1, 2})),
            "case: file=" + fingerprint_text([&] {
              uint64_t mark = 0;
              NamedTensors inputs = mean_tensors();
              inputs.erase("o");
              inputs["k"] = f32({1, 1, 1, 2}, {1, 2});
              EXPECT_EQ(add_inputs(inputs, "", &mark), "");
              return mark;
            }()) +
                ": k of the file is [1,1,1,2], the case needs [1,1,2,1]");
  EXPECT_EQ(with("k", f32({1, 1, 3, 1}, {1, 2, 3})),
            "k is f32 [1, 1, 3, 1]; the case makes it f32 [1, 1, 2, 1]");
  EXPECT_EQ(with("k", f64({1, 1, 2, 1}, {1, 2})),
            "k is f64 [1, 1, 2, 1]; the case makes it f32 [1, 1, 2, 1]");
  EXPECT_EQ(with("k", f32({2}, {1, 2})), "k is f32 [2]: it has 4 extents");
  EXPECT_EQ(with("o", f32({1, 1, 2, 1}, {1, 2})),
            "o is f32 [1, 1, 2, 1]; the case makes it f32 [1, 1, 1, 1] or f64");
  EXPECT_EQ(with("sink", f32({1}, {0})),
            "sink is in the file, but the case does not take it from there "
            "(sink=file)");
  EXPECT_NE(with("p", f32({1}, {0})).find("\"p\": no tensor of a call"),
            std::string::npos);
  EXPECT_NE(with("o.0", f32({1}, {0})).find("only a story"), std::string::npos);
  EXPECT_NE(with("y", f32({1}, {0})).find("only a layer"), std::string::npos);
  NamedTensors none = mean_tensors();
  none.erase("o");
  EXPECT_NE(error_of(none, mean_metadata()).find("no output"),
            std::string::npos);
}

TEST(RecordingCase, TensorsSayWhatTheyCan) {
  const auto case_of = [](const NamedTensors& tensors,
                          const std::string& options) {
    std::string error;
    const std::string text = case_of_tensors(tensors, options, &error);
    EXPECT_EQ(text.empty(), !error.empty());
    return text.empty() ? error : text;
  };
  const auto zeros = [](std::vector<int64_t> shape, FileDtype dtype) {
    size_t bytes = 0;
    EXPECT_EQ(checked_bytes(dtype, shape, bytes), "");
    return NamedTensor{dtype, shape, std::vector<std::byte>(bytes)};
  };
  NamedTensors tensors = {{"q", zeros({2, 4, 3, 8}, FileDtype::kF32)},
                          {"k", zeros({2, 2, 5, 8}, FileDtype::kF16)},
                          {"v", zeros({2, 2, 5, 6}, FileDtype::kF16)},
                          {"o", zeros({2, 4, 3, 6}, FileDtype::kF32)}};
  EXPECT_EQ(case_of(tensors, ""),
            "q=f32,kv=f16,o=f32,B2,H4,Hkv2,Tq3,Tk5,d8,dv6,data=file");
  tensors["mask"] = zeros({1, 1, 3, 5}, FileDtype::kBool);
  tensors["bias"] = zeros({2, 4, 3, 5}, FileDtype::kF32);
  tensors["sink"] = zeros({4}, FileDtype::kF32);
  EXPECT_EQ(case_of(tensors, "causal=br"),
            "q=f32,kv=f16,o=f32,B2,H4,Hkv2,Tq3,Tk5,d8,dv6,mask=file.qk,"
            "bias=file,sink=file,data=file,causal=br");
  tensors["mask"] = zeros({3, 5}, FileDtype::kBool);
  EXPECT_EQ(case_of(tensors, ""),
            "mask is bool [3, 5]: [B,H,Tq,Tk] is wanted, with 1 where it is "
            "broadcast");
  tensors.erase("v");
  EXPECT_TRUE(case_of(tensors, "").starts_with("v is missing; the file has "));
  NamedTensors layer = {{"x", zeros({2, 3, 8}, FileDtype::kF32)},
                        {"b_q", zeros({8}, FileDtype::kF32)},
                        {"y", zeros({2, 3, 8}, FileDtype::kF32)}};
  EXPECT_EQ(case_of(layer, ""),
            "the tensors of a layer do not say how many heads there are: "
            "--case H4 does");
  for (const char* w : {"w_q", "w_k", "w_v", "w_o"})
    layer[w] = zeros({8, 8}, FileDtype::kF32);
  const std::string text = case_of(layer, "H4,causal");
  EXPECT_EQ(text, "f32,B2,T3,D8,biases=q,bias=file,x=file,w=file,H4,causal");
  std::string error;
  const auto recording = make_recording(layer, text, "layer", &error);
  ASSERT_TRUE(recording) << error;
  EXPECT_EQ(recording->value.shape.d, 2);
}

TEST(GoldenSet, EveryCutAndFlippedByteIsRefusedOrReadAsASet) {
  std::string error;
  const auto bytes = safetensors_bytes(mean_tensors(), mean_metadata(), &error);
  ASSERT_TRUE(bytes);
  for (size_t cut = 0; cut < bytes->size(); ++cut) {
    EXPECT_FALSE(
        read_golden_set(std::span(*bytes).first(cut), "x", "x", &error))
        << cut;
    EXPECT_NE(error, "") << cut;
  }
  int refused = 0;
  for (size_t at = 0; at < bytes->size(); ++at) {
    std::vector<std::byte> other = *bytes;
    other[at] ^= std::byte{1};
    error.clear();
    const auto set = read_golden_set(other, "x", "x", &error);
    refused += !set;
    EXPECT_EQ(set.has_value(), error.empty()) << at;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace qkvet::golden::set_test
