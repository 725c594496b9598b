//! The windows that headers name, by the names of counters or by a policy.

use http::HeaderMap;

use super::{Named, in_name, of_seconds};

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

    #[test]
    fn policies_are_matched_by_name_or_alone() {
        let day = in_name("day");
        assert_eq!(policies("\"d\";r=0;t=5", "\"m\";q=1;w=60, \"d\";q=9;w=86400"), day);
        assert_eq!(policies("\"x\";r=0;t=5", "\"d\";q=9;w=86400"), day);
        assert_eq!(policies("\"d\";r=4;t=5", "\"d\";q=9;w=86400"), Named::default());
    }
}
