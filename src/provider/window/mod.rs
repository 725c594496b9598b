//! The windows that limits are counted in, as they are named in prose (`per day`, `TPM`, `5-hour`, `每天`), in the names of
//! limits (`GenerateRequestsPerDayPerProject`) and in headers. Knows no delay: how long a wait is stands elsewhere.

mod header;
mod words;

pub(crate) use header::{in_headers, none_is_used_up};
pub(crate) use words::spaced;
use words::{Word, words};

/// The window of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Window {
    /// An hour or shorter: waiting always helps.
    Short,
    /// Some hours, as of a subscription plan.
    Hours,
    Day,
    Week,
    /// A month or longer.
    Month,
}

/// The windows that one sentence, name or set of headers names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) short: bool,
    pub(crate) long: Option<Window>,
}

impl Named {
    pub(crate) fn is_any(self) -> bool {
        self.short || self.long.is_some()
    }

    fn and(self, window: Window) -> Self {
        match window {
            Window::Short => Self { short: true, ..self },
            long => Self {
                long: self.long.max(Some(long)),
                ..self
            },
        }
    }

    pub(crate) fn merged(self, other: Self) -> Self {
        Self {
            short: self.short || other.short,
            long: self.long.max(other.long),
        }
    }

    fn of(windows: impl IntoIterator<Item = Window>) -> Self {
        windows.into_iter().fold(Self::default(), Self::and)
    }
}

fn of_seconds(seconds: u64) -> Window {
    match seconds {
        0..=3_600 => Window::Short,
        3_601..86_400 => Window::Hours,
        86_400..604_800 => Window::Day,
        604_800..2_419_200 => Window::Week,
        _ => Window::Month,
    }
}

fn unit(word: &str) -> Option<u64> {
    Some(match word {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        "mo" | "month" | "months" => 2_592_000,
        "y" | "year" | "years" => 31_536_000,
        _ => return None,
    })
}

fn adjective(word: &str) -> Option<Window> {
    Some(match word {
        "hourly" => Window::Short,
        "daily" | "today" | "midnight" => Window::Day,
        "weekly" => Window::Week,
        "monthly" | "yearly" | "annual" => Window::Month,
        _ => return None,
    })
}

/// `RPM`, `TPD`, `ITPM`: what is counted, `P`, and the unit.
fn acronym(word: &str) -> Option<Window> {
    let (counted, unit) = word.split_at_checked(word.len().checked_sub(2)?)?;
    if !matches!(counted, "r" | "t" | "q" | "i" | "it" | "ot") {
        return None;
    }
    Some(match unit {
        "ps" | "pm" | "ph" => Window::Short,
        "pd" => Window::Day,
        "pw" => Window::Week,
        _ => return None,
    })
}

const CHINESE: &[(&str, Window)] = &[
    ("每秒", Window::Short),
    ("每分钟", Window::Short),
    ("每小时", Window::Short),
    ("小时的使用上限", Window::Hours),
    ("小时使用上限", Window::Hours),
    ("小时限额", Window::Hours),
    ("每天", Window::Day),
    ("每日", Window::Day),
    ("当日", Window::Day),
    ("今日", Window::Day),
    ("今天", Window::Day),
    ("日限额", Window::Day),
    ("每周", Window::Week),
    ("本周", Window::Week),
    ("周限额", Window::Week),
    ("每月", Window::Month),
    ("本月", Window::Month),
    ("月度", Window::Month),
    ("月限额", Window::Month),
];

/// The windows that a sentence names. `Try again in 3 hours` names none.
pub(crate) fn in_prose(sentence: &str) -> Named {
    let words = words(sentence);
    let named = (0..words.len()).filter_map(|index| Place { words: &words, index }.window());
    let chinese = CHINESE.iter().filter(|(name, _)| sentence.contains(name));
    Named::of(named.chain(chinese.map(|&(_, window)| window)))
}

/// A word in its sentence.
struct Place<'a> {
    words: &'a [Word],
    index: usize,
}

impl Place<'_> {
    fn word(&self, offset: isize) -> Option<&Word> {
        self.words.get(self.index.checked_add_signed(offset)?)
    }

    fn text(&self, offset: isize) -> &str {
        self.word(offset).map_or("", |word| &word.text)
    }

    fn mark(&self, offset: isize) -> Option<char> {
        self.word(offset)?.mark
    }

    /// The window that this word names, with those around it.
    fn window(&self) -> Option<Window> {
        adjective(self.text(0))
            .or_else(|| self.acronym())
            .or_else(|| self.period())
            .or_else(|| self.unit())
    }

    /// Between hyphens it is a part of some model's name.
    fn acronym(&self) -> Option<Window> {
        let word = self.word(0)?;
        acronym(&word.text).filter(|_| word.mark != Some('-') && !word.hyphen_after)
    }

    fn period(&self) -> Option<Window> {
        match (self.text(-1), self.text(0), self.text(1)) {
            ("billing", "cycle" | "period", _) => Some(Window::Month),
            (_, "session", "usage" | "limit" | "quota") => Some(Window::Hours),
            _ => None,
        }
    }

    fn unit(&self) -> Option<Window> {
        let unit = unit(self.text(0))?;
        if self.mark(0) == Some('/') {
            return Some(of_seconds(unit));
        }
        match self.text(-1).parse::<u64>() {
            Ok(count) => self
                .frames_a_number()
                .then(|| of_seconds(unit.saturating_mul(count.max(1)))),
            // a single letter is a unit only behind a number or a slash
            Err(_) => {
                let bare = is_per(self.text(-1)) || matches!(self.text(-1), "a" | "an" | "this");
                (bare && self.text(0).len() > 1).then(|| of_seconds(unit))
            }
        }
    }

    /// "50 requests in 24 hours", "5-hour limit", "every 3 hours" name a window; "try again in 24 hours" a wait.
    fn frames_a_number(&self) -> bool {
        const BEFORE: &[&str] = &["for", "last", "past", "rolling", "within", "of", "over"];
        const AFTER: &[&str] = &[
            "limit",
            "usage",
            "window",
            "quota",
            "rolling",
            "allowance",
            "cap",
            "period",
        ];
        const COUNTED: &[&str] = &[
            "requests",
            "messages",
            "calls",
            "tokens",
            "queries",
            "images",
            "generations",
        ];
        is_per(self.text(-2))
            || BEFORE.contains(&self.text(-2))
            || (self.text(-2) == "in" && COUNTED.contains(&self.text(-3)))
            || AFTER.contains(&self.text(1))
            || self.mark(-1) == Some('/')
            || self.mark(0) == Some('-')
    }
}

fn is_per(word: &str) -> bool {
    matches!(word, "per" | "by" | "every" | "each")
}

/// The windows that the name of a limit or of a header names; there the unit alone will do (`requests-day`).
pub(crate) fn in_name(name: &str) -> Named {
    let units = words(name).into_iter().filter_map(|word| {
        let unit = unit(&word.text).filter(|_| word.text.len() > 1);
        unit.map(of_seconds)
            .or_else(|| adjective(&word.text))
            .or_else(|| acronym(&word.text))
    });
    Named::of(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(window: Window) -> Named {
        Named::of([window])
    }

    #[test]
    fn prose_names_windows() {
        let short = long(Window::Short);
        for text in [
            "on tokens per min (TPM): Limit 30000",
            "Limit: 3 / min",
            "limit of 2500 api requests per 5 minutes period",
            "Rate limit of 10 per 60s exceeded for UserByModelByMinute",
            "online_prediction_input_tokens_per_minute_per_base_model",
            "reset hourly",
            "每分钟请求数",
            "the RPM limit",
            "Limit: 0/1min",
            "Rate limit exceeded: free-models-per-min",
        ] {
            assert_eq!(in_prose(text), short, "{text}");
        }
        for (text, window) in [
            ("on tokens per day (TPD): Limit 100000", Window::Day),
            ("free-models-per-day-high-balance", Window::Day),
            ("limited to 1000 API calls / month", Window::Month),
            ("Usage limit reached for 5 hour", Window::Hours),
            ("5-hour usage limit reached", Window::Hours),
            ("per 86400s", Window::Day),
            ("your weekly rate limit", Window::Week),
            ("session usage limit", Window::Hours),
            ("每天", Window::Day),
            ("GenerateRequestsPerDayPerProject", Window::Day),
        ] {
            assert_eq!(in_prose(text), long(window), "{text}");
        }
        for text in [
            "Rate limit reached for 10KTPM-200RPM in organization",
            "try again in 58 hours",
            "Please wait 52220 seconds",
            "model gpt-4-rpd-8b",
            "resets in 9h22m20s",
        ] {
            assert_eq!(in_prose(text), Named::default(), "{text}");
        }
    }

    #[test]
    fn names_name_windows() {
        assert_eq!(in_name("x-ratelimit-remaining-requests-day"), long(Window::Day));
        assert_eq!(
            in_name("GenerateContentInputTokensPerModelPerMinute-FreeTier"),
            long(Window::Short)
        );
        assert_eq!(in_name("user_weekly_rate_limited"), long(Window::Week));
        assert_eq!(in_name("RateLimitExceeded.EndpointRPMExceeded"), long(Window::Short));
        assert_eq!(in_name("rate_limit_exceeded"), Named::default());
    }
}
