// SPDX-License-Identifier: Apache-2.0
// qkvet replay --emit of layers and of KV caches: what is written shows what
// the report says, without QKVet, and nothing of another kernel or of the right
// numbers.
#include <gtest/gtest.h>

#include <ostream>

#include "core/base/at_night.h"
#include "tools/reproduce/emit_run.h"

namespace qkvet::tools::emit_subjects_test {
namespace {

namespace fs = std::filesystem;

struct Row {
  const char* name;
  const char* law;
  const char* text;     // of the case
  const char* fault;    // of faulty/
  const char* library;  // "scalar", and
  const char* correct;  // a kernel of it that has not that fault
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::string arguments(const Row& row) {
  return kReplay + row.text + " --law " + row.law + " --kernel faulty/" +
         row.fault;
}

class EmitSubjects : public testing::TestWithParam<Row> {};

TEST_P(EmitSubjects, CShowsTheFailureAndNoneOfACorrectKernel) {
  const Row& row = GetParam();
  const fs::path folder = fresh_folder("c");
  const Ran made = run_qkvet(arguments(row) + " --emit c --out x.c", folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  const std::string text = compile_reproducer(folder);
  const Ran bad = run_shell("./reproducer", folder);
  EXPECT_EQ(bad.exit, 1) << bad.out;
  expect_shown(bad.out, made.out);
  const Ran good = run_other_kernel(text, row.library, row.correct, folder);
  EXPECT_EQ(good.exit, 0) << good.out;
  EXPECT_EQ(good.out, "passed\n");
}

TEST_P(EmitSubjects, PythonShowsTheFailureAndNoneOfItsDefinition) {
  const Row& row = GetParam();
  const fs::path folder = fresh_folder("py");
  const Ran made = run_qkvet(arguments(row) + " --emit py --out x.py", folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  const Ran bad = run_shell(python() + " x.py", folder);
  EXPECT_EQ(bad.exit, 1) << bad.out;
  expect_shown(bad.out, made.out);
  write_text(folder / "right.py", right_python(read_text(folder / "x.py")));
  const Ran good = run_shell(python() + " right.py", folder);
  EXPECT_EQ(good.exit, 0) << good.out;
  EXPECT_EQ(good.out, "passed\n");
}

// Compares a folder with the tables of a Python file, judges it, puts the right
// numbers in and judges it again.
constexpr const char* kSame = R"(
import json, pathlib, runpy
import numpy as np
CALLS = runpy.run_path("x.py")["CALLS"]
ROOT = pathlib.Path("x")
INDEX = [{} for _ in CALLS]  # where tensors say all
if (ROOT / "calls.json").exists():
    INDEX = json.loads((ROOT / "calls.json").read_text())["calls"]
assert len(INDEX) == len(CALLS)

def same(folder, name, wanted):
    read = np.load(folder / f"{name}.npy")
    if read.dtype == np.uint16:
        read = (read.astype(np.uint32) << 16).view(np.float32)
    assert read.dtype == wanted.dtype and read.shape == wanted.shape, name
    number = wanted == wanted
    assert read[number].tobytes() == wanted[number].tobytes(), name
    assert np.isnan(read[~number]).all(), name

def all_same(folder, call):
    for name, value in call.items():
        if isinstance(value, np.ndarray):
            same(folder, name, value)
    for kind, group in (("", "wanted"), ("staged_", "staged")):
        for name, values in call.get(group, {}).items():
            for part, value in zip(("expected", "bound", "least", "largest"),
                                   values):
                same(folder, f"{kind}{part}_{name}", value)
    if isinstance(call["recorded"], dict):
        for name, value in call["recorded"].items():
            same(folder, f"actual_{name}", value)

def put_right(file):
    values = np.load(file)
    least = np.load(str(file).replace("actual_", "least_"))
    if values.dtype == np.uint16:
        bits = least.astype(np.float32).view(np.uint32) >> 16
        np.save(file, bits.astype(np.uint16))
    else:
        np.save(file, least.astype(values.dtype))

folders = [ROOT / f"call{n}" if len(CALLS) > 1 else ROOT
           for n in range(len(CALLS))]
for folder, call, row in zip(folders, CALLS, INDEX):
    all_same(folder, call)
    for name in row:
        if name in call and name != "place":
            assert call[name] == row[name], name
check = lambda: runpy.run_path("x/check.py")["main"]()
print("wrong:", check())
for file in ROOT.rglob("actual_*.npy"):
    put_right(file)
(ROOT / "answers.json").write_text(json.dumps(
    [{"refused": row.get("refusal"), "lengths": row.get("lengths")}
     for row in INDEX]))
print("right:", check())
)";

TEST_P(EmitSubjects, NpyShowsTheFailureAndHoldsWhatPythonHolds) {
  const Row& row = GetParam();
  const fs::path folder = fresh_folder("npy");
  const Ran made = run_qkvet(arguments(row) + " --emit npy --out x", folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  ASSERT_EQ(run_qkvet(arguments(row) + " --emit py --out x.py", folder).exit,
            1);
  write_text(folder / "same.py", kSame);
  const Ran ran = run_shell(python() + " same.py", folder);
  EXPECT_EQ(ran.exit, 0) << ran.out;
  expect_shown(ran.out, made.out);
  EXPECT_NE(ran.out.find("wrong: 1\npassed\nright: 0\n"), std::string::npos)
      << ran.out;
}

INSTANTIATE_TEST_SUITE_P(
    Layers, EmitSubjects,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            Row{"merge", "layer_agrees_with_oracle", "f32,B1,H2,Hkv1,T2,D4,d2",
                "heads_not_merged", "scalar", "scalar/layer"},
            // Another arithmetic in the stages: judged from end to end.
            Row{"rope", "layer_agrees_with_oracle",
                "f32,B1,H2,T3,D8,causal,rope=half", "output_projection_omitted",
                "eigen", "eigen/layer"},
            Row{"unbatched", "layer_agrees_with_oracle",
                "f32,B1,H2,T3,D4,unbatched,biases=qkvo",
                "output_projection_transposed", "scalar", "scalar/layer"},
            Row{"f16", "layer_agrees_with_oracle",
                "f16,B2,H2,Hkv1,T3,D4,d2,biases=qkvo", "value_bias_ignored",
                "scalar", "scalar/layer"},
            Row{"bf16", "layer_agrees_with_oracle", "bf16,B2,H2,Hkv1,T3,D4,d2",
                "split_without_transpose", "scalar", "scalar/layer"},
            Row{"exact", "split_and_merge_place_every_element",
                "f32,B1,H2,Hkv1,T2,D1,d1", "heads_not_merged", "scalar",
                "scalar/layer"},
            Row{"refusal", "mismatched_widths_are_refused",
                "f32,B1,H1,T1,D1,x=zero,w=zero", "surplus_rows_accepted",
                "scalar", "scalar/layer"}},
        2)),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Gradients, EmitSubjects,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            Row{"plain", "backward_agrees_with_oracle",
                "f32,B1,H2,Hkv1,Tq3,Tk4,d4,dv3,causal=br,backward",
                "backward_delta_missing", "scalar", "scalar/plain"},
            Row{"softcap", "backward_agrees_with_oracle",
                "f32,B1,H1,Tq2,Tk3,d2,softcap=2,backward",
                "backward_softcap_slope_missing", "scalar", "scalar/plain"},
            Row{"sink", "backward_agrees_with_oracle",
                "f32,B2,H2,Tq2,Tk3,d2,sink=normal,backward",
                "backward_sink_sign", "scalar", "scalar/plain"},
            Row{"mask", "backward_agrees_with_oracle",
                "f32,B1,H2,Tq3,Tk4,d3,scale=0.7,mask=random60,backward",
                "backward_mask_forgotten", "avx2", "avx2/flash"},
            Row{"lists", "backward_agrees_with_oracle",
                "f32,B1,H2,Hkv1,Tq3,Tk6,d2,keys=2x2.n,backward",
                "backward_lists_forgotten", "scalar", "scalar/plain"},
            Row{"strides", "backward_agrees_with_oracle",
                "f32,B1,H2,Tq3,Tk4,d3,dv5,layout=bthd,backward",
                "backward_lse_taken_for_base_2", "eigen", "eigen/plain"},
            // Two calls, each with the truth of its own.
            Row{"two_calls", "gradient_lists_equal_masks",
                "f32,B1,H1,Tq3,Tk5,d2,keys=2,backward",
                "backward_list_of_first_row", "scalar", "scalar/plain"}},
        2)),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Caches, EmitSubjects,
    testing::ValuesIn(sampled(
        std::vector<Row>{
            Row{"truncate", "cache_agrees_with_history",
                "bf16,B2,H4,Hkv2,d4,dv3,cap9,story=step.a.3+append.b.2+"
                "truncate.a.1"
                "+step.a.2+attend.b.1",
                "cache_truncate_keeps_values", "kv_cache",
                "kv_cache/contiguous"},
            Row{"rope", "cache_agrees_with_history",
                "f16,B2,H4,Hkv2,d4,cap9,rope=interleaved,story=step.a.3+step.b."
                "2"
                "+step.a.2+fork.a.b+step.b.1",
                "cache_rope_restarts", "kv_cache", "kv_cache/paged"},
            Row{"window", "cache_agrees_with_history",
                "f32,B1,H2,d4,cap9,win3,first1,rollback2,story=step.a.5+"
                "truncate.a.4+step.a.2",
                "cache_first_tokens_forgotten", "kv_cache", "kv_cache/ring"},
            Row{"codes", "cache_agrees_with_history",
                "f16,B1,H4,Hkv2,d4,cap8,stored=int8token,story=step.a.3+step.a."
                "2"
                "+attend.a.1",
                "cache_scale_floored_at_one", "kv_cache", "kv_cache/quantised"},
            Row{"reorder", "cache_agrees_with_history",
                "f32,B3,H1,d1,cap2,q=zero,k=zero,v=one,story=append.a.1+"
                "reorder.cac+step.b.1",
                "cache_reorder_in_place", "kv_cache", "kv_cache/contiguous"},
            Row{"evict", "cache_agrees_with_history",
                "f32,B1,H1,d1,cap2,q=zero,k=zero,v=onehot,story=append.a.2+"
                "evict.a.0.1+attend.a.1",
                "cache_evict_keys_only", "kv_cache", "kv_cache/growing"},
            Row{"mask", "cache_agrees_with_history",
                "bf16,B2,H4,Hkv2,d4,cap9,mask=random50.hk,story=step.a.4+"
                "fork.a.b+step.b.2",
                "cache_mask_of_the_new_keys", "kv_cache", "kv_cache/paged"},
            Row{"bias", "cache_agrees_with_history",
                "f16,B1,H2,d4,cap9,bias=normal.qk,story=step.a.4+evict.a.1.1+"
                "step.a.1",
                "cache_bias_in_prefill_only", "kv_cache", "kv_cache/split"},
            // Two stories, of which the second has NaN put in.
            Row{"reset", "cache_reset_forgets",
                "f32,B1,H1,d1,cap1,q=zero,k=zero,v=zero,story=step.a.1",
                "stale_cache", "kv_cache", "kv_cache/contiguous"},
            Row{"fork", "cache_forks_are_independent",
                "f32,B2,H1,d1,cap2,q=zero,k=zero,v=zero,story=append.a.1+"
                "append.a.1+attend.a.1",
                "cache_shared_page_not_copied", "kv_cache", "kv_cache/paged"},
            // Prompts in chunks: the wrong answer is that of one of them.
            Row{"chunks", "cache_decode_equals_prefill",
                "f32,B1,H1,d2,dv1,cap2,rope=half,q=one,k=one,v=zero,story=step."
                "a.2",
                "cache_rope_restarts", "kv_cache", "kv_cache/contiguous"},
            Row{"length", "cache_length_grows",
                "f32,B1,H1,d1,cap2,q=zero,k=zero,v=zero,story=step.a.2",
                "cache_length_not_advanced", "kv_cache", "kv_cache/contiguous"},
            Row{"read_back", "cache_stores_what_it_is_given",
                "f32,B1,H2,d1,cap1,stored=int8channel,q=zero,k=zero,story=step."
                "a.1",
                "cache_scale_of_first_head", "kv_cache", "kv_cache/quantised"}},
        2)),
    [](const auto& test) { return std::string(test.param.name); });

// What the report says in other words than a place and a number.
struct Words {
  const char* arguments;
  const char* shown;
};

TEST(EmitStory, LengthsAndRefusalsAreShownInEveryKind) {
  const Words rows[] = {
      {"f32,B1,H1,d1,cap2,q=zero,k=zero,v=zero,story=step.a.1 --law "
       "cache_refuses_illegal_calls --kernel faulty/cache_refused_append_"
       "written",
       "call 5, append.a.2: length of sequence a expected 1 actual 2\n"},
      {"f32,B2,H1,d1,cap1,q=zero,k=zero,v=zero,story=step.a.1 --law "
       "cache_forks_are_independent --kernel faulty/cache_fork_shares_length",
       ", step.a.1: expected a result: the call is legal actual refused: "}};
  for (const Words& row : rows) {
    const fs::path folder = fresh_folder("words");
    const std::string text =
        expect_every_kind_shows(row.arguments, row.shown, folder);
    const Ran good =
        run_other_kernel(text, "kv_cache", "kv_cache/paged", folder);
    EXPECT_EQ(good.exit, 0) << good.out;
    // A kernel that has no cache cannot be told a story.
    const Ran none = run_other_kernel(text, "scalar", "scalar/plain", folder);
    EXPECT_EQ(none.exit, 2);
    EXPECT_EQ(none.out, "the kernel has no cache\n");
  }
}

// A user's own cache, with an error and without.
TEST(EmitStory, APluginOfOnesOwnIsShownAndPassesWhenMended) {
  const fs::path folder = fresh_folder("own");
  ASSERT_EQ(run_qkvet("new kv.cpp -t cache", folder).exit, 0);
  const std::string right = read_text(folder / "kv.cpp");
  write_text(folder / "kv.cpp",
             replaced(right, "tokens - Tq + i + 1", "tokens - Tq + i"));
  const Ran made =
      run_qkvet(kReplay +
                    "f32,B1,H2,d4,cap8,story=step.a.3+step.a.1 --law "
                    "cache_agrees_with_history kv.cpp --emit c --out x.c",
                folder);
  ASSERT_EQ(made.exit, 1) << made.out << made.error;
  const std::string text = compile_reproducer(folder);
  const Ran bad = run_shell("./reproducer", folder);
  EXPECT_EQ(bad.exit, 1) << bad.out;
  expect_shown(bad.out, made.out);
  write_text(folder / "kv.cpp", right);
  const Ran built = run_shell("c++ -std=c++17 -shared -fPIC " +
                                  match(text, " (-I\\S+)") + " kv.cpp -o kv.so",
                              folder);
  ASSERT_EQ(built.exit, 0) << built.out;
  const Ran good = run_shell("./reproducer ./kv.so", folder);
  EXPECT_EQ(good.exit, 0) << good.out;
  // It reorders nothing, and so cannot be told a story that does.
  ASSERT_EQ(
      run_qkvet(kReplay + "f32,B3,H1,d1,cap2,q=zero,k=zero,v=one,"
                          "story=append.a.1+reorder.cac+step.b.1 --law "
                          "cache_agrees_with_history --kernel "
                          "faulty/cache_reorder_in_place --emit c --out x.c "
                          "--force",
                folder)
          .exit,
      1);
  compile_reproducer(folder);
  const Ran lacks = run_shell("./reproducer ./kv.so", folder);
  EXPECT_EQ(lacks.exit, 2);
  EXPECT_EQ(lacks.out, "the kernel does not offer what the story asks for\n");
}

// A file holds three matrices.
TEST(EmitSubjectsPython, AFusedMatrixIsNotWritten) {
  const Ran fused = run_qkvet(
      kReplay +
      "f32,B1,H2,Hkv1,T2,D4,d2,fused=qkv --law layer_agrees_with_oracle "
      "--kernel faulty/fused_equal_thirds --emit py --out fused.py");
  EXPECT_EQ(fused.exit, 2);
  EXPECT_NE(fused.error.find("allowed: cases without them"), std::string::npos)
      << fused.error;
}

// The definition in a Python file is held against its expected numbers.
TEST(EmitSubjectsPython, AWrongDefinitionIsFound) {
  const fs::path folder = fresh_folder("definition");
  const Ran layer =
      run_qkvet(kReplay +
                    "f32,B1,H2,T2,D4 --law layer_agrees_with_oracle --kernel "
                    "faulty/output_projection_omitted --emit py --out layer.py",
                folder);
  ASSERT_EQ(layer.exit, 1) << layer.error;
  const Ran story = run_qkvet(
      kReplay +
          "f32,B1,H1,d2,cap4,story=step.a.2+truncate.a.1+step.a.1 --law "
          "cache_agrees_with_history --kernel "
          "faulty/cache_truncate_keeps_values "
          "--emit py --out story.py",
      folder);
  ASSERT_EQ(story.exit, 1) << story.error;
  for (const char* file : {"layer.py", "story.py"}) {
    write_text(folder / file, replaced(read_text(folder / file),
                                       "1 / math.sqrt", "1.001 / math.sqrt"));
    const Ran wrong = run_shell(python() + " " + file, folder);
    EXPECT_EQ(wrong.exit, 1);
    EXPECT_NE(wrong.out.find("the definition above does not give the expected"),
              std::string::npos)
        << wrong.out;
  }
}

}  // namespace
}  // namespace qkvet::tools::emit_subjects_test
