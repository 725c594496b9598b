//! Who waits, in what order: first come, first served, retries ahead of new work. Knows no limit. Leaving the queue costs
//! the same wherever one stands in it.
//!
//! A waiter that is called steps out of its line, so that the next one heads it. It counts as ahead of the others until it
//! is set aside; either way it keeps its order, and comes back to where it stood.

use std::task::Waker;

use super::limits::Load;
use super::start::StartRequest;
use super::tick::Tick;

/// A place in the queue; the stamp tells it from an earlier one that stood in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    slot: u32,
    stamp: u32,
}

impl Place {
    /// One that nobody has.
    #[cfg(test)]
    pub(crate) const fn nowhere(number: u32) -> Self {
        Self {
            slot: u32::MAX - 1 - number,
            stamp: 0,
        }
    }
}

/// What is known of one that waits. There may be very many of them: each field counts.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) request: StartRequest,
    pub(crate) joined: Tick,
    pub(crate) waker: Option<Waker>,
    order: u64,
    pub(crate) lane: u32,
    before: Link,
    behind: Link,
    /// It was set aside, and has polled since: it is slow, and not gone.
    pub(crate) late: bool,
    stage: Stage,
}

/// Where a waiter is while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// In its line.
    Queued,
    /// Out of its line, since its start fits and its waker was rung.
    Called,
    /// It was called and has not polled: nobody counts on it.
    SetAside,
}

#[cfg(test)]
impl Waiter {
    /// Stands it in its line?
    pub(crate) fn is_queued(&self) -> bool {
        self.stage == Stage::Queued
    }
}

/// A slot, or none: half the size of an option.
#[derive(Debug, Clone, Copy)]
struct Link(u32);

impl Link {
    const NONE: Self = Self(u32::MAX);

    fn to(slot: Option<u32>) -> Self {
        slot.map_or(Self::NONE, Self)
    }

    fn get(self) -> Option<u32> {
        Some(self.0).filter(|slot| *slot != Self::NONE.0)
    }
}

/// One line of those that wait, by its ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Line {
    head: Option<u32>,
    tail: Option<u32>,
    /// The last that came back to it, while it is in it: those that come back in order are put behind it at once.
    returned: Option<u32>,
    load: Load,
    set_aside: u32,
}

impl Line {
    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.load.starts
    }

    /// All that stand in it, and those of it that are called.
    #[inline]
    pub(crate) const fn load(&self) -> Load {
        self.load
    }

    /// Of it, but set aside.
    pub(crate) const fn set_aside(&self) -> u32 {
        self.set_aside
    }

    /// Returns `true` if nobody stands in it. Some of it may be called, or set aside.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.head.is_none()
    }
}

/// All that wait, in whatever line.
///
/// They stand in blocks that are never moved: to make room for one more takes the same time whatever their number, and no
/// more room than for a block. They are given back when nobody is left.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    blocks: Vec<Box<[Slot<T>]>>,
    /// The first of the free slots, each of which knows the next.
    free: Link,
    taken: u32,
    next_order: u64,
}

const BLOCK: u32 = 64;

#[derive(Debug)]
enum Slot<T> {
    Free {
        stamp: u32,
        next: Link,
    },
    Waiting {
        stamp: u32,
        waiter: Waiter,
    },
    /// The wait is over, and the answer not yet taken; it is in no line any more.
    Answered {
        stamp: u32,
        answer: T,
    },
}

impl<T> Slot<T> {
    const fn stamp(&self) -> u32 {
        match self {
            Self::Free { stamp, .. } | Self::Waiting { stamp, .. } | Self::Answered { stamp, .. } => *stamp,
        }
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            free: Link::NONE,
            taken: 0,
            next_order: 0,
        }
    }
}

impl<T> Waiters<T> {
    fn slot(&self, slot: u32) -> Option<&Slot<T>> {
        self.blocks.get((slot / BLOCK) as usize)?.get((slot % BLOCK) as usize)
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Slot<T>> {
        self.blocks
            .get_mut((slot / BLOCK) as usize)?
            .get_mut((slot % BLOCK) as usize)
    }

    fn waiter(&self, slot: u32) -> Option<&Waiter> {
        match self.slot(slot)? {
            Slot::Waiting { waiter, .. } => Some(waiter),
            Slot::Free { .. } | Slot::Answered { .. } => None,
        }
    }

    fn waiter_mut(&mut self, slot: u32) -> Option<&mut Waiter> {
        match self.slot_mut(slot)? {
            Slot::Waiting { waiter, .. } => Some(waiter),
            Slot::Free { .. } | Slot::Answered { .. } => None,
        }
    }

    /// The one in this place, while it waits.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> Option<&Waiter> {
        match self.slot(place.slot)? {
            Slot::Waiting { stamp, waiter } if *stamp == place.stamp => Some(waiter),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Waiter> {
        match self.slot_mut(place.slot)? {
            Slot::Waiting { stamp, waiter } if *stamp == place.stamp => Some(waiter),
            _ => None,
        }
    }

    /// Joins the end of a line. `None` if there is no number left for one more.
    #[inline]
    pub(crate) fn join(&mut self, line: &mut Line, lane: u32, request: StartRequest, now: Tick) -> Option<Place> {
        let slot = match self.free.get() {
            Some(free) => free,
            None => self.grow()?,
        };
        let waiter = Waiter {
            request,
            joined: now,
            waker: None,
            order: self.next_order,
            lane,
            before: Link::to(line.tail),
            behind: Link::NONE,
            late: false,
            stage: Stage::Queued,
        };
        let place = match self.slot_mut(slot)? {
            Slot::Free { stamp, next } => {
                let (stamp, next) = (*stamp, *next);
                *self.slot_mut(slot)? = Slot::Waiting { stamp, waiter };
                self.free = next;
                Place { slot, stamp }
            }
            Slot::Waiting { .. } | Slot::Answered { .. } => return None,
        };
        self.taken += 1;
        self.next_order = self.next_order.wrapping_add(1);
        match line.tail.and_then(|tail| self.waiter_mut(tail)) {
            Some(last) => last.behind = Link(slot),
            None => line.head = Some(slot),
        }
        line.tail = Some(slot);
        line.load.add(request.weights);
        Some(place)
    }

    /// Makes a block of free slots; the first of them.
    fn grow(&mut self) -> Option<u32> {
        let first = u32::try_from(self.blocks.len()).ok()?.checked_mul(BLOCK)?;
        let end = first.checked_add(BLOCK)?;
        let slots = (first + 1..end).map(Link).chain([Link::NONE]);
        self.blocks
            .push(slots.map(|next| Slot::Free { stamp: 0, next }).collect());
        self.free = Link(first);
        Some(first)
    }

    /// The head of a line: its order among all, and its place.
    #[inline]
    pub(crate) fn head(&self, line: &Line) -> Option<(u64, Place, &Waiter)> {
        self.at(line.head?)
    }

    /// The last of a line.
    pub(crate) fn last(&self, line: &Line) -> Option<(u64, Place, &Waiter)> {
        self.at(line.tail?)
    }

    fn at(&self, slot: u32) -> Option<(u64, Place, &Waiter)> {
        match self.slot(slot)? {
            Slot::Waiting { stamp, waiter } => Some((waiter.order, Place { slot, stamp: *stamp }, waiter)),
            Slot::Free { .. } | Slot::Answered { .. } => None,
        }
    }

    /// All of a line, in its order.
    pub(crate) fn iter(&self, line: &Line) -> impl Iterator<Item = (u64, Place, &Waiter)> {
        std::iter::successors(self.head(line), |(.., waiter)| self.at(waiter.behind.get()?))
    }

    /// Takes one out of its line, to be called; gives its waker.
    #[inline]
    pub(crate) fn call(&mut self, line: &mut Line, place: Place) -> Option<Waker> {
        self.get(place)?;
        self.unlink(line, place.slot);
        let waiter = self.get_mut(place)?;
        waiter.stage = Stage::Called;
        waiter.waker.take()
    }

    /// One that was called does not count as ahead of others any more.
    pub(crate) fn set_aside(&mut self, place: Place, line: &mut Line) {
        if let Some(waiter) = self.get_mut(place)
            && waiter.stage == Stage::Called
        {
            waiter.stage = Stage::SetAside;
            line.load.take(waiter.request.weights);
            line.set_aside += 1;
        }
    }

    /// One that was called comes back to where it stood in its line. Returns `false` if it is in it.
    #[inline]
    pub(crate) fn come_back(&mut self, place: Place, line: &mut Line) -> bool {
        let Some(waiter) = self.get_mut(place) else {
            return false;
        };
        let (order, weights) = (waiter.order, waiter.request.weights);
        match std::mem::replace(&mut waiter.stage, Stage::Queued) {
            Stage::Queued => return false,
            Stage::Called => {}
            Stage::SetAside => {
                waiter.late = true;
                line.load.add(weights);
                line.set_aside = line.set_aside.saturating_sub(1);
            }
        }
        let (before, behind) = self.gap(line, order);
        match before.and_then(|before| self.waiter_mut(before)) {
            Some(waiter) => waiter.behind = Link(place.slot),
            None => line.head = Some(place.slot),
        }
        match behind.and_then(|behind| self.waiter_mut(behind)) {
            Some(waiter) => waiter.before = Link(place.slot),
            None => line.tail = Some(place.slot),
        }
        if let Some(waiter) = self.get_mut(place) {
            (waiter.before, waiter.behind) = (Link::to(before), Link::to(behind));
        }
        line.returned = Some(place.slot);
        true
    }

    /// Those between which one of this order stands in a line: at its end, or near its head, since all that come back were
    /// called from there.
    fn gap(&self, line: &Line, order: u64) -> (Option<u32>, Option<u32>) {
        let earlier = |slot: &u32| self.waiter(*slot).is_some_and(|waiter| waiter.order < order);
        if let Some(last) = line.tail.filter(earlier) {
            return (Some(last), None);
        }
        let mut before = line.returned.filter(earlier);
        let mut behind = match before {
            Some(slot) => self.waiter(slot).and_then(|waiter| waiter.behind.get()),
            None => line.head,
        };
        while let Some(slot) = behind.filter(earlier) {
            before = Some(slot);
            behind = self.waiter(slot).and_then(|waiter| waiter.behind.get());
        }
        (before, behind)
    }

    /// Takes one out of its line and answers it; gives its waker.
    #[inline]
    pub(crate) fn answer(&mut self, line: &mut Line, place: Place, answer: T) -> Option<Waker> {
        self.get(place)?;
        self.leave_line(line, place.slot);
        self.settle(place.slot, answer)
    }

    /// Takes out of a line, and answers, all that match; gives their wakers.
    #[inline]
    pub(crate) fn answer_where(
        &mut self,
        line: &mut Line,
        mut answer: impl FnMut(&Waiter) -> Option<T>,
        woken: &mut Vec<Waker>,
    ) {
        let mut next = line.head;
        while let Some(slot) = next {
            let Some(waiter) = self.waiter(slot) else { return };
            next = waiter.behind.get();
            if let Some(answer) = answer(waiter) {
                self.leave_line(line, slot);
                woken.extend(self.settle(slot, answer));
            }
        }
    }

    fn settle(&mut self, slot: u32, answer: T) -> Option<Waker> {
        let slot = self.slot_mut(slot)?;
        let stamp = slot.stamp();
        match std::mem::replace(slot, Slot::Answered { stamp, answer }) {
            Slot::Waiting { waiter, .. } => waiter.waker,
            Slot::Free { .. } | Slot::Answered { .. } => None,
        }
    }

    fn leave_line(&mut self, line: &mut Line, slot: u32) {
        self.unlink(line, slot);
        if let Some(waiter) = self.waiter(slot) {
            line.load.take(waiter.request.weights);
        }
    }

    fn unlink(&mut self, line: &mut Line, slot: u32) {
        let Some(waiter) = self.waiter(slot) else { return };
        let (before, behind) = (waiter.before, waiter.behind);
        match before.get().and_then(|before| self.waiter_mut(before)) {
            Some(waiter) => waiter.behind = behind,
            None => line.head = behind.get(),
        }
        match behind.get().and_then(|behind| self.waiter_mut(behind)) {
            Some(waiter) => waiter.before = before,
            None => line.tail = before.get(),
        }
        line.returned = line.returned.filter(|returned| *returned != slot);
    }

    /// Leaves, from wherever it waits.
    #[inline]
    pub(crate) fn leave(&mut self, place: Place, line: &mut Line) {
        let Some(waiter) = self.get(place) else { return };
        match waiter.stage {
            Stage::Queued => self.leave_line(line, place.slot),
            Stage::Called => line.load.take(waiter.request.weights),
            Stage::SetAside => line.set_aside = line.set_aside.saturating_sub(1),
        }
        self.vacate(place.slot);
    }

    /// The answer of one that is answered, which leaves with it.
    pub(crate) fn take_answer(&mut self, place: Place) -> Option<T> {
        match self.slot(place.slot)? {
            Slot::Answered { stamp, .. } if *stamp == place.stamp => {}
            _ => return None,
        }
        match self.vacate(place.slot)? {
            Slot::Answered { answer, .. } => Some(answer),
            Slot::Free { .. } | Slot::Waiting { .. } => None,
        }
    }

    fn vacate(&mut self, at: u32) -> Option<Slot<T>> {
        let next = self.free;
        let slot = self.slot_mut(at)?;
        let stamp = slot.stamp().wrapping_add(1);
        let was = std::mem::replace(slot, Slot::Free { stamp, next });
        self.free = Link(at);
        self.taken = self.taken.saturating_sub(1);
        if self.taken == 0 && self.blocks.len() > 1 {
            // nobody is left who knows a place
            self.blocks = Vec::new();
            self.free = Link::NONE;
        }
        Some(was)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Join,
        Answer,
        Leave(prop::sample::Index),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Join),
            2 => Just(Step::Answer),
            2 => any::<prop::sample::Index>().prop_map(Step::Leave),
        ];
        prop::collection::vec(step, 0..500)
    }

    proptest! {
        #[test]
        fn a_line_is_a_queue_that_one_can_leave_anywhere(steps in steps()) {
            let mut waiters = Waiters::<u64>::default();
            let mut line = Line::default();
            let (mut waiting, mut answered, mut gone) = (VecDeque::new(), Vec::new(), Vec::new());
            for (number, step) in (0u64..).zip(steps) {
                match step {
                    Step::Join => {
                        let place = waiters.join(&mut line, 0, StartRequest::default(), Tick::default());
                        waiting.push_back((place.expect("there is room"), number));
                    }
                    Step::Answer => {
                        if let Some((_, head, _)) = waiters.head(&line) {
                            waiters.answer(&mut line, head, number);
                        }
                        answered.extend(waiting.pop_front().map(|(place, _)| (place, number)));
                    }
                    Step::Leave(_) if waiting.is_empty() && answered.is_empty() => {}
                    Step::Leave(index) => {
                        let index = index.index(waiting.len() + answered.len());
                        if let Some((place, _)) = waiting.remove(index) {
                            prop_assert_eq!(waiters.take_answer(place), None);
                            waiters.leave(place, &mut line);
                            gone.push(place);
                        } else {
                            let (place, answer) = answered.swap_remove(index - waiting.len());
                            waiters.leave(place, &mut line);
                            prop_assert_eq!(waiters.take_answer(place), Some(answer));
                            gone.push(place);
                        }
                    }
                }
                prop_assert_eq!(line.len() as usize, waiting.len());
                prop_assert_eq!(line.is_empty(), waiting.is_empty());
                prop_assert_eq!(waiters.taken as usize, waiting.len() + answered.len());
                let orders = waiting.iter().map(|(place, _)| waiters.get_mut(*place).map(|waiter| waiter.order));
                let orders: Option<Vec<u64>> = orders.collect();
                prop_assert!(orders.is_some_and(|orders| orders.is_sorted()));
                let head = waiters.head(&line).map(|(_, place, _)| place);
                prop_assert_eq!(head, waiting.front().map(|(place, _)| *place));
                if waiters.taken > 0 {
                    prop_assert!(gone.iter().all(|place| waiters.get_mut(*place).is_none()));
                } else {
                    gone.clear();
                }
            }
        }
    }
}
