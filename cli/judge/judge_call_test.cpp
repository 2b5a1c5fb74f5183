// SPDX-License-Identifier: Apache-2.0
// Recorded calls: qkvet judge FILE, qkvet golden import.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/base/program_run.h"
#include "cli/reproduce/emit_run.h"

namespace qkvet::cli::judge_call_test {
namespace {

namespace fs = std::filesystem;

std::string golden(const std::string& name) {
  return "'" + std::string(QKVET_GOLDEN) + "/sets/" + name + ".safetensors'";
}

// The output of a user's own script: [B,T,H,d] with its own names, and no
// description of the case.
constexpr const char* kScript = R"(
import numpy as np
def heads(x, n=1):
    return np.repeat(x.transpose(0, 2, 1, 3), n, 1)
def attend(q, k, v, scale):
    s = heads(q) @ heads(k, 2).transpose(0, 1, 3, 2) * np.float32(scale)
    s = np.where(np.arange(7) <= np.arange(5)[:, None] + 2, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return ((p / p.sum(-1, keepdims=True)) @ heads(v, 2)).transpose(0, 2, 1, 3)
draw = np.random.default_rng(3).standard_normal
q, k, v = (draw(shape).astype(np.float32)
           for shape in ((2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 8)))
names = dict(query=q, key=k, value=v, step=np.arange(3))
np.savez('right.npz', attn_output=attend(q, k, v, 8 ** -0.5), **names)
for n in range(3):
    q = draw(q.shape).astype(np.float32)
    names['query'] = q
    np.savez_compressed(f'wrong{n}.npz', attn_output=attend(q, k, v, 1),
                        **names)
)";

// The folder of the script's files.
const fs::path& files() {
  static const fs::path folder = [] {
    const fs::path made = fresh_folder("calls");
    write_text(made / "script.py", kScript);
    const Ran ran = exits(0, run_shell(python() + " script.py", made));
    return made;
  }();
  return folder;
}

constexpr const char* kHow = " --layout bthd --case causal=br";

TEST(JudgeCall, ARightCallOfAnyFileConforms) {
  const Ran ran = run_qkvet(
      std::string("judge right.npz") + kHow + " --junit j.xml --json j.jsonl",
      files());
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  EXPECT_TRUE(
      std::regex_search(ran.out, std::regex("recorded/right +1 +0 +- +1 ")))
      << ran.out;
  EXPECT_TRUE(has(ran.out, "\"step\" is no tensor of a call"));
  EXPECT_TRUE(has(read_text(files() / "j.xml"), "recorded/right"));
}

// The reports of `check`, from the same record: the page of a wrong call, and
// the control, the page of a right one.
TEST(JudgeCall, WritesTheReportsOfCheck) {
  const std::string reports =
      " --html c.html --sarif c.sarif --markdown c.md --github --json c.jsonl";
  const Ran wrong = exits(
      1, run_qkvet(std::string("judge wrong0.npz") + kHow + reports, files()));
  EXPECT_TRUE(has(wrong.out, "\n::error "));
  EXPECT_TRUE(has(read_text(files() / "c.html"), "no_scale"));
  // The expected value, the actual one, and the distance.
  EXPECT_TRUE(has(read_text(files() / "c.html"), "class=\"picture\""));
  EXPECT_TRUE(has(read_text(files() / "c.md"), "recorded/wrong0"));
  EXPECT_TRUE(has(read_text(files() / "c.sarif"), "\"agrees_with_oracle\""));
  EXPECT_EQ(run_qkvet("report c.jsonl --html later.html", files()).exit, 0);
  EXPECT_EQ(read_text(files() / "later.html"), read_text(files() / "c.html"));
  const Ran right = exits(
      0, run_qkvet(std::string("judge right.npz") + kHow + reports, files()));
  EXPECT_FALSE(has(right.out, "::error"));
  EXPECT_FALSE(has(read_text(files() / "c.html"), "no_scale"));
  EXPECT_FALSE(has(read_text(files() / "c.html"), "class=\"picture\""));
  expect_wrong_use(
      run_qkvet(std::string("judge right.npz") + kHow + " --html no/c.html",
                files()),
      "no/c.html");
}

// Without the causal rule the call is another one, which the kernel does not
// answer; the report names the forgotten rule.
TEST(JudgeCall, AForgottenCausalRuleIsTheFirstThatIsTried) {
  const Ran ran = exits(
      1, run_qkvet("judge right.npz --layout bthd --json c.jsonl", files()));
  for (const char* part :
       {"The call looks causal: its numbers are right under causal=br.",
        "causal_not_declared, likely", "Declare it: --case causal=br."})
    EXPECT_TRUE(has(ran.out, part)) << part;
  EXPECT_TRUE(has(read_text(files() / "c.jsonl"), "causal_not_declared"));
  // Not if the answer is wrong under the rule, too.
  const Ran wrong =
      exits(1, run_qkvet("judge wrong0.npz --layout bthd", files()));
  EXPECT_FALSE(has(wrong.out, "causal_not_declared"));
  // A declared rule is not assumed either.
  const Ran other = exits(
      1, run_qkvet("judge right.npz --layout bthd --case causal=tl", files()));
  EXPECT_FALSE(has(other.out, "causal_not_declared"));
}

TEST(JudgeCall, AWrongCallIsFoundAndItsCauseNamed) {
  const Ran one =
      exits(1, run_qkvet(std::string("judge -v wrong0.npz") + kHow, files()));
  EXPECT_TRUE(has(one.out, "no_scale, likely: 1 of 1"));
  const Ran all = run_qkvet(
      std::string("judge -v wrong0.npz wrong1.npz wrong2.npz") + kHow, files());
  EXPECT_EQ(all.exit, 1);
  // Without a right call, no cause can be sure.
  EXPECT_TRUE(has(all.out, "no_scale, likely: 3 of 3"));
  EXPECT_TRUE(has(all.out, "nothing passes"));
  std::smatch again;
  ASSERT_TRUE(
      std::regex_search(all.out, again, std::regex("again +qkvet (judge .*)")));
  EXPECT_EQ(run_qkvet(again[1], files()).exit, 1) << again[1];
}

// A call that failed somewhere is a case for a kernel that is here.
TEST(JudgeCall, ItsDataReplayOnAnotherKernel) {
  const char* const script =
      "import numpy as np\n"
      "draw = np.random.default_rng(4).standard_normal\n"
      "q, k, v = (draw((1, 2, 3, 4)).astype(np.float32) for _ in range(3))\n"
      "np.savez('plain.npz', query=q, key=k, value=v, out=v)\n";
  write_text(files() / "plain.py", script);
  ASSERT_EQ(run_shell(python() + " plain.py", files()).exit, 0);
  const Ran judged = exits(1, run_qkvet("judge plain.npz", files()));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      judged.out, found, std::regex("case +(f32,[^ \n]*file=[0-9a-f]*)")));
  const std::string replay = "replay " + std::string(found[1]) +
                             " --law agrees_with_oracle --data plain.npz -k ";
  EXPECT_EQ(run_qkvet(replay + "scalar/plain", files()).exit, 0);
  EXPECT_EQ(run_qkvet(replay + "faulty/no_scale", files()).exit, 1);
  expect_wrong_use(run_qkvet("replay " + std::string(found[1]) +
                                 " --law agrees_with_oracle -k scalar/plain",
                             files()),
                   "--data FILE names the file");
}

TEST(JudgeCall, GoldenSetsSayTheirCaseThemselves) {
  EXPECT_EQ(run_qkvet("judge " + golden("numpy_lse_base2")).exit, 0);
  EXPECT_EQ(run_qkvet("judge " + golden("torch_layer_causal_biases")).exit, 0);
  EXPECT_EQ(run_qkvet(std::string("judge '") + QKVET_GOLDEN +
                      "/testdata/onnx_window'")
                .exit,
            0);
  expect_wrong_use(
      run_qkvet("judge " + golden("numpy_lse_base2") + " --case causal=br"),
      "says its case itself");
}

TEST(JudgeCall, BadInputIsOneLine) {
  const auto refused = [](const std::string& arguments,
                          const std::string& part) {
    expect_wrong_use(run_qkvet("judge " + arguments, files()), part);
  };
  refused("right.npz", "H5,Hkv7: H must be a multiple of Hkv");
  refused("right.npz --layout tbhd", "tbhd");
  refused("right.npz --layout bthd --case causal=middle", "causal=middle");
  refused("right.npz --layout bthd --map q=nothing", "nothing");
  refused("right.npz x --layout bthd", "x: ");
  refused("no.npz", "no.npz: cannot be read");
  const std::string whole = read_text(files() / "right.npz");
  write_text(files() / "cut.npz", whole.substr(0, whole.size() / 2));
  refused("cut.npz --layout bthd", "cut.npz: ");
  write_text(files() / "text.safetensors", "no tensors at all, but words");
  refused("text.safetensors", "text.safetensors: ");
  refused(golden("numpy_story_append_attend"), "a story");
}

TEST(GoldenImport, ACallBecomesASet) {
  const std::string import =
      std::string(
          "golden import right.npz sets/right --pins 'heads of "
          "[B,T,H,d]' --source 'a script'") +
      kHow;
  const Ran ran = run_qkvet(import, files());
  ASSERT_EQ(ran.exit, 0) << ran.error;
  EXPECT_TRUE(
      has(ran.out, "right   f32,B2,H4,Hkv2,Tq5,Tk7,d8,causal=br,q=file"))
      << ran.out;
  EXPECT_EQ(run_qkvet("golden verify sets -k scalar/plain", files()).exit, 0);
  EXPECT_EQ(run_qkvet("golden verify sets -k faulty/no_scale", files()).exit,
            1);
  expect_wrong_use(run_qkvet(import, files()), "right: is in sets already");
  EXPECT_EQ(run_qkvet(import + " --force", files()).exit, 0);
}

TEST(GoldenImport, WhatIsWrongNeedsAFinding) {
  const std::string import =
      std::string(
          "golden import wrong0.npz doubts/wrong --pins p "
          "--source s") +
      kHow;
  expect_wrong_use(run_qkvet(import, files()), "--wrong TEXT");
  EXPECT_FALSE(fs::exists(files() / "doubts"));
  EXPECT_EQ(run_qkvet(import + " --wrong 'no scale'", files()).exit, 0);
  EXPECT_EQ(run_qkvet("golden verify doubts -k scalar/plain", files()).exit, 0);
  expect_wrong_use(run_qkvet(std::string("golden import right.npz doubts/right "
                                         "--pins p --source s --wrong f") +
                                 kHow,
                             files()),
                   "there is no finding");
  expect_wrong_use(run_qkvet("golden import right.npz doubts/Right "
                             "--pins p --source s",
                             files()),
                   "doubts/Right: allowed is FOLDER/NAME");
}

}  // namespace
}  // namespace qkvet::cli::judge_call_test
