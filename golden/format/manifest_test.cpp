// SPDX-License-Identifier: Apache-2.0
// Folders of golden sets: what is believed, and what is refused in one line.
#include "golden/format/manifest.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <thread>

#include "core/base/sha256.h"
#include "golden/format/folder_swap.h"

namespace qkvet::golden::manifest_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A set with inputs from recipes; `o` is right.
std::vector<std::byte> set_file(float o, const std::string& pins) {
  NamedTensors tensors;
  NamedTensor& made = tensors["o"];
  made.shape = {1, 1, 1, 1};
  made.data.resize(sizeof o);
  std::memcpy(made.data.data(), &o, sizeof o);
  std::string error;
  return *safetensors_bytes(tensors,
                            {{"qkvet", "golden 1"},
                             {"case", "f32,B1,H1,Tq1,Tk1,d1,v=one"},
                             {"pins", pins},
                             {"source", "by hand"},
                             {"generator", ""},
                             {"arithmetic", "exact"}},
                            &error);
}

ManifestRow row_of(const std::string& name, const std::vector<std::byte>& file,
                   const std::string& pins = "one key") {
  return {name, "f32,B1,H1,Tq1,Tk1,d1,v=one", pins, "by hand",
          sha256_hex(file)};
}

class Folder : public testing::Test {
 protected:
  Folder()
      : path_(testing::TempDir() + "golden_manifest_" +
              std::to_string(getpid())) {
    fs::remove_all(path_);
  }
  ~Folder() override { fs::remove_all(path_); }

  void write(const FolderFiles& files) {
    ASSERT_EQ(write_folder(path_, files, fs::exists(path_)), "");
  }
  std::string read() {
    folder_ = {};
    return read_golden_folder(path_, &folder_);
  }
  void put(const std::string& name, const std::string& text) {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }
  // The problem of a folder that has one good set and this manifest.
  std::string with_manifest(const std::string& text) {
    write({{"a.safetensors", good_}, {kManifestName, bytes_of(text)}});
    const std::string wrong = read();
    EXPECT_EQ(wrong.find('\n'), wrong.npos);
    return wrong.starts_with(path_) ? wrong.substr(path_.size() + 1) : wrong;
  }

  std::string path_;
  GoldenFolder folder_;
  const std::vector<std::byte> good_ = set_file(1, "one key");
  const std::string head_ = "{\"qkvet\":\"golden manifest 1\"}\n";
};

TEST_F(Folder, IsReadWithItsManifest) {
  const auto other = set_file(1, "another");
  write({{"a.safetensors", good_},
         {"b.safetensors", other},
         {kManifestName,
          bytes_of(manifest_text(
              {row_of("a", good_), row_of("b", other, "another")}))}});
  ASSERT_EQ(read(), "");
  ASSERT_EQ(folder_.sets.size(), 2u);
  EXPECT_EQ(folder_.sets[1].name, "b");
  EXPECT_EQ(folder_.rows[1].pins, "another");
}

TEST_F(Folder, FilesAndRowsMustMatch) {
  const std::string good = manifest_text({row_of("a", good_)});
  EXPECT_EQ(with_manifest(good), "");
  put("extra.safetensors", "x");
  EXPECT_EQ(read(), path_ +
                        "/extra.safetensors: no row of MANIFEST.jsonl "
                        "lists it");
  fs::remove(path_ + "/extra.safetensors");
  put("notes.txt", "x");
  EXPECT_EQ(read(), path_ + "/notes.txt: no row of MANIFEST.jsonl lists it");
  fs::remove(path_ + "/notes.txt");
  EXPECT_EQ(read(), "");
  fs::remove(path_ + "/a.safetensors");
  EXPECT_EQ(read(), path_ +
                        "/a.safetensors: cannot be read, and "
                        "MANIFEST.jsonl lists it");
  fs::remove(path_ + "/MANIFEST.jsonl");
  EXPECT_EQ(read(), path_ + "/MANIFEST.jsonl: cannot be read");
}

TEST_F(Folder, AnyFlippedBitIsRefused) {
  ASSERT_EQ(with_manifest(manifest_text({row_of("a", good_)})), "");
  for (size_t at = 0; at < good_.size(); at += 7) {
    std::vector<std::byte> other = good_;
    other[at] ^= std::byte{0x10};
    put("a.safetensors",
        {reinterpret_cast<const char*>(other.data()), other.size()});
    EXPECT_NE(read().find("a.safetensors: its SHA-256 is "), std::string::npos)
        << at;
  }
}

TEST_F(Folder, RowsThatAreNotOnesAreRefused) {
  const std::string row =
      manifest_text({row_of("a", good_)}).substr(head_.size());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = row;
    text.replace(text.find(from), from.size(), to);
    return head_ + text;
  };
  EXPECT_EQ(with_manifest(""), "MANIFEST.jsonl: it lists no set");
  EXPECT_EQ(with_manifest(head_), "MANIFEST.jsonl: it lists no set");
  EXPECT_EQ(
      with_manifest(row),
      "MANIFEST.jsonl: line 1: allowed {\"qkvet\":\"golden manifest 1\"}");
  EXPECT_EQ(with_manifest(head_ + row + row),
            "MANIFEST.jsonl: line 3: set a: listed twice");
  EXPECT_EQ(with_manifest(head_ + row.substr(0, row.size() - 1)),
            "MANIFEST.jsonl: line 2: does not end with a newline");
  EXPECT_EQ(with_manifest(head_ + "[]\n"),
            "MANIFEST.jsonl: line 2: no JSON object");
  EXPECT_EQ(with_manifest(replaced("\"pins\"", "\"pens\"")),
            "MANIFEST.jsonl: line 2: \"pens\": unknown; allowed: name case "
            "pins source sha256");
  EXPECT_EQ(with_manifest(replaced("\"pins\":", "\"name\":\"a\",\"pins\":")),
            "MANIFEST.jsonl: line 2: a key is there twice");
  EXPECT_EQ(with_manifest(replaced("\"one key\"", "7")),
            "MANIFEST.jsonl: line 2: \"pins\" is no string");
  EXPECT_EQ(with_manifest(replaced("\"one key\"", "\"\"")),
            "MANIFEST.jsonl: line 2: \"pins\" is missing or empty");
  EXPECT_EQ(with_manifest(replaced("\"a\"", "\"../a\"")),
            "MANIFEST.jsonl: line 2: name \"../a\": a name has up to 64 of "
            "a-z, 0-9 and _");
  EXPECT_EQ(
      with_manifest(replaced("\"sha256\":\"", "\"sha256\":\"x")).substr(0, 32),
      "MANIFEST.jsonl: line 2: sha256 \"");
  EXPECT_EQ(with_manifest(replaced("one key", "two keys")),
            "a.safetensors: its \"pins\" is \"one key\", in MANIFEST.jsonl "
            "\"two keys\"");
}

TEST_F(Folder, IsReplacedAsAWholeOrNotAtAll) {
  write({{"a", bytes_of("1")}});
  EXPECT_NE(write_folder(path_, {{"b", bytes_of("2")}}, /*replace=*/false), "");
  EXPECT_TRUE(fs::exists(path_ + "/a"));
  EXPECT_NE(write_folder(path_, {{"no/such", bytes_of("2")}}, true), "");
  EXPECT_TRUE(fs::exists(path_ + "/a"));
  EXPECT_EQ(write_folder(path_ + "/", {{"b", bytes_of("2")}}, true), "");
  EXPECT_FALSE(fs::exists(path_ + "/a"));
  EXPECT_TRUE(fs::exists(path_ + "/b"));
  for (const auto& entry : fs::directory_iterator(testing::TempDir()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(
        "." + fs::path(path_).filename().string()))
        << entry.path();
  EXPECT_NE(write_folder(path_ + "/no/such/place", {}, false), "");
}

TEST_F(Folder, WritersOfOneParentTakeTurns) {
  std::vector<std::thread> writers;
  std::vector<std::string> wrong(8);
  for (size_t n = 0; n < wrong.size(); ++n)
    writers.emplace_back([&, n] {
      const std::string path = path_ + "_" + std::to_string(n);
      wrong[n] = write_folder(path, {{"a", bytes_of("1")}}, false);
      for (int i = 0; i < 10 && wrong[n].empty(); ++i)
        wrong[n] = write_folder(path, {{"b", bytes_of("2")}}, true);
      fs::remove_all(path);
    });
  for (std::thread& writer : writers) writer.join();
  for (const std::string& one : wrong) EXPECT_EQ(one, "");
}

}  // namespace
}  // namespace qkvet::golden::manifest_test
