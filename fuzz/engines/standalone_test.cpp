// SPDX-License-Identifier: Apache-2.0
// The targets as programs of their own: what they read, and that they can fail.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

// The scale is 1/2: a kernel that forgets it shows.
constexpr const char* kScaleOfHalf =
    "agrees_with_oracle f32,B1,H1,Tq1,Tk2,d4,dv1\n";

class StandaloneTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "below"); }
  void TearDown() override { fs::remove_all(folder_); }

  // The complete output, and the exit status.
  std::string run(const std::string& program, const std::string& arguments) {
    const std::string command = "cd '" + folder_.string() + "'; '" + program +
                                "' " + arguments + " 2>&1; echo status $?";
    std::FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    std::array<char, 4096> buffer;
    for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      out.append(buffer.data(), n);
    pclose(pipe);
    return out;
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

 private:
  fs::path folder_ = fs::temp_directory_path() /
                     ("qkvet standalone " + std::to_string(getpid()));
};

TEST_F(StandaloneTest, ReadsLinesFilesAndFolders) {
  write("lines.txt", std::string("# the first\n\n") + kScaleOfHalf + "choices");
  write("below/one", "# a comment is none here\n\n");
  EXPECT_EQ(run(QKVET_SHAPES, "lines.txt"), "2 inputs\nstatus 0\n");
  EXPECT_EQ(run(QKVET_SHAPES, "below/one"), "1 inputs\nstatus 0\n");
  EXPECT_EQ(run(QKVET_SHAPES, ". below"), "4 inputs\nstatus 0\n");
}

TEST_F(StandaloneTest, NothingToReadIsAnError) {
  write("lines.txt", "# nothing\n");
  const std::string usage = std::string("usage: ") + QKVET_SHAPES +
                            " FILE|FOLDER..., with one input at least\n" +
                            "status 2\n";
  EXPECT_EQ(run(QKVET_SHAPES, ""), usage);
  EXPECT_EQ(run(QKVET_SHAPES, "lines.txt below"), usage);
  EXPECT_EQ(run(QKVET_SHAPES, "lines.txt absent"),
            "absent: cannot be read\nstatus 2\n");
}

TEST_F(StandaloneTest, ALawThatFailsEndsTheProgram) {
  write("scale.txt", kScaleOfHalf);
  EXPECT_EQ(run(QKVET_SHAPES, "scale.txt"), "1 inputs\nstatus 0\n");
  const std::string out = run(QKVET_FAULTY, "scale.txt");
  for (const char* part :
       {"fuzz_shapes: faulty/no_scale fails agrees_with_oracle, error/bound ",
        "\n  case   f32,B1,H1,Tq1,Tk2,d4,dv1",
        "\n  again  qkvet replay f32,B1,H1,Tq1,Tk2,d4,dv1",
        " --law agrees_with_oracle --kernel faulty/no_scale\n", "status 134\n"})
    EXPECT_NE(out.find(part), std::string::npos) << part << '\n' << out;
}

TEST_F(StandaloneTest, ACheckThatFailsEndsTheProgram) {
  write("right.txt", "read\nthis");
  write("wrong.txt", "read\nxis");
  EXPECT_EQ(run(QKVET_WRONG, "right.txt"), "2 inputs\nstatus 0\n");
  const std::string out = run(QKVET_WRONG, "wrong.txt");
  EXPECT_TRUE(out.starts_with("fuzz_wrong: an x\n")) << out;
  EXPECT_TRUE(out.ends_with("status 134\n")) << out;
}

}  // namespace
