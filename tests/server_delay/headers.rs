//! Delays in headers.

use std::time::{Duration, SystemTime};

use reqwest_ai_retry::DelaySource;

use crate::{delay, header, millis};

type Headers<'a> = &'a [(&'a str, &'a str)];

#[test]
fn retry_after_as_a_number() {
    let cases = [
        ("0", Some(0)), // B4, B16
        ("7", Some(7_000)),
        ("007", Some(7_000)),
        ("0.5", Some(500)),
        ("2.007", Some(2_007)),
        ("1.0001", Some(1_001)),
        ("0.0000000000000000000001", Some(1)),
        ("1.0000000000000000000000", Some(1_000)),
        (" 5 ", Some(5_000)), // B10, and so on
        ("\t5", Some(5_000)),
        ("\u{b2}", None),
        ("\u{663}", None),
        ("", None),
        ("5;", None),
        ("1e3", None),
        ("NaN", None),
        ("inf", None),
        ("Infinity", None),
        ("+5", None),
        ("0x10", None),
        ("1,234", None),
        ("1_000", None),
        ("5.", None),
        (".", None),
        ("-1", None), // B8
        ("-0", None),
        ("-0.5", None),
        ("soon", None),
        ("86400", Some(86_400_000)),
        ("1000000000", Some(1_000_000_000_000)),
        ("1655120964", Some(31_000)),
        ("1655120964.25", Some(31_250)),
        ("1655120000", Some(0)),
        ("1655120964000", Some(31_000)),
        ("30s", Some(30_000)),
        ("1m30s", Some(90_000)),
    ];
    for (value, expected) in cases {
        assert_eq!(header("retry-after", value), expected, "{value:?}");
        assert_eq!(header("Retry-After", value), expected, "{value:?}");
    }
    // B6: absurd, and still a delay
    for digits in [20, 40, 400] {
        let year = Duration::from_secs(365 * 86_400);
        let delay = delay(429, &[("retry-after", &"9".repeat(digits))], "").unwrap();
        assert!(delay.duration() > 1_000_000 * year, "{digits} digits");
        assert!(SystemTime::now().checked_add(delay.duration() * 2).is_some());
    }
}

#[test]
fn retry_after_as_a_date() {
    let cases = [
        ("Mon, 13 Jun 2022 11:49:00 GMT", Some(7_000)),
        ("Monday, 13-Jun-22 11:49:00 GMT", Some(7_000)),
        ("Mon Jun 13 11:49:00 2022", Some(7_000)),
        ("Mon, 13 Jun 2022 13:49:00 +0200", Some(7_000)),
        ("2022-06-13T11:49:00Z", Some(7_000)),
        ("2022-06-13T11:49:00.0005Z", Some(7_001)),
        ("2022-06-13T13:49:00+02:00", Some(7_000)),
        ("2022-06-13T11:49:00", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", Some(0)), // B8
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(251_747_179_866_000)),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        ("Mon, 13 Jun 2022", None),
        ("Mon Jun 13 2022 13:49:00 GMT+0200 (Central European Summer Time)", None),
    ];
    for (value, expected) in cases {
        assert_eq!(header("retry-after", value), expected, "{value:?}");
    }
    // B24: by the answer's own clock, an hour off from ours
    let skewed = [
        ("date", "Mon, 13 Jun 2022 12:48:53 GMT"),
        ("retry-after", "Mon, 13 Jun 2022 12:48:56 GMT"),
    ];
    assert_eq!(millis(delay(429, &skewed, "")), Some(3_000));
    let unreadable = [("date", "yesterday"), ("retry-after", "Mon, 13 Jun 2022 11:49:00 GMT")];
    assert_eq!(millis(delay(429, &unreadable, "")), Some(7_000));
}

#[test]
fn headers_in_their_order() {
    use DelaySource::*;
    let openai = ("x-ratelimit-reset-tokens", "6m0s");
    let none_left = ("x-ratelimit-remaining-tokens", "0");
    let cases: [(Headers, Option<(u64, DelaySource)>); 19] = [
        (
            &[("retry-after-ms", "494"), ("retry-after", "1")],
            Some((494, RetryAfterMs)),
        ),
        (&[("retry-after-ms", "494.2")], Some((495, RetryAfterMs))),
        (
            &[("retry-after-ms", "0"), ("retry-after", "1")],
            Some((0, RetryAfterMs)),
        ),
        (
            &[("retry-after-ms", "-1"), ("retry-after", "1")],
            Some((1_000, RetryAfter)),
        ),
        (
            &[("x-ms-retry-after-ms", "3000"), ("retry-after", "1")],
            Some((3_000, RetryAfterMs)),
        ),
        (
            &[("retry-after-ms", "10"), ("x-ms-retry-after-ms", "3000")],
            Some((10, RetryAfterMs)),
        ),
        (
            &[("retry-after", "0"), ("x-retry-in", "105.712425ms")],
            Some((106, RetryIn)),
        ),
        (
            &[("retry-after", "1"), ("x-retry-in", "105.712425ms")],
            Some((1_000, RetryAfter)),
        ),
        (&[("x-retry-in", "1m0.052s")], Some((60_052, RetryIn))),
        (
            &[("retry-after", "5"), ("retry-after", "9"), ("retry-after", "x")],
            Some((9_000, RetryAfter)),
        ),
        (&[("retry-after", "5"), none_left, openai], Some((5_000, RetryAfter))),
        (
            &[("retry-after", "nope"), none_left, openai],
            Some((360_000, LimitReset)),
        ),
        (
            &[("ratelimit", "\"a\";r=0;t=5"), ("x-ratelimit-reset", "9")],
            Some((5_000, RateLimit)),
        ),
        (
            &[("ratelimit", "\"a\";r=3;t=5"), ("x-ratelimit-reset", "9")],
            Some((9_000, RateLimitReset)),
        ),
        (
            &[("x-ratelimit-reset", "9"), none_left, openai],
            Some((9_000, RateLimitReset)),
        ),
        (&[("x-ratelimit-remaining-tokens", "1"), openai], None), // B17
        (&[("x-ratelimit-remaining-tokens", "-1"), openai], None),
        (&[openai], None),
        (
            &[("x-rate-limit-reset", "600000"), ("x-rate-limit-remaining", "0")],
            None,
        ),
    ];
    for (headers, expected) in cases {
        let found = delay(429, headers, "");
        assert_eq!(
            millis(found).zip(found.map(|delay| delay.source())),
            expected,
            "{headers:?}"
        );
    }
}

#[test]
fn the_ietf_fields() {
    let cases = [
        (r#""default";r=0;t=30"#, Some(30_000)),
        (r#""default";t=30;r=0"#, Some(30_000)),
        (r#""default" ; r=0 ; t=30 ; pk=:YQ==:"#, Some(30_000)),
        (r#"default;R=0;T=30"#, Some(30_000)),
        (r#""a";r=0;t=5, "b";r=0;t=3600, "c";r=9;t=86400"#, Some(3_600_000)),
        (r#""a,b;r=9";r=0;t=5"#, Some(5_000)),
        (r#""day";r=7;t=5"#, None),
        (r#""day";t=5"#, None),
        (r#""day";r=0"#, None),
        (r#""day";r=0;t=0"#, None),
        (r#""day";r=0;t=-5"#, None),
        ("limit=100, remaining=0, reset=30", Some(30_000)),
        ("reset=30,remaining=0,limit=100", Some(30_000)),
        ("limit=100, remaining=1, reset=30", None),
        ("limit=100;remaining=0;reset=30", Some(30_000)),
        ("", None),
        (";;,,==\"", None),
    ];
    for (value, expected) in cases {
        assert_eq!(header("RateLimit", value), expected, "{value:?}");
    }
    let several = [("ratelimit", "\"a\";r=0;t=5"), ("ratelimit", "\"b\";r=0;t=50")];
    assert_eq!(millis(delay(429, &several, "")), Some(50_000));
    let old = |remaining, reset| {
        let headers = [
            ("ratelimit-limit", "100"),
            ("ratelimit-remaining", remaining),
            ("ratelimit-reset", reset),
        ];
        millis(delay(429, &headers, ""))
    };
    assert_eq!(old("0", "30"), Some(30_000));
    assert_eq!(old("0", "1655121000"), Some(67_000));
    assert_eq!(old("1", "30"), None);
    assert_eq!(old("0", "0"), None);
    assert_eq!(header("ratelimit-reset", "30"), Some(30_000));
    assert_eq!(header("ratelimit-policy", "\"default\";q=100;w=60"), None);
}

#[test]
fn the_reset_without_a_name() {
    let cases = [
        ("23", Some(23_000)),
        ("1655120964", Some(31_000)),
        ("1655120964000", Some(31_000)),
        ("1655120964500", Some(31_500)),
        ("1655120000", Some(0)),
        ("500000000", None),
        ("0", None),
        ("-1", None),
        ("never", None),
        (
            "Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)",
            None,
        ),
        ("2022-06-13T11:49:00Z", Some(7_000)),
    ];
    for (value, expected) in cases {
        assert_eq!(header("X-RateLimit-Reset", value), expected, "{value:?}");
    }
    let reset = ("x-ratelimit-reset", "60");
    let none_left = ("x-ratelimit-remaining", "0");
    let limited = r#"{"message":"API rate limit exceeded for installation."}"#;
    let code = r#"{"error":{"code":"RateLimitExceeded","message":"Slow."}}"#;
    assert_eq!(millis(delay(403, &[reset], limited)), Some(60_000));
    assert_eq!(millis(delay(403, &[reset], code)), Some(60_000));
    assert_eq!(delay(403, &[reset, none_left], r#"{"message":"Forbidden"}"#), None);
    assert_eq!(millis(delay(503, &[reset, none_left], "")), Some(60_000));
    assert_eq!(delay(503, &[reset], ""), None);
    assert_eq!(delay(500, &[reset, none_left], ""), None);
    assert_eq!(delay(200, &[reset, none_left], ""), None);
}

#[test]
fn the_resets_of_named_limits() {
    // B17
    let anthropic = [
        ("anthropic-ratelimit-requests-remaining", "12"),
        ("anthropic-ratelimit-requests-reset", "2022-06-13T12:00:00Z"),
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2022-06-13T11:48:57Z"),
    ];
    assert_eq!(millis(delay(429, &anthropic, "")), Some(4_000));
    let unified = [
        ("anthropic-ratelimit-unified-status", "rejected"),
        ("anthropic-ratelimit-unified-reset", "1655121000"),
        ("anthropic-ratelimit-unified-7d-status", "allowed"),
        ("anthropic-ratelimit-unified-7d-reset", "1655500000"),
    ];
    assert_eq!(millis(delay(429, &unified, "")), Some(67_000));
    let pairs = [
        (
            "x-ratelimit-remaining-requests",
            "x-ratelimit-reset-requests",
            "23h47m36.648s",
            Some(85_656_648),
        ),
        (
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset-tokens",
            "7.66s",
            Some(7_660),
        ),
        (
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset-tokens",
            "6ms",
            Some(6),
        ),
        (
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset-tokens",
            "55",
            Some(55_000),
        ),
        ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", "0", None),
        ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", "0s", None),
        (
            "x-ratelimit-remaining-requests-day",
            "x-ratelimit-reset-requests-day",
            "33011.382",
            Some(33_011_382),
        ),
        (
            "x-ratelimit-remaining-tokens-per-day",
            "x-ratelimit-reset-tokens-per-day",
            "1655121000",
            Some(67_000),
        ),
        (
            "x-ratelimit-tokens-remaining",
            "x-ratelimit-tokens-reset",
            "2",
            Some(2_000),
        ),
    ];
    for (remaining, reset, value, expected) in pairs {
        assert_eq!(
            millis(delay(429, &[(remaining, "0"), (reset, value)], "")),
            expected,
            "{reset}: {value}"
        );
        assert_eq!(
            delay(429, &[(remaining, "1"), (reset, value)], ""),
            None,
            "{reset}: {value}"
        );
    }
    assert_eq!(header("x-rate-limit-reset-tokens", "55"), Some(55_000));
    let with_rest = [
        ("x-rate-limit-remaining-tokens", "7"),
        ("x-rate-limit-reset-tokens", "55"),
    ];
    assert_eq!(delay(429, &with_rest, ""), None);
    let codex = [
        ("x-codex-primary-used-percent", "100"),
        ("x-codex-primary-reset-after-seconds", "13873"),
        ("x-codex-secondary-used-percent", "80"),
        ("x-codex-secondary-reset-after-seconds", "316705"),
    ];
    let found = delay(429, &codex, "").unwrap();
    assert_eq!(
        (millis(Some(found)), found.source()),
        (Some(13_873_000), DelaySource::PlanWindow)
    );
    assert_eq!(
        millis(delay(429, &codex, r#"{"error":{"resets_in_seconds":13872}}"#)),
        Some(13_872_000)
    );
    let blank = [
        ("x-codex-primary-used-percent", "100"),
        ("x-codex-primary-reset-after-seconds", ""),
        ("x-codex-primary-reset-at", "1655121000"),
    ];
    assert_eq!(millis(delay(429, &blank, "")), Some(67_000));
}
