//! Header fields that mean one connection only, and those that a proxy sets itself. Pure; knows no target and no body.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

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
const VIA: HeaderValue = HeaderValue::from_static("1.1 reqwest-ai-retry-gateway");

/// A request's fields as the upstream is to get them.
pub(crate) fn of_request(headers: &mut HeaderMap) {
    end_to_end(headers);
    // the client's side sets these: the upstream's name, and the framing of the body as it is sent there
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
    // answered here already, since the body is read here
    headers.remove(header::EXPECT);
    headers.append(header::VIA, VIA);
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
        of_request(&mut request);
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
        of_request(&mut request);
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
    fn another_protocol_is_told_from_a_newer_http() {
        assert!(asks_for_another_protocol(&headers(&[("upgrade", "websocket")])));
        assert!(!asks_for_another_protocol(&headers(&[("upgrade", "h2c")])));
        assert!(!asks_for_another_protocol(&HeaderMap::new()));
    }
}
