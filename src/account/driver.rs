//! Who looks after the time for those that wait: a task that belongs to none of them. Knows no limit.
//!
//! When a start fits that nothing but time has kept waiting, somebody must see it, and call the waiter whose turn it is; and
//! when that one does not poll, somebody must see that its grace is over. No waiter can be relied on for it: any of them may
//! be kept by its caller and never polled again. So a waiter that is polled in a tokio runtime sees to it that there is a
//! driver there, one for each runtime, in a task that is spawned for it; outside of any runtime it drives itself, within its
//! own polls. A driver ends when nobody stands in a line any more.
//!
//! All drivers sleep to the same moment, and whichever comes first does what is to be done; the others find it done. That is
//! why one runtime needs nothing of another:
//!
//! * **Idle.** A runtime that nobody drives, as one of a current thread outside `block_on`, polls its driver as little as its
//!   waiters. A waiter that runs elsewhere was polled there, so there is a driver there too.
//! * **Blocked.** The same, for as long as it lasts. Where one worker of several is blocked, its driver can be taken over by
//!   another worker, but for the one task in its slot for what was woken last, which no other worker may take: after a driver
//!   is spawned or rung there, an empty task is spawned, so that it is the one in that slot.
//! * **Shut down.** Its tasks are dropped, the driver among them, which strikes itself off the list; one that is spawned when
//!   it is too late is dropped at once, with the same effect. A waiter that is polled again elsewhere makes another one there.
//!
//! Time is the account's [`Clock`](crate::Clock) alone, the grace included, so that nothing depends on the real one under
//! tokio's paused clock.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Poll, Wake, Waker};

use tokio::runtime::{Handle, Id, RuntimeFlavor};

use super::queue::Place;
use super::tick::Tick;
use super::{Shared, state};

/// Which driver it is: one for a runtime, or one for a waiter outside of any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverId {
    Runtime(Id),
    Waiter(Place),
}

/// Where a waiter is polled.
pub(super) enum Home {
    Runtime(Handle),
    /// In no runtime.
    None(Place),
}

impl Home {
    pub(super) fn of(place: Place) -> Self {
        Handle::try_current().map_or(Self::None(place), Self::Runtime)
    }

    pub(super) fn driver(&self) -> DriverId {
        match self {
            Self::Runtime(runtime) => DriverId::Runtime(runtime.id()),
            Self::None(place) => DriverId::Waiter(*place),
        }
    }
}

/// What this thread has woken or spawned last need not wait for it.
fn let_go(runtime: &Handle) {
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
        drop(runtime.spawn(async {}));
    }
}

/// How a driver in a runtime is rung.
struct Bell(Waker);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
        if let Ok(runtime) = Handle::try_current() {
            let_go(&runtime);
        }
    }
}

pub(super) type Drive = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Begins a driver that was enlisted: spawned, or given back where there is no runtime to spawn it in.
pub(super) fn begin(shared: &Arc<Shared>, home: &Home) -> Option<Drive> {
    // if the runtime has no timer, the caller is to be told so, by tokio's own panic, and not the task
    drop(shared.sleep_until(shared.now()));
    let listed = Listed {
        shared: Arc::downgrade(shared),
        id: home.driver(),
        is_struck_off: false,
    };
    match home {
        Home::Runtime(runtime) => {
            drop(runtime.spawn(drive(listed)));
            let_go(runtime);
            None
        }
        Home::None(_) => Some(Box::pin(drive(listed))),
    }
}

/// A driver that is enlisted; it is struck off when this is dropped, however that comes about.
struct Listed {
    shared: Weak<Shared>,
    id: DriverId,
    is_struck_off: bool,
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade().filter(|_| !self.is_struck_off) {
            drop(shared.with(|state, _, _| state.discharge(self.id)));
        }
    }
}

async fn drive(mut listed: Listed) {
    let Some((base, clock)) = listed
        .shared
        .upgrade()
        .map(|shared| (shared.base, Arc::clone(&shared.clock)))
    else {
        return;
    };
    let mut sleep: Option<(Tick, super::Sleep<'_>)> = None;
    let mut bell: Option<(Waker, Waker)> = None;
    poll_fn(|cx| {
        let bell = match &mut bell {
            Some((waker, bell)) if waker.will_wake(cx.waker()) => bell,
            bell => {
                let waker = cx.waker().clone();
                let rung = Waker::from(Arc::new(Bell(waker.clone())));
                &bell.insert((waker, rung)).1
            }
        };
        // a clock whose sleeps end too early keeps nobody else from the thread
        for _ in 0..2 {
            // nothing keeps the account alive while it is slept
            let until = match look(&mut listed, bell) {
                None => return Poll::Ready(()),
                Some(Tick::NEVER) => {
                    sleep = None;
                    return Poll::Pending;
                }
                Some(until) => until,
            };
            let (_, timer) = match &mut sleep {
                Some(sleep) if sleep.0 == until => sleep,
                sleep => sleep.insert((until, super::sleep_until(&*clock, base, until))),
            };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            sleep = None;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

fn look(listed: &mut Listed, waker: &Waker) -> Option<Tick> {
    let shared = listed.shared.upgrade()?;
    let until = shared.with(|state: &mut state::State, now, woken| state.drive(listed.id, waker, now, woken));
    // struck off already, and there may be another of this name by now
    listed.is_struck_off = until.is_none();
    until
}
