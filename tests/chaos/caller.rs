//! A caller: what it asks, how long it bears with it, and what it does with the response. Knows no limit.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use reqwest::Response;
use reqwest_ai_retry::{Account, Cost, Outcome, Usage};
use reqwest_middleware::ClientWithMiddleware;
use tokio::time::{Instant, sleep, timeout};

use crate::draw::Draw;
use crate::ledger::{LaneId, Shared};
use crate::server::CALL;

/// A call that nothing else ends is dropped after this time: some are never answered.
const PATIENCE: Duration = Duration::from_secs(100);

#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) lane: LaneId,
    pub(crate) client: usize,
    pub(crate) credential: usize,
    pub(crate) begins: Duration,
    pub(crate) fate: Fate,
    pub(crate) reads: Reads,
    /// A timeout of the request's own.
    pub(crate) timeout: Option<Duration>,
    /// It asks the account itself, and sends nothing.
    pub(crate) by_hand: bool,
    pub(crate) tokens: u32,
}

/// What becomes of a call's future.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    Polled,
    DroppedAfter(Duration),
    DroppedAfterPolls(u32),
    /// Not polled after some time, for some time, and then polled again or dropped.
    Kept {
        after: Duration,
        length: Duration,
        dropped: bool,
    },
}

/// What becomes of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reads {
    All,
    Nothing,
    /// The first pieces; the rest is dropped after this time.
    Some(u32, Duration),
    /// All, after this time.
    Late(Duration),
}

/// What came of a call, as its caller saw it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The sends by the outcome, if there is one.
    pub(crate) sends: Option<u32>,
    /// It ended in an error of its connection.
    pub(crate) broken: bool,
    /// It was dropped, and has none.
    pub(crate) dropped: bool,
    /// From the beginning to the response's head or the error.
    pub(crate) took: Duration,
}

impl Caller {
    pub(crate) fn draw(draw: &mut Draw, lane: LaneId, client: usize, credential: usize, begins: Duration) -> Self {
        let fate = match draw.number(0, 9) {
            0 => Fate::DroppedAfter(draw.millis(0, 8_000)),
            1 => Fate::DroppedAfterPolls(draw.number(0, 12)),
            2 => Fate::Kept {
                after: draw.millis(0, 3_000),
                length: draw.millis(1, 60_000),
                dropped: draw.chance(0.3),
            },
            _ => Fate::Polled,
        };
        let reads = match draw.number(0, 9) {
            0 => Reads::Nothing,
            1 => Reads::Some(draw.number(0, 3), draw.millis(0, 5_000)),
            2 => Reads::Late(draw.millis(0, 5_000)),
            _ => Reads::All,
        };
        Self {
            lane,
            client,
            credential,
            begins,
            fate,
            reads,
            timeout: draw.sometimes(0.1, |draw| draw.millis(200, 20_000)),
            by_hand: draw.chance(0.05),
            tokens: draw.number(1, 400),
        }
    }

    /// Keeps it, unless it is dropped anyway, in this part of the cases.
    pub(crate) fn kept(self, part: f64, draw: &mut Draw) -> Self {
        let kept = Fate::Kept {
            after: draw.millis(0, 3_000),
            length: draw.millis(1, 60_000),
            dropped: draw.chance(0.3),
        };
        let is_kept = draw.chance(part) && matches!(self.fate, Fate::Polled);
        Self {
            fate: if is_kept { kept } else { self.fate },
            ..self
        }
    }

    pub(crate) async fn run(self, call: usize, shared: Shared, client: ClientWithMiddleware, account: Account) -> Seen {
        sleep(self.begins).await;
        let begun = Instant::now();
        if self.by_hand {
            let starts = self.start_by_hand(&shared, &account);
            live(shared.clone(), call, self.fate, starts).await;
            return Seen {
                dropped: true,
                ..Seen::default()
            };
        }
        let request = client
            .post(format!("http://host{}.invalid/v1/chat/completions", self.lane.host))
            .header(CALL, call)
            .header("authorization", format!("Bearer {}", self.credential))
            .body(format!(
                r#"{{"model":"m{}","max_tokens":{},"messages":[{{"role":"user","content":"Call {call}."}}]}}"#,
                self.lane.model, self.tokens
            ));
        let request = match self.timeout {
            Some(limit) => request.timeout(limit),
            None => request,
        };
        let ended = live(shared, call, self.fate, async move { request.send().await }).await;
        let took = begun.elapsed();
        let Some(result) = ended else {
            return Seen {
                dropped: true,
                took,
                ..Seen::default()
            };
        };
        let sends = match &result {
            Ok(response) => Some(Outcome::of(response).map_or(1, Outcome::sends)),
            Err(error) => Outcome::of_error(error).map(Outcome::sends),
        };
        let broken = matches!(&result, Err(reqwest_middleware::Error::Reqwest(_)));
        if let Ok(response) = result {
            self.reads.of(response).await;
        }
        Seen {
            sends,
            broken,
            dropped: false,
            took,
        }
    }

    async fn start_by_hand(&self, shared: &Shared, account: &Account) {
        let cost = Cost::new().model(format!("m{}", self.lane.model)).input_tokens(20);
        let deadline = self.timeout.map(|limit| (Instant::now() + limit).into_std());
        if let Ok(permit) = account
            .admit(cost.max_output_tokens(self.tokens.into()), deadline)
            .await
        {
            let flight = shared.start(self.lane.account, Some(self.lane.model));
            sleep(Duration::from_millis(u64::from(self.tokens))).await;
            drop(flight);
            if self.tokens.is_multiple_of(2) {
                permit.settle(Usage {
                    input_tokens: Some(20),
                    output_tokens: Some(self.tokens.into()),
                });
            }
        }
    }
}

/// Polls a call as its fate has it; `None` if it is dropped before its end.
async fn live<T>(shared: Shared, call: usize, fate: Fate, future: impl Future<Output = T>) -> Option<T> {
    let mut marked = pin!(Some(Shared::mark(call, future)));
    let mut polled = poll_fn(|cx| match marked.as_mut().as_pin_mut() {
        Some(marked) => marked.poll(cx),
        None => Poll::Pending,
    });
    match fate {
        Fate::Polled => unless_it_hangs(&shared, call, polled).await,
        Fate::DroppedAfter(after) => timeout(after, polled).await.ok(),
        Fate::DroppedAfterPolls(polls) => {
            let mut left = polls;
            let counted = poll_fn(|cx| {
                if left == 0 {
                    return Poll::Ready(None);
                }
                left -= 1;
                Pin::new(&mut polled).poll(cx).map(Some)
            });
            timeout(PATIENCE, counted).await.ok().flatten()
        }
        Fate::Kept { after, length, dropped } => {
            if let Ok(output) = timeout(after, &mut polled).await {
                return Some(output);
            }
            sleep(length).await;
            if dropped {
                return None;
            }
            unless_it_hangs(&shared, call, polled).await
        }
    }
}

/// Waits for a call for ever, unless its send is never answered: a call that nobody wakes is found by that.
async fn unless_it_hangs<T>(shared: &Shared, call: usize, mut polled: impl Future<Output = T> + Unpin) -> Option<T> {
    loop {
        if let Ok(output) = timeout(PATIENCE, &mut polled).await {
            return Some(output);
        }
        if shared.lock().calls[call].is_under_way() {
            return None;
        }
    }
}

impl Reads {
    async fn of(self, mut response: Response) {
        match self {
            Self::Nothing => {}
            Self::All => drop(timeout(PATIENCE, response.bytes()).await),
            Self::Some(pieces, length) => {
                for _ in 0..pieces {
                    if !matches!(timeout(PATIENCE, response.chunk()).await, Ok(Ok(Some(_)))) {
                        break;
                    }
                }
                sleep(length).await;
            }
            Self::Late(length) => {
                sleep(length).await;
                drop(timeout(PATIENCE, response.bytes()).await);
            }
        }
    }
}
