/* SPDX-License-Identifier: Apache-2.0 */
/* HEAD */
/* TYPES */

typedef struct call_row {
  int32_t threads, causal, scale_given;
  float scale;
  int32_t has_window;
  int64_t window_left, window_right;
  int64_t page_size;
  int32_t rope;
  float options[/* OPTION COUNT */];
} call_row;

/* An element that must be `factor` times another, bit for bit. */
typedef struct pair_row {
  int first_output;
  int64_t first;
  int second_output;
  int64_t second;
  double factor;
} pair_row;

/* DATA */

/* NUMBERS */

/* LIBRARY */

static qkvet_forward_args make_call(int call) {
  const call_row* from = &calls[call];
  qkvet_forward_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.scale = from->scale;
  args.scale_given = from->scale_given;
  args.causal = from->causal;
  args.has_window = from->has_window;
  args.window_left = from->window_left;
  args.window_right = from->window_right;
  args.page_size = from->page_size;
  args.rope = from->rope;
  /* OPTIONS */
  fill_tensors(&args, call);
  return args;
}

/* NULL, or what went wrong. */
static const char* run(const opened_kernel* kernel, int call) {
  const qkvet_kernel* table = &kernel->table;
  qkvet_text why = {sizeof why, reason, sizeof reason};
  const qkvet_forward_args args = make_call(call);
  qkvet_exec exec = exec_with(calls[call].threads);
  if (table->supports != NULL &&
      table->supports(kernel->self, &args, &why) != QKVET_OK)
    return "the kernel does not support the call";
  if (table->workspace != NULL) {
    if (table->workspace(kernel->self, kernel->context, &args,
                         &exec.workspace_size) != QKVET_OK)
      return "the kernel cannot say how much workspace it needs";
    exec.workspace = aligned_alloc(64, (exec.workspace_size / 64 + 1) * 64);
  }
  if (table->forward(kernel->self, kernel->context, &args, &exec, &why) !=
      QKVET_OK)
    return "forward() refuses the call";
  free(exec.workspace);
  return NULL;
}

static void print_place(int call) {
  if (call_count > 1) printf("call %d of %d: ", call + 1, call_count);
}

static int judge_pairs(void) {
  int i;
  for (i = 0; i < pair_count; ++i) {
    const pair_row* pair = &pairs[i];
    const double first = number(pair->first_output, pair->first) * pair->factor;
    const double second = number(pair->second_output, pair->second);
    if (first == second || (isnan(first) && isnan(second))) continue;
    print_element(pair->first_output, pair->first);
    if (pair->factor != 1) printf(" times %g", pair->factor);
    print_number(" is ", first, &outputs[pair->first_output].tensor);
    printf(", and must have the same bits as ");
    print_element(pair->second_output, pair->second);
    print_number(", which is ", second, &outputs[pair->second_output].tensor);
    printf("\n");
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  opened_kernel kernel;
  int i, failed = 0;
  const char* wrong = open_kernel(argc, argv, &kernel);
  if (wrong != NULL) return complain(wrong);
  if (kernel.table.forward == NULL)
    return complain("the kernel has no forward()");
  for (i = 0; i < call_count; ++i) {
    wrong = run(&kernel, i);
    if (wrong != NULL) return complain(wrong);
  }
  for (i = 0; i < output_count; ++i)
    failed |= judge_output(i, outputs[i].wanted);
  failed |= judge_pairs();
  printf("%s\n", failed ? "FAILED" : "passed");
  return failed;
}
