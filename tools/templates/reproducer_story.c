/* SPDX-License-Identifier: Apache-2.0 */
/* HEAD */
/* TYPES */

enum { CREATE, STEP, RESET, TRUNCATE, EVICT, FORK, REORDER, READ_BACK };

/* A command, or the making of a cache. What it brings and what it must give are
 * in the tables below. */
typedef struct call_row {
  const char* place;
  int command;
  const char* refusal; /* NULL: it is legal */
  int32_t threads, rope;
  int64_t sequence;
  int64_t tokens; /* that truncate keeps or evict takes away */
  int64_t first;  /* of those that leave */
  int64_t other;  /* that becomes the copy */
  int64_t parents[8];
  int64_t lengths[8]; /* of all sequences behind it; -1: not judged */
} call_row;

/* What all caches are made for (qkvet_cache_config). */
typedef struct config_row {
  int64_t sequences, heads, kv_heads, d, dv, capacity;
  qkvet_dtype q, kv, o;
  float scale;
  int32_t scale_given;
  int64_t window, first_tokens, rollback;
  qkvet_dtype stored;
  int32_t scales;
  float softcap;
} config_row;

/* Where read_back() writes. */
typedef struct read_args {
  qkvet_tensor k, v;
} read_args;

/* DATA */

/* NUMBERS */

/* LIBRARY */

/* END */

static qkvet_cache* cache;

static void print_place(int call) { printf("%s: ", calls[call].place); }

static qkvet_status create(const opened_kernel* kernel,
                           const qkvet_cache_table* table, int call,
                           qkvet_text* why) {
  qkvet_cache_config made_for;
  const qkvet_exec exec = exec_with(calls[call].threads);
  if (cache != NULL) table->destroy(kernel->self, cache);
  cache = NULL;
  memset(&made_for, 0, sizeof made_for);
  made_for.struct_size = sizeof made_for;
  made_for.sequences = wanted_cache.sequences;
  made_for.heads = wanted_cache.heads;
  made_for.kv_heads = wanted_cache.kv_heads;
  made_for.d = wanted_cache.d;
  made_for.dv = wanted_cache.dv;
  made_for.capacity = wanted_cache.capacity;
  made_for.q = wanted_cache.q;
  made_for.kv = wanted_cache.kv;
  made_for.o = wanted_cache.o;
  made_for.scale = wanted_cache.scale;
  made_for.scale_given = wanted_cache.scale_given;
  made_for.window = wanted_cache.window;
  made_for.first_tokens = wanted_cache.first_tokens;
  made_for.rollback = wanted_cache.rollback;
  made_for.stored = wanted_cache.stored;
  made_for.scales = wanted_cache.scales;
  made_for.softcap = wanted_cache.softcap;
  fill_tensors(&made_for, call);
  return table->create(kernel->self, kernel->context, &made_for, &exec, &cache,
                       why);
}

static qkvet_status step(const opened_kernel* kernel,
                         const qkvet_cache_table* table, int call,
                         qkvet_text* why) {
  const qkvet_exec exec = exec_with(calls[call].threads);
  qkvet_cache_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.sequence = calls[call].sequence;
  args.rope = calls[call].rope;
  fill_tensors(&args, call);
  return table->step(kernel->self, cache, &args, &exec, why);
}

/* Whether the kernel has the function that the command needs. */
static int is_offered(const qkvet_cache_table* table, int command) {
  if (command == TRUNCATE) return table->truncate != NULL;
  if (command == EVICT) return table->evict != NULL;
  if (command == FORK) return table->fork != NULL;
  if (command == REORDER) return table->reorder != NULL;
  if (command == READ_BACK) return table->read_back != NULL;
  return 1;
}

static qkvet_status obey(const opened_kernel* kernel,
                         const qkvet_cache_table* table, int call,
                         qkvet_text* why) {
  const call_row* row = &calls[call];
  const qkvet_kernel* self = kernel->self;
  read_args read;
  switch (row->command) {
    case CREATE:
      return create(kernel, table, call, why);
    case RESET:
      return table->reset(self, cache, row->sequence, why);
    case TRUNCATE:
      return table->truncate(self, cache, row->sequence, row->tokens, why);
    case EVICT:
      return table->evict(self, cache, row->sequence, row->first, row->tokens,
                          why);
    case FORK:
      return table->fork(self, cache, row->sequence, row->other, why);
    case REORDER:
      return table->reorder(self, cache, row->parents, why);
    case READ_BACK:
      memset(&read, 0, sizeof read);
      fill_tensors(&read, call);
      return table->read_back(self, cache, row->sequence, &read.k, &read.v,
                              why);
    default:
      return step(kernel, table, call, why);
  }
}

/* What is wrong with the cache already, since it was made: the rest of its
 * story follows from that. */
static int wrong_end, wrong_answer, wrong_stored, wrong_length;

static void judge_numbers(int call) {
  int* wrong = calls[call].command == READ_BACK ? &wrong_stored : &wrong_answer;
  int i, failed = 0;
  if (wrong_end || *wrong) return;
  for (i = 0; i < output_count; ++i)
    if (outputs[i].tensor.call == call)
      failed |= judge_output(i, outputs[i].wanted);
  *wrong = failed;
}

static void judge_lengths(const opened_kernel* kernel,
                          const qkvet_cache_table* table, int call,
                          qkvet_text* why) {
  int s;
  for (s = 0; s < wanted_cache.sequences && !wrong_end && !wrong_length; ++s) {
    int64_t tokens = -1;
    const int64_t wanted = calls[call].lengths[s];
    table->length(kernel->self, cache, s, &tokens, why);
    if (wanted == -1 || tokens == wanted) continue;
    print_place(call);
    printf("length of sequence %c expected %lld actual %lld\n", 'a' + s,
           (long long)wanted, (long long)tokens);
    wrong_length = 1;
  }
}

/* NULL, or why the story cannot be told to this kernel. */
static const char* run(const opened_kernel* kernel,
                       const qkvet_cache_table* table, int call) {
  qkvet_text why = {sizeof why, reason, sizeof reason};
  qkvet_status status;
  reason[0] = '\0';
  if (!is_offered(table, calls[call].command))
    return "the kernel does not offer what the story asks for";
  if (calls[call].command == CREATE)
    wrong_end = wrong_answer = wrong_stored = wrong_length = 0;
  status = obey(kernel, table, call, &why);
  if (calls[call].command == CREATE && (status != QKVET_OK || cache == NULL))
    return "the kernel keeps no such cache";
  if (!wrong_end) wrong_end = judge_end(call, calls[call].refusal, status);
  if (status == QKVET_OK) judge_numbers(call);
  judge_lengths(kernel, table, call, &why);
  return NULL;
}

int main(int argc, char** argv) {
  opened_kernel kernel;
  qkvet_cache_table table;
  int i, failed = 0;
  const char* wrong = open_kernel(argc, argv, &kernel);
  if (wrong != NULL) return complain(wrong);
  if (kernel.table.cache == NULL) return complain("the kernel has no cache");
  memset(&table, 0, sizeof table);
  memcpy(&table, kernel.table.cache,
         kernel.table.cache->struct_size < sizeof table
             ? kernel.table.cache->struct_size
             : sizeof table);
  for (i = 0; i < call_count; ++i) {
    wrong = run(&kernel, &table, i);
    if (wrong != NULL) return complain(wrong);
    failed |= wrong_end | wrong_answer | wrong_stored | wrong_length;
  }
  printf("%s\n", failed ? "FAILED" : "passed");
  return failed;
}
