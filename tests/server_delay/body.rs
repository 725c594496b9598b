//! Delays in bodies: fields and prose.

use reqwest_ai_retry::DelaySource;

use crate::{body, delay, prose};

#[test]
fn fields_of_the_body() {
    let cases = [
        (r#"{"retry_after":5}"#, Some(5_000)),
        (r#"{"error":{"retry_after":10}}"#, Some(10_000)), // B20
        (r#"{"error":{"message":"x","retryAfter":"10"}}"#, Some(10_000)),
        (r#"{"error":{"details":{"Retry-After":2.007}}}"#, Some(2_007)),
        (r#"{"parameters":{"retry_after":35}}"#, Some(35_000)),
        (r#"{"retry_after":1e3}"#, Some(1_000_000)),
        (r#"{"retry_after":1.5e-3}"#, Some(2)),
        (r#"{"retry_after":0}"#, Some(0)),
        (r#"{"retry_after":-1}"#, None),
        (r#"{"retry_after":null}"#, None),
        (r#"{"retry_after":true}"#, None),
        (r#"{"retry_after":"soon"}"#, None),
        (r#"{"retry_after":"30s"}"#, Some(30_000)),
        (r#"{"retry_after":"2022-06-13T11:49:00Z"}"#, Some(7_000)),
        (r#"{"retry_after":1655121000}"#, Some(67_000)),
        (r#"{"retry_after_ms":1500.2,"retry_after":2}"#, Some(1_501)),
        (r#"{"retry_after_seconds":3}"#, Some(3_000)),
        (r#"{"retryAfterMs":250}"#, Some(250)),
        (
            r#"{"error":{"resets_in_seconds":13872,"resets_at":1655121000}}"#,
            Some(13_872_000),
        ),
        (r#"{"error":{"resets_at":1655121000}}"#, Some(67_000)),
        (r#"{"error":{"resets_at":"2022-06-13T11:50:00Z"}}"#, Some(67_000)),
        (r#"{"error":{"resets_at":"2022-06-13 11:50:00"}}"#, None),
        (r#"{"error":{"resets_at":30}}"#, None),
        (r#"{"error":"loading","estimated_time":20.0}"#, Some(20_000)),
        (
            r#"{"error":"loading","estimated_time":1809.1820068359375}"#,
            Some(1_809_183),
        ),
        (r#"{"outer":1,"retry_after":5,"error":{"retry_after":50}}"#, Some(5_000)),
        (r#"{"a":"{\"expectedQueueDelayInMs\":394460}"}"#, None),
        (r#"{"expectedQueueDelayInMs":394460}"#, None),
        // B18, B21
        (
            r#"{"error":{"details":[{"retryDelay":"45.837906927s"}]}}"#,
            Some(45_838),
        ),
        (
            r#"[{"error":{"details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":"26s"}]}}]"#,
            Some(26_000),
        ),
        (
            r#"{"error":{"details":[{"retryDelay":{"seconds":"44","nanos":500000001}}]}}"#,
            Some(44_501),
        ),
        (
            r#"{"error":{"details":[{"metadata":{"quotaResetDelay":"5h59m59.960323804s"}}]}}"#,
            Some(21_599_961),
        ),
        (
            r#"{"error":{"details":[{"metadata":{"quotaResetDelay":"33740.910400305s"}}]}}"#,
            Some(33_740_911),
        ),
        (
            r#"{"error":{"details":[{"retryDelay":"2s"},{"metadata":{"quotaResetDelay":"3s"}}]}}"#,
            Some(3_000),
        ),
        (
            r#"{"error":{"message":"Please retry in 4s.","details":[{"retryDelay":"2s"},{"quotaResetDelay":"3s"}]}}"#,
            Some(4_000),
        ),
        (
            r#"{"error":{"details":[{"metadata":{"quotaResetTimeStamp":"2022-06-13T11:50:00Z"}}]}}"#,
            Some(67_000),
        ),
        (
            r#"{"details":[{"quotaResetTimeStamp":"2022-06-13T11:50:00Z","quotaResetDelay":"1.5s"}]}"#,
            Some(1_500),
        ),
        (
            r#"{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"1655121000000"}}}}"#,
            Some(67_000),
        ),
        (
            r#"{"error":{"metadata":{"headers":{"X-RateLimit-Reset":1655121000000}}}}"#,
            Some(67_000),
        ),
        (
            r#"{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"1655121000000","Retry-After":"8"}}}}"#,
            Some(8_000),
        ),
        (r#"{"detail":"resets in ~6s","retry_after":5}"#, Some(5_000)),
    ];
    for (text, expected) in cases {
        assert_eq!(body(text), expected, "{text}");
    }
}

#[test]
fn sentences() {
    let cases = [
        // B19
        (
            "Rate limit reached. Please try again in 1.152s. Visit https://x.",
            Some(1_152),
        ),
        ("Please try again in 6ms.", Some(6)),
        ("Please try again in 8.64s.", Some(8_640)),
        ("Please try again in 50.597142857s.", Some(50_598)),
        ("Please try again in 7m12s.", Some(432_000)),
        ("Please try again in 1m0.363142857s.", Some(60_364)),
        ("please try again after 1 seconds", Some(1_000)),
        ("TRY AGAIN IN 30 SECONDS", Some(30_000)),
        ("Please try your request again in 20 seconds", Some(20_000)),
        ("Please retry in 900.2ms.", Some(901)),
        ("Please retry after 2 seconds.", Some(2_000)),
        ("Retry your request after 90 secs", Some(90_000)),
        ("retrying in about 3 minutes", Some(180_000)),
        ("max rate reached: retry-in 30s", Some(30_000)),
        ("Retry-After: 12 s", Some(12_000)),
        ("Please wait 52220 seconds before retrying.", Some(52_220_000)),
        ("Please wait 52,220 seconds before retrying.", Some(52_220_000)),
        ("Wait for at least 1 minute.", Some(60_000)),
        ("Please wait another 1 minute(s) and 30 second(s).", Some(90_000)),
        ("Expected available in 831.5 seconds.", Some(831_500)),
        ("Your rate limit resets in ~5s.", Some(5_000)),
        ("Your quota will reset after 19h14m47s.", Some(69_287_000)),
        ("Resets in 9h22m20s.", Some(33_740_000)),
        ("Quota will be replenished in 22.14:18:12.", Some(1_952_292_000)),
        ("Quota will be replenished in 03:12:44.", Some(11_564_000)),
        ("Please try again in 58 hours", Some(208_800_000)),
        ("try again in 463 hours 23 minutes", Some(1_668_180_000)),
        ("try again in 1 day, 2 hours and 3 minutes.", Some(93_780_000)),
        ("try again in 1 hour 1 minute 1 second", Some(3_661_000)),
        ("try again in 250\u{b5}s, or 250\u{3bc}s", Some(1)),
        (
            "429 Quota exceeded. [links {\n}\n, retry_delay {\n  seconds: 44\n}\n]",
            Some(44_000),
        ),
        ("retry_delay { seconds: 44 nanos: 500000001 }", Some(44_501)),
        ("retry_delay { }", None),
        ("resets at 2022-06-13T11:50:00Z (2056)", Some(67_000)),
        ("You will regain access on 2022-06-14 at 00:00 UTC.", Some(43_867_000)),
        ("Please wait until 2022-06-13 13:50 +0200", Some(67_000)),
        ("resets at 2022-06-13 19:50:00 (UTC+8)", Some(67_000)),
        ("Try again after Mon, 13 Jun 2022 11:50:00 GMT.", Some(67_000)),
        ("It resets at 1655121000.", Some(67_000)),
        ("It reset at 2022-06-13T11:00:00Z", Some(0)),
        ("try again in 99999999999999999999 days", Some(u64::MAX)),
        // the first that is one binds
        (
            "Please try again later. Please retry in 9 seconds. Resets in 3h.",
            Some(9_000),
        ),
        (
            "Try again in 60 seconds. Upstream said: retry after 9 seconds",
            Some(60_000),
        ),
        (
            "Try again in 5 seconds. cooldown_list=[('x', 'retry after 9 seconds')]",
            Some(5_000),
        ),
        ("No deployments. cooldown_list=[('x', 'retry after 9 seconds')]", None),
        // no anchor, no unit, no amount, no zone
        ("Rate limit of 50 per 86400s exceeded", None),
        ("Limit 30000, Requested 37313. Reduce it and try again.", None),
        ("quota of 2500 api requests per 5 minutes period", None),
        (
            "Usage limit reached for 5 hour. Your limit will reset at 2026-08-27 21:31:39",
            None,
        ),
        (
            "\u{60a8}\u{7684}\u{9650}\u{989d}\u{5c06}\u{5728} 2026-08-25 07:41:44 \u{91cd}\u{7f6e}",
            None,
        ),
        ("Your usage resets in 5 hour windows.", None),
        ("Please wait a moment and try again.", None),
        ("Please wait a few minutes before you try again.", None),
        ("free usage limit (reset hourly)", None),
        ("please wait before trying again", None),
        ("Please try again later", None),
        ("retry after 5", None),
        ("retry in -5s", None),
        ("retry in 2 business days", None),
        ("resets in 2 months", None),
        ("resets after 15:00:00 UTC", None),
        ("no answer came after waiting 30 seconds", None),
        ("Try again. In 5 minutes the window ends.", None),
        ("available in 5 regions", None),
        ("connection reset in 1e3s", None),
        ("stream reset after 30s of inactivity", None),
        ("resets within 24 hours", None),
        ("may take up to 5 minutes, wait up to 5 minutes", None),
        ("disconnect/reset before headers. reset reason: overflow", None),
    ];
    for (text, expected) in cases {
        assert_eq!(prose(text), expected, "{text}");
        assert_eq!(body(text), expected, "as plain text: {text}");
    }
}

#[test]
fn the_outer_text_binds() {
    let text = r#"{"message":"Try again in 60 seconds","error":{"message":"retry after 9 seconds"}}"#;
    assert_eq!(body(text), Some(60_000));
    let text = r#"{"message":"Try again later","error":{"message":"retry after 9 seconds"}}"#;
    assert_eq!(body(text), Some(9_000));
}

#[test]
fn a_source_can_be_told() {
    let source = |headers, body| delay(429, headers, body).unwrap().source();
    assert_eq!(
        source(&[("retry-after", "1")], "").to_string(),
        "the Retry-After header"
    );
    assert_eq!(source(&[], "try again in 1s"), DelaySource::Message);
    assert_eq!(source(&[], r#"{"retryDelay":"1s"}"#), DelaySource::RetryInfo);
    assert_eq!(source(&[], r#"{"resets_at":1655121000}"#), DelaySource::BodyTimestamp);
}

#[test]
fn a_body_quotes_more_headers_than_a_map_can_hold() {
    let headers: Vec<_> = (0..25_000).map(|n| format!("\"{n:04x}\":1")).collect();
    let text = format!(r#"{{"retryDelay":"2s","headers":{{{}}}}}"#, headers.join(","));
    assert!(text.len() < 256 * 1024);
    assert_eq!(body(&text), Some(2_000));
}

#[test]
fn a_body_that_is_nothing_but_anchors_is_read_in_linear_time() {
    let began = std::time::Instant::now();
    for part in [
        "again ",
        "wait for ",
        "retry in 1m",
        "1m",
        "retry the ",
        "9",
        "resets at 2022-",
        "µ",
        "try in 5,000,",
        "- ",
    ] {
        assert_eq!(
            body(&part.repeat(60_000 / part.len()).replace("1m", "1mo")),
            None,
            "{part}"
        );
    }
    assert!(
        began.elapsed() < std::time::Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}
