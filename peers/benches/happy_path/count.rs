//! Counts what the current thread allocates. Knows nothing of calls, and nothing of what other threads do.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::error::Error;

use crate::call::Caller;

/// The system's allocator, with a count per thread: a server on another thread of this process stays out of it.
pub(crate) struct Counting;

/// So many allocations, of so many bytes. One that is moved to grow counts again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { allocations: 0, bytes: 0 }) };
    static TRACING: Cell<bool> = const { Cell::new(false) };
    static TRACES: RefCell<Vec<(usize, Backtrace)>> = const { RefCell::new(Vec::new()) };
}

/// Allocations of calls that go on in the measured region alone.
pub(crate) fn during(caller: &impl Caller, calls: usize) -> Result<Count, Box<dyn Error>> {
    let prepared = caller.prepare(calls)?;
    let before = COUNT.get();
    let answers = caller.call_all(prepared)?;
    let after = COUNT.get();
    drop(answers);
    Ok(Count {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
    })
}

/// What `work` gives, and where each of its allocations came from.
pub(crate) fn traced<T>(work: impl FnOnce() -> T) -> (T, Vec<(usize, Backtrace)>) {
    TRACING.set(true);
    let made = work();
    TRACING.set(false);
    (made, TRACES.take())
}

fn note(bytes: usize) {
    let mut count = COUNT.get();
    count.allocations += 1;
    count.bytes += bytes as u64;
    COUNT.set(count);
    // Off while it is at work, since a backtrace allocates too.
    if TRACING.replace(false) {
        let trace = Backtrace::force_capture();
        TRACES.with_borrow_mut(|traces| traces.push((bytes, trace)));
        TRACING.set(true);
    }
}

// Safety: every call is handed to the system's allocator as it came, so its promises hold; the counting beside it is in
// thread-locals that are initialised at compile time and need no destructor, but for the traces, which are touched only
// between `TRACING.set(true)` and the end of the same work, on a thread that lives.
#[allow(
    unsafe_code,
    reason = "counting allocations takes an allocator, and that is an unsafe trait"
)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        unsafe { System.dealloc(old, layout) }
    }
}
