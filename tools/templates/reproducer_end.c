/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a call did not end as it must: with a result, or refused with a
 * reason. Prints what is wrong. */
static int judge_end(int call, const char* refusal, qkvet_status status) {
  const int done = status == QKVET_OK, has_reason = reason[0] != '\0';
  if (refusal == NULL ? done : !done && has_reason) return 0;
  print_place(call);
  if (refusal == NULL)
    printf("expected a result: the call is legal actual refused: %s\n", reason);
  else
    printf("expected %s actual %s\n", refusal,
           done ? "accepted" : "refused without a reason");
  return 1;
}
