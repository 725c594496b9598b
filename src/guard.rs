//! The guard against retries from above that nobody can switch off: a request that was just given up is answered from
//! memory for a while. Knows no caller: what is equal within the window is taken for a repeat.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::ledger::{Fingerprint, LONGEST_WINDOW, Last, Spent};

/// So many give-ups are remembered, and so many bytes of their answers; the oldest are forgotten first.
const REMEMBERED: usize = 1024;
const REMEMBERED_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Guard {
    window: Duration,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    given_up: HashMap<Fingerprint, GivenUp>,
    /// In the order in which they were given up; what was forgotten meanwhile may still stand here.
    order: VecDeque<(Fingerprint, u64)>,
    bytes: usize,
    count: u64,
}

#[derive(Debug)]
struct GivenUp {
    spent: Spent,
    until: Instant,
    number: u64,
}

impl GivenUp {
    fn size(&self) -> usize {
        match &self.spent.last {
            Last::Answer(answer) => answer.size(),
            Last::Status(..) | Last::Nothing => 0,
        }
    }
}

impl Guard {
    pub(crate) fn new(window: Duration) -> Self {
        Self {
            window: window.min(LONGEST_WINDOW),
            memory: Mutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What became of an equal request, if it was given up within the window.
    pub(crate) fn recall(&self, print: Fingerprint, now: Instant) -> Option<Spent> {
        let memory = self.memory();
        let known = memory.given_up.get(&print).filter(|given_up| now < given_up.until);
        known.map(|given_up| given_up.spent.clone())
    }

    /// A request was given up.
    pub(crate) fn remember(&self, print: Fingerprint, spent: Spent, now: Instant) {
        let Some(until) = now.checked_add(spent.window(self.window)) else {
            return;
        };
        let mut memory = self.memory();
        memory.forget(print);
        memory.count = memory.count.wrapping_add(1);
        let number = memory.count;
        let given_up = GivenUp { spent, until, number };
        memory.bytes = memory.bytes.saturating_add(given_up.size());
        memory.given_up.insert(print, given_up);
        memory.order.push_back((print, number));
        memory.shrink(now);
    }

    /// A request was answered: the next equal one asks anew.
    pub(crate) fn forget(&self, print: Fingerprint) {
        self.memory().forget(print);
    }
}

impl Memory {
    fn forget(&mut self, print: Fingerprint) {
        if let Some(gone) = self.given_up.remove(&print) {
            self.bytes = self.bytes.saturating_sub(gone.size());
        }
    }

    /// Forgets what is out of date, stands here in vain or is too much, from the oldest on.
    fn shrink(&mut self, now: Instant) {
        while let Some((print, number)) = self.order.front().copied() {
            let known = self.given_up.get(&print).filter(|known| known.number == number);
            let too_much =
                self.given_up.len() > REMEMBERED || self.bytes > REMEMBERED_BYTES || self.order.len() > 2 * REMEMBERED;
            match known {
                Some(known) if known.until > now && !too_much => return,
                Some(_) => self.forget(print),
                None => {}
            }
            self.order.pop_front();
        }
    }
}
