//! A script knows which item answers which request. It does not know what an item does.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::request::Request;

/// What can stand in a script.
pub trait Item: Clone + Send + 'static {
    /// How many requests in a row this item answers.
    fn count(&self) -> usize;

    /// What answers when the script has no item at all.
    fn of_empty_script() -> Self;
}

/// One item per request in order of arrival, over all connections; the last item repeats.
///
/// Made from an array, a `Vec` or one item; see also [`script!`](crate::script!).
pub struct Script<A>(Source<A>);

enum Source<A> {
    Items(Vec<A>),
    Rule(Mutex<Rule<A>>),
}

type Rule<A> = Box<dyn FnMut(&Request) -> A + Send>;

impl<A: Item> Script<A> {
    /// A script that decides by looking at the request.
    pub fn by(rule: impl FnMut(&Request) -> A + Send + 'static) -> Script<A> {
        Script(Source::Rule(Mutex::new(Box::new(rule))))
    }

    /// The item for `request`.
    pub(crate) fn answer(&self, request: &Request) -> A {
        match &self.0 {
            Source::Items(items) => {
                let mut left = request.number();
                for item in items {
                    match left.checked_sub(item.count()) {
                        Some(rest) => left = rest,
                        None => return item.clone(),
                    }
                }
                items.last().cloned().unwrap_or_else(A::of_empty_script)
            }
            // A rule that panicked has failed its own test already; the requests after it are still answered.
            Source::Rule(rule) => (rule.lock().unwrap_or_else(PoisonError::into_inner))(request),
        }
    }
}

impl<A: Item, I: Into<A>, const N: usize> From<[I; N]> for Script<A> {
    fn from(items: [I; N]) -> Script<A> {
        Script(Source::Items(items.into_iter().map(Into::into).collect()))
    }
}

impl<A: Item, I: Into<A>> From<Vec<I>> for Script<A> {
    fn from(items: Vec<I>) -> Script<A> {
        Script(Source::Items(items.into_iter().map(Into::into).collect()))
    }
}

impl<A: Item> From<A> for Script<A> {
    fn from(item: A) -> Script<A> {
        Script(Source::Items(vec![item]))
    }
}

impl<A> fmt::Debug for Script<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Items(items) => write!(f, "Script({} items)", items.len()),
            Source::Rule(_) => f.write_str("Script(rule)"),
        }
    }
}

/// A script for [`Server::start`](crate::Server::start) in which a bare status stands for a reply:
/// `script![429, hang(), reply(200).body("ok")]`.
#[macro_export]
macro_rules! script {
    ($($item:expr),+ $(,)?) => { $crate::Script::<$crate::Reply>::from(vec![$($crate::Reply::from($item)),+]) };
}
