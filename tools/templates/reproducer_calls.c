/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of forward(), but for the tensors. */
static qkvet_forward_args options_of(int call) {
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
  args.key_block_size = from->key_block_size;
  args.channel_group = from->channel_group;
  args.chunk = from->chunk;
  args.rope = from->rope;
  /* OPTIONS */
  return args;
}
