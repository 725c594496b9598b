//! Header fields that mean one connection only, and those that a proxy sets itself. Pure; knows no target and no body.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

/// Fields of one connection, beside those that `Connection` names (RFC 9110, 7.6.1; `Trailer` and the two of
/// authentication since they speak of a message or a proxy that ends here).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// How this gateway is known to those behind it (RFC 9110, 7.6.3).
const VIA: &str = "1.1 reqwest-ai-retry-gateway";
/// One gateway may stand behind another, for a team and for a machine; more of them are a circle.
const LONGEST_CHAIN: usize = 4;

/// What an upstream is told about the encodings of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AcceptEncoding {
    /// To send it as it is, so that an error and the tokens used can be read in it. The default: between the gateway and its
    /// caller nothing is won by packing.
    #[default]
    Identity,
    /// What the caller says. A packed error is then judged by its status alone.
    Pass,
}

/// A request's fields as the upstream is to get them.
pub(crate) fn of_request(headers: &mut HeaderMap, encoding: AcceptEncoding) {
    end_to_end(headers);
    if encoding == AcceptEncoding::Identity && headers.contains_key(header::ACCEPT_ENCODING) {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    // the client's side sets these: the upstream's name, and the framing of the body as it is sent there
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
    // answered here already, since the body is read here
    headers.remove(header::EXPECT);
    headers.append(header::VIA, HeaderValue::from_static(VIA));
}

/// A response's fields as the caller is to get them.
pub(crate) fn of_response(headers: &mut HeaderMap) {
    end_to_end(headers);
}

fn end_to_end(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    let proxys = |name: &&HeaderName| name.as_str().starts_with("proxy-");
    let proxys: Vec<HeaderName> = headers.keys().filter(proxys).cloned().collect();
    for name in proxys {
        headers.remove(name);
    }
}

/// Has the request come through so many gateways that they must be leading it in a circle?
pub(crate) fn goes_in_a_circle(headers: &HeaderMap) -> bool {
    let passed = headers.get_all(header::VIA).iter().filter_map(|via| via.to_str().ok());
    let passed = passed.flat_map(|via| via.split(',')).filter(|via| via.trim() == VIA);
    passed.count() >= LONGEST_CHAIN
}

/// Is another protocol asked for, which cannot be relayed? (`h2c` may be passed over: RFC 9110, 7.8.)
pub(crate) fn asks_for_another_protocol(headers: &HeaderMap) -> bool {
    let mut wanted = headers.get_all(header::UPGRADE).iter();
    wanted.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"h2c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    const HOPS: [(&str, &str); 13] = [
        ("connection", "keep-alive, x-hop"),
        ("connection", "X-Other-Hop"),
        ("x-hop", "1"),
        ("x-other-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic eDp5"),
        ("proxy-authenticate", "Basic"),
        ("proxy-authentication-info", "x"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
    ];

    #[test]
    fn fields_of_one_connection_go_no_further() {
        let mut request = headers(&HOPS);
        of_request(&mut request, AcceptEncoding::Pass);
        assert_eq!(request, headers(&[("via", "1.1 reqwest-ai-retry-gateway")]));
        let mut response = headers(&HOPS);
        of_response(&mut response);
        assert_eq!(response, HeaderMap::new());
    }

    #[test]
    fn all_else_passes_as_it_is() {
        let passed = [
            ("authorization", "Bearer k"),
            ("x-api-key", "k"),
            ("accept-encoding", "gzip, br"),
            ("content-encoding", "gzip"),
            ("content-type", "application/json"),
            ("idempotency-key", "1"),
            ("x-stainless-retry-count", "2"),
            ("x-should-retry", "true"),
            ("retry-after", "3"),
            ("cookie", "a=1"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("via", "1.1 before"),
        ];
        let mut request = headers(&passed);
        let framing = [
            ("host", "localhost"),
            ("content-length", "3"),
            ("expect", "100-continue"),
        ];
        request.extend(headers(&framing));
        of_request(&mut request, AcceptEncoding::Pass);
        let mut expected = headers(&passed);
        expected.append("via", HeaderValue::from_static("1.1 reqwest-ai-retry-gateway"));
        assert_eq!(request, expected);

        let mut response = headers(&passed);
        response.extend(headers(&[("content-length", "3")]));
        let expected = response.clone();
        of_response(&mut response);
        assert_eq!(response, expected);
    }

    #[test]
    fn an_answer_that_can_be_read_is_asked_for() {
        for (asked, sent) in [("gzip, br", "identity"), ("identity", "identity")] {
            let mut request = headers(&[("accept-encoding", asked)]);
            of_request(&mut request, AcceptEncoding::default());
            assert_eq!(request["accept-encoding"], sent);
        }
        let mut silent = HeaderMap::new();
        of_request(&mut silent, AcceptEncoding::default());
        assert!(
            !silent.contains_key("accept-encoding"),
            "what was not said is not invented"
        );
    }

    #[test]
    fn a_circle_is_told_from_a_chain() {
        let mut request = headers(&[("via", "1.1 cdn.example, 1.1 reqwest-ai-retry-gateway")]);
        for _ in 0..2 {
            of_request(&mut request, AcceptEncoding::Pass);
            assert!(!goes_in_a_circle(&request));
        }
        of_request(&mut request, AcceptEncoding::Pass);
        assert!(goes_in_a_circle(&request));
    }

    #[test]
    fn another_protocol_is_told_from_a_newer_http() {
        assert!(asks_for_another_protocol(&headers(&[("upgrade", "websocket")])));
        assert!(!asks_for_another_protocol(&headers(&[("upgrade", "h2c")])));
        assert!(!asks_for_another_protocol(&HeaderMap::new()));
    }
}
