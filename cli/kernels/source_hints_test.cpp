// SPDX-License-Identifier: Apache-2.0
// Extents in a source are found and used: a fault past an undeclared threshold
// is found because its source contains the number.
#include "cli/kernels/source_hints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/base/program_run.h"

namespace qkvet::cli::source_hints_test {
namespace {

// "777 line 3", for keys; the hints for rows are the same.
std::vector<std::string> found(const std::string& source,
                               Language language = Language::kCxx) {
  std::vector<std::string> out;
  for (const Hint& hint : source_hints(source, language)) {
    const std::string lead = "the source, ";
    EXPECT_TRUE(hint.from.starts_with(lead));
    if (hint.path.axis == QKVET_AXIS_TK)
      out.push_back(std::to_string(hint.path.at) + " " +
                    hint.from.substr(lead.size()));
  }
  EXPECT_EQ(source_hints(source, language).size(), 2 * out.size());
  return out;
}
using Found = std::vector<std::string>;

TEST(SourceHints, AreWholeNumbersOfTheCode) {
  EXPECT_EQ(found("// 111\nint n = 0x309u; /* 222 */ f(\"333\", '4', 1'031);\n"
                  "x = 555.0f + 1e3 + 66e1 + 24 + 65'537 + 7777777777777;\n"
                  "y = 65536 - 25;"),
            (Found{"777 line 2", "65536 line 4", "25 line 4", "1031 line 2"}));
}

TEST(SourceHints, OfWhatIsComparedStandFirst) {
  EXPECT_EQ(found("constexpr int kFew = 100, kMany = 1 << 10;\n"
                  "buffer[5000];\n"
                  "if (n > kMany) rest = n % 77;\n"
                  "std::array<float, 450> a;"),
            (Found{"1024 line 1", "100 line 1", "77 line 3", "450 line 4",
                   "5000 line 2"}));
}

TEST(SourceHints, ReadDefinitionsAndProducts) {
  EXPECT_EQ(found("#define TILE 48\n  #  define MOST (TILE * 16)\n"
                  "#if TILE > 31\n#include <a333.h>\n#endif\n"
                  "return n < 3 * TILE << 4;"),
            (Found{"48 line 1", "31 line 3", "2304 line 6", "768 line 2"}));
}

TEST(SourceHints, ReadRustAndPython) {
  EXPECT_EQ(found("const PART: usize = 1_777; // 99\n#[repr(align(64))]\n"
                  "if n > PART && x < 0.5f32 { for i in 0..450 {} }",
                  Language::kRust),
            (Found{"1777 line 1", "450 line 3"}));
  EXPECT_EQ(found("\"\"\"Up to 99.\n88\"\"\"\nBLOCK: tl.constexpr = 96  # 97\n"
                  "if n // 2 > 1777 and name != f'{55}':\n  x = n % 450",
                  Language::kPython),
            (Found{"1777 line 4", "96 line 3", "450 line 5"}));
}

TEST(SourceHints, OfPythonAreThoseOfTheFunctionAndOfWhatItUses) {
  const std::string source =
      "import numpy as np\n"
      "BLOCK = 640\n"
      "UNUSED = 750\n"
      "def part(x):\n"
      "    return x[: BLOCK + 111]\n"
      "@decorated(n=1300)\n"
      "def attention(q, k, v):\n"
      "    return part(k) if len(k) > 1777 else (\n"
      "q[450])\n"
      "def other(x):\n"
      "    return x % 910\n"
      "if __name__ == '__main__':\n"
      "    check(attention, cases=200, text=r[:4000])\n";
  Found all = found(python_part(source, 7), Language::kPython);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Found{"111 line 5", "1300 line 6", "1777 line 8",
                        "450 line 9", "640 line 2"}));
  EXPECT_EQ(python_part(source, 6), python_part(source, 8));
  EXPECT_EQ(python_part(source, 99), source);
  EXPECT_EQ(found(source, Language::kPython).size(), 9u);
}

TEST(SourceHints, AreFewAndNoSmallMultiplesOfOneAnother) {
  std::string source;
  for (int n = 1; n <= 100; ++n)
    source += "f(" + std::to_string(100 + n) + ");\n";
  EXPECT_EQ(found(source).size(), 12u);
  EXPECT_EQ(found("f(32, 64, 96, 128);"), (Found{"32 line 1", "128 line 1"}));
  EXPECT_TRUE(found("").empty());
  EXPECT_TRUE(source_hints_of_file("/nowhere.cpp", Language::kCxx).empty());
}

// The kernel that `qkvet new` writes, with or without the loss of some keys
// after the 777th, and with meaningless numbers.
std::string kernel(bool loses, const std::string& threshold) {
  static const Ran made = exits(0, run_qkvet("new plain_for_hints.cpp"));
  std::string text = read_text(scratch() / "plain_for_hints.cpp");
  const std::string mark = "      float max = -INFINITY";
  const size_t at = text.find(mark);
  EXPECT_NE(at, std::string::npos);
  text.insert(
      at, "const int64_t behind = Tk - static_cast<int64_t>(" + threshold +
              ");\nconst int64_t read = behind > 0 && behind < 48 ? seen - " +
              (loses ? "1" : "0") + " : seen;\n");
  for (size_t from = text.find("j < seen", at); from != std::string::npos;
       from = text.find("j < seen", from))
    text.replace(from, 8, "j < read");
  return text;
}

Ran check(const std::string& name, const std::string& text,
          const std::string& more = "") {
  write_text(scratch() / name, text);
  return run_qkvet("check " + name +
                   " --law agrees_with_oracle --law weights_sum_to_one "
                   "--law rows_stay_in_hull -n 1500 --verbose" +
                   more);
}

TEST(SourceHints, FindAFaultBehindAnUndeclaredThreshold) {
  const std::string broken = kernel(true, "777");
  const Ran found = exits(1, check("hinted.cpp", broken));
  EXPECT_TRUE(has(found.out, "looked near Tk=777, from the source, line "));
  // The controls: the same cases without the hint, and the kernel without the
  // fault. The latter's report lists the hinted extents and is no less sure for
  // it.
  const Ran blind = exits(0, check("hinted.cpp", broken, " --without hints"));
  EXPECT_FALSE(has(blind.out, "looked near"));
  const Ran hidden = exits(0, check("hidden.cpp", kernel(true, "777.0")));
  const Ran right =
      exits(0, check("right.cpp", kernel(false, "777"), " --json r.jsonl"));
  EXPECT_TRUE(has(right.out, "PASSED"));
  EXPECT_FALSE(has(right.out, "never drawn"));
  std::istringstream lines(read_text(scratch() / "r.jsonl"));
  int64_t calls = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["type"] != "kernel" || !json.contains("hints")) continue;
    for (const auto& hint : json["hints"])
      if (hint["path"] == "Tk=777") calls += hint["calls"].get<int64_t>();
  }
  EXPECT_GT(calls, 0);
}

// C++ for the CPU under the ending of CUDA, which is compiled as a kernel for
// the emulator is.
TEST(SourceHints, AreReadInCuda) {
  const Ran found = exits(1, check("hinted.cu", kernel(true, "777")));
  EXPECT_TRUE(has(found.out, "looked near Tk=777, from the source, line "));
  const Ran blind =
      exits(0, check("hinted.cu", kernel(true, "777"), " --without hints"));
}

// The other template with a threshold that no integer of its source reveals,
// with or without a workspace beyond it.
std::string kernel_with_workspace(bool has_workspace) {
  static const Ran made =
      exits(0, run_qkvet("new abi_for_hints.cpp --template abi"));
  std::string text = read_text(scratch() / "abi_for_hints.cpp");
  const auto replace = [&text](const std::string& part,
                               const std::string& with) {
    const size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    text.replace(at, part.size(), with);
  };
  replace("seen = seen_by(a, i);",
          "seen = seen_by(a, i) - (double(a.k.shape[2]) > 777. &&\n"
          "                        double(a.k.shape[2]) < 825.);");
  replace("// ---- What the library says of itself",
          "qkvet_status workspace(const qkvet_kernel*, qkvet_context*,\n"
          "    const qkvet_forward_args* args, size_t* bytes) {\n"
          "  *bytes = double(args->k.shape[2]) > 777. ? 4096 : 0;\n"
          "  return QKVET_OK;\n}\n// ---- What the library says of itself");
  if (has_workspace)
    replace("kernel.forward = forward;",
            "kernel.forward = forward; kernel.workspace = workspace;");
  return text;
}

TEST(WorkspaceHints, FindAFaultBehindAnUndeclaredThreshold) {
  const Ran found = exits(1, check("works.cpp", kernel_with_workspace(true)));
  EXPECT_TRUE(has(found.out,
                  "looked near Tk=777, from the workspace, 0 bytes there and "
                  "4096 beyond"))
      << found.out;
  const Ran blind = exits(0, check("idle.cpp", kernel_with_workspace(false)));
}

}  // namespace
}  // namespace qkvet::cli::source_hints_test
