// SPDX-License-Identifier: Apache-2.0
// qkvet replay --emit of gradients: laws without the truth, options together,
// what is refused. What gradients have in common with other subjects is in
// emit_subjects_test.cpp.
#include <gtest/gtest.h>

#include "tools/reproduce/emit_run.h"

namespace qkvet::tools::emit_gradients_test {
namespace {

namespace fs = std::filesystem;

struct Words {
  const char* arguments;
  const char* shown;
};

// A law that does without the truth: all numbers are held against it. And one
// that asks two calls for the same bits.
TEST(EmitGradients, WhatALawAsksWithoutTheTruthIsShown) {
  const Words rows[] = {
      {"f32,B1,H1,Tq3,Tk3,d2,causal=br,backward --law "
       "future_gradients_are_zero --kernel "
       "faulty/backward_future_keys_get_gradient",
       "dv[b=0,h=0,j=1,c=0] expected 0 allowed "},
      {"f32,B1,H2,Hkv1,Tq6,Tk3,d2,backward --law backward_same_call_same_bits "
       "--kernel faulty/backward_order_not_kept",
       ", and must have the same bits as call"}};
  for (const Words& row : rows) {
    const fs::path folder = fresh_folder("words");
    const std::string text =
        expect_every_kind_shows(row.arguments, row.shown, folder);
    const Ran good = run_other_kernel(text, "scalar", "scalar/plain", folder);
    EXPECT_EQ(good.exit, 0) << good.out;
    const Ran none =
        run_other_kernel(text, "kv_cache", "kv_cache/paged", folder);
    EXPECT_EQ(none.exit, 2);
    EXPECT_EQ(none.out, "the kernel has no backward()\n");
  }
}

// Kernels whose dialect is told wrong: the definition in the file takes all
// options as told, in half types, too, and is right.
TEST(EmitGradients, OptionsTogetherAreThoseOfTheDefinition) {
  const fs::path folder = fresh_folder("options");
  write_text(folder / "after.txt", "softcap_order = after_mask\n");
  for (const char* arguments :
       {"f16,B1,H4,Hkv2,Tq5,Tk7,d8,causal=br,cuq=0.2.5,cuk=0.3.7,window=3.1,"
        "mask=random70,bias=normal,softcap=3,alibi=one,sink=normal,backward "
        "--kernel scalar/plain",
        "bf16,B2,H4,Hkv2,Tq5,Tk7,d8,causal=tl,qlen=5.3,kvlen=7.4,keys=5.hn,"
        "bias=normal.qk,softcap=3,sink=normal,layout=gaps,backward "
        "--kernel avx2/flash"}) {
    const std::string emit =
        kReplay + arguments +
        " --law backward_agrees_with_oracle --dialect after.txt --force "
        "--emit ";
    const Ran made = run_qkvet(emit + "py --out x.py", folder);
    ASSERT_EQ(made.exit, 1) << made.out << made.error;
    ASSERT_EQ(run_qkvet(emit + "c --out x.c", folder).exit, 1);
    compile_reproducer(folder);
    for (const std::string& command :
         {std::string("./reproducer"), python() + " x.py"}) {
      const Ran bad = run_shell(command, folder);
      EXPECT_EQ(bad.exit, 1) << bad.out;
      expect_shown(bad.out, made.out);
      EXPECT_NE(bad.out.find("dbias["), std::string::npos) << bad.out;
    }
    const std::string text = read_text(folder / "x.py");
    write_text(folder / "right.py", right_python(text));
    EXPECT_EQ(run_shell(python() + " right.py", folder).out, "passed\n");
    write_text(folder / "wrong.py",
               replaced(text, "dp - p @ dp)", "dp - 0.99 * (p @ dp))"));
    const Ran wrong = run_shell(python() + " wrong.py", folder);
    EXPECT_NE(wrong.out.find("the definition above does not give the expected"),
              std::string::npos)
        << wrong.out;
  }
}

TEST(EmitGradients, ThoseOfLayersAreNotWritten) {
  const Ran layer = run_qkvet(
      kReplay +
      "f32,B1,H1,T2,D2,backward --law layer_backward_agrees_with_oracle "
      "--kernel scalar/layer --emit c --out layer.c");
  EXPECT_EQ(layer.exit, 2);
  EXPECT_NE(layer.error.find("gradients of layers are not written down"),
            std::string::npos)
      << layer.error;
}

}  // namespace
}  // namespace qkvet::tools::emit_gradients_test
