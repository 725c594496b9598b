//! Makes one call with one SDK in one arrangement against one failing server, and counts at the server. Knows nothing of
//! tables.

use std::error::Error;
use std::time::Duration;

use testbed::Server;
use tokio::time::timeout;

use crate::arrangement::{Arrangement, Connections};
use crate::dialect::TEXT;
use crate::fault::Course;
use crate::gateway::Program;
use crate::sdk::Sdk;

/// How long a call may take. One that takes longer counts as one that has no end: the longest that has one takes seconds,
/// and what has none goes on for a quarter of an hour.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The same where the sends are promised, and the end is not: a guard answers from memory whoever goes on asking.
const GUARDED_PATIENCE: Duration = Duration::from_secs(40);

/// How long a call may take whose count is promised, on however busy a machine.
const LONG_PATIENCE: Duration = Duration::from_secs(120);

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// One answer.
    Call,
    /// The same, in pieces.
    Stream,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Call, Self::Stream];
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Of what.
    pub sdk: &'static Sdk,
    /// Set up how.
    pub arrangement: Arrangement,
    /// Asked for what.
    pub way: Way,
    /// How the server fails.
    pub course: Course,
}

/// What was seen of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sends {
    /// The call ended after so many.
    Ended(usize),
    /// So many, and the SDK was still asking a gateway that answered from memory.
    Held(usize),
    /// The call had not ended after [`PATIENCE`].
    NoEnd,
}

/// How often a case was sent, and what the SDK made of it.
#[derive(Debug)]
pub struct Seen {
    /// Counted at the server.
    pub sends: Sends,
    /// What the SDK returned; `None` if it had not.
    pub answer: Option<Result<String, String>>,
}

/// An error with all its causes.
fn with_causes(error: Box<dyn Error + Send + Sync>) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

impl Case {
    /// Every case that this SDK allows; whether it recovers is asked where it is promised.
    pub fn of(sdk: &'static Sdk) -> impl Iterator<Item = Self> {
        let arrangements = Arrangement::ALL.into_iter().filter(|&it| sdk.allows(it));
        arrangements.flat_map(move |arrangement| {
            let ways = Way::ALL.into_iter().filter(|&it| sdk.answers(it));
            let promised = arrangement.promise().is_some();
            ways.flat_map(move |way| {
                let courses = Course::all().filter(move |course| promised || course.failures().is_none());
                courses.map(move |course| Self {
                    sdk,
                    arrangement,
                    way,
                    course,
                })
            })
        })
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// If the gateway of the case does not start.
    pub async fn measure(&self, connections: &Connections, gateway: &Program) -> Result<Seen, String> {
        let answer = match self.way {
            Way::Call => self.sdk.dialect.answer(),
            Way::Stream => self.sdk.dialect.stream(),
        };
        let server = Server::start(self.course.script(self.sdk.dialect, answer)).await;
        let mut url = server.url("");
        let mut gateway_before = None;
        if let Some(guard) = self.arrangement.gateway() {
            let gateway = gateway.before(&url, guard).await?;
            url = gateway.url();
            gateway_before = Some(gateway);
        }
        let call = self.sdk.ask(self.way, connections.set_up(self.arrangement), url);
        let patience = match self.arrangement {
            Arrangement::GatewayGuarded => GUARDED_PATIENCE,
            arrangement => arrangement.promise().map_or(PATIENCE, |_| LONG_PATIENCE),
        };
        let answer = timeout(patience, self.arrangement.run(call)).await.ok();
        let sends = match answer {
            Some(_) => Sends::Ended(server.sends()),
            None if self.arrangement == Arrangement::GatewayGuarded => Sends::Held(server.sends()),
            None => Sends::NoEnd,
        };
        drop(gateway_before);
        Ok(Seen {
            sends,
            answer: answer.map(|answer| answer.map_err(with_causes)),
        })
    }

    /// What was promised of it and not kept, in a sentence.
    pub fn broken_promise(&self, seen: &Seen) -> Option<String> {
        let promised = self.arrangement.promise()?;
        let kept = match self.course.failures() {
            None => match seen.sends {
                Sends::Ended(sends) => sends == promised && matches!(seen.answer, Some(Err(_))),
                Sends::Held(sends) => sends == promised,
                Sends::NoEnd => false,
            },
            Some(failures) => {
                seen.sends == Sends::Ended(failures + 1)
                    && seen.answer.as_ref().is_some_and(|it| it.as_deref() == Ok(TEXT))
            }
        };
        (!kept).then(|| {
            format!(
                "{}, {:?}, {:?}, {:?}: {:?}, {:?}; at most {promised} sends are promised",
                self.sdk.name, self.arrangement, self.way, self.course, seen.sends, seen.answer,
            )
        })
    }
}
