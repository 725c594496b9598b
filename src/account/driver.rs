//! The driver: a task that keeps time for all waiters of a runtime, and belongs to none of them. Knows no limit.
//!
//! When a start fits because time has passed, something must notice and call the waiter whose turn it is; when that waiter
//! does not poll, something must notice that its grace is over. No waiter can do that, since its caller may keep it and never
//! poll it again. So a waiter that is polled in a tokio runtime makes sure that the runtime has a driver, a task of its own.
//! Outside of any runtime a waiter drives itself, within its own polls. A driver ends when no waiter is in line.
//!
//! All drivers sleep until the same time. The first to wake does all that is due; the others find it done. So no runtime
//! depends on another:
//!
//! * **Idle.** A runtime that nothing drives (a current-thread runtime outside `block_on`) polls neither its driver nor its
//!   waiters. A waiter that is polled elsewhere has a driver there.
//! * **Blocked.** The same, while it is blocked. Where one worker of several is blocked, another worker can steal its tasks,
//!   except for the task in its slot for what was woken last. So after a driver is spawned or woken on a worker, an empty task
//!   is spawned there, which takes that slot.
//! * **Shut down.** The runtime drops its tasks, and a dropped driver removes itself from the list. One that is spawned too
//!   late is dropped at once, with the same effect. A waiter that is polled again elsewhere makes a new driver there.
//!
//! All times are of the account's [`Clock`](crate::Clock), the grace included, so nothing depends on real time under tokio's
//! paused clock.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Poll, Wake, Waker};

use tokio::runtime::{Handle, Id, RuntimeFlavor};

use super::queue::Place;
use super::tick::Tick;
use super::{Shared, state};

/// Identifies a driver: one for each runtime, or one for a waiter outside of any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverId {
    Runtime(Id),
    Waiter(Place),
}

/// The runtime in which a waiter is polled.
pub(super) enum Home {
    Runtime(Handle),
    /// Outside of any runtime.
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

/// Lets other workers steal the task that this thread has woken or spawned last.
fn let_go(runtime: &Handle) {
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
        drop(runtime.spawn(async {}));
    }
}

/// The waker of a driver in a runtime.
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

/// Starts a driver that is on the list: spawns it, or returns it where there is no runtime to spawn it in.
pub(super) fn begin(shared: &Arc<Shared>, home: &Home) -> Option<Drive> {
    // where the runtime has no timer, tokio's panic must reach the caller, not the task
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

/// A driver that is on the list; dropping this removes it.
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
        // twice at most: a clock whose sleeps end too early must not keep the thread busy
        for _ in 0..2 {
            // the driver does not keep the account alive while it sleeps
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
    // already removed, and there may be another driver with this id by now
    listed.is_struck_off = until.is_none();
    until
}
