//! The account's store in Redis or Valkey: the connection, the script, and the task that carries questions and answers. Knows
//! nothing of what is granted.
//!
//! All that an account shares lies under keys with one hash tag, so that a cluster keeps it in one place, and changes by one
//! script (`lease.lua`), in which the server's clock is the only one.

use std::sync::Arc;
use std::sync::Weak;
use std::time::Duration;

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::{Client, ErrorKind, RedisError, Script};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::Shared;
use super::digest::Digest;
use super::limits::Weights;
use super::store::{Order, Reply, Scope};
use super::sync::{AtomicBool, Ordering};

/// The number of what the keys mean: a program that means something else by them uses others.
const LAYOUT: u32 = 1;
const TIMEOUT: Duration = Duration::from_millis(100);
/// For the first connection, which may be over TLS and far away.
const CONNECT: Duration = Duration::from_secs(5);
const HORIZON_MICROS: u128 = super::lease::HORIZON.as_micros();

/// Where processes, on however many machines, keep what they share of one account: a Redis (5 or later) or a Valkey.
///
/// ```no_run
/// use reqwest_ai_retry::{Account, RedisStore, RetryMiddleware};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1/").await?.account("openai-batch");
/// let account = Account::builder().requests_per_minute(600).max_concurrency(16).redis(store).build()?;
/// // every process that does the same is one of those that share the 600 a minute
/// let retry = RetryMiddleware::builder().account(account).build();
/// # let _ = retry; Ok(()) }
/// ```
///
/// **Is it needed?** Only where several processes spend one allowance, and it is tight. An account in memory is enough for one
/// process, whatever the number of its tasks; a few processes with an even load can be given a part of the rate each.
///
/// **How large?** One call of a script for about a quarter of a second of a process's starts, and two a second from a process
/// that waits for nothing (one in five seconds once it is idle, ten a second while all its sends fail): the smallest server is
/// enough for hundreds of processes. A few kilobytes are kept. Nothing needs to survive a restart. Let it not evict keys (`maxmemory-policy noeviction`), and be near: a call that waits for nothing else
/// waits for one round trip.
///
/// **In an outage of the provider** all processes stop within a moment of the first that knows, or sooner: failures are counted
/// over all of them, and a process whose own sends get through does not stop. One probe at a time is sent, by whichever
/// process asks first; if its process dies, another follows a second after it should have come back. Once one gets through
/// all processes start again, each with one call at a time at first.
///
/// **When it is away** no call fails for that. What was lent is spent, then each process goes on alone at four fifths of its
/// equal part of each rate ([`processes`](Self::processes) says how many there are at the least) and its part of those in
/// flight; it logs an error once, tells [`Event::StoreLost`](crate::Event::StoreLost) with the next answer and shows
/// [`StoreStatus::Away`](crate::StoreStatus::Away). It tries again after half a second, then less and less often until every
/// ten, and is back with the first answer. A call to it that takes longer than [`timeout`](Self::timeout) counts as failed, and
/// what it asked for as spent.
///
/// It is asked by a task of the tokio runtime that the first call runs on, which ends with the account; that runtime must
/// go on running.
///
/// Keys hold no credential: whatever tells a lane is hashed (SHA-256). Those who can write to the store can stop or speed up
/// all who share it, so let it ask for a password.
#[must_use]
#[derive(Clone)]
pub struct RedisStore {
    client: Client,
    prefix: String,
    account: String,
    processes: u32,
    timeout: Duration,
}

/// Why a store cannot be used. Its text never has the URL in it, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL cannot be read, or asks for TLS that is not compiled in (feature `redis-rustls`).
    #[error("the URL of the Redis server cannot be read, or needs the feature `redis-rustls`")]
    Url,
    /// The user or the password is wrong.
    #[error("the Redis server does not accept the user or the password")]
    Authentication,
    /// It does not answer.
    #[error("the Redis server does not answer")]
    Unreachable,
    /// It answers that it cannot: it is starting, or may not run scripts.
    #[error("the Redis server cannot do what is asked of it")]
    Refused,
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::InvalidClientConfig => Self::Url,
            ErrorKind::AuthenticationFailed => Self::Authentication,
            _ if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) => Self::Authentication,
            ErrorKind::Io => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}

impl RedisStore {
    /// The store at this URL (`redis://user:password@host:port/db`, or `rediss://` with the feature `redis-rustls`), once it
    /// has answered.
    ///
    /// # Errors
    ///
    /// If it does not answer within five seconds, or not as it should; [`lazy`](Self::lazy) starts without it.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, StoreError> {
        let store = Self::lazy(url)?;
        let answered = tokio::time::timeout(CONNECT, async {
            let mut connection = store.connection(CONNECT)?;
            ::redis::cmd("PING").exec_async(&mut connection).await
        });
        match answered.await {
            Ok(answered) => answered?,
            Err(_) => return Err(StoreError::Unreachable),
        }
        Ok(store)
    }

    /// The same without a look whether it is there: until it answers, the account keeps to its own part.
    ///
    /// # Errors
    ///
    /// If the URL cannot be read.
    pub fn lazy(url: impl AsRef<str>) -> Result<Self, StoreError> {
        Ok(Self {
            client: Client::open(url.as_ref()).map_err(|_| StoreError::Url)?,
            prefix: "ai-retry".to_owned(),
            account: "default".to_owned(),
            processes: 1,
            timeout: TIMEOUT,
        })
    }

    /// The name of the account (default `default`): those that use the same one share it.
    pub fn account(mut self, name: impl Into<String>) -> Self {
        self.account = name.into();
        self
    }

    /// What all keys begin with (default `ai-retry`), for a server that serves others too.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How many processes share the account at the least (default 1). It counts only while the store is away, for the part of
    /// each that has not heard of the others yet; those that were there when it was last seen are known.
    pub const fn processes(mut self, least: u32) -> Self {
        self.processes = least;
        self
    }

    /// The longest that the store may take to answer (default 100 ms, where one tenth of a millisecond is usual).
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(super) const fn fewest(&self) -> u32 {
        self.processes
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.account)
    }

    /// The field of a set-up that cannot work, and why.
    pub(super) fn unusable(&self) -> Option<(&'static str, &'static str)> {
        if self.account.is_empty() {
            Some(("redis.account", "an account that is shared has a name"))
        } else if self.account.contains(['{', '}']) || self.prefix.contains(['{', '}']) {
            Some(("redis.account", "braces are what tells a cluster's hash tag"))
        } else if self.processes == 0 {
            Some(("redis.processes", "this process is one of them"))
        } else if self.timeout.is_zero() {
            Some(("redis.timeout", "nothing is answered in no time"))
        } else {
            None
        }
    }

    /// A connection that is made with the first question. It is made by nobody but whoever asks, so that it tries once.
    fn connection(&self, timeout: Duration) -> Result<ConnectionManager, RedisError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(timeout.max(CONNECT)))
            .set_response_timeout(Some(timeout));
        ConnectionManager::new_lazy_with_config(self.client.clone(), config)
    }
}

/// Neither the URL nor anything of it.
impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.prefix)
            .field("account", &self.account)
            .field("processes", &self.processes)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Between an account and the task that asks its store.
pub(super) struct Link {
    me: Weak<Shared>,
    store: RedisStore,
    bell: Arc<Notify>,
    running: Arc<AtomicBool>,
}

impl Link {
    pub(super) fn new(me: Weak<Shared>, store: RedisStore) -> Self {
        Self {
            me,
            store,
            bell: Arc::default(),
            running: Arc::default(),
        }
    }

    /// There is something to ask. The task is begun by the first that has something, and again if its runtime has ended.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let running = Running(Arc::clone(&self.running));
        if let Ok(runtime) = Handle::try_current() {
            let courier = Courier {
                account: self.me.clone(),
                bell: Arc::clone(&self.bell),
                keys: Keys::of(&self.store),
                store: self.store.clone(),
                script: Script::new(SCRIPT),
                connection: None,
                running,
            };
            runtime.spawn(courier.run());
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.bell.notify_one();
    }
}

/// Says when it is dropped that the task has ended, for whatever reason.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

const SCRIPT: &str = include_str!("lease.lua");

/// The names of what is kept.
struct Keys {
    tag: String,
    process: String,
}

impl Keys {
    fn of(store: &RedisStore) -> Self {
        Self {
            tag: format!("{}:{LAYOUT}:{{{}}}:", store.prefix, store.account),
            process: uuid::Uuid::new_v4().simple().to_string(),
        }
    }
}

/// Carries questions to the store, and answers back.
struct Courier {
    account: Weak<Shared>,
    bell: Arc<Notify>,
    keys: Keys,
    store: RedisStore,
    script: Script,
    connection: Option<ConnectionManager>,
    #[allow(dead_code, reason = "told by its end")]
    running: Running,
}

impl Courier {
    async fn run(mut self) {
        loop {
            let Some(account) = self.account.upgrade() else { return };
            let ordered = account.with(|state, now, _| state.next_order(now));
            match ordered {
                Ok(order) => {
                    // nothing keeps the account alive while the store is waited for
                    drop(account);
                    let answer = self.ask(&order).await;
                    let Some(account) = self.account.upgrade() else { return };
                    self.tell(&account, order, answer);
                }
                Err(at) => {
                    let clock = Arc::clone(&account.clock);
                    let at = at.instant(account.base).filter(|at| *at < clock.now() + HOUR);
                    drop(account);
                    match at {
                        Some(at) => tokio::select! {
                            () = self.bell.notified() => {}
                            () = clock.sleep_until(at) => {}
                        },
                        None => self.bell.notified().await,
                    }
                }
            }
        }
    }

    fn tell(&mut self, account: &Shared, order: Order, answer: Result<Reply, StoreError>) {
        match answer {
            Ok(reply) => {
                if account.with(|state, now, woken| state.receive(&order, reply, now, woken)) {
                    log::found();
                }
            }
            Err(error) => {
                // whatever is wrong with this one, the next may be well
                self.connection = None;
                let phase = rand::random();
                if account.with(|state, now, woken| state.lose(order, phase, now, woken)) {
                    log::lost(error);
                }
            }
        }
    }

    async fn ask(&mut self, order: &Order) -> Result<Reply, StoreError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(self.store.connection(self.store.timeout)?),
        };
        let invocation = invocation(&self.script, &self.keys, order);
        let answered = tokio::time::timeout(self.store.timeout, invocation.invoke_async::<String>(connection));
        let text = answered.await.map_err(|_| StoreError::Unreachable)??;
        Reply::read(&text).ok_or(StoreError::Refused)
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

/// The script with what is asked; the order of it all stands at the script's head.
fn invocation<'a>(script: &'a Script, keys: &Keys, order: &Order) -> ::redis::ScriptInvocation<'a> {
    let mut call = script.prepare_invoke();
    let tag = &keys.tag;
    for name in ["live", "waiting", "waiting-until"] {
        call.key(match name {
            "live" => format!("{tag}{name}"),
            _ => format!("{tag}{name}:{:016x}", order.name),
        });
    }
    let scope = |name: String| [format!("{tag}{name}"), format!("{tag}{name}:flight")];
    call.key(&scope("account".to_owned())[..]);
    if let Some(model) = &order.model {
        call.key(&scope(format!("model:{:016x}", named(model)))[..]);
    }
    call.key(&scope(format!("lane:{:016x}", order.name))[..]);

    let facts = &order.facts;
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let charge = Weights {
        input: order.top_up.input - order.settled.input,
        output: order.top_up.output - order.settled.output,
    };
    call.arg(&keys.process)
        .arg(u64::try_from(HORIZON_MICROS).unwrap_or(u64::MAX))
        .arg(order.wanted)
        .arg(order.each.input)
        .arg(order.each.output)
        .arg(charge.input)
        .arg(charge.output)
        .arg(order.unused)
        .arg(micros(facts.pause));
    call.arg(facts.rate.0.0)
        .arg(facts.rate.1.map_or(String::new(), |learnt| learnt.text()));
    call.arg(facts.ceiling.0.0).arg(facts.ceiling.1.unwrap_or(0));
    let circuit = facts.circuit.1;
    call.arg(facts.circuit.0.0)
        .arg(u8::from(circuit.open))
        .arg(micros(circuit.left))
        .arg(micros(circuit.lasted))
        .arg(micros(circuit.patience))
        .arg(u8::from(circuit.silent))
        .arg(u8::from(order.holds));
    call.arg(order.row.failures)
        .arg(order.row.calls)
        .arg(micros(order.row.lasted))
        // zero is never
        .arg(order.succeeded.map_or(0, |ago| micros(ago).max(1)));
    call.arg(order.first_seat);
    for seats in [&order.given_up, &order.held] {
        call.arg(seats.len());
        for seat in seats {
            call.arg(seat.get());
        }
    }
    call.arg(&limits(&order.account_limit)[..]);
    if order.model.is_some() {
        call.arg(&limits(&order.model_limit)[..]);
    }
    call.arg(&limits(&order.lane_limit)[..]);
    call
}

/// A limit as the script takes it: microseconds between starts, and for a token; none is zero.
fn limits(scope: &Scope) -> [f64; 7] {
    let gap = |rate: f64| 1e6 / rate.max(1e-6);
    let (gap_in, most_in) = scope.input.map_or((0.0, 0.0), |(rate, most)| (gap(rate), most));
    let (gap_out, most_out) = scope.output.map_or((0.0, 0.0), |(rate, most)| (gap(rate), most));
    [
        scope.starts.map_or(0.0, gap),
        gap_in,
        most_in,
        gap_out,
        most_out,
        scope.day.map_or(0.0, |day| day as f64),
        scope.in_flight.map_or(0.0, f64::from),
    ]
}

fn named(model: &str) -> u64 {
    use std::hash::Hasher;
    let mut digest = Digest::of("model");
    digest.write(model.as_bytes());
    digest.finish()
}

/// Once when the store is lost, at the level of an error since every process slows down, and once when it is there again.
#[cfg(feature = "tracing")]
mod log {
    pub(super) fn lost(why: super::StoreError) {
        tracing::error!(why = %why, "the shared store is away: this process keeps to its own part of each limit");
    }

    pub(super) fn found() {
        tracing::info!("the shared store is there again");
    }
}

/// Without the feature nothing is traced.
#[cfg(not(feature = "tracing"))]
mod log {
    pub(super) const fn lost(_why: super::StoreError) {}

    pub(super) const fn found() {}
}
