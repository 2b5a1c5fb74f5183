// SPDX-License-Identifier: Apache-2.0
// Whoever kills `qkvet golden record` finds the old sets or the new ones.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "cli/base/program_run.h"
#include "golden/format/manifest.h"

namespace qkvet::cli::golden_kill_test {
namespace {

namespace fs = std::filesystem;

using Content = std::map<std::string, std::string>;

Content content_of(const fs::path& folder) {
  Content content;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code))
    content[entry.path().filename().string()] = read_text(entry.path());
  return content;
}

// Runs `work` in a separate process and kills it after so many microseconds;
// true if it was killed before its end.
template <class Work>
bool killed_after(int64_t microseconds, Work work) {
  const pid_t child = fork();
  if (child == 0) {
    const int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    work();
    _exit(127);
  }
  usleep(static_cast<useconds_t>(microseconds));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

void record(const std::string& folder, const char* kernel) {
  execl(QKVET_PROGRAM, QKVET_PROGRAM, "golden", "record", folder.c_str(), "-k",
        kernel, "--force", static_cast<char*>(nullptr));
}

class GoldenKill : public testing::Test {
 protected:
  // Two versions of the same sets, by kernels that round differently.
  GoldenKill() {
    fs::remove_all(scratch() / "kill");
    // Enough sets that writing takes a large part of the time.
    EXPECT_EQ(run_qkvet("golden record kill -n 40 -k controls/naive").exit, 0);
    first_ = content_of(folder_);
    EXPECT_EQ(run_qkvet("golden record kill -k controls/reversed --force").exit,
              0);
    second_ = content_of(folder_);
  }

  bool is_mixture() const {
    const Content now = content_of(folder_);
    return now != first_ && now != second_;
  }

  // Whether a killed process left its new folder.
  static bool has_leftovers() {
    for (const auto& entry : fs::directory_iterator(scratch()))
      if (entry.path().filename().string().starts_with(".kill")) return true;
    return false;
  }
  void write_other() {
    record(folder_.string(), content_of(folder_) == first_ ? "controls/reversed"
                                                           : "controls/naive");
  }
  // The time of a whole record on this machine, in microseconds.
  int64_t duration() {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(run_qkvet("golden record kill -k controls/naive --force").exit,
              0);
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now() - start)
        .count();
  }

  const fs::path folder_ = scratch() / "kill";
  Content first_, second_;
};

TEST_F(GoldenKill, LeavesOneSetOrTheOther) {
  ASSERT_NE(first_, second_);
  ASSERT_EQ(first_.size(), 41u);
  std::mt19937_64 random(1);
  int64_t whole = duration();
  int killed = 0, first = 0, in_the_middle = 0;
  for (int n = 0; n < 60; ++n) {
    // Whichever is there, the other one is written.
    const bool was_killed = killed_after(
        whole / 4 +
            static_cast<int64_t>(random() % static_cast<uint64_t>(whole)),
        [&] { write_other(); });
    killed += was_killed;
    // The speed of the machine may change: about half of the processes finish.
    whole += (was_killed ? whole : -whole) / 16;
    ASSERT_FALSE(is_mixture()) << n;
    GoldenFolder read;
    ASSERT_EQ(read_golden_folder(folder_.string(), &read), "");
    first += content_of(folder_) == first_;
    in_the_middle += has_leftovers();
  }
  // Some were killed before they wrote, some while they wrote, some finished.
  EXPECT_GT(killed, 12);
  EXPECT_GT(in_the_middle, 0) << killed << " " << first;
  EXPECT_GT(first, 3);
  EXPECT_LT(first, 57);
  // The next record removes the leftovers of killed processes.
  ASSERT_EQ(run_qkvet("golden record kill -k controls/naive --force").exit, 0);
  ASSERT_EQ(run_qkvet("golden record kill -k controls/reversed --force").exit,
            0);
  EXPECT_FALSE(has_leftovers());
}

// The control: files written in their places are a mixture soon.
TEST_F(GoldenKill, AWriterInPlaceIsSeenToMix) {
  std::mt19937 random(1);
  int mixtures = 0;
  for (int n = 0; n < 100 && mixtures == 0; ++n) {
    const Content& wanted = n % 2 == 0 ? first_ : second_;
    killed_after(static_cast<int64_t>(random() % 10000), [&] {
      for (const auto& [name, text] : wanted) {
        std::ofstream(folder_ / name, std::ios::binary) << text;
        usleep(1000);
      }
    });
    mixtures += is_mixture();
  }
  EXPECT_GT(mixtures, 0);
}

}  // namespace
}  // namespace qkvet::cli::golden_kill_test
