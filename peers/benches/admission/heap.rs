//! Counts allocations of the current thread, and the bytes that all threads hold. Knows nothing of what they are for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// The system's allocator, with a count per thread and a level of the process.
pub(crate) struct Counting;

/// So many allocations, of so many bytes. One that is moved to grow counts again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { allocations: 0, bytes: 0 }) };
}

static LEVEL: AtomicI64 = AtomicI64::new(0);

/// Allocations of this thread during `work`.
pub(crate) fn during(work: impl FnOnce()) -> Count {
    let before = COUNT.get();
    work();
    let after = COUNT.get();
    Count {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
    }
}

/// Bytes that are held now.
pub(crate) fn held() -> i64 {
    LEVEL.load(Ordering::Relaxed)
}

fn note(bytes: usize) {
    let mut count = COUNT.get();
    count.allocations += 1;
    count.bytes += bytes as u64;
    COUNT.set(count);
    LEVEL.fetch_add(bytes as i64, Ordering::Relaxed);
}

fn let_go(bytes: usize) {
    LEVEL.fetch_sub(bytes as i64, Ordering::Relaxed);
}

// Safety: every call is handed to the system's allocator as it came, so its promises hold; the counting beside it is in an
// atomic and in a thread-local that is initialised at compile time and needs no destructor.
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
        let_go(layout.size());
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        let_go(layout.size());
        unsafe { System.dealloc(old, layout) }
    }
}
