//! Dropping the future ends everything.

use std::sync::{Arc, Mutex};

use reqwest_ai_retry::{Event, RetryMiddleware, StopReason};

use crate::stub::{ORDERS, Stub, exact, millis, reply, secs};

/// G1: an abort in the middle of a wait does not wait it out, and nothing is sent later.
#[tokio::test(start_paused = true)]
async fn dropping_a_call_in_its_wait_ends_it() {
    let server = Stub::new([reply(503).ra(30), reply(200)]);
    let stops = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&stops);
    let retry = RetryMiddleware::builder()
        .policy(exact())
        .observer(move |event: &Event<'_>| {
            if let Event::GaveUp { stop, outcome, .. } = event {
                seen.lock().unwrap().push((*stop, outcome.sends()));
            }
        });
    let client = server.under([retry.build()]);

    assert!(
        tokio::time::timeout(millis(100), client.get(ORDERS).send())
            .await
            .is_err()
    );
    tokio::time::sleep(secs(300)).await;

    assert_eq!(server.n(), 1);
    assert_eq!(*stops.lock().unwrap(), [(StopReason::Cancelled, 1)]);
}
