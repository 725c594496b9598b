//! What a server does instead of answering, and for how long. Knows no SDK.

use testbed::{Reply, Script, rst};

use crate::dialect::Dialect;

/// A way to fail that passes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// 429, too many requests, with the provider's own body and no delay stated.
    RateLimited,
    /// 500.
    ServerError,
    /// 529, overloaded, which some retry layers do not know.
    Overloaded,
    /// The connection is reset once the request has come.
    Reset,
}

impl Fault {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 4] = [Self::RateLimited, Self::ServerError, Self::Overloaded, Self::Reset];

    /// As the table names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "429",
            Self::ServerError => "500",
            Self::Overloaded => "529",
            Self::Reset => "reset",
        }
    }

    fn reply(self, dialect: Dialect) -> Reply {
        match self {
            Self::RateLimited => dialect.refusal(429),
            Self::ServerError => dialect.refusal(500),
            Self::Overloaded => dialect.refusal(529),
            Self::Reset => rst(),
        }
    }
}

/// How a server fails, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// For ever: what is counted is how often a client tries.
    Always(Fault),
    /// Twice, and then it answers.
    Twice(Fault),
    /// In each way once, and then it answers.
    EachOnce,
}

impl Course {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_one = Fault::ALL
            .into_iter()
            .flat_map(|fault| [Self::Always(fault), Self::Twice(fault)]);
        of_one.chain([Self::EachOnce])
    }

    /// How many failures there are before the answer, if it comes.
    pub const fn failures(self) -> Option<usize> {
        match self {
            Self::Always(_) => None,
            Self::Twice(_) => Some(2),
            Self::EachOnce => Some(Fault::ALL.len()),
        }
    }

    /// What the server plays.
    pub fn script(self, dialect: Dialect, answer: Reply) -> Script<Reply> {
        match self {
            Self::Always(fault) => fault.reply(dialect).into(),
            Self::Twice(fault) => vec![fault.reply(dialect).times(2), answer].into(),
            Self::EachOnce => {
                let failures = Fault::ALL.into_iter().map(|fault| fault.reply(dialect));
                failures.chain([answer]).collect::<Vec<_>>().into()
            }
        }
    }
}
