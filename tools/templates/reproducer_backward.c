/* SPDX-License-Identifier: Apache-2.0 */
/* HEAD */
/* TYPES */

/* The call that is differentiated, and its gradient: the tensors are fields of
 * the one or the other. */
typedef struct gradient_args {
  qkvet_forward_args forward;
  qkvet_backward_args backward;
} gradient_args;

/* ROWS */

/* DATA */

/* NUMBERS */

/* LIBRARY */

/* CALLS */

/* As far as both sides know it. */
static qkvet_backward_table backward_of(const opened_kernel* kernel) {
  const qkvet_backward_table* from = kernel->table.backward;
  qkvet_backward_table table;
  memset(&table, 0, sizeof table);
  if (from != NULL)
    memcpy(&table, from,
           from->struct_size < sizeof table ? from->struct_size : sizeof table);
  return table;
}

/* NULL, or what went wrong. */
static const char* run(const opened_kernel* kernel,
                       const qkvet_backward_table* table, int call) {
  qkvet_text why = {sizeof why, reason, sizeof reason};
  qkvet_exec exec = exec_with(calls[call].threads);
  gradient_args args;
  qkvet_status status;
  memset(&args, 0, sizeof args);
  args.forward = options_of(call);
  args.backward.struct_size = sizeof args.backward;
  args.backward.forward = &args.forward;
  fill_tensors(&args, call);
  if (table->workspace != NULL) {
    if (table->workspace(kernel->self, kernel->context, &args.backward,
                         &exec.workspace_size) != QKVET_OK)
      return "the kernel cannot say how much workspace it needs";
    exec.workspace = aligned_alloc(64, (exec.workspace_size / 64 + 1) * 64);
  }
  status = table->backward(kernel->self, kernel->context, &args.backward, &exec,
                           &why);
  free(exec.workspace);
  return status == QKVET_OK ? NULL : "backward() refuses the call";
}

/* PAIRS */

int main(int argc, char** argv) {
  opened_kernel kernel;
  qkvet_backward_table table;
  int i, failed = 0;
  const char* wrong = open_kernel(argc, argv, &kernel);
  if (wrong != NULL) return complain(wrong);
  table = backward_of(&kernel);
  if (table.backward == NULL) return complain("the kernel has no backward()");
  for (i = 0; i < call_count; ++i) {
    wrong = run(&kernel, &table, i);
    if (wrong != NULL) return complain(wrong);
  }
  for (i = 0; i < output_count; ++i)
    failed |= judge_output(i, outputs[i].wanted);
  failed |= judge_pairs();
  printf("%s\n", failed ? "FAILED" : "passed");
  return failed;
}
