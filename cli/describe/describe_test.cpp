// SPDX-License-Identifier: Apache-2.0
// What the program writes of itself: the man page as groff reads it, completion
// as shells run it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

#include "cli/base/program_run.h"

namespace qkvet::cli::describe_test {
namespace {

std::string output_of(const std::string& words) {
  const Ran ran = run_qkvet(words);
  EXPECT_EQ(ran.exit, 0) << words << ran.error;
  return ran.out;
}

// Commands and options in the output of --help.
std::vector<std::string> words_of_help(const std::string& help) {
  std::vector<std::string> out;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    if (line.rfind("  ", 0) != 0 || line.rfind("    ", 0) == 0 ||
        !(words >> first))
      continue;
    std::istringstream names(first);
    for (std::string name; std::getline(names, name, ',');) out.push_back(name);
  }
  return out;
}

bool is_option(const std::string& word) { return word[0] == '-'; }

// groff shows hyphens that are typed as \-.
std::string with_hyphens(std::string text) {
  for (size_t at = 0; (at = text.find("\\-", at)) != std::string::npos; ++at)
    text.erase(at, 1);
  return text;
}

bool has_tool(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

// The output of a shell for these lines, in scratch().
Ran told_shell(const std::string& lines, const char* shell = "bash") {
  write_text(scratch() / "lines.sh", lines + "\n");
  return run_qkvet(
      std::string(shell == std::string("zsh") ? "-f " : "") + "lines.sh",
      scratch(), "", std::filesystem::path("/usr/bin") / shell);
}

TEST(Describe, ThePageHasEveryCommandAndItsOptions) {
  const std::string page = with_hyphens(output_of("man"));
  for (const std::string& command : words_of_help(output_of("--help"))) {
    EXPECT_TRUE(has(page, is_option(command) ? "\\fB" + command + "\\fR"
                                             : ".SS \"qkvet " + command))
        << command;
    if (is_option(command)) continue;
    for (const std::string& word :
         words_of_help(output_of(command + " --help-all")))
      EXPECT_TRUE(has(page, is_option(word) ? "\\fB" + word + "\\fR" : word))
          << command << " " << word;
  }
  EXPECT_FALSE(has(page, "--no-such-option"));
  EXPECT_TRUE(has(page, ".SH EXIT STATUS\n0 conforms, 1 a law failed"));
}

// Commands of a page of options in which a word without dashes has the name of
// an option. CLI11 2.4 ends a program that adds both.
std::vector<std::string> ambiguous_in(const std::string& page) {
  std::vector<std::string> out;
  std::string command;
  std::set<std::string> names;
  const std::regex name("`-*([a-z][a-z-]*)`");
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("## ", 0) == 0) {
      command = line.substr(3);
      names.clear();
    }
    if (line.rfind("| `", 0) != 0) continue;
    const std::string cell = line.substr(0, line.find(" | "));
    for (std::sregex_iterator at(cell.begin(), cell.end(), name), end;
         at != end; ++at)
      if (!names.insert((*at)[1]).second)
        out.push_back(command + " " + (*at)[1].str());
  }
  return out;
}

TEST(Describe, NoWordHasTheNameOfAnOption) {
  const std::string page = output_of("man --markdown");
  EXPECT_EQ(ambiguous_in(page), std::vector<std::string>{});
  EXPECT_EQ(ambiguous_in("## qkvet x\n| `f` | y |\n| `-f`, `--file` A | y |\n"),
            std::vector<std::string>{"qkvet x f"});
}

// Texts of a page of options that are longer than a line of help, or end as a
// sentence does.
std::vector<std::string> wordy_in(const std::string& page) {
  constexpr size_t kMost = 70;
  std::vector<std::string> out;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::string text;
    std::smatch row;
    if (std::regex_match(line, row, std::regex(R"(\| `.* \| (.*) \|)")))
      // Without its default and "(required)".
      text = std::regex_replace(
          row[1].str(), std::regex(R"( (\[[^\]]*\]|\(required\))$)"), "");
    if (text.size() > kMost || (text.ends_with('.') && !text.ends_with("...")))
      out.push_back(text);
  }
  return out;
}

TEST(Describe, HelpIsShort) {
  EXPECT_EQ(wordy_in(output_of("man --markdown")), std::vector<std::string>{});
  EXPECT_EQ(
      wordy_in("| `--a` | " + std::string(70, 'x') + " [1] |\n| `--b` | " +
               std::string(71, 'x') + " |\n| `--c` | Ends. |\n"),
      (std::vector<std::string>{std::string(71, 'x'), "Ends."}));
}

// 20 options and the positional arguments; --help-all lists the others.
TEST(Describe, CheckShowsTwentyOptions) {
  const auto count = [](const std::string& words) {
    const std::vector<std::string> all = words_of_help(output_of(words));
    return std::count_if(all.begin(), all.end(), [](const std::string& word) {
      return word.starts_with("--");
    });
  };
  EXPECT_EQ(count("check --help"), 20);
  EXPECT_GT(count("check --help-all"), 25);
  EXPECT_FALSE(has(output_of("check --help"), "--shard"));
}

TEST(Describe, GroffHasNothingToSayAgainstThePage) {
  const std::string tool = has_tool("groff") ? "groff -man -ww -z"
                           : has_tool("man")
                               ? "man --warnings -E UTF-8 -l -P cat"
                               : "";
  if (tool.empty()) GTEST_SKIP() << "neither groff nor man is installed";
  write_text(scratch() / "qkvet.1", output_of("man"));
  write_text(scratch() / "bad.1", output_of("man") + ".no_macro\n\\fZ\n");
  EXPECT_EQ(told_shell(tool + " qkvet.1").error, "");
  // The control: a wrong page has warnings, if groff is installed.
  if (has_tool("groff")) {
    EXPECT_NE(told_shell(tool + " bad.1").error, "");
  }
}

// Completions that bash offers for the last of these words.
std::string completed(const std::string& words) {
  std::istringstream in(words);
  std::string array;
  int last = -1;
  for (std::string word; in >> word; ++last)
    array += " '" + (word == "_" ? "" : word) + "'";
  const Ran ran = told_shell("source <('" + std::string(QKVET_PROGRAM) +
                             "' completion bash)\nCOMP_WORDS=(" + array +
                             ")\nCOMP_CWORD=" + std::to_string(last) +
                             "\n_qkvet\necho \"${COMPREPLY[*]}\"");
  EXPECT_EQ(ran.error, "") << words;
  return ran.out;
}

TEST(Describe, BashCompletesCommandsOptionsAndValues) {
  const std::string program = QKVET_PROGRAM;
  EXPECT_EQ(completed(program + " che"), "check\n");
  EXPECT_EQ(completed(program + " check --sh"), "--shard\n");
  EXPECT_EQ(completed(program + " report --sh"), "\n");
  EXPECT_EQ(completed(program + " check --sizes m"), "medium\n");
  EXPECT_EQ(completed(program + " golden ver"), "verify\n");
  EXPECT_EQ(completed(program + " golden verify --unc"), "--unchanged\n");
  EXPECT_EQ(completed(program + " check --law weights_s"),
            "weights_sum_to_one\n");
  // Files are left to the shell, as are unknown words.
  EXPECT_EQ(completed(program + " check --json _"), "\n");
  EXPECT_EQ(completed(program + " nothing --sh"), "\n");
}

TEST(Describe, ZshTakesItsCompletion) {
  if (!has_tool("zsh")) GTEST_SKIP() << "zsh is not installed";
  write_text(scratch() / "_qkvet", output_of("completion zsh"));
  const Ran ran = told_shell(
      "autoload -U compinit\ncompinit -u -D\nsource ./_qkvet\n"
      "print ${_comps[qkvet]}\nprint ${+functions[_qkvet_golden_verify]}",
      "zsh");
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.out, "_qkvet\n1\n");
}

TEST(Describe, BadInputIsOneLine) {
  expect_wrong_use(run_qkvet("completion fish"), "fish");
  expect_wrong_use(run_qkvet("completion"), "shell");
  expect_wrong_use(run_qkvet("man --out nowhere/qkvet.1"), "nowhere/qkvet.1");
}

}  // namespace
}  // namespace qkvet::cli::describe_test
