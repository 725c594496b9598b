//! The configuration file: what may stand in it, its defaults, and what is refused. Opens no file and no socket.

mod account;
mod policy;
mod size;
mod span;
mod switch;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;
use reqwest_ai_retry::{GiveUp, RetryPolicy};
use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::Targets;

use account::Account;
use policy::Policy;
use span::Span;

use crate::headers::AcceptEncoding;

/// Paths of the gateway's own, which no upstream may be named after.
pub(crate) const OWN_PATHS: [&str; 2] = ["healthz", "status"];

/// The crate takes no longer window.
const LONGEST_GUARD: Span = Span::seconds(300);

/// The file, each setting with its default.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(default = "loopback")]
    pub(crate) listen: SocketAddr,
    #[serde(default)]
    allow_non_loopback: bool,
    #[serde(default)]
    allowed_hosts: Vec<String>,
    #[serde(default = "ten_seconds")]
    pub(crate) connect_timeout: Span,
    #[serde(default = "half_a_minute")]
    pub(crate) shutdown_grace: Span,
    #[serde(default = "yes")]
    pub(crate) access_log: bool,
    #[serde(default = "info")]
    log: String,
    default_upstream: Option<String>,
    upstreams: BTreeMap<String, Upstream>,
}

/// One API that is relayed to.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Upstream {
    url: String,
    #[serde(default)]
    accept_encoding: AcceptEncoding,
    outer_retry_guard: Option<Span>,
    #[serde(default)]
    policy: Policy,
    account: Option<Account>,
}

const fn loopback() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8787)
}

const fn half_a_minute() -> Span {
    Span::seconds(30)
}

const fn ten_seconds() -> Span {
    Span::seconds(10)
}

const fn yes() -> bool {
    true
}

fn info() -> String {
    "info".to_owned()
}

/// What a configuration comes to, ready to be served.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) upstreams: Vec<Planned>,
    /// Which of them gets what names none.
    pub(crate) default_upstream: Option<usize>,
    /// Which names of this machine a request may address; `None`: any.
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) log: Targets,
    /// What works, but should be known.
    pub(crate) warnings: Vec<String>,
}

/// An upstream as it will be served.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) base: Url,
    pub(crate) accept_encoding: AcceptEncoding,
    pub(crate) outer_retry_guard: Option<Duration>,
    pub(crate) policy: RetryPolicy,
    pub(crate) give_up: GiveUp,
    pub(crate) account: reqwest_ai_retry::Account,
}

/// A setting that cannot work: its key in the file, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub(crate) struct Invalid {
    pub(crate) key: String,
    pub(crate) why: String,
}

impl Invalid {
    fn below(self, table: impl fmt::Display) -> Self {
        let key = match self.key.as_str() {
            "" => table.to_string(),
            key => format!("{table}.{key}"),
        };
        Self { key, ..self }
    }
}

fn refuse<T>(key: impl Into<String>, why: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid {
        key: key.into(),
        why: why.into(),
    })
}

impl FromStr for Config {
    type Err = toml::de::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        toml::from_str(text)
    }
}

impl Config {
    /// What it comes to, or the first setting that cannot work.
    pub(crate) fn plan(&self) -> Result<Plan, Invalid> {
        let mut warnings = Vec::new();
        if !self.listen.ip().is_loopback() {
            if !self.allow_non_loopback {
                return refuse(
                    "listen",
                    format!(
                        "{} can be reached from other machines; if that is meant, set allow_non_loopback = true",
                        self.listen
                    ),
                );
            }
            warnings.push("other machines can reach this gateway, and it asks them for nothing".to_owned());
        }
        if self.connect_timeout == Span::seconds(0) {
            return refuse("connect_timeout", "no connection could be made in no time");
        }
        if self.upstreams.is_empty() {
            return refuse("upstreams", "without an upstream there is nothing to relay to");
        }
        let upstreams = self.upstreams.iter().map(|(name, upstream)| {
            upstream
                .plan(name, self.listen, &mut warnings)
                .map_err(|invalid| invalid.below(format_args!("upstreams.{name}")))
        });
        let upstreams = upstreams.collect::<Result<Vec<_>, _>>()?;
        let default_upstream = match &self.default_upstream {
            None => None,
            Some(default) => match upstreams.iter().position(|upstream| upstream.name == *default) {
                Some(position) => Some(position),
                None => return refuse("default_upstream", format!("there is no [upstreams.{default}]")),
            },
        };
        let Ok(log) = self.log.parse() else {
            return refuse(
                "log",
                "this is no filter such as \"info\" or \"warn,reqwest_ai_retry=debug\"",
            );
        };
        Ok(Plan {
            upstreams,
            default_upstream,
            hosts: (!self.allow_non_loopback).then(|| self.allowed_hosts.clone()),
            log,
            warnings,
        })
    }

    /// The whole configuration in force, as a file of its own.
    pub(crate) fn in_force(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

impl Upstream {
    fn plan(&self, name: &str, listen: SocketAddr, warnings: &mut Vec<String>) -> Result<Planned, Invalid> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(plain) {
            return refuse("", "the name stands in paths: letters, digits, `-` and `_` only");
        }
        if OWN_PATHS.contains(&name) {
            return refuse("", format!("/{name} is a path of the gateway's own"));
        }
        let base = self.base()?;
        if base.port_or_known_default() == Some(listen.port()) && listen.port() != 0 && is_this_machine(&base) {
            return refuse("url", "this is the gateway itself");
        }
        if base.scheme() == "http" && !is_this_machine(&base) {
            warnings.push(format!("upstreams.{name}.url is plain HTTP: keys travel unencrypted"));
        }
        if self.outer_retry_guard == Some(Span::seconds(0)) || self.outer_retry_guard > Some(LONGEST_GUARD) {
            return refuse(
                "outer_retry_guard",
                "a window is longer than nothing and at most \"5m\"",
            );
        }
        let account = match &self.account {
            Some(account) => account.build().map_err(|invalid| invalid.below("account"))?,
            None => reqwest_ai_retry::Account::default(),
        };
        Ok(Planned {
            name: name.to_owned(),
            base,
            accept_encoding: self.accept_encoding,
            outer_retry_guard: self.outer_retry_guard.map(|window| window.0),
            policy: self.policy.build().map_err(|invalid| invalid.below("policy"))?,
            give_up: self.policy.give_up(),
            account,
        })
    }

    /// Where all of its calls go. What is wrong with it is said without showing it, since it may hold a credential.
    fn base(&self) -> Result<Url, Invalid> {
        let Ok(base) = Url::parse(&self.url) else {
            return refuse("url", "this is no URL such as \"https://api.openai.com\"");
        };
        if !matches!(base.scheme(), "http" | "https") {
            return refuse("url", "only http and https can be relayed to");
        }
        if !base.username().is_empty() || base.password().is_some() {
            return refuse("url", "a credential has no place here: callers bring their own");
        }
        if base.query().is_some() || base.fragment().is_some() {
            return refuse(
                "url",
                "what callers ask for is appended to it, so that it cannot have a query or a fragment",
            );
        }
        Ok(base)
    }
}

fn is_this_machine(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[upstreams.one]\nurl = \"https://one.example/v1\"\n";

    fn plan(text: &str) -> Result<Plan, Invalid> {
        Config::from_str(text).unwrap().plan()
    }

    #[test]
    fn one_upstream_is_all_that_must_be_said() {
        let config = Config::from_str(ONE).unwrap();
        assert_eq!(config.listen, "127.0.0.1:8787".parse().unwrap());
        let plan = config.plan().unwrap();
        assert_eq!(plan.upstreams.len(), 1);
        assert_eq!(plan.upstreams[0].base.as_str(), "https://one.example/v1");
        assert_eq!(plan.default_upstream, None);
        assert!(plan.warnings.is_empty());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_keys_that_are_known() {
        for (text, unknown, known) in [
            ("lisen = \"127.0.0.1:1\"", "lisen", "listen"),
            ("[upstreams.one]\nurl = \"https://one.example\"\nulr = 1", "ulr", "url"),
            ("[upstreams.one.policy]\nmax_retries = 3", "max_retries", "max_attempts"),
            ("[upstreams.one.policy.backoff]\nmaximum = 3", "maximum", "max"),
            ("[upstreams.one.account]\nrpm = 3", "rpm", "requests_per_minute"),
            (
                "[upstreams.one.account.circuit_breaker]\nfailures = 3",
                "failures",
                "min_failures",
            ),
            (
                "[upstreams.one.account]\nretry_budget = { size = 3 }",
                "size",
                "reserve",
            ),
            (
                "[upstreams.one.account.models.big]\nrpm = 3",
                "rpm",
                "requests_per_minute",
            ),
        ] {
            let error = Config::from_str(text).unwrap_err().to_string();
            assert!(error.contains(&format!("unknown field `{unknown}`")), "{error}");
            assert!(error.contains(&format!("`{known}`")), "{error}");
            assert!(error.contains("line "), "{error}");
        }
    }

    #[test]
    fn a_setting_that_cannot_work_is_refused_by_its_key() {
        for (text, key) in [
            ("[upstreams]".to_owned(), "upstreams"),
            (format!("listen = \"0.0.0.0:80\"\n{ONE}"), "listen"),
            (format!("listen = \"[::]:80\"\n{ONE}"), "listen"),
            (format!("listen = \"192.0.2.1:80\"\n{ONE}"), "listen"),
            (format!("default_upstream = \"two\"\n{ONE}"), "default_upstream"),
            (format!("log = \"loud=very\"\n{ONE}"), "log"),
            (format!("connect_timeout = \"0s\"\n{ONE}"), "connect_timeout"),
            (
                format!("{ONE}outer_retry_guard = \"0s\""),
                "upstreams.one.outer_retry_guard",
            ),
            (
                format!("{ONE}outer_retry_guard = \"6m\""),
                "upstreams.one.outer_retry_guard",
            ),
            (
                format!("{ONE}policy.max_attempts = 0"),
                "upstreams.one.policy.max_attempts",
            ),
            (
                format!("{ONE}account.requests_per_minute = 0"),
                "upstreams.one.account.requests_per_minute",
            ),
            (ONE.replace("[upstreams.one]", "[upstreams.status]"), "upstreams.status"),
            (ONE.replace("[upstreams.one]", "[upstreams.\"..\"]"), "upstreams..."),
            (ONE.replace("[upstreams.one]", "[upstreams.\"a/b\"]"), "upstreams.a/b"),
        ] {
            assert_eq!(plan(&text).unwrap_err().key, key, "{text}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_relayed_to_is_refused_without_showing_it() {
        for url in [
            "one.example",
            "ftp://one.example",
            "https://user:hunter2@one.example",
            "https://hunter2@one.example",
            "https://one.example/v1?key=hunter2",
            "https://one.example/v1#hunter2",
            "http://127.0.0.1:8787/hunter2",
            "http://localhost:8787",
            "http://[::1]:8787",
        ] {
            let invalid = plan(&format!("[upstreams.one]\nurl = \"{url}\"")).unwrap_err();
            assert_eq!(invalid.key, "upstreams.one.url", "{url}");
            assert!(!invalid.to_string().contains("hunter2"), "{invalid}");
        }
    }

    #[test]
    fn what_is_meant_is_allowed_with_a_warning() {
        let text =
            "listen = \"0.0.0.0:8787\"\nallow_non_loopback = true\n[upstreams.one]\nurl = \"http://one.example\"";
        assert_eq!(plan(text).unwrap().warnings.len(), 2);
        let local = "[upstreams.one]\nurl = \"http://127.0.0.1:11434\"";
        assert!(plan(local).unwrap().warnings.is_empty());
    }

    #[test]
    fn what_is_in_force_is_a_file_that_says_the_same() {
        let text = format!("{ONE}policy.total_deadline = \"90s\"\naccount.models.\"big.1\".max_concurrency = 2");
        for more in [
            "",
            "\naccount.circuit_breaker = false",
            "\naccount.circuit_breaker.min_duration = \"700ms\"\naccount.retry_budget = false",
        ] {
            let config = Config::from_str(&format!("{text}{more}")).unwrap();
            let shown = config.in_force().unwrap();
            assert_eq!(Config::from_str(&shown).unwrap(), config, "{shown}");
            assert!(shown.contains("max_attempts = 5"), "{shown}");
        }
    }
}
