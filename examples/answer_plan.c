/* SPDX-License-Identifier: Apache-2.0 */
/* Answers a plan of `qkvet judge --ask` in f32 with nothing but C11:
 *
 *   cc -std=c11 -O1 answer_plan.c -lm -o answer_plan && ./answer_plan FOLDER
 *
 * The plan asks for what it asks for where no option is named: attention, a
 * causal rule, grouped heads, as many queries as you like. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call {
  char name[64];
  char in[3][64]; /* where q, k and v are stored */
  long B, H, Hkv, Tq, Tk, d, dv;
  char causal[16];
  double scale;
};

static void fail(const char* what, const char* path) {
  fprintf(stderr, "answer_plan: %s: %s\n", path, what);
  exit(1);
}

/* A .npy file of version 1.0: 8 bytes, the length of its header, the header,
 * and the numbers. Shape and type are known from the row of the call. */
static float* read_npy(const char* path, long count) {
  unsigned char start[10];
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(start, 1, 10, file) != 10 ||
      memcmp(start, "\x93NUMPY\x01", 7) != 0)
    fail("no .npy file of version 1.0", path);
  fseek(file, start[8] + 256L * start[9], SEEK_CUR);
  float* data = malloc(sizeof(float) * (size_t)(count + 1));
  if (fread(data, sizeof(float), (size_t)count, file) != (size_t)count)
    fail("too short", path);
  fclose(file);
  return data;
}

static void write_npy(const char* path, const struct call* c,
                      const float* data) {
  /* The header ends at a multiple of 64 bytes, with a new line. */
  char dict[160], header[192];
  snprintf(dict, sizeof dict,
           "{'descr': '<f4', 'fortran_order': False, "
           "'shape': (%ld, %ld, %ld, %ld), }",
           c->B, c->H, c->Tq, c->dv);
  const int length = (10 + (int)strlen(dict) + 1 + 63) / 64 * 64 - 10;
  snprintf(header, sizeof header, "%-*s\n", length - 1, dict);
  const unsigned char start[10] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)length, 0};
  FILE* file = fopen(path, "wb");
  if (file == NULL) fail("cannot be written", path);
  fwrite(start, 1, 10, file);
  fwrite(header, 1, (size_t)length, file);
  fwrite(data, sizeof(float), (size_t)(c->B * c->H * c->Tq * c->dv), file);
  if (fclose(file) != 0) fail("cannot be written in full", path);
}

/* The keys that row i sees are the first so many. */
static long visible(const struct call* c, long i) {
  long keys = c->Tk;
  if (strcmp(c->causal, "top_left") == 0) keys = i + 1;
  if (strcmp(c->causal, "bottom_right") == 0) keys = i + 1 + c->Tk - c->Tq;
  return keys < 0 ? 0 : keys > c->Tk ? c->Tk : keys;
}

static void attend_row(const struct call* c, long keys, const float* q,
                       const float* k, const float* v, float* scores,
                       float* o) {
  float top = -INFINITY, sum = 0;
  for (long j = 0; j < keys; ++j) {
    float dot = 0;
    for (long x = 0; x < c->d; ++x) dot += q[x] * k[j * c->d + x];
    scores[j] = dot * (float)c->scale;
    top = fmaxf(top, scores[j]);
  }
  for (long j = 0; j < keys; ++j) {
    scores[j] = expf(scores[j] - top);
    sum += scores[j];
  }
  for (long x = 0; x < c->dv; ++x) {
    float mean = 0;
    for (long j = 0; j < keys; ++j) mean += scores[j] * v[j * c->dv + x];
    o[x] = keys == 0 ? 0 : mean / sum;
  }
}

static void answer(const char* plan, const struct call* c) {
  char path[4096];
  const long count[3] = {c->B * c->H * c->Tq * c->d,
                         c->B * c->Hkv * c->Tk * c->d,
                         c->B * c->Hkv * c->Tk * c->dv};
  float* in[3];
  for (int t = 0; t < 3; ++t) {
    snprintf(path, sizeof path, "%s/%s.npy", plan, c->in[t]);
    in[t] = read_npy(path, count[t]);
  }
  float* o = malloc(sizeof(float) * (size_t)(c->B * c->H * c->Tq * c->dv + 1));
  float* scores = malloc(sizeof(float) * (size_t)(c->Tk + 1));
  for (long row = 0; row < c->B * c->H * c->Tq; ++row) {
    const long head = row / c->Tq; /* of all members together */
    const long kv = head / (c->H / c->Hkv);
    attend_row(c, visible(c, row % c->Tq), in[0] + row * c->d,
               in[1] + kv * c->Tk * c->d, in[2] + kv * c->Tk * c->dv, scores,
               o + row * c->dv);
  }
  snprintf(path, sizeof path, "%s/%s.o.npy", plan, c->name);
  write_npy(path, c, o);
  for (int t = 0; t < 3; ++t) free(in[t]);
  free(o);
  free(scores);
}

int main(int argc, char** argv) {
  char path[4096], line[4096];
  if (argc != 2) fail("usage: answer_plan FOLDER", "");
  snprintf(path, sizeof path, "%s/calls.tsv", argv[1]);
  FILE* calls = fopen(path, "r");
  if (calls == NULL || fgets(line, sizeof line, calls) == NULL)
    fail("cannot be read", path);
  while (fgets(line, sizeof line, calls) != NULL) {
    struct call c;
    /* call operation B H Hkv Tq Tk d dv D dtype causal scale ... inputs */
    const char* inputs = strstr(line, "\tq=");
    if (sscanf(line, "%63s %*s %ld %ld %ld %ld %ld %ld %ld %*s %*s %15s %lf",
               c.name, &c.B, &c.H, &c.Hkv, &c.Tq, &c.Tk, &c.d, &c.dv, c.causal,
               &c.scale) != 10 ||
        inputs == NULL ||
        sscanf(inputs, "\tq=%63[^,],k=%63[^,],v=%63[^,\t]", c.in[0], c.in[1],
               c.in[2]) != 3)
      fail("a row that is none", path);
    answer(argv[1], &c);
  }
  fclose(calls);
  return 0;
}
