//! The gateway's own answers where there is none of an upstream's to give: status, words and fields, in the shape that the
//! SDKs of OpenAI and Anthropic both read. Pure; knows no socket.

use std::time::SystemTime;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use reqwest_ai_retry::{GiveUp, Outcome, RetryError, StopReason, Why};
use serde::Serialize;
use serde_json::{Value, json};

use crate::route::Astray;

/// How often a call was sent, and why it ended, where there is more to tell than one plain success.
const SENDS: HeaderName = HeaderName::from_static("x-retry-gateway-sends");
const STOP: HeaderName = HeaderName::from_static("x-retry-gateway-stop");

/// An answer of the gateway's own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    status: StatusCode,
    code: String,
    message: String,
    /// The status that the upstream had answered with.
    upstream_status: Option<StatusCode>,
    retry_at: Option<SystemTime>,
    /// How often it was sent, and why it ended.
    outcome: Option<(u32, StopReason)>,
}

impl Failure {
    fn new(status: StatusCode, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            upstream_status: None,
            retry_at: None,
            outcome: None,
        }
    }

    /// The request leads nowhere.
    pub(crate) fn astray(astray: Astray) -> Self {
        let (status, code, message) = match astray {
            Astray::NotAPath => (
                StatusCode::BAD_REQUEST,
                "not_a_path",
                "this gateway is no forward proxy: the request target must be a path",
            ),
            Astray::Unclean => (
                StatusCode::BAD_REQUEST,
                "unclean_path",
                "the path begins with `//` or has a segment that leads upwards",
            ),
            Astray::Unknown => (
                StatusCode::NOT_FOUND,
                "no_such_upstream",
                "the first segment of the path names no upstream of this gateway, and there is no default",
            ),
        };
        Self::new(status, code, message)
    }

    /// It was addressed to somebody else.
    pub(crate) fn foreign_host() -> Self {
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            "the Host field names no host of this gateway; `allowed_hosts` in its configuration adds one",
        )
    }

    /// It wants to go on in another protocol.
    pub(crate) fn another_protocol() -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "another_protocol",
            "this gateway relays HTTP calls, and no other protocol (Upgrade)",
        )
    }

    /// It has come back here.
    pub(crate) fn circle() -> Self {
        Self::new(
            StatusCode::LOOP_DETECTED,
            "circle",
            "an upstream of this gateway leads back to a gateway, and so in a circle",
        )
    }

    /// The gateway's own pages can only be read.
    pub(crate) fn read_only() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "read_only",
            "this is a page of the gateway's own: GET or HEAD only",
        )
    }

    /// The call ended without an answer of the upstream's to hand over. Where the policy asks for an error on giving up, the
    /// status becomes one that no SDK repeats, for those that do not read `x-should-retry`.
    pub(crate) fn of_call(error: &reqwest_middleware::Error, outcome: Option<&Outcome>, give_up: GiveUp) -> Self {
        let mut failure = match (RetryError::of(error), error) {
            (Some(error), _) => Self::of_retry_error(error),
            (None, reqwest_middleware::Error::Reqwest(error)) => Self::of_transport(error),
            (None, reqwest_middleware::Error::Middleware(_)) => {
                Self::new(StatusCode::BAD_GATEWAY, "failed", "the call failed in the gateway")
            }
        };
        if let Some(outcome) = RetryError::of(error).map(RetryError::outcome).or(outcome) {
            failure.retry_at = outcome.retry_at();
            failure.outcome = Some((outcome.sends(), outcome.stop()));
        }
        if give_up == GiveUp::Error {
            failure.status = StatusCode::FAILED_DEPENDENCY;
        }
        failure
    }

    fn of_retry_error(error: &RetryError) -> Self {
        let stop = error.stop();
        let status = match (error, stop) {
            (RetryError::TimedOut { .. }, _) | (_, StopReason::DeadlinePassed) => StatusCode::GATEWAY_TIMEOUT,
            (RetryError::GaveUp { status, .. }, _) => *status,
            (_, StopReason::PausedPastDeadline | StopReason::QueuePastDeadline | StopReason::QuotaExhausted) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            // there had been no answer when it was given up
            (_, StopReason::OperationSpent) => StatusCode::BAD_GATEWAY,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self {
            upstream_status: error.status(),
            ..Self::new(status, word(stop), error.to_string())
        }
    }

    /// In words of our own: those of the error may show the URL.
    fn of_transport(error: &reqwest::Error) -> Self {
        let (code, message) = if error.is_connect() {
            ("upstream_unreachable", "no connection to the upstream could be made")
        } else {
            (
                "upstream_broke_off",
                "the connection to the upstream broke before an answer had come",
            )
        };
        Self::new(StatusCode::BAD_GATEWAY, code, message)
    }

    /// The kind of error by which SDKs choose the type to raise.
    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            status if status.is_server_error() => "api_error",
            StatusCode::FAILED_DEPENDENCY => "api_error",
            _ => "invalid_request_error",
        }
    }

    /// Could not be tried again here, where the request was not kept whole, but may be by a caller that still has it.
    const fn is_left_to_the_caller(&self) -> bool {
        matches!(
            self.outcome,
            Some((_, StopReason::NotReplayable(Why::BodyTooLarge | Why::StreamingBody)))
        )
    }

    /// As it is sent. A caller above is told not to start again: what could be tried has been.
    pub(crate) fn response(self, now: SystemTime) -> Response<String> {
        let is_final = !self.is_left_to_the_caller();
        let body = json!({
            // Anthropic's envelope around OpenAI's
            "type": "error",
            "error": {
                "type": self.kind(),
                "code": self.code,
                "message": format!("reqwest-ai-retry-gateway: {}", self.message),
                "param": null,
                "upstream_status": self.upstream_status.map(|status| status.as_u16()),
            },
        });
        let mut response = Response::new(body.to_string());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if let Some((sends, stop)) = self.outcome {
            note(sends, stop, headers);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if is_final {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if let Some(wait) = self.retry_at.and_then(|at| at.duration_since(now).ok()) {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Writes into the fields of an answer what became of the call.
pub(crate) fn note(sends: u32, stop: StopReason, headers: &mut HeaderMap) {
    headers.insert(SENDS, sends.into());
    if let Ok(stop) = HeaderValue::try_from(word(stop)) {
        headers.insert(STOP, stop);
    }
}

/// A value of the crate's as the one word that programs know it by; its detail, if it has any, after a colon.
pub(crate) fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(Value::Object(detailed)) => {
            let mut words = detailed.iter().map(|(word, detail)| match detail.as_str() {
                Some(detail) => format!("{word}:{detail}"),
                None => word.clone(),
            });
            words.next().unwrap_or_default()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest_ai_retry::{Account, Cost};

    use super::*;

    fn body(response: &Response<String>) -> Value {
        serde_json::from_str(response.body()).unwrap()
    }

    #[test]
    fn an_answer_of_the_gateways_own_is_read_by_both_families_of_sdks() {
        let response = Failure::astray(Astray::Unknown).response(SystemTime::UNIX_EPOCH);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert_eq!(response.headers()["content-type"], "application/json");
        let body = body(&response);
        assert_eq!(body["type"], "error");
        assert_eq!(body["error"]["type"], "not_found_error");
        assert_eq!(body["error"]["code"], "no_such_upstream");
        assert!(body["error"]["message"].as_str().unwrap().contains("names no upstream"));
    }

    #[tokio::test]
    async fn a_refusal_says_when_to_come_back() {
        let account = Account::builder().requests_per_minute(1).build().unwrap();
        drop(account.admit(Cost::new(), None).await.unwrap());
        let soon = std::time::Instant::now() + Duration::from_millis(10);
        let refused = account.admit(Cost::new(), Some(soon)).await.unwrap_err();
        let retry_at = refused.retry_at().unwrap();
        let error = reqwest_middleware::Error::middleware(refused);
        let now = retry_at - Duration::from_millis(58_200);

        let response = Failure::of_call(&error, None, GiveUp::Response).response(now);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "59");
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert_eq!(response.headers()["x-retry-gateway-sends"], "0");
        assert_eq!(response.headers()["x-retry-gateway-stop"], "queue_past_deadline");
        assert_eq!(body(&response)["error"]["type"], "rate_limit_error");
        assert_eq!(body(&response)["error"]["code"], "queue_past_deadline");

        // past by now: it may be tried at once, which needs no field
        let late = Failure::of_call(&error, None, GiveUp::Response).response(retry_at + Duration::from_secs(1));
        assert!(!late.headers().contains_key("retry-after"));

        let unrepeatable = Failure::of_call(&error, None, GiveUp::Error).response(now);
        assert_eq!(unrepeatable.status(), 424);
        assert_eq!(body(&unrepeatable)["error"]["code"], "queue_past_deadline");
    }

    #[test]
    fn a_reason_is_one_word_with_its_detail() {
        assert_eq!(word(StopReason::CircuitOpen), "circuit_open");
        assert_eq!(
            word(StopReason::NotReplayable(Why::NonIdempotent)),
            "not_replayable:non_idempotent"
        );
    }
}
