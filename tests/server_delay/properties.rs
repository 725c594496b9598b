//! What holds for every number, header and body.

use std::time::SystemTime;

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use crate::{body, header, of, prose};

/// A decimal number of up to six and 24 digits.
fn decimal() -> impl Strategy<Value = (u64, String)> {
    (0_u64..1_000_000, "[0-9]{1,24}")
}

/// The milliseconds of so many seconds, by integer arithmetic on the digits.
fn ceiling(whole: u64, places: &str) -> u64 {
    let padded = format!("{places:0<27}");
    let (kept, rest) = padded.split_at(3);
    whole * 1_000 + kept.parse::<u64>().unwrap() + u64::from(rest.bytes().any(|digit| digit != b'0'))
}

proptest! {
    #[test]
    fn digits_are_rounded_up_to_the_millisecond((whole, places) in decimal()) {
        let expected = Some(ceiling(whole, &places));
        prop_assert_eq!(header("retry-after", &format!("{whole}.{places}")), expected);
        prop_assert_eq!(prose(&format!("Please try again in {whole}.{places}s.")), expected);
        let retry_info = format!(r#"{{"error":{{"details":[{{"retryDelay":"{whole}.{places}s"}}]}}}}"#);
        prop_assert_eq!(body(&retry_info), expected);
    }

    #[test]
    fn a_json_number_is_rounded_up_to_the_millisecond(whole in 0_u64..1_000_000, places in "[0-9]{1,9}") {
        prop_assert_eq!(body(&format!(r#"{{"retry_after":{whole}.{places}}}"#)), Some(ceiling(whole, &places)));
    }

    #[test]
    fn a_longer_delay_never_reads_shorter((a, x) in decimal(), (b, y) in decimal(), unit in "ns|us|ms|s|m|h|d|w") {
        let longer = (a, format!("{x:0<24}")) > (b, format!("{y:0<24}"));
        let read = |whole, places: &str| prose(&format!("retry in {whole}.{places}{unit}"));
        let (first, second) = (read(a, &x), read(b, &y));
        prop_assert!(first.is_some() && second.is_some());
        let (shorter, longer) = if longer { (second, first) } else { (first, second) };
        prop_assert!(shorter <= longer);
    }

    #[test]
    fn a_go_duration_is_the_sum_of_its_parts(h in 0_u64..100, m in 0_u64..60, s in 0_u64..60, ms in 0_u64..1_000) {
        let expected = Some(((h * 60 + m) * 60 + s) * 1_000 + ms);
        prop_assert_eq!(header("x-retry-in", &format!("{h}h{m}m{s}.{ms:03}s")), expected);
        prop_assert_eq!(prose(&format!("wait {h} hours, {m} minutes and {s}.{ms:03} seconds")), expected);
        prop_assert_eq!(prose(&format!("wait {h:02}:{m:02}:{s:02}.{ms:03}")), expected);
    }

    #[test]
    fn no_header_panics(name in 0_usize..12, value in prop::collection::vec(any::<u8>(), 0..60), near in "[-+0-9a-zA-Z.:;,=\"µ ]{0,40}") {
        const NAMES: [&str; 12] = [
            "retry-after", "retry-after-ms", "x-ms-retry-after-ms", "x-retry-in", "ratelimit", "ratelimit-reset",
            "x-ratelimit-reset", "x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-reset", "date",
            "x-codex-primary-reset-at", "x-rate-limit-reset-tokens",
        ];
        for bytes in [value.as_slice(), near.as_bytes()] {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", HeaderValue::from_static("Wed, 21 Oct 2015 07:28:00 GMT"));
            headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("0"));
            headers.insert("x-codex-primary-used-percent", HeaderValue::from_static("100"));
            if let Ok(value) = HeaderValue::from_bytes(bytes) {
                headers.insert(NAMES[name], value.clone());
                of(429, &headers, "", SystemTime::UNIX_EPOCH);
                headers.remove("retry-after");
                headers.insert(NAMES[name], value);
                of(429, &headers, "", SystemTime::UNIX_EPOCH);
            }
        }
    }

    #[test]
    fn no_body_panics(noise in any::<String>(), near in "(try again |retry )?(in|after|at) [-0-9.:,a-zTZµ~ ]{0,30}.{0,5}") {
        for text in [&noise, &near] {
            prose(text);
            body(text);
            let value = serde_json::Value::from(text.as_str());
            for field in ["retry_after", "retryDelay", "quotaResetDelay", "resets_at", "retry_after_ms"] {
                body(&format!(r#"{{"error":{{"{field}":{value}}}}}"#));
            }
        }
    }
}
