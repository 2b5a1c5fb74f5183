// SPDX-License-Identifier: Apache-2.0
// qkvet check SOURCE: when it is compiled, and the message if it cannot be.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "cli/base/program_run.h"

namespace qkvet::cli::compile_test {
namespace {

namespace fs = std::filesystem;

// A kernel in C, which compiles in a moment: correct, or with `scale` as given.
std::string kernel_source(const std::string& scale = "1 / sqrtf((float)d)") {
  return R"(#include <math.h>
#include "qkvet/plain.h"
static void f(const float* q, const float* k, const float* v, float* o,
              int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
              int causal) {
  for (int64_t n = 0; n < B * H; ++n, k += Tk * d, v += Tk * d)
    for (int64_t i = 0; i < Tq; ++i, q += d, o += d) {
      float sum = 0, max = -INFINITY;
      for (int64_t c = 0; c < d; ++c) o[c] = 0;
      for (int pass = 0; pass < 2; ++pass)
        for (int64_t j = 0; j < Tk && (!causal || j <= i + Tk - Tq); ++j) {
          float s = 0;
          for (int64_t c = 0; c < d; ++c) s += q[c] * k[j * d + c];
          s *= )" +
         scale + R"(;
          if (pass == 0) max = fmaxf(max, s);
          if (pass == 0) continue;
          sum += s = expf(s - max);
          for (int64_t c = 0; c < d; ++c) o[c] += s * v[j * d + c];
        }
      for (int64_t c = 0; c < d; ++c) o[c] /= sum;
    }
}
QKVET_PLAIN_KERNEL(f, "test/f");
)";
}

fs::path in(const std::string& name) { return scratch() / name; }

bool compiled(const Ran& ran) {
  return ran.out.starts_with("cc ") || ran.out.starts_with("c++ ");
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

TEST(Compile, TheCommandComesFirstAndDoesWhatItSays) {
  write_text(in("shown.c"), kernel_source());
  const Ran ran = exits(0, run_qkvet("check shown.c --cases 64"));
  const std::string line = first_line(ran.out);
  EXPECT_TRUE(line.starts_with("cc -std=c11 -O1 -g -shared -fPIC -I")) << line;
  std::smatch output;
  ASSERT_TRUE(std::regex_search(line, output, std::regex("-o '(.*\\.so)'")));
  ASSERT_TRUE(fs::exists(output[1].str()));
  fs::remove(output[1].str());
  const std::string again = "cd '" + scratch().string() + "' && " + line;
  EXPECT_EQ(std::system(again.c_str()), 0);
  EXPECT_TRUE(fs::exists(output[1].str()));
}

TEST(Compile, OnlyWhatHasChangedIsBuiltAgain) {
  write_text(in("own.h"), "#define SCALE 1 / sqrtf((float)d)\n");
  const std::string include = "#include \"own.h\"\n";
  write_text(in("again.c"), include + kernel_source("SCALE"));
  const std::string check =
      "check again.c --law agrees_with_oracle --cases 40 --diagnose 0";
  EXPECT_TRUE(compiled(run_qkvet(check)));
  const Ran kept = run_qkvet(check);
  EXPECT_FALSE(compiled(kept)) << kept.out;
  EXPECT_EQ(kept.exit, 0) << kept.out << kept.error;

  EXPECT_TRUE(compiled(run_qkvet(check + " --cflags -O2")));
  EXPECT_FALSE(compiled(run_qkvet(check + " --cflags -O2")));
  EXPECT_TRUE(compiled(run_qkvet(check, scratch(), "CC='cc -pipe'")));
  EXPECT_TRUE(compiled(
      run_qkvet("check ./again.c --law agrees_with_oracle --cases 40")))
      << "reports name the file as it was given";

  // A header of the user's: the old library would conform.
  write_text(in("own.h"), "#define SCALE 1\n");
  const Ran header = run_qkvet(check);
  EXPECT_TRUE(compiled(header));
  EXPECT_EQ(header.exit, 1) << header.out << header.error;

  write_text(in("again.c"), kernel_source());
  const Ran source = run_qkvet(check);
  EXPECT_TRUE(compiled(source));
  EXPECT_EQ(source.exit, 0) << source.out << source.error;
  // Earlier builds are still there.
  write_text(in("own.h"), "#define SCALE 1\n");
  write_text(in("again.c"), include + kernel_source("SCALE"));
  EXPECT_FALSE(compiled(run_qkvet(check)));
}

TEST(Compile, TheSameNameInAnotherFolderIsAnotherKernel) {
  for (const char* name : {"one", "two"}) {
    fs::create_directories(in(name));
    write_text(in(name) / "same.c",
               "#include \"factor.h\"\n" + kernel_source("FACTOR"));
  }
  write_text(in("one") / "factor.h", "#define FACTOR 1 / sqrtf((float)d)\n");
  write_text(in("two") / "factor.h", "#define FACTOR 1\n");
  const char* const check =
      "check same.c --law agrees_with_oracle --cases 40 --diagnose 0";
  EXPECT_EQ(run_qkvet(check, in("one")).exit, 0);
  EXPECT_EQ(run_qkvet(check, in("two")).exit, 1);
  EXPECT_EQ(run_qkvet(check, in("one")).exit, 0);
}

TEST(Compile, OddNamesAndTheReplayLineWorkInAShell) {
  const std::string name = "it's \"odd\" $HOME; {a}.c";
  write_text(in(name), kernel_source("SCALE * 2"));
  write_text(in("name.txt"), name);
  const Ran ran = run_qkvet(
      "check \"$(cat name.txt)\" --cases 320 --cflags "
      "\"-DSCALE='1 / sqrtf((float)d)' -O2\"");
  ASSERT_EQ(ran.exit, 1) << ran.out << ran.error;
  std::smatch again;
  ASSERT_TRUE(std::regex_search(ran.out, again,
                                std::regex("again +qkvet (replay .*)")));
  EXPECT_TRUE(has(again[1].str(), "--cflags"));
  const Ran replayed = run_qkvet(again[1]);
  EXPECT_EQ(replayed.exit, 1) << again[1] << replayed.error;
  EXPECT_TRUE(replayed.out.starts_with("FAIL"))
      << "built before: " << replayed.out;
  // The control: the case passes on a kernel that is right.
  write_text(in("right.c"), kernel_source());
  const std::string line = again[1];
  const std::string right = line.substr(0, line.find(" 'it")) + " right.c";
  EXPECT_EQ(run_qkvet(right).exit, 0) << right;
}

TEST(Compile, SeveralSourcesAreJudgedBesideOthers) {
  write_text(in("first.c"), kernel_source());
  write_text(in("second.c"), kernel_source("1"));
  const Ran ran = run_qkvet(
      "check first.c second.c --kernel test/f --kernel scalar/plain "
      "--cases 1000");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  EXPECT_TRUE(has(ran.out, " second.c\n"));
  EXPECT_FALSE(has(ran.out, " first.c\n"));
  EXPECT_TRUE(has(ran.out, "scalar/plain"));
}

TEST(Compile, ACompileErrorIsTheCompilersWordsAndOneLine) {
  write_text(in("wrong.c"), "int main(void) { return nonsense; }\n");
  const Ran ran = run_qkvet("check wrong.c");
  expect_wrong_use(ran, "wrong.c: does not compile (cc ended with 1)",
                   /*others=*/true);
  EXPECT_TRUE(has(ran.error, "wrong.c:1:"));
  EXPECT_TRUE(has(ran.error, "nonsense"));
  for (const auto& entry : fs::directory_iterator(in("cache") / "qkvet"))
    EXPECT_FALSE(has(entry.path().string(), "wrong")) << entry.path();
}

TEST(Compile, WrongUseIsOneLineAndTwo) {
  write_text(in("good.c"), kernel_source());
  write_text(in("good.cc"), kernel_source());
  write_text(in("notes.txt"), "no kernel");
  write_text(in("empty.c"), "int nothing;\n");
  write_text(in("dangling.c"), kernel_source("unknown_function()"));
  fs::create_directories(in("folder.c"));
  fs::copy_file(QKVET_BAD_PLUGIN, in("elf.cpp"),
                fs::copy_options::overwrite_existing);
  const struct {
    const char* arguments;
    const char* part;
    const char* environment = "";
  } rows[] = {
      {"check nowhere.cpp", "nowhere.cpp: no such file"},
      {"check no/such", "no kernel is named"},
      {"check folder.c", "folder.c: is a directory"},
      {"check notes.txt", "notes.txt"},
      {"check elf.cpp", "elf.cpp: is a shared library; name it X.so"},
      {"check empty.c", "empty.c: does not export qkvet_open"},
      {"check good.c", "looked for $CC, cc, gcc, clang on PATH", "PATH=/nope"},
      {"check good.cc", "looked for $CXX, c++, g++, clang++ on PATH",
       "PATH=/nope"},
      {"check good.c", "CC names \"nobody\"", "CC='nobody -x'"},
      {"check good.c --cflags \"'\"", "--cflags: a quote is not closed"},
      {"check good.c --kernel no/such", "no/such"},
      {"replay f32,B1,H1,Tq1,Tk1,d1 nowhere.c", "nowhere.c: no such file"},
      {"replay good.c", "case"},
  };
  for (const auto& row : rows)
    expect_wrong_use(run_qkvet(row.arguments, scratch(), row.environment),
                     row.part);
  // The control: the file itself is right.
  EXPECT_EQ(run_qkvet("check good.c --cases 64").exit, 0);
  EXPECT_EQ(run_qkvet("replay f32,B1,H1,Tq1,Tk1,d1 good.c").exit, 0);
}

TEST(Compile, WithoutRustcOneLineSaysSo) {
  write_text(in("mine.rs"), "fn main() {}\n");
  expect_wrong_use(run_qkvet("check mine.rs", scratch(), "PATH=/nope"),
                   "no Rust compiler: looked for $RUSTC, rustc on PATH");
}

TEST(Compile, WithoutAHomeTheCacheIsAmongTheTemporaryFiles) {
  write_text(in("homeless.c"), kernel_source());
  fs::create_directories(in("tmp"));
  const std::string environment =
      "XDG_CACHE_HOME=/dev/null/x HOME=/dev/null "
      "TMPDIR='" +
      in("tmp").string() + "'";
  const Ran ran = exits(
      0, run_qkvet("check homeless.c --cases 64", scratch(), environment));
  const fs::path made = fs::directory_iterator(in("tmp"))->path();
  EXPECT_TRUE(made.filename().string().starts_with("qkvet-"));
  EXPECT_EQ(fs::status(made).permissions(), fs::perms::owner_all);
  // Another user's folder with the same name is not trusted.
  fs::remove_all(made);
  fs::create_directory_symlink(in("cache"), made);
  expect_wrong_use(
      run_qkvet("check homeless.c --cases 64", scratch(), environment),
      "is not a cache directory of this user's own");
}

TEST(Compile, APluginMayHaveSpacesAndColonsInItsPath) {
  const fs::path folder = in("a: b");
  fs::create_directories(folder);
  write_text(in("lib.c"), kernel_source("1"));
  ASSERT_EQ(run_qkvet("check lib.c --cases 64").exit, 1);
  for (const auto& entry : fs::directory_iterator(in("cache") / "qkvet"))
    if (entry.path().filename().string().starts_with("lib-") &&
        entry.path().extension() == ".so")
      fs::copy_file(entry.path(), folder / "lib:1.so");
  const Ran ran = run_qkvet("check 'a: b/lib:1.so' --cases 320");
  ASSERT_EQ(ran.exit, 1) << ran.out << ran.error;
  std::smatch again;
  ASSERT_TRUE(std::regex_search(ran.out, again,
                                std::regex("again +qkvet (replay .*)")));
  EXPECT_EQ(run_qkvet(again[1]).exit, 1) << again[1];
  // If the name is no file, the text after its last colon is the configuration.
  expect_wrong_use(run_qkvet("check 'a: b/lib:1.so:fast'"),
                   "takes no configuration");
  expect_wrong_use(run_qkvet("check 'a: b/lib:2.so'"), "a: b/lib");
}

}  // namespace
}  // namespace qkvet::cli::compile_test
