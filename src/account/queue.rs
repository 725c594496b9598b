//! Who waits, in what order: first come, first served, retries ahead of new work. Knows no limit. Leaving the queue costs
//! the same wherever one stands in it.

use std::task::Waker;

use super::limits::{Load, Weights};
use super::tick::Tick;

/// A place in the queue; the stamp tells it from an earlier one that stood in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    slot: u32,
    stamp: u32,
}

/// What is known of one that waits.
#[derive(Debug)]
pub(crate) struct Waiter<T> {
    pub(crate) lane: u32,
    pub(crate) weights: Weights,
    /// It cannot wait beyond this.
    pub(crate) bound: Option<Tick>,
    pub(crate) retry: bool,
    pub(crate) waker: Option<Waker>,
    /// Set when the wait is over: it is in no line any more.
    pub(crate) answer: Option<T>,
    order: u64,
    before: Option<u32>,
    behind: Option<u32>,
}

/// One line of those that wait, by its ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Line {
    head: Option<u32>,
    tail: Option<u32>,
    load: Load,
}

impl Line {
    pub(crate) const fn len(&self) -> u32 {
        self.load.starts
    }

    /// All that stand in it.
    pub(crate) const fn load(&self) -> Load {
        self.load
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.head.is_none()
    }
}

/// All that wait, in whatever line.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    next_order: u64,
}

#[derive(Debug)]
struct Slot<T> {
    stamp: u32,
    waiter: Option<Waiter<T>>,
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            next_order: 0,
        }
    }
}

impl<T> Waiters<T> {
    fn slot(&self, slot: u32) -> Option<&Waiter<T>> {
        self.slots.get(slot as usize)?.waiter.as_ref()
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Waiter<T>> {
        self.slots.get_mut(slot as usize)?.waiter.as_mut()
    }

    pub(crate) fn get(&self, place: Place) -> Option<&Waiter<T>> {
        self.slots
            .get(place.slot as usize)
            .filter(|slot| slot.stamp == place.stamp)?
            .waiter
            .as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Waiter<T>> {
        self.slots
            .get_mut(place.slot as usize)
            .filter(|slot| slot.stamp == place.stamp)?
            .waiter
            .as_mut()
    }

    /// Joins the end of a line.
    pub(crate) fn join(
        &mut self,
        line: &mut Line,
        lane: u32,
        weights: Weights,
        bound: Option<Tick>,
        retry: bool,
    ) -> Place {
        let waiter = Waiter {
            lane,
            weights,
            bound,
            retry,
            waker: None,
            answer: None,
            order: self.next_order,
            before: line.tail,
            behind: None,
        };
        self.next_order = self.next_order.wrapping_add(1);
        let place = match self
            .free
            .pop()
            .and_then(|free| Some((free, self.slots.get_mut(free as usize)?)))
        {
            Some((slot, free)) => {
                free.waiter = Some(waiter);
                Place {
                    slot,
                    stamp: free.stamp,
                }
            }
            None => {
                let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
                self.slots.push(Slot {
                    stamp: 0,
                    waiter: Some(waiter),
                });
                Place { slot, stamp: 0 }
            }
        };
        match line.tail.and_then(|tail| self.slot_mut(tail)) {
            Some(last) => last.behind = Some(place.slot),
            None => line.head = Some(place.slot),
        }
        line.tail = Some(place.slot);
        line.load.add(weights);
        place
    }

    /// The head of a line: its order among all, and what it waits for.
    pub(crate) fn head(&self, line: &Line) -> Option<(u64, &Waiter<T>)> {
        let waiter = self.slot(line.head?)?;
        Some((waiter.order, waiter))
    }

    /// Takes the head out of its line and answers it; gives its waker.
    pub(crate) fn answer_head(&mut self, line: &mut Line, answer: T) -> Option<Waker> {
        let head = line.head?;
        self.unlink(line, head);
        let waiter = self.slot_mut(head)?;
        waiter.answer = Some(answer);
        waiter.waker.take()
    }

    /// Takes out of a line, and answers, all that match; gives their wakers.
    pub(crate) fn answer_where(
        &mut self,
        line: &mut Line,
        mut answer: impl FnMut(&Waiter<T>) -> Option<T>,
        woken: &mut Vec<Waker>,
    ) {
        let mut next = line.head;
        while let Some(slot) = next {
            let Some(waiter) = self.slot_mut(slot) else { return };
            next = waiter.behind;
            if let Some(answer) = answer(waiter) {
                waiter.answer = Some(answer);
                woken.extend(waiter.waker.take());
                self.unlink(line, slot);
            }
        }
    }

    fn unlink(&mut self, line: &mut Line, slot: u32) {
        let Some(waiter) = self.slot_mut(slot) else { return };
        let (before, behind, weights) = (waiter.before.take(), waiter.behind.take(), waiter.weights);
        match before.and_then(|before| self.slot_mut(before)) {
            Some(waiter) => waiter.behind = behind,
            None => line.head = behind,
        }
        match behind.and_then(|behind| self.slot_mut(behind)) {
            Some(waiter) => waiter.before = before,
            None => line.tail = before,
        }
        line.load.take(weights);
    }

    /// Leaves, answered or not. `line` is the line it stands in, if it still does.
    pub(crate) fn leave(&mut self, place: Place, line: &mut Line) -> Option<Waiter<T>> {
        if self.get_mut(place)?.answer.is_none() {
            self.unlink(line, place.slot);
        }
        let slot = self.slots.get_mut(place.slot as usize)?;
        slot.stamp = slot.stamp.wrapping_add(1);
        self.free.push(place.slot);
        slot.waiter.take()
    }

    /// Somebody who waits and is not `this`, for what one of them must do for all.
    pub(crate) fn another<'a>(&mut self, lines: impl Iterator<Item = &'a Line>) -> Option<Place> {
        let head = lines.filter_map(|line| line.head).next()?;
        let stamp = self.slots.get(head as usize)?.stamp;
        Some(Place { slot: head, stamp })
    }
}
