/* SPDX-License-Identifier: Apache-2.0 */
/* HEAD */
/* TYPES */

/* ROWS */

/* DATA */

/* NUMBERS */

/* LIBRARY */

/* CALLS */

static qkvet_forward_args make_call(int call) {
  const call_row* from = &calls[call];
  qkvet_forward_args args = options_of(call);
  fill_tensors(&args, call);
  if (from->values_in_keys != 0) {
    args.v.data = args.k.data;
    args.v.byte_offset = args.k.byte_offset;
  }
  return args;
}

enum { plan_slots = /* SLOTS */ };
static qkvet_plan* plans[plan_slots];

static const qkvet_plan_table* plans_of(const opened_kernel* kernel) {
  if (kernel->table.get_extension == NULL) return NULL;
  return (const qkvet_plan_table*)kernel->table.get_extension(
      kernel->self, QKVET_EXTENSION_PLAN);
}

static int is_of_batch(size_t field) {
#define QKVET_FORWARD_TENSOR(...)
#define QKVET_FORWARD_TABLE(name, ...) \
  if (field == offsetof(qkvet_forward_args, name)) return 1;
#include "qkvet/tensors.def"
  return 0;
}

/* The data of the lengths and tables of a call, or of all else, is gone. */
static void hide(qkvet_forward_args* args, int call, int of_batch) {
  int i;
  for (i = 0; i < input_count + output_count; ++i) {
    const tensor_row* row =
        i < input_count ? &inputs[i] : &outputs[i - input_count].tensor;
    if (row->call == call && is_of_batch(row->field) == of_batch)
      ((qkvet_tensor*)(void*)((char*)args + row->field))->data = NULL;
  }
}

/* What a plan was given is no longer there when it is run. */
static void wipe(const qkvet_forward_args* args, int call) {
  int i;
  for (i = 0; i < input_count; ++i)
    if (inputs[i].call == call && is_of_batch(inputs[i].field))
      memset(((const qkvet_tensor*)(const void*)((const char*)args +
                                                 inputs[i].field))
                 ->data,
             0xff, (size_t)inputs[i].span * (inputs[i].dtype.bits / 8));
}

/* NULL, or what went wrong. */
static const char* run_planned(const opened_kernel* kernel, int call,
                               const qkvet_forward_args* args,
                               const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_plan_table* table = plans_of(kernel);
  const int use = calls[call].plan_use, slot = calls[call].plan_slot;
  qkvet_plan* own = NULL;
  qkvet_plan** plan = use == plan_none ? &own : &plans[slot];
  qkvet_forward_args batch = *args, data = *args;
  qkvet_exec planning = *exec;
  qkvet_status status = QKVET_OK;
  int i;
  if (table == NULL) return "the kernel has neither forward() nor plans";
  planning.workspace = NULL;
  planning.workspace_size = 0;
  hide(&batch, call, 0);
  hide(&data, call, 1);
  /* Making the first one destroys all. */
  for (i = slot; use == plan_make && i < (slot == 0 ? plan_slots : slot + 1);
       ++i) {
    if (plans[i] != NULL) table->destroy(kernel->self, plans[i]);
    plans[i] = NULL;
  }
  if (use == plan_none || use == plan_make)
    status = table->plan(kernel->self, kernel->context, &batch, &planning, plan,
                         why);
  if (status != QKVET_OK) return "plan() refuses the call";
  if (*plan == NULL) return "there is no plan to run";
  if (use == plan_update &&
      table->update(kernel->self, *plan, &batch, &planning, why) != QKVET_OK)
    return "update() refuses the call";
  if (use == plan_make || use == plan_update) wipe(args, call);
  status = table->run(kernel->self, *plan, &data, exec, why);
  if (own != NULL) table->destroy(kernel->self, own);
  return status == QKVET_OK ? NULL : "run() refuses the call";
}

/* NULL, or what went wrong. */
static const char* run(const opened_kernel* kernel, int call) {
  const qkvet_kernel* table = &kernel->table;
  qkvet_text why = {sizeof why, reason, sizeof reason};
  const qkvet_forward_args args = make_call(call);
  qkvet_exec exec = exec_with(calls[call].threads);
  const char* wrong = NULL;
  if (table->supports != NULL &&
      table->supports(kernel->self, &args, &why) != QKVET_OK)
    return "the kernel does not support the call";
  if (table->workspace != NULL) {
    if (table->workspace(kernel->self, kernel->context, &args,
                         &exec.workspace_size) != QKVET_OK)
      return "the kernel cannot say how much workspace it needs";
    exec.workspace = aligned_alloc(64, (exec.workspace_size / 64 + 1) * 64);
  }
  if (calls[call].plan_use != plan_none || table->forward == NULL)
    wrong = run_planned(kernel, call, &args, &exec, &why);
  else if (table->forward(kernel->self, kernel->context, &args, &exec, &why) !=
           QKVET_OK)
    wrong = "forward() refuses the call";
  free(exec.workspace);
  return wrong;
}

/* PAIRS */

int main(int argc, char** argv) {
  opened_kernel kernel;
  int i, failed = 0;
  const char* wrong = open_kernel(argc, argv, &kernel);
  if (wrong != NULL) return complain(wrong);
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
