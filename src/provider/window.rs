//! The windows that limits are counted in, as they are named in prose (`per day`, `TPM`, `5-hour`, `每天`), in the names of
//! limits (`GenerateRequestsPerDayPerProject`) and in headers. Knows no delay: how long a wait is stands elsewhere.

use http::HeaderMap;

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

/// One word, and the character before it that is no space.
struct Word {
    text: String,
    mark: Option<char>,
    hyphen_after: bool,
}

/// Words as they are read: `PerDay`, `per_day` and `per day` are the same two, `86400s` is a number and a unit, but
/// `10KTPM` is one word and no limit.
fn words(text: &str) -> Vec<Word> {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied();
    let mut words: Vec<Word> = Vec::new();
    let (mut word, mut mark) = (String::new(), None);
    for (index, &c) in chars.iter().enumerate() {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            let hump = at(index + 1).is_some_and(|next| {
                let rises = c.is_ascii_lowercase() && next.is_ascii_uppercase();
                let falls = c.is_ascii_uppercase()
                    && next.is_ascii_uppercase()
                    && at(index + 2).is_some_and(|after| after.is_ascii_lowercase())
                    && !matches!(at(index + 2), Some('s'));
                rises || falls
            });
            if !hump {
                continue;
            }
        }
        if !word.is_empty() {
            let text = std::mem::take(&mut word).to_ascii_lowercase();
            let digits = text.chars().take_while(char::is_ascii_digit).count();
            match text.split_at_checked(digits) {
                Some((number, rest)) if digits > 0 && unit(rest).is_some() => {
                    words.push(Word {
                        text: number.to_owned(),
                        mark: mark.take(),
                        hyphen_after: false,
                    });
                    words.push(Word {
                        text: rest.to_owned(),
                        mark: None,
                        hyphen_after: c == '-',
                    });
                }
                _ => words.push(Word {
                    text,
                    mark: mark.take(),
                    hyphen_after: c == '-',
                }),
            }
        }
        if !c.is_ascii_alphanumeric() && !c.is_whitespace() {
            mark = Some(c);
        }
    }
    if !word.is_empty() {
        words.push(Word {
            text: word.to_ascii_lowercase(),
            mark,
            hyphen_after: false,
        });
    }
    words
}

/// A name as words: `InputTokensPerModel` is `input tokens per model`.
pub(crate) fn spaced(name: &str) -> String {
    let words = words(&format!("{name} "));
    words
        .iter()
        .map(|word| word.text.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The windows that a sentence names. `Try again in 3 hours` names none.
pub(crate) fn in_prose(sentence: &str) -> Named {
    let words = words(&format!("{sentence} "));
    let word = |index: Option<usize>| {
        index
            .and_then(|index| words.get(index))
            .map_or("", |word| word.text.as_str())
    };
    let named = words.iter().enumerate().filter_map(|(index, this)| {
        let before = word(index.checked_sub(1));
        let before_number = word(index.checked_sub(2));
        let after = word(Some(index + 1));
        let hyphen_before = this.mark == Some('-');
        if let Some(window) = adjective(&this.text) {
            return Some(window);
        }
        if let Some(window) = acronym(&this.text).filter(|_| !hyphen_before && !this.hyphen_after) {
            return Some(window);
        }
        if this.text == "session" && matches!(after, "usage" | "limit" | "quota") {
            return Some(Window::Hours);
        }
        let unit = unit(&this.text)?;
        if this.mark == Some('/') {
            return Some(of_seconds(unit));
        }
        let per = |word: &str| matches!(word, "per" | "by" | "every" | "each");
        if let Ok(count) = before.parse::<u64>() {
            let slash = words
                .get(index.wrapping_sub(1))
                .is_some_and(|number| number.mark == Some('/'));
            let framed = per(before_number)
                || slash
                || matches!(before_number, "for" | "last" | "past" | "rolling" | "within")
                || matches!(
                    after,
                    "limit" | "usage" | "window" | "quota" | "rolling" | "allowance" | "cap" | "period"
                )
                || hyphen_before;
            return framed.then(|| of_seconds(unit.saturating_mul(count.max(1))));
        }
        let bare = per(before) || matches!(before, "a" | "an" | "this");
        // a single letter is a unit only behind a number or a slash
        (bare && this.text.len() > 1).then(|| of_seconds(unit))
    });
    let chinese = CHINESE
        .iter()
        .filter(|(name, _)| sentence.contains(name))
        .map(|&(_, window)| window);
    Named::of(named.chain(chinese))
}

/// The windows that the name of a limit or of a header names; there the unit alone will do (`requests-day`).
pub(crate) fn in_name(name: &str) -> Named {
    let units = words(&format!("{name} ")).into_iter().filter_map(|word| {
        let unit = unit(&word.text).filter(|_| word.text.len() > 1);
        unit.map(of_seconds)
            .or_else(|| adjective(&word.text))
            .or_else(|| acronym(&word.text))
    });
    Named::of(units)
}

/// The windows that headers name as used up: `x-ratelimit-remaining-day: 0`, `x-ratelimit-type: UserByModelByDay`, and
/// the policy of a `RateLimit` item without remainder.
pub(crate) fn in_headers(headers: &HeaderMap) -> Named {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let counters = headers.iter().filter(|(name, value)| {
        name.as_str().contains("-remaining-") && value.as_bytes() == b"0" && name.as_str().contains("ratelimit")
    });
    let emptied = counters.fold(Named::default(), |named, (name, _)| {
        named.merged(in_name(name.as_str()))
    });
    let typed = in_name(text("x-ratelimit-type"));
    emptied
        .merged(typed)
        .merged(policies(text("ratelimit"), text("ratelimit-policy")))
}

/// Are there counters per window of which none is used up? Then it is a longer window, without a counter, that is.
pub(crate) fn none_is_used_up(headers: &HeaderMap) -> bool {
    let mut counters = headers
        .iter()
        .filter(|(name, _)| name.as_str().contains("ratelimit-remaining-") && in_name(name.as_str()).is_any())
        .map(|(_, value)| value.to_str().ok().and_then(|value| value.trim().parse::<i64>().ok()))
        .peekable();
    counters.peek().is_some() && counters.all(|left| left.is_some_and(|left| left > 0))
}

fn policies(limits: &str, policies: &str) -> Named {
    let parameter = |item: &str, key: &str| {
        let mut parts = item.split(';').skip(1).filter_map(|part| part.split_once('='));
        parts
            .find(|(name, _)| name.trim() == key)
            .and_then(|(_, value)| value.trim().parse::<u64>().ok())
    };
    let name = |item: &str| {
        item.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .trim_matches('"')
            .to_owned()
    };
    let spent: Vec<&str> = limits
        .split(',')
        .filter(|item| parameter(item, "r") == Some(0))
        .collect();
    let windows = |named: &dyn Fn(&str) -> bool| -> Named {
        let items = policies.split(',').filter(|item| named(&name(item)));
        Named::of(items.filter_map(|item| parameter(item, "w")).map(of_seconds))
    };
    let by_name = windows(&|policy| spent.iter().any(|item| name(item) == policy));
    match by_name.is_any() {
        true => by_name,
        // the two headers need not use the same names; then only a policy that stands alone can be meant
        false if !spent.is_empty() && !policies.contains(',') => windows(&|_| true),
        false => Named::default(),
    }
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

    #[test]
    fn policies_are_matched_by_name_or_alone() {
        let day = long(Window::Day);
        assert_eq!(policies("\"d\";r=0;t=5", "\"m\";q=1;w=60, \"d\";q=9;w=86400"), day);
        assert_eq!(policies("\"x\";r=0;t=5", "\"d\";q=9;w=86400"), day);
        assert_eq!(policies("\"d\";r=4;t=5", "\"d\";q=9;w=86400"), Named::default());
    }
}
