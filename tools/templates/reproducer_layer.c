/* SPDX-License-Identifier: Apache-2.0 */
/* HEAD */
/* TYPES */

typedef struct call_row {
  const char* place;   /* what contradicts what, if something does */
  const char* refusal; /* NULL: a result is due */
  int32_t threads, causal, scale_given;
  float scale;
  int64_t heads, kv_heads;
  int32_t rope;
} call_row;

/* What an output must be for a kernel that has made the stages in front of it
 * bit for bit as recorded: errors of stages do not pile up then. NULL: as for
 * all kernels. */
typedef struct stage_row {
  const wanted_row* wanted;
  const double* recorded; /* NULL: nothing */
} stage_row;

/* DATA */

/* NUMBERS */

/* LIBRARY */

/* END */

static void print_place(int call) {
  if (calls[call].place[0] != '\0')
    printf("%s: ", calls[call].place);
  else if (call_count > 1)
    printf("call %d of %d: ", call + 1, call_count);
}

static qkvet_layer_args make_call(int call) {
  const call_row* from = &calls[call];
  qkvet_layer_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.heads = from->heads;
  args.kv_heads = from->kv_heads;
  args.scale = from->scale;
  args.scale_given = from->scale_given;
  args.causal = from->causal;
  args.rope = from->rope;
  fill_tensors(&args, call);
  return args;
}

/* Whether the kernel has made this output as recorded. */
static int is_recorded(int output) {
  const int64_t count = elements(&outputs[output].tensor);
  int64_t n;
  if (stages[output].recorded == NULL) return 0;
  for (n = 0; n < count; ++n) {
    const double now = number(output, n), then = stages[output].recorded[n];
    if (now != then && !(isnan(now) && isnan(then))) return 0;
  }
  return 1;
}

/* The first stage that is wrong says where to look: q, k and v are one stage,
 * and later ones are not judged. */
static int judge_stages(int call) {
  int i, failed = 0, recorded = 1;
  for (i = 0; i < output_count; ++i) {
    const output_row* row = &outputs[i];
    const int projected = strcmp(row->name, "q") == 0 ||
                          strcmp(row->name, "k") == 0 ||
                          strcmp(row->name, "v") == 0;
    if (row->tensor.call != call) continue;
    if (failed && !projected) break;
    failed |=
        judge_output(i, recorded && stages[i].wanted != NULL ? stages[i].wanted
                                                             : row->wanted);
    /* y follows from the heads alone. */
    recorded = (recorded || !projected) && is_recorded(i);
  }
  return failed;
}

int main(int argc, char** argv) {
  opened_kernel kernel;
  qkvet_layer_table layer;
  int i, failed = 0;
  const char* wrong = open_kernel(argc, argv, &kernel);
  if (wrong != NULL) return complain(wrong);
  if (kernel.table.layer == NULL) return complain("the kernel has no layer");
  memset(&layer, 0, sizeof layer);
  memcpy(&layer, kernel.table.layer,
         kernel.table.layer->struct_size < sizeof layer
             ? kernel.table.layer->struct_size
             : sizeof layer);
  for (i = 0; i < call_count; ++i) {
    qkvet_text why = {sizeof why, reason, sizeof reason};
    const qkvet_layer_args args = make_call(i);
    const qkvet_exec exec = exec_with(calls[i].threads);
    qkvet_status status;
    reason[0] = '\0';
    status = layer.forward(kernel.self, kernel.context, &args, &exec, &why);
    if (calls[i].refusal == NULL &&
        (status == QKVET_UNSUPPORTED || status == QKVET_UNAVAILABLE))
      return complain("the kernel does not support the call");
    if (judge_end(i, calls[i].refusal, status))
      failed = 1;
    else if (calls[i].refusal == NULL)
      failed |= judge_stages(i);
  }
  printf("%s\n", failed ? "FAILED" : "passed");
  return failed;
}
