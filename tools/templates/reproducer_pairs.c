/* SPDX-License-Identifier: Apache-2.0 */
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
