//! What `/status` shows: the accounts of all upstreams as JSON, times in RFC 3339. Pure; nothing in it is secret.

use std::time::SystemTime;

use jiff::Timestamp;
use reqwest::Url;
use reqwest_ai_retry::{AccountStatus, LaneStatus};
use serde_json::{Map, Value, json};

use crate::failure::word;

/// The state of these upstreams.
pub(crate) fn report<'a>(upstreams: impl Iterator<Item = (&'a str, &'a Url, AccountStatus)>) -> Value {
    let upstreams = upstreams.map(|(name, url, account)| (name.to_owned(), upstream(url, &account)));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "upstreams": upstreams.collect::<Map<_, _>>(),
    })
}

fn upstream(url: &Url, account: &AccountStatus) -> Value {
    json!({
        "url": url.as_str(),
        "in_flight": account.in_flight,
        "max_in_flight": account.max_in_flight,
        "lanes": account.lanes.iter().map(lane).collect::<Vec<_>>(),
    })
}

fn lane(lane: &LaneStatus) -> Value {
    json!({
        "host": lane.host,
        "model": lane.model,
        "in_flight": lane.in_flight,
        "learnt_max_in_flight": lane.learnt_max_in_flight,
        "waiting": lane.waiting,
        "starts_per_minute": lane.starts_per_minute.map(rounded),
        "paused_until": lane.paused_until.and_then(time),
        "held_until": lane.held_until.and_then(time),
        "breaker": word(lane.breaker),
        "retries_left": rounded(lane.retries_left),
        "idle_seconds": rounded(lane.idle.as_secs_f64()),
    })
}

/// To two places: more would be noise.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// To the second: more would tell nobody more. `None` beyond the calendar.
fn time(at: SystemTime) -> Option<String> {
    let at = Timestamp::try_from(at).ok()?;
    Some(Timestamp::from_second(at.as_second()).ok()?.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest_ai_retry::{Account, Cost};

    use super::*;

    #[tokio::test]
    async fn the_state_of_every_lane_is_told() {
        let account = Account::builder()
            .requests_per_minute(90)
            .max_concurrency(4)
            .build()
            .unwrap();
        let permit = account.admit(Cost::new().model("big"), None).await.unwrap();
        let url = Url::parse("https://one.example/v1").unwrap();
        let report = report([("one", &url, account.status())].into_iter());
        drop(permit);
        let one = &report["upstreams"]["one"];
        assert_eq!(one["url"], "https://one.example/v1");
        assert_eq!((&one["in_flight"], &one["max_in_flight"]), (&json!(1), &json!(4)));
        let lane = &one["lanes"][0];
        assert_eq!((&lane["in_flight"], &lane["breaker"]), (&json!(1), &json!("closed")));
        assert_eq!(lane["paused_until"], Value::Null);
    }

    #[test]
    fn a_number_is_written_as_people_read_it() {
        assert_eq!(json!(rounded(32.048_155_630_894_21)).to_string(), "32.05");
        assert_eq!(json!(rounded(20.0)).to_string(), "20.0");
    }

    #[test]
    fn a_time_is_written_as_in_calendars_and_logs() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_225_600_900);
        assert_eq!(time(at).as_deref(), Some("2026-01-01T00:00:00Z"));
    }
}
