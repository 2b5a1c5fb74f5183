// SPDX-License-Identifier: Apache-2.0
// The functions that threads call, and wait in.
#include <cstdint>

#include "machine_state.h"

namespace simt {
namespace {

SIMT_UNSEEN bool same_place(const Place& a, const Place& b) {
  return a.line == b.line && a.file == b.file;
}

// All awaited lanes have arrived: one of them does the work, and all are ready
// to go on.
SIMT_UNSEEN void work_of_all(Machine* m, Warp* warp, Thread* lanes,
                             uint32_t awaited, const Thread& last) {
  Lanes all = {awaited, {}};
  for (unsigned l = 0; l < kWarp; ++l) {
    if ((awaited >> l & 1) == 0) {
      continue;
    }
    Thread& lane = lanes[l];
    if (lane.mask != last.mask) {
      set_fault(m, "lanes of a warp wait with different masks", last.place,
                last);
      return;
    }
    if (lane.work != last.work || !same_place(lane.place, last.place)) {
      set_fault(m, "lanes of a warp wait at different instructions", last.place,
                last);
      return;
    }
    all.data[l] = lane.mine;
    lane.state = State::kReady;
  }
  warp->arrived &= ~awaited;
  if (last.work != nullptr) {
    last.work(all);
  }
}

// Lanes that wait with one mask share an order; the first one takes it.
SIMT_UNSEEN char* order_of(Warp* warp, Thread* lanes, uint32_t mask) {
  for (unsigned l = 0; l < kWarp; ++l) {
    const Thread& lane = lanes[l];
    if ((warp->arrived >> l & 1) != 0 && lane.mask == mask &&
        lane.work == nullptr) {
      return lane.order;
    }
  }
  return &warp->orders[warp->next_order++ % kOrders];
}

}  // namespace

SIMT_UNSEEN void lane_ended(Machine* m, Thread* thread) {
  const unsigned ended = thread->number % kWarp;
  Warp* const warp = &m->warps[thread->number / kWarp];
  Thread* const lanes = thread - ended;
  warp->alive &= ~(1u << ended);
  for (unsigned l = 0; l < kWarp; ++l) {
    if ((warp->arrived >> l & 1) == 0 || (lanes[l].mask >> ended & 1) == 0) {
      continue;
    }
    const uint32_t awaited = lanes[l].mask & warp->alive;
    if ((warp->arrived & awaited) == awaited) {
      work_of_all(m, warp, lanes, awaited, lanes[l]);
    }
  }
}

SIMT_UNSEEN Index thread_index() { return g_machine->current->index; }
SIMT_UNSEEN unsigned lane_index() { return g_machine->current->number % kWarp; }
SIMT_UNSEEN Index block_index() { return g_machine->block; }
SIMT_UNSEEN Extent block_extent() { return g_machine->extent; }
SIMT_UNSEEN Extent grid_extent() { return g_machine->grid; }
SIMT_UNSEEN void* dynamic_shared() { return g_machine->shared; }

SIMT_UNSEEN LateCopies& late_copies() { return g_machine->current->late; }

SIMT_UNSEEN void fault(const char* what, Place place) {
  Machine* const m = g_machine;
  set_fault(m, what, place, *m->current);
  yield(m, m->current);  // for good: a fault ends the launch
}

SIMT_UNSEEN unsigned block_barrier(bool yes, Place place) {
  Machine* const m = g_machine;
  Thread* const thread = m->current;
  if (m->arrived > 0 && !same_place(m->barrier, place)) {
    fault("waits at another barrier than others of its block", place);
  }
  m->barrier = place;
  thread->place = place;
  thread->state = State::kAtBarrier;
  m->yes += yes ? 1 : 0;
  ++m->arrived;
  [[maybe_unused]] char* const order = &m->order[m->barriers % 2];
  SIMT_RELEASE(order);
  yield(m, thread);
  SIMT_ACQUIRE(order);
  return m->last_yes;
}

SIMT_UNSEEN void together(uint32_t mask, void* mine, Work work, Place place) {
  Machine* const m = g_machine;
  Thread* const thread = m->current;
  const unsigned lane = thread->number % kWarp;
  Warp* const warp = &m->warps[thread->number / kWarp];
  if ((mask >> lane & 1) == 0) {
    fault("is no lane of the mask that it calls with", place);
  }
  thread->mine = mine;
  thread->work = work;
  thread->mask = mask;
  thread->place = place;
  warp->arrived |= 1u << lane;
  const uint32_t awaited = mask & warp->alive;
  if ((warp->arrived & awaited) != awaited) {
    thread->state = State::kWithLanes;
    yield(m, thread);
    return;
  }
  work_of_all(m, warp, thread - lane, awaited, *thread);
  if (m->fault.what != nullptr) {
    yield(m, thread);
  }
}

SIMT_UNSEEN void warp_barrier(uint32_t mask, Place place) {
  Machine* const m = g_machine;
  Thread* const thread = m->current;
  thread->order = order_of(&m->warps[thread->number / kWarp],
                           thread - thread->number % kWarp, mask);
  SIMT_RELEASE(thread->order);
  together(mask, nullptr, nullptr, place);
  SIMT_ACQUIRE(thread->order);
}

SIMT_UNSEEN bool answers(const Lanes& lanes, int lane) {
  return (lanes.mask >> (lane & 31) & 1) != 0;
}

SIMT_UNSEEN void fence() {
  SIMT_RELEASE(&g_machine->memory);
  SIMT_ACQUIRE(&g_machine->memory);
}

}  // namespace simt
