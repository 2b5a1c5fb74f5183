// SPDX-License-Identifier: Apache-2.0
// qkvet replay --emit: what is written shows the same failure without QKVet,
// and none with another kernel or with the right numbers.
#include <gtest/gtest.h>

#include <ostream>
#include <regex>

#include "core/base/at_night.h"
#include "tools/reproduce/emit_run.h"

namespace qkvet::tools::emit_test {
namespace {

namespace fs = std::filesystem;

// What replay said, in the words of a reproducer.
std::string finding_of(const std::string& report) {
  return match(report, "\n  at +(\\S+)\n") + " expected " +
         match(report, "\n  expected +(\\S+)") + " allowed " +
         match(report, " allowed (\\S+ \\.\\. \\S+)\n") + " actual " +
         match(report, "\n  actual +(\\S+)");
}

struct Row {
  const char* name;
  const char* law;
  const char* text;     // of the case
  const char* kernel;   // and what is declared of it
  const char* library;  // "scalar", and
  const char* correct;  // a kernel of it that has not that fault
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::string arguments(const Row& row) {
  return std::string(row.text) + " --law " + row.law + " --kernel " +
         row.kernel;
}

class Emit : public testing::TestWithParam<Row> {};

TEST_P(Emit, CShowsTheSameNumberAndNoneOfACorrectKernel) {
  const Row& row = GetParam();
  const fs::path folder = fresh_folder("c");
  const Ran made =
      run_qkvet(kReplay + arguments(row) + " --emit c --out x.c", folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  const std::string text = compile_reproducer(folder);
  const Ran bad = run_shell("./reproducer", folder);
  EXPECT_EQ(bad.exit, 1) << bad.out;
  EXPECT_NE(bad.out.find(finding_of(made.out)), std::string::npos)
      << bad.out << made.out;
  const Ran good = run_other_kernel(text, row.library, row.correct, folder);
  EXPECT_EQ(good.exit, 0) << good.out;
  EXPECT_EQ(good.out, "passed\n");
}

// Calls that plan are written down with their plans.
class EmitPlans : public testing::TestWithParam<Row> {};

TEST_P(EmitPlans, CPlansAndRunsAndPythonSaysWhyItCannot) {
  const Row& row = GetParam();
  const fs::path folder = fresh_folder("plan");
  const Ran made =
      run_qkvet(kReplay + arguments(row) + " --emit c --out x.c", folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  const std::string text = compile_reproducer(folder);
  const Ran bad = run_shell("./reproducer", folder);
  EXPECT_EQ(bad.exit, 1) << bad.out;
  EXPECT_NE(bad.out.find("\nFAILED\n"), std::string::npos) << bad.out;
  const Ran good = run_other_kernel(text, row.library, row.correct, folder);
  EXPECT_EQ(good.exit, 0) << good.out;
  EXPECT_EQ(good.out, "passed\n");
  // A kernel that is called is planned with by nobody.
  const Ran other = run_other_kernel(text, "scalar", "scalar/plain", folder);
  EXPECT_EQ(other.exit, 2) << other.out;
  const Ran python =
      run_qkvet(kReplay + arguments(row) + " --emit py --out x.py", folder);
  EXPECT_NE(python.error.find("a plan lives between calls"), std::string::npos)
      << python.error;
  EXPECT_FALSE(fs::exists(folder / "x.py"));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, EmitPlans,
    testing::Values(
        Row{"update", "updated_plan_equals_new_plan",
            "f32,B2,H2,Hkv1,Tq3,Tk5,d4,causal=br,kvlen=2.4",
            "faulty/plan_lengths_kept", "serving", "serving/planned"},
        Row{"pages", "updated_plan_equals_new_plan",
            "f32,B2,H1,Tq2,Tk6,d4,kvlen=5.2,page=2",
            "faulty/plan_table_never_filled", "serving", "serving/planned"},
        Row{"two_plans", "plans_are_separate", "f32,B2,H1,Tq3,Tk5,d4,kvlen=2.4",
            "faulty/plan_workspace_shared", "serving", "serving/planned"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(Emit, PythonShowsTheSameNumberAndNoneWhereItIsRight) {
  const Row& row = GetParam();
  const fs::path folder = fresh_folder("py");
  const Ran made =
      run_qkvet(kReplay + arguments(row) + " --emit py --out x.py", folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  const Ran bad = run_shell(python() + " x.py", folder);
  EXPECT_EQ(bad.exit, 1) << bad.out;
  EXPECT_NE(bad.out.find(finding_of(made.out)), std::string::npos)
      << bad.out << made.out;
  const std::string text = read_text(folder / "x.py");
  write_text(folder / "right.py",
             replaced(text, "\n    return recorded\n",
                      "\n    return {n: w[2].astype(recorded[n].dtype)"
                      " for c in CALLS if c['recorded'] is recorded"
                      " for n, w in c['wanted'].items()}\n"));
  const Ran good = run_shell(python() + " right.py", folder);
  EXPECT_EQ(good.exit, 0) << good.out;
  EXPECT_EQ(good.out, "passed\n");
}

TEST_P(Emit, NpyShowsTheSameNumberAndHoldsWhatPythonHolds) {
  const Row& row = GetParam();
  const fs::path folder = fresh_folder("npy");
  const std::string replay = kReplay + arguments(row) + " --out x --emit ";
  const Ran made = run_qkvet(replay + "npy", folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  ASSERT_EQ(
      run_qkvet(kReplay + arguments(row) + " --emit py --out x.py", folder)
          .exit,
      1);
  write_text(folder / "same.py", R"(
import pathlib, runpy
import numpy as np
calls = runpy.run_path("x.py")["CALLS"]
FOLDER = pathlib.Path("x")
assert len(calls) == 1

def same(name, wanted):
    read = np.load(FOLDER / f"{name}.npy")
    if read.dtype == np.uint16:
        read = (read.astype(np.uint32) << 16).view(np.float32)
    assert read.dtype == wanted.dtype and read.shape == wanted.shape, name
    number = wanted == wanted
    assert read[number].tobytes() == wanted[number].tobytes(), name
    assert np.isnan(read[~number]).all(), name

def all_same(call):
    for name, value in call.items():
        if isinstance(value, np.ndarray):
            same(name, value)
    for name, values in call["wanted"].items():
        for part, value in zip(("expected", "bound", "least", "largest"),
                               values):
            same(f"{part}_{name}", value)
        same(f"actual_{name}", call["recorded"][name])

check = lambda: runpy.run_path("x/check.py")["main"]()
all_same(calls[0])
print("wrong:", check())
for name, wanted in calls[0]["wanted"].items():
    recorded = calls[0]["recorded"][name]
    np.save(FOLDER / f"actual_{name}.npy", wanted[2].astype(recorded.dtype))
print("right:", check())
try:
    all_same(calls[0])
except AssertionError as error:
    print("found", error)
)");
  const Ran ran = run_shell(python() + " same.py", folder);
  EXPECT_EQ(ran.exit, 0) << ran.out;
  EXPECT_NE(ran.out.find(finding_of(made.out)), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("wrong: 1\npassed\nright: 0\nfound actual_o\n"),
            std::string::npos)
      << ran.out;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, Emit,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            Row{"tail_tile", "agrees_with_oracle", "f32,B1,H2,Tq3,Tk5,d4",
                "faulty/tail_tile_unmasked", "scalar", "scalar/plain"},
            Row{"grouped", "agrees_with_oracle", "f32,B1,H6,Hkv3,Tq2,Tk3,d4",
                "faulty/key_head_modulo", "scalar", "scalar/plain"},
            Row{"strides", "agrees_with_oracle",
                "f32,B2,H2,Tq3,Tk5,d4,layout=bthd",
                "faulty/key_strides_assumed", "scalar", "scalar/plain"},
            Row{"known", "weights_sum_to_one",
                "f32,B1,H2,Tq3,Tk4,d4,causal=tl,v=one",
                "faulty/mask_after_softmax", "scalar", "scalar/plain"},
            Row{"f16", "agrees_with_oracle", "f16,B1,H2,Tq3,Tk9,d4",
                "faulty/accumulates_in_half", "scalar", "scalar/plain"},
            Row{"bf16", "agrees_with_oracle", "bf16,B1,H2,Tq3,Tk9,d4,dv3",
                "faulty/bf16_truncates", "scalar", "scalar/plain"},
            Row{"f64", "agrees_with_oracle", "f64,B1,H2,Tq3,Tk4,d4",
                "faulty/f64_in_f32", "controls", "controls/f64_plain"},
            Row{"rope", "agrees_with_oracle",
                "f32,B2,H2,Tq3,Tk5,d4,rope=half.random",
                "faulty/rope_ignores_positions", "scalar", "scalar/plain"},
            Row{"packed", "agrees_with_oracle",
                "f32,B1,H2,Tq6,Tk7,d4,cuq=0.2.6,cuk=0.4.7",
                "faulty/packed_as_one_member", "scalar", "scalar/plain"},
            Row{"alibi", "agrees_with_oracle",
                "f32,B2,H2,Tq4,Tk5,d4,causal=br,alibi=normal",
                "faulty/alibi_from_top_left", "scalar", "scalar/plain"},
            Row{"lengths", "agrees_with_oracle",
                "f32,B2,H2,Tq4,Tk5,d4,causal=br,qlen=3.4,kvlen=5.4",
                "faulty/diagonal_ignores_q_len", "scalar", "scalar/plain"},
            Row{"pages", "agrees_with_oracle",
                "f32,B2,H2,Hkv1,Tq2,Tk9,d4,kvlen=9.6,page=4,append=2",
                "faulty/serving_length_before_append", "serving",
                "serving/paged"},
            Row{"packed_pages", "agrees_with_oracle",
                "f32,B1,H2,Hkv1,Tq5,Tk9,d4,causal=br,cuq=0.2.3.5,cuk=0.4.6.9,"
                "page=2,append=1",
                "faulty/packed_pages_member_by_token", "serving",
                "serving/paged"},
            Row{"lists", "agrees_with_oracle",
                "f32,B2,H2,Hkv1,Tq2,Tk9,d4,causal=br,kvlen=9.6,page=4,"
                "table=csr,append=2",
                "faulty/csr_first_member_for_all", "serving",
                "serving/gathered"},
            Row{"packed_lists", "agrees_with_oracle",
                "f32,B1,H2,Hkv1,Tq5,Tk9,d4,causal=br,cuq=0.2.3.5,cuk=0.4.6.9,"
                "page=2,table=csr",
                "faulty/csr_starts_of_next", "serving", "serving/paged"},
            // Options together: a kernel whose dialect is told wrong, and
            // another that is as told.
            Row{"options", "agrees_with_oracle",
                "f16,B2,H4,Hkv2,Tq5,Tk7,d8,causal=br,window=3.1,mask=random70,"
                "bias=normal,softcap=3,sink=normal",
                "controls/dialect_softcap_after_bias --dialect ../before.txt",
                "scalar", "scalar/plain"}},
        2)),
    [](const auto& test) { return std::string(test.param.name); });

// A kernel of one's own whose numbers are all right, but never twice the same.
constexpr const char* kDrift = R"(
#include <math.h>
#include "qkvet/plain.h"
static void drift(const float* q, const float* k, const float* v, float* o,
                  int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                  int causal) {
  static int calls = 0;
  for (int64_t row = 0; row < B * H * Tq; ++row) {
    const int64_t head = row / Tq, i = row % Tq;
    const int64_t seen = causal ? i + Tk - Tq + 1 : Tk;
    for (int64_t c = 0; c < d; ++c) {
      double top = 0, sum = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double s = 0;
        for (int64_t x = 0; x < d; ++x)
          s += (double)q[row * d + x] * k[(head * Tk + j) * d + x];
        sum += exp(s / sqrt((double)d));
        top += exp(s / sqrt((double)d)) * v[(head * Tk + j) * d + c];
      }
      o[row * d + c] = (float)(top / sum * (1 + 2e-7 * (calls % 4)));
    }
  }
  ++calls;
}
QKVET_PLAIN_KERNEL(drift, "mine/drift");
)";

TEST(EmitPairs, TwoCallsThatDifferAreComparedInEveryKind) {
  const fs::path folder = fresh_folder("pairs");
  write_text(folder / "drift.c", kDrift);
  const std::string replay =
      kReplay +
      "f32,B1,H1,Tq2,Tk3,d4 --law same_call_same_bits drift.c --emit ";
  const Ran made = run_qkvet(replay + "c", folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  const std::string text = read_text(folder / "qkvet-same_call_same_bits.c");
  const std::string compile = match(text, "compile  (cc .* -lm)");
  ASSERT_EQ(run_shell(compile, folder).exit, 0);
  const Ran bad = run_shell("./reproducer", folder);
  EXPECT_EQ(bad.exit, 1) << bad.out;
  EXPECT_NE(bad.out.find("call 1 of 9: o[b=0,h=0,i=0,c=0] is "),
            std::string::npos)
      << bad.out;
  const std::string library = match(text, "default_library =\\s+\"([^\"]*)\"");
  // As C++, and with a kernel that does not drift.
  const std::string again = replaced(
      replaced(compile, "-std=c11", "-std=c++17 -x c++"), "cc ", "c++ ");
  const Ran cxx = run_shell(again, folder);
  ASSERT_EQ(cxx.exit, 0) << cxx.out;
  EXPECT_EQ(run_shell("./reproducer '" + library + "'", folder).exit, 1);
  write_text(folder / "still.c", replaced(kDrift, "++calls", "(void)calls"));
  const std::string still = "cc -shared -fPIC -O1 " +
                            match(compile, " (-I\\S+)") +
                            " still.c -o still.so -lm";
  const Ran library_made = run_shell(still, folder);
  ASSERT_EQ(library_made.exit, 0) << library_made.out;
  const Ran good = run_shell("./reproducer ./still.so", folder);
  EXPECT_EQ(good.out, "passed\n");
  EXPECT_EQ(good.exit, 0);
  const Ran py = run_qkvet(replay + "py", folder);
  ASSERT_EQ(py.exit, 1) << py.error;
  const Ran bad_py =
      run_shell(python() + " qkvet-same_call_same_bits.py", folder);
  EXPECT_EQ(bad_py.exit, 1) << bad_py.out;
  ASSERT_EQ(run_qkvet(replay + "npy", folder).exit, 1);
  const Ran bad_npy =
      run_shell(python() + " qkvet-same_call_same_bits/check.py", folder);
  EXPECT_EQ(bad_npy.exit, 1) << bad_npy.out;
}

TEST(EmitPython, TheDefinitionInTheFileIsHeldAgainstItsNumbers) {
  const fs::path folder = fresh_folder("definition");
  const Ran made =
      run_qkvet(kReplay +
                    "f32,B1,H1,Tq2,Tk3,d4 --law agrees_with_oracle --kernel "
                    "faulty/no_scale --emit py --out x.py",
                folder);
  ASSERT_EQ(made.exit, 1) << made.error;
  const std::string text = read_text(folder / "x.py");
  write_text(folder / "wrong.py",
             replaced(text, "1 / math.sqrt", "1.001 / math.sqrt"));
  const Ran wrong = run_shell(python() + " wrong.py", folder);
  EXPECT_EQ(wrong.exit, 1);
  EXPECT_NE(wrong.out.find("does not give the expected values"),
            std::string::npos)
      << wrong.out;
}

}  // namespace
}  // namespace qkvet::tools::emit_test
