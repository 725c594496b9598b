//! Answers of the kinds that `corpus/wire.json` has, in other words, from other providers and in other wrappings: each a
//! line with what it must be read as. `_` is not judged. Letters with a number (A8, C2, I1) name reported faults of other
//! retry layers.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing)]

use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proptest::prelude::*;
use reqwest::Url;
use reqwest_ai_retry::{Class, Classifier, Seen, Verdict};
use serde_json::{Value, json};

fn classify(method: &Method, status: u16, headers: &HeaderMap, body: &[u8]) -> Option<Verdict> {
    let url: Url = "https://api.example.com/v1/chat/completions".parse().unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    let seen = Seen::response(method, &url, status, headers, body, SystemTime::UNIX_EPOCH);
    Classifier::default().classify(&seen)
}

fn headers(lines: &str) -> HeaderMap {
    let fields = lines.split('|').filter_map(|line| line.trim().split_once(':'));
    fields
        .map(|(name, value)| {
            let name: HeaderName = name.trim().parse().unwrap();
            (name, value.trim().parse::<HeaderValue>().unwrap())
        })
        .collect()
}

/// Class, cause, scope, delivery and layer, as they are written in the tables.
fn words(verdict: Option<Verdict>) -> Vec<String> {
    let Some(verdict) = verdict else {
        return vec!["Success".into(); 5];
    };
    vec![
        format!("{:?}", verdict.class()),
        format!("{:?}", verdict.cause()),
        format!("{:?}", verdict.scope()),
        format!("{:?}", verdict.delivery()),
        format!("{:?}", verdict.layer()),
    ]
}

/// Status, headers (`name: value | name: value`), body, and the words expected.
type Line = (u16, &'static str, &'static str, &'static str);

fn check(lines: &[Line]) {
    let mut misses = 0;
    for (status, header_lines, body, expected) in lines {
        let got = words(classify(
            &Method::POST,
            *status,
            &headers(header_lines),
            body.as_bytes(),
        ));
        let expected: Vec<&str> = expected.split_whitespace().collect();
        let wrong = expected
            .iter()
            .zip(&got)
            .any(|(expected, got)| *expected != "_" && expected != got);
        if wrong {
            misses += 1;
            println!(
                "{status} {header_lines} {body}\n    {}\n    expected {}",
                got.join(" "),
                expected.join(" ")
            );
        }
    }
    assert_eq!(misses, 0, "of {}", lines.len());
}

/// I1, I8, I9: nothing but a status.
#[test]
fn a_bare_status() {
    for (statuses, expected) in [
        (&[200, 201, 204, 302, 304][..], "Success"),
        (
            &[
                400, 405, 406, 411, 412, 414, 415, 416, 417, 418, 421, 422, 424, 426, 428, 431, 499,
            ],
            "Permanent InvalidRequest _ Refused",
        ),
        (&[401, 407], "Permanent Authentication _ Refused"),
        (&[402], "QuotaExhausted Balance _ Refused"),
        (&[403, 451], "Permanent Permission _ Refused"),
        (&[404, 410], "Permanent NotFound _ Refused"),
        (&[413], "Permanent TooLarge _ Refused"),
        (&[408], "Retryable Timeout _ Ambiguous"),
        (&[409], "Retryable Conflict _ Refused"),
        (&[425], "Retryable _ _ Refused"),
        (&[429], "Retryable RateLimited _ Refused"),
        (&[498], "Retryable Overloaded _ Refused"),
        (
            &[500, 502, 506, 507, 508, 520, 521, 523, 527, 530],
            "Retryable ServerError _ Ambiguous",
        ),
        (&[503], "Retryable Overloaded _ Ambiguous"),
        (&[504, 522, 524, 598, 599], "Retryable Timeout _ Ambiguous"),
        (&[529], "Retryable Overloaded _ Refused"),
        (&[501, 505], "Permanent _ _ Ambiguous"),
        (&[511, 525, 526], "Permanent _ _ Ambiguous"),
    ] {
        let lines: Vec<Line> = statuses.iter().map(|&status| (status, "", "", expected)).collect();
        check(&lines);
    }
}

#[test]
fn flags() {
    check(&[
        // A8
        (503, "x-should-retry: false", "", "Permanent Overloaded _ _"),
        (400, "x-should-retry: true", "", "Retryable"),
        (
            400,
            "x-should-retry: true",
            r#"{"error":{"message":"Temporary failure."}}"#,
            "Retryable",
        ),
        (501, "x-should-retry: true", "", "Retryable"),
        (429, "x-should-retry: False", "", "Permanent RateLimited"),
        (500, "stripe-should-retry: false", "", "Permanent ServerError"),
        (
            409,
            "stripe-should-retry: false",
            r#"{"error":{"type":"idempotency_error"}}"#,
            "Permanent",
        ),
        // it never lifts what the body states
        (
            400,
            "x-should-retry: true",
            r#"{"error":{"code":"context_length_exceeded"}}"#,
            "Permanent TooLarge",
        ),
        (
            401,
            "x-should-retry: true",
            r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            "Permanent Authentication",
        ),
        (
            429,
            "x-should-retry: true",
            r#"{"error":{"type":"insufficient_quota"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            403,
            "x-should-retry: true",
            r#"{"error":{"code":"unsupported_country_region_territory"}}"#,
            "Permanent Permission",
        ),
        // stopped, but for money
        (
            429,
            "x-should-retry: false",
            r#"{"error":{"code":"insufficient_quota"}}"#,
            "QuotaExhausted Balance",
        ),
        (400, "x-should-retry: maybe", "", "Permanent"),
    ]);
}

/// C1, C2: the mark is in the type, in the code, or in words alone.
#[test]
fn money() {
    check(&[
        (
            403,
            "",
            r#"{ "statusCode": 403, "message": "Out of bandwidth quota. Quota will be replenished in 1.00:00:00." }"#,
            "QuotaExhausted DailyAllowance _ _ Proxy",
        ),
        (
            429,
            "",
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"[1316][Your limit will reset at 2026-09-20 21:31:39][20260920]"}}"#,
            "QuotaExhausted PlanWindow _ _ Api",
        ),
        (
            403,
            "",
            r#"{"errors":[{"code":"token_quota_reached","message":"This tenant has reached its token quota."}],"status_code":403}"#,
            "QuotaExhausted _ _ _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"type":"insufficient_quota"}}"#,
            "QuotaExhausted Balance _ Refused Api",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"insufficient_quota","type":null}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "retry-after: 3",
            r#"{"error":{"code":"insufficient_quota"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"CREDIT_BALANCE_EXHAUSTED"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"type":"insufficient_quota","code":"team_spend_limit_exceeded"}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            400,
            "",
            r#"{"error":{"code":"billing_hard_limit_reached","message":"Billing hard limit has been reached"}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            400,
            "",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}"#,
            "QuotaExhausted Balance _ Refused Api",
        ),
        (
            400,
            "",
            r#"{"error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2030-01-01 at 00:00 UTC."}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            429,
            "",
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit.","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            402,
            "",
            r#"{"error":{"message":"Insufficient Balance"}}"#,
            "QuotaExhausted Balance _ Refused Api",
        ),
        (
            402,
            "",
            r#"{"error":{"message":"Prompt tokens limit exceeded: 9000 > 5000. To increase, visit https://openrouter.ai/settings/credits","code":402}}"#,
            "QuotaExhausted",
        ),
        (
            402,
            "",
            r#"{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 8000 tokens, but can only afford 12.","code":402}}"#,
            "QuotaExhausted Balance",
        ),
        (
            402,
            "",
            r#"{"error":"You have exceeded your monthly included credits for Inference Providers. Subscribe to PRO to get 20x more monthly included credits."}"#,
            "QuotaExhausted",
        ),
        (
            402,
            "",
            r#"{"title":"Insufficient credit","detail":"You have insufficient credit to run this model. Go to billing to purchase credit.","status":402}"#,
            "QuotaExhausted Balance",
        ),
        (
            403,
            "",
            r#"{"code":"permission-denied","error":"You have run out of credits or need a Grok subscription."}"#,
            "QuotaExhausted",
        ),
        (
            403,
            "",
            r#"{"code":30001,"message":"Sorry, your account balance is insufficient","data":null}"#,
            "QuotaExhausted Balance _ _ Api",
        ),
        (
            400,
            "",
            r#"{"code":"Arrearage","message":"Access denied"}"#,
            "QuotaExhausted Balance",
        ),
        (
            403,
            "",
            r#"{"error":{"code":"AccountOverdueError","message":"The request failed"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            400,
            "",
            r#"{"code":"AllocationQuota.FreeTierOnly","message":"The free tier of the model has been exhausted."}"#,
            "QuotaExhausted",
        ),
        (
            412,
            "",
            r#"{"error":{"message":"Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices","code":"PRECONDITION_FAILED"}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Your account x is suspended due to insufficient balance, please recharge","type":"whatever"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            500,
            "",
            r#"{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}"#,
            "QuotaExhausted Balance _ Ambiguous Api",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#,
            "QuotaExhausted Balance _ _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"账户余额不足，请充值后重试"}}"#,
            "QuotaExhausted Balance _ _ Api",
        ),
        (403, "", r#"{"message":"账号已欠费"}"#, "QuotaExhausted Balance"),
        (
            403,
            "",
            r#"{"error":{"message":"用户额度不足, 剩余额度: ＄0.00","type":"new_api_error"}}"#,
            "QuotaExhausted",
        ),
        (
            400,
            "",
            r#"{"error":{"code":"blocked_api_access","message":"API access is blocked because a spend limit was reached"}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Budget has been exceeded! Current cost: 12, Max budget: 10","type":"auth_error","param":"None","code":"400"}}"#,
            "QuotaExhausted SpendLimit _ _ Proxy",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"No deployments available - crossed budget for provider: openai","type":"None","param":"None","code":"429"}}"#,
            "QuotaExhausted SpendLimit _ _ Proxy",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"message":"Your prepayment credits are depleted.","status":"RESOURCE_EXHAUSTED"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            402,
            "",
            r#"{"error":{"code":402,"message":"Your prepayment credits are depleted.","status":"RESOURCE_EXHAUSTED"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"quota_exceeded","message":"Quota exceeded."}}"#,
            "QuotaExhausted",
        ),
        (
            403,
            "",
            r#"{"error":{"message":"your subscription payment is past due. update your payment method","type":"api_error"}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Credit limit exceeded. Please add credit.","type":"credit_limit"}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"code":"Some resource has been exhausted","error":"Your team x has either used all available credits or reached its monthly spending limit."}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":{"type":"billing_not_active","message":"Your account is not active, please check your billing details on our website."}}"#,
            "QuotaExhausted Balance",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Your trial has expired. Please add a payment method."}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":"You have run out of credits."}"#,
            "QuotaExhausted Balance",
        ),
        (
            403,
            "",
            r#"{"detail":"Your wallet balance is too low. Top up to continue."}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Your prepaid balance is exhausted","type":"requests"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            403,
            "",
            r#"{"error":{"message":"Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys","code":403}}"#,
            "QuotaExhausted",
        ),
        (
            400,
            "x-amzn-errortype: ServiceQuotaExceededException",
            r#"{"message":"Your request exceeds the service quota for your account."}"#,
            "QuotaExhausted _ _ _ Api",
        ),
        // a card refused at a shop's checkout is not the caller's account
        (
            402,
            "",
            r#"{"error":{"type":"card_error","code":"expired_card","message":"Your card has expired."}}"#,
            "Permanent",
        ),
        (
            402,
            "",
            r#"{"error":{"message":"Upstream payment channel busy, retry shortly"}}"#,
            "Retryable",
        ),
        (
            402,
            "",
            r#"{"error":{"message":"Please retry in 5 seconds"}}"#,
            "Retryable",
        ),
    ]);
}

/// Words of money in answers that are not about money.
#[test]
fn no_money() {
    check(&[
        (
            429,
            "",
            r#"{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 9 seconds. Please go here: https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit."}}"#,
            "Retryable RateLimited _ Refused Api",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached for gpt-x on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s. You can increase your rate limit by adding a payment method to your account at https://platform.openai.com/account/billing.","type":"requests","code":"rate_limit_exceeded"}}"#,
            "Retryable RateLimited Requests",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}]}}"#,
            "Retryable RateLimited Requests",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"You have reached the rate limit of 60 queries per minute.","type":"credit_limit"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"detail":"Request was throttled. Your rate limit is reduced to 6 requests per minute while you have less than $5.0 in credit.","status":429,"retry_after":9}"#,
            "Retryable RateLimited Requests _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"You exceeded your current quota. See https://help.aliyun.com/model-studio/error-code#token-limit","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            "Retryable RateLimited Tokens _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit exceeded: free-models-per-min. Add 10 credits to unlock 1000 free model requests per day","code":429}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":"Too Many Requests","message":"You have exceeded your usage limits. Please try again later or contact us to explore dedicated capacity."}"#,
            "Retryable RateLimited _ _ Api",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Invalid value: 'you have insufficient credits and your balance is too low'. Supported values are: 'auto'.","type":"invalid_request_error","param":"tool_choice"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            422,
            "",
            r#"{"detail":[{"loc":["body","x"],"msg":"field required","type":"missing","input":{"error":{"code":"insufficient_quota"}}}]}"#,
            "Permanent InvalidRequest",
        ),
        (
            429,
            "",
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","violated-policies":["minute"]}"#,
            "Retryable RateLimited _ _ Api",
        ),
        (
            429,
            "",
            r#"{"message":"Requests per minute limit exceeded - too many requests sent.","type":"too_many_requests_error","param":"quota","code":"request_quota_exceeded"}"#,
            "Retryable RateLimited Requests _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model with base model: x. Please submit a quota increase request.","code":429,"status":"RESOURCE_EXHAUSTED"}}"#,
            "Retryable RateLimited Requests",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Invalid messages: [{'role': 'user', 'content': 'is my credit balance too low?'}]"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Invalid messages: [{\"role\":\"user\",\"content\":\"insufficient_quota: my credit balance is too low\"}]"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"OpenAIException - {'message': 'Your credit balance is too low', 'type': 'x'}"}}"#,
            "QuotaExhausted Balance",
        ),
    ]);
}

/// C6: rule 1, the window and the wait.
#[test]
fn windows() {
    check(&[
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s."}}"#,
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached on requests per day (RPD): Limit 10000, Used 10000, Requested 1. Please try again in 8.64s."}}"#,
            "Retryable RateLimited Day",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 100000, Used 99999, Requested 9. Please try again in 300s."}}"#,
            "Retryable RateLimited Day",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 100000, Used 99999, Requested 9. Please try again in 300.1s."}}"#,
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"organization TPD rate limit reached, current: 100","type":"rate_limit_reached_error"}}"#,
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"organization TPM rate limit reached, current: 100","type":"rate_limit_reached_error"}}"#,
            "Retryable RateLimited Tokens",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"request reached organization max RPM: 3, please try again after 1 seconds","type":"rate_limit_reached_error"}}"#,
            "Retryable RateLimited Requests",
        ),
        (
            429,
            "retry-after: 3000",
            r#"{"message":"Hourly limit reached"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "retry-after: 7200",
            r#"{"message":"limit of 10 requests per hour exceeded"}"#,
            "Retryable RateLimited Requests",
        ),
        (
            429,
            "retry-after: 3599",
            r#"{"message":"Rate limit exceeded"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "retry-after: 3600",
            r#"{"message":"Rate limit exceeded"}"#,
            "QuotaExhausted _ Day",
        ),
        (429, "retry-after: 86400", "", "QuotaExhausted"),
        (
            429,
            "",
            r#"{"message":"You are using a Trial key, which is limited to 10 API calls / minute."}"#,
            "Retryable RateLimited Requests",
        ),
        (
            429,
            "",
            r#"{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}"#,
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "",
            r#"{"message":"Tokens per day limit exceeded","type":"too_many_tokens_error","code":"token_quota_exceeded"}"#,
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "x-amzn-errortype: ThrottlingException",
            r#"{"message":"Too many tokens per day, please wait before trying again."}"#,
            "QuotaExhausted DailyAllowance Day _ Api",
        ),
        (
            429,
            "x-amzn-errortype: ThrottlingException",
            r#"{"message":"Too many requests, please wait before trying again."}"#,
            "Retryable RateLimited _ Refused Api",
        ),
        (
            429,
            "retry-after: 40000 | x-ratelimit-type: UserByModelByDay",
            "",
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "retry-after: 40 | x-ratelimit-type: UserByModelByMinute",
            "",
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"user_weekly_rate_limited","message":"You've exceeded your weekly rate limit. Please try again in 58 hours."}}"#,
            "QuotaExhausted PlanWindow Day",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Sorry, you have exceeded your rate limits. Please try again in 58 hours."}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour."}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"1310","message":"Weekly/Monthly limit exhausted."}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"1302","message":"Rate limit reached for requests"}}"#,
            "Retryable RateLimited _ Refused Api",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"1303","message":"High frequency usage of this API, please reduce the frequency"}}"#,
            "Retryable RateLimited _ _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"1305","message":"The API has triggered a rate limit."}}"#,
            "Retryable Overloaded",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"usage limit exceeded, weekly limit reached (2056)","type":"rate_limit_error"}}"#,
            "QuotaExhausted PlanWindow _ _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":9000}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "retry-after: 13000 | anthropic-ratelimit-unified-status: rejected",
            r#"{"error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit."}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "anthropic-ratelimit-unified-status: rejected",
            r#"{"error":{"type":"rate_limit_error","message":"Error"}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "retry-after: 20 | anthropic-ratelimit-unified-status: allowed",
            r#"{"error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit."}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"type":"error","error":{"type":"FreeUsageLimitError","message":"Rate limit exceeded. Please try again later."}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":"you have reached your session usage limit, upgrade for higher limits"}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "x-ratelimit-remaining-minute: 4 | x-ratelimit-remaining-day: 0 | retry-after: 9000",
            r#"{"message":"API rate limit exceeded"}"#,
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "x-ratelimit-remaining-minute: 0 | x-ratelimit-remaining-day: 90 | retry-after: 9",
            r#"{"message":"API rate limit exceeded"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "x-ratelimit-limit-minute: 60 | x-ratelimit-remaining-minute: 59",
            r#"{"message":"API rate limit exceeded"}"#,
            "QuotaExhausted",
        ),
        (
            429,
            r#"ratelimit: "day";r=0;t=5000 | ratelimit-policy: "day";q=100;w=86400"#,
            "",
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            r#"ratelimit: "day";r=0;t=50 | ratelimit-policy: "day";q=100;w=86400"#,
            "",
            "Retryable RateLimited Day",
        ),
        (
            429,
            r#"ratelimit: "m";r=0;t=50 | ratelimit-policy: "m";q=100;w=60"#,
            "",
            "Retryable RateLimited",
        ),
        (
            403,
            "",
            r#"{ "statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 00:01:12." }"#,
            "QuotaExhausted _ _ _ Proxy",
        ),
        (
            429,
            "x-amzn-errortype: LimitExceededException | x-amz-apigw-id: x",
            r#"{"message":"Limit Exceeded"}"#,
            "QuotaExhausted _ _ _ Proxy",
        ),
        (
            429,
            "x-amzn-errortype: LimitExceededException | x-amz-apigw-id: x",
            r#"{"message":"Too Many Requests"}"#,
            "Retryable _ _ _ Proxy",
        ),
        (
            429,
            "",
            r#"{"success":false,"errors":[{"code":4006,"message":"you have used up your daily free allocation of 10,000 neurons"}]}"#,
            "QuotaExhausted DailyAllowance _ _ Api",
        ),
        (
            429,
            "",
            r#"{"success":false,"errors":[{"code":3040,"message":"Capacity temporarily exceeded, please try again."}]}"#,
            "Retryable Overloaded _ _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"每天请求次数已达上限"}}"#,
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"每分钟请求次数超过限制"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"本月调用次数已用完"}}"#,
            "QuotaExhausted DailyAllowance Day",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Daily limit reached","metadata":{"limit_source":"openrouter_free_tier_daily"}}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error_code":17,"error_msg":"Open api daily request limit reached"}"#,
            "QuotaExhausted DailyAllowance _ _ Api",
        ),
        (
            429,
            "",
            r#"{"error_code":18,"error_msg":"Open api qps request limit reached"}"#,
            "Retryable RateLimited",
        ),
        (
            403,
            "",
            r#"{"error":{"code":403,"message":"Daily Limit Exceeded","errors":[{"reason":"dailyLimitExceeded"}]}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            403,
            "",
            r#"{"error":{"code":403,"message":"User Rate Limit Exceeded","errors":[{"reason":"userRateLimitExceeded"}]}}"#,
            "Retryable RateLimited",
        ),
        // the name of a model is no limit's name
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached for 10KRPD-200TPD in organization x on tokens per min. Limit: 10000 / min. Please try again in 6ms."}}"#,
            "Retryable RateLimited Tokens",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached for model `daily-news-1` on tokens per minute (TPM): Limit 6000, Used 6000, Requested 1."}}"#,
            "Retryable RateLimited Tokens",
        ),
    ]);
}

#[test]
fn google() {
    check(&[
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"20s"}]}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"retryDelay":"20s","@type":"type.googleapis.com/google.rpc.RetryInfo"},{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}]}}]"#,
            "Retryable RateLimited Requests",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota exceeded for requests per day.","details":[]}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"* Quota exceeded for metric: x, limit: 0, model: y\nPlease retry in 9s."}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"* Quota exceeded for metric: x, limit: 0.5, model: y\nPlease retry in 9s."}}"#,
            "Retryable",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"* Quota exceeded for metric: x, limit: 05, model: y\nPlease retry in 9s."}}"#,
            "Retryable",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You have exhausted your capacity on this model.","details":[{"reason":"QUOTA_EXHAUSTED"}]}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"No capacity available for model x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"900s"}]}}"#,
            "Retryable Overloaded",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"301s"}]}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"300s"}]}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
            "Retryable RateLimited",
        ),
        (
            503,
            "",
            r#"{"error":{"code":503,"message":"The service is currently unavailable.","status":"UNAVAILABLE"}}"#,
            "Retryable Overloaded",
        ),
        (
            400,
            "",
            r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#,
            "Permanent Permission",
        ),
        (
            400,
            "",
            r#"{"error":{"code":400,"message":"Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.","status":"FAILED_PRECONDITION"}}"#,
            "Permanent Permission",
        ),
        (
            403,
            "",
            r#"{"error":{"code":403,"message":"This API method requires billing to be enabled.","status":"PERMISSION_DENIED","details":[{"reason":"BILLING_DISABLED"}]}}"#,
            "Permanent Permission",
        ),
        (
            400,
            "",
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            "Permanent Authentication",
        ),
        (
            500,
            "",
            r#"{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}"#,
            "Retryable ServerError _ Ambiguous Api",
        ),
    ]);
}

/// C8: no allowance at all, and requests that never fit.
#[test]
fn zero_and_too_large() {
    check(&[
        (
            429,
            "x-ratelimit-limit-requests: 0",
            r#"{"error":{"message":"Rate limit exceeded"}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "x-ratelimit-limit-requests: 0 | retry-after: 5",
            "",
            "QuotaExhausted",
        ),
        (
            429,
            "x-ratelimit-limit-tokens: -1 | x-ratelimit-remaining-tokens: -1 | x-ratelimit-reset-tokens: 0",
            "",
            "Retryable",
        ),
        (200, "x-ratelimit-limit-requests: 0", "{}", "Success"),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached for x on requests per min. Limit: 0/1min. Current: 1/1min.","code":"rate_limit_exceeded"}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Limit: 0.000000 / min. Current: 20 / min."}}"#,
            "QuotaExhausted",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Request too large for x on tokens per min (TPM): Limit 30,000, Requested 37,313."}}"#,
            "Permanent TooLarge _ Refused",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached on tokens per minute: Limit 7000, Used 10, Requested 7895. Please try again in 9s."}}"#,
            "Permanent TooLarge",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached on tokens per minute: Limit 7000, Used 6999, Requested 6895. Please try again in 9s."}}"#,
            "Retryable RateLimited Tokens",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached on tokens per min. Limit: 150000 / min. Current: 152160 / min."}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":"Too many tokens. Your rate limit is — Tokens per Minute (actual/limit): 65605/16000."}"#,
            "Retryable RateLimited Tokens",
        ),
        (
            413,
            "",
            r#"{"error":{"message":"Request too large","code":"rate_limit_exceeded","type":"tokens"}}"#,
            "Permanent TooLarge",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.","code":"context_length_exceeded"}}"#,
            "Permanent TooLarge",
        ),
        (
            400,
            "",
            r#"{"error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
            "Permanent",
        ),
        (
            500,
            "",
            r#"{"error":{"message":"The prompt is too long for the context window"}}"#,
            "Permanent TooLarge",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later.","type":"rate_limit_error"}}"#,
            "Retryable RateLimited InputTokens",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"This request would exceed the rate limit of 8,000 output tokens per minute.","type":"rate_limit_error"}}"#,
            "Retryable RateLimited OutputTokens",
        ),
        (
            429,
            "",
            r#"{"error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."}}"#,
            "Permanent Permission",
        ),
    ]);
}

#[test]
fn capacity() {
    check(&[
        (
            529,
            "",
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "Retryable Overloaded _ Refused Api",
        ),
        (
            500,
            "",
            r#"{"type":"error","error":{"type":"api_error","message":"Overloaded"}}"#,
            "Retryable Overloaded _ Ambiguous",
        ),
        (
            400,
            "",
            r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "Retryable Overloaded _ Refused",
        ),
        (
            503,
            "",
            r#"{"error":{"code":"server_is_overloaded"}}"#,
            "Retryable Overloaded _ Refused",
        ),
        (503, "retry-after: 4", "", "Retryable Overloaded _ Refused"),
        (503, "", "", "Retryable Overloaded _ Ambiguous"),
        (
            503,
            "",
            r#"{"error":{"code":"slow_down"}}"#,
            "Retryable RateLimited Growth Refused",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"This request would exceed your organization's maximum usage increase rate for input tokens per minute","type":"rate_limit_error"}}"#,
            "Retryable RateLimited Growth",
        ),
        (
            429,
            "",
            r#"{"code":"Throttling.BurstRate","message":"Request rate increased too quickly."}"#,
            "Retryable RateLimited Growth _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Service tier capacity exceeded for this model.","type":"invalid_request_error","code":null}}"#,
            "Retryable Overloaded",
        ),
        (
            498,
            "",
            r#"{"error":{"message":"Flex tier capacity exceeded","code":"capacity_exceeded"}}"#,
            "Retryable Overloaded _ Refused",
        ),
        (
            429,
            "",
            r#"{"error":{"type":"rate_limit_error","message":"The engine is currently overloaded, please try again later"}}"#,
            "Retryable Overloaded",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"The model is at capacity. Upgrade your plan or buy credits for priority."}}"#,
            "Retryable Overloaded",
        ),
        (
            503,
            "",
            r#"{"error":{"message":"当前服务器繁忙，请稍后再试"}}"#,
            "Retryable Overloaded",
        ),
        (
            503,
            "",
            r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#,
            "Retryable Overloaded _ _ Api",
        ),
        (
            500,
            "",
            r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#,
            "Retryable Overloaded _ _ Api",
        ),
        (
            503,
            "",
            r#"{"error":"Model x/y is currently loading","estimated_time":4000.0}"#,
            "Retryable ModelLoading _ Refused Api",
        ),
        (
            503,
            "",
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            "Retryable ModelLoading",
        ),
        (
            429,
            "x-amzn-errortype: ModelNotReadyException",
            r#"{"message":"Model is not ready for inference."}"#,
            "Retryable ModelLoading",
        ),
        (
            429,
            "retry-after: 7200",
            r#"{"error":{"message":"The model is overloaded. Please try again later."}}"#,
            "Retryable Overloaded",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"No deployments available for selected model, Try again in 4000 seconds.","type":"None","param":"None","code":"429"}}"#,
            "Retryable RateLimited _ _ Proxy",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"limit_source":"openrouter_shared_capacity"}}}"#,
            "Retryable RateLimited _ _ Api",
        ),
        (
            503,
            "",
            r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"x"}"#,
            "Retryable Overloaded",
        ),
        (
            403,
            "x-amzn-errortype: AccessDeniedException",
            r#"{"message":"You are not authorized because your subscription for this model is still being processed. Try again after 2 minutes."}"#,
            "Retryable _ _ _ Api",
        ),
        (
            503,
            "",
            r#"{"error":{"code":"ServerOverloaded","message":"x"}}"#,
            "Retryable Overloaded _ Refused",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Invalid tool: overloaded functions are not supported","type":"invalid_request_error"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Concurrency limit reached for requests","type":"rate_limit_error","code":"429"}}"#,
            "Retryable RateLimited Concurrency",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Too many concurrent connections: concurrency 5 exceeds 5"}}"#,
            "Retryable RateLimited Concurrency",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"1302","message":"您当前使用该API的并发数过高"}}"#,
            "Retryable RateLimited Concurrency",
        ),
    ]);
}

#[test]
fn refusals() {
    check(&[
        // Zhipu: not in the plan, not a fair use; in the shape of Anthropic the number stands in the message
        (
            429,
            "",
            r#"{"error":{"code":"1311","message":"当前订阅套餐暂未开放GLM-5权限"}}"#,
            "Permanent Permission _ _ Api",
        ),
        (
            429,
            "",
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"[1313][Your account's current usage pattern does not comply with the Fair Usage Policy, and your request frequency has been limited.][20260610]"}}"#,
            "Permanent Permission _ _ Api",
        ),
        // MiniMax: not in the plan
        (
            429,
            "",
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"your current token plan not support model, m (2061)"}}"#,
            "Permanent Permission _ _ Api",
        ),
        // no retry solves a challenge, under whatever status it comes
        (
            503,
            "cf-mitigated: challenge",
            "<html><title>Just a moment...</title></html>",
            "Permanent Permission _ _ Cdn",
        ),
        (
            403,
            "",
            r#"{"error":{"type":"forbidden","message":"Request not allowed"}}"#,
            "Permanent Permission _ Refused",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"W&B Inference isn't available for personal accounts","type":"rate_limit_error","code":"429"}}"#,
            "Permanent Permission",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"This organization has been disabled.","type":"invalid_request_error"}}"#,
            "Permanent Permission",
        ),
        (
            401,
            "",
            r#"{"error":{"message":"Your account has been deactivated","code":"account_deactivated"}}"#,
            "Permanent Permission",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Your account has been suspended for violation of our terms. Please check your billing details."}}"#,
            "Permanent Permission",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"1112","message":"Your account has been locked, please contact customer service"}}"#,
            "Permanent Permission",
        ),
        (
            400,
            "",
            r#"{"error":{"code":"content_policy_violation","message":"Your request was rejected as a result of our safety system. Please modify and retry."}}"#,
            "Permanent ContentPolicy",
        ),
        (
            400,
            "",
            r#"{"code":"DataInspectionFailed","message":"Input data may contain inappropriate content."}"#,
            "Permanent ContentPolicy",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":1026,"status_msg":"new_sensitive"}}"#,
            "Permanent ContentPolicy",
        ),
        (
            400,
            "",
            r#"{"error":{"code":"1301","message":"系统检测到输入或生成内容可能包含不安全或敏感内容"}}"#,
            "Permanent ContentPolicy",
        ),
        (
            404,
            "",
            r#"{"status":404,"title":"Not Found","detail":"Function 'x': Not found for account 'y'"}"#,
            "Permanent NotFound",
        ),
        (
            404,
            "",
            r#"{"error":{"message":"The model `rate-limit-1` does not exist or you do not have access to it.","code":"model_not_found"}}"#,
            "Permanent",
        ),
        (
            404,
            "",
            r#"{"error":{"code":"ModelNotOpen","message":"Your account has not activated the model"}}"#,
            "Permanent",
        ),
        (
            400,
            "",
            r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: x."}"#,
            "Permanent Authentication",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":1004,"status_msg":"login fail"}}"#,
            "Permanent Authentication",
        ),
        (
            400,
            "x-amzn-errortype: ValidationException",
            r#"{"message":"too many tokens in your request"}"#,
            "Permanent",
        ),
        (
            403,
            "x-amzn-errortype: AccessDeniedException",
            r#"{"message":"User is not authorized"}"#,
            "Permanent Permission _ _ Api",
        ),
        (424, "", r#"{"error":{"message":"Failed dependency"}}"#, "Permanent"),
        (
            403,
            "",
            r#"{"message":"Resource not accessible by integration"}"#,
            "Permanent Permission",
        ),
        (
            403,
            "",
            r#"{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}"#,
            "Retryable RateLimited",
        ),
        (
            403,
            "x-ratelimit-remaining: 0",
            r#"{"message":"API rate limit exceeded for user ID 1."}"#,
            "Retryable RateLimited",
        ),
        (
            403,
            "",
            r#"{"success":false,"errors":[{"code":3023,"message":"Service unavailable for account"}]}"#,
            "Permanent Permission _ _ Api",
        ),
        (
            429,
            "",
            r#"{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"x"}"#,
            "Permanent",
        ),
        (
            409,
            "",
            r#"{"error":{"code":"idempotency_key_in_use","type":"invalid_request_error"}}"#,
            "Retryable Conflict _ Refused",
        ),
        (
            400,
            "",
            r#"{"error":{"type":"idempotency_error","message":"Keys for idempotent requests can only be used with the same parameters"}}"#,
            "Permanent",
        ),
    ]);
}

/// I3: errors under a success status, and what is none.
#[test]
fn inside_a_success() {
    check(&[
        (
            200,
            "",
            r#"{"choices":[{"message":{"content":"error: insufficient_quota"}}],"error":null}"#,
            "Success",
        ),
        (
            200,
            "",
            r#"{"id":"p","status":"failed","error":"out of memory"}"#,
            "Success",
        ),
        (
            200,
            "",
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}"#,
            "Success",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":0,"status_msg":"success"},"choices":[]}"#,
            "Success",
        ),
        (200, "", "<html>overloaded</html>", "Success"),
        (
            200,
            "",
            "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
            "Success",
        ),
        (
            200,
            "",
            r#"{"id":"gen","error":{"message":"Provider returned error","code":502}}"#,
            "Retryable ServerError _ Ambiguous Api",
        ),
        (
            200,
            "",
            r#"{"error":{"message":"Rate limit exceeded: free-models-per-day. ","code":"429"}}"#,
            "QuotaExhausted DailyAllowance _ Refused",
        ),
        (
            200,
            "",
            r#"{"error":{"message":"Insufficient credits","code":402}}"#,
            "QuotaExhausted Balance",
        ),
        (
            200,
            "",
            r#"{"choices":[{"finish_reason":"error","error":{"code":429,"message":"Rate limited"}}]}"#,
            "Retryable",
        ),
        (
            200,
            "",
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            "Retryable Overloaded _ Refused",
        ),
        (
            200,
            "",
            "data: {\"choices\":[]}\n\ndata: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            "Retryable Overloaded _ Ambiguous",
        ),
        (
            200,
            "",
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"bad\"}}\n\n",
            "Permanent InvalidRequest",
        ),
        (
            200,
            "",
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"Internal server error\"}}\n\n",
            "Retryable ServerError _ Ambiguous",
        ),
        (
            200,
            "",
            "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"x\"}}}\n\n",
            "QuotaExhausted Balance",
        ),
        (
            200,
            "",
            "data: {\"event_type\":\"error\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"x\"}}\n\n",
            "Retryable RateLimited",
        ),
        (
            200,
            "",
            "{\"response\":\"a\"}\n{\"error\":\"an error was encountered while running the model\"}\n",
            "Retryable ServerError _ Ambiguous",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":1039,"status_msg":"token limit"}}"#,
            "Retryable RateLimited Tokens",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#,
            "Retryable RateLimited _ _ Api",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":1024,"status_msg":"internal error"}}"#,
            "Retryable ServerError",
        ),
        (
            429,
            "content-type: text/event-stream",
            r#"{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}"#,
            "Retryable RateLimited",
        ),
    ]);
    let record = classify(
        &Method::GET,
        200,
        &HeaderMap::new(),
        br#"{"status":"failed","error":{"code":"server_error"}}"#,
    );
    assert_eq!(record, None);
}

#[test]
fn wrapped_by_a_gateway() {
    check(&[
        // as Python prints what it caught: bytes, and dictionaries with details
        (
            429,
            "",
            r#"{"error":{"message":"litellm.RateLimitError: VertexAIException - b'{\\n  \"error\": {\\n    \"code\": 429,\\n    \"message\": \"Resource has been exhausted (e.g. check quota).\",\\n    \"status\": \"RESOURCE_EXHAUSTED\"\\n  }\\n}\\n'. Received Model Group=m","type":"throttling_error","param":null,"code":"429"}}"#,
            "Retryable RateLimited _ _ Proxy",
        ),
        (
            500,
            "",
            r#"{"detail":"429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'You exceeded your current quota', 'details': [{'@type': 'type.googleapis.com/google.rpc.QuotaFailure', 'violations': [{'quotaId': 'GenerateRequestsPerMinutePerProjectPerModel-FreeTier'}]}]}}"}"#,
            "Retryable RateLimited Requests _ _",
        ),
        (
            500,
            "",
            r#"{"detail":"429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'details': [{'@type': 'type.googleapis.com/google.rpc.QuotaFailure', 'violations': [{'quotaId': 'GenerateRequestsPerDayPerProjectPerModel-FreeTier'}]}, {'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '23s'}]}}"}"#,
            "QuotaExhausted DailyAllowance Day _ _",
        ),
        (
            500,
            "",
            r#"Error code: 429 - {'error': {'code': '1113', 'message': "Can't go on"}}"#,
            "QuotaExhausted Balance _ _ Proxy",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"litellm.BadRequestError: AnthropicException - {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"Your credit balance is too low to access the Anthropic API.\"}}","type":"invalid_request_error","param":null,"code":"400"}}"#,
            "QuotaExhausted Balance _ _ Proxy",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"litellm.RateLimitError: OpenAIException - {'error': {'message': 'You exceeded your current quota', 'type': 'insufficient_quota', 'code': 'insufficient_quota'}}","type":"throttling_error","code":"429"}}"#,
            "QuotaExhausted Balance _ _ Proxy",
        ),
        (
            503,
            "",
            r#"{"error":{"message":"{\"error\":{\"message\":\"{\\n \\\"error\\\": {\\\"code\\\": 429, \\\"status\\\": \\\"RESOURCE_EXHAUSTED\\\", \\\"message\\\": \\\"limit: 0\\\"}}\",\"code\":429}}"}}"#,
            "QuotaExhausted",
        ),
        (
            502,
            "",
            r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"}}}"#,
            "Retryable Overloaded _ Ambiguous",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"error code: 1015"}}}"#,
            "Retryable RateLimited _ _ Api",
        ),
        (
            429,
            "",
            r#"Error code: 429 - {'error': {'message': 'x', 'type': 'insufficient_quota', 'param': None, 'code': 'insufficient_quota'}}"#,
            "QuotaExhausted Balance",
        ),
        (
            502,
            "",
            r#"All models failed: {"error":{"code":"1113","message":"x"}}"#,
            "QuotaExhausted Balance _ _ Proxy",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"No deployments available for selected model, Try again in 5 seconds. Passed model=x. cooldown_list=[('a', {'exception_received': 'insufficient_quota: your credit balance is too low'})]","type":"None","param":"None","code":"429"}}"#,
            "Retryable RateLimited _ _ Proxy",
        ),
        (
            412,
            "",
            r#"{"error":{"message":"APIError: X - {\"error\":{\"message\":\"Account is suspended, possibly due to failure to pay past invoices\",\"code\":\"PRECONDITION_FAILED\"}}. Received Model Group=m","type":null,"code":"412"}}"#,
            "QuotaExhausted _ _ _ Proxy",
        ),
        // cut by a bounded look at the body
        (
            429,
            "",
            r#"{"error":{"type":"insufficient_quota","message":"You exceeded your cur"#,
            "QuotaExhausted Balance",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Your credit balance is too low to acc"#,
            "QuotaExhausted Balance",
        ),
        // C9
        (
            429,
            "",
            "<html><body>Slow</body></html>",
            "Retryable RateLimited _ Refused Unknown",
        ),
        (429, "", "\u{0}\u{1}not text", "Retryable RateLimited"),
        // I6: the status decides where the body knows nothing
        (
            503,
            "",
            r#"{"error":{"code":503,"status":"UNKNOWN","message":"x"}}"#,
            "Retryable",
        ),
    ]);
}

#[test]
fn layers() {
    check(&[
        // Akamai writes its marks in entities
        (
            503,
            "server: AkamaiGHost",
            "<HTML><HEAD><TITLE>Error</TITLE></HEAD><BODY>An error occurred.<p>Reference&#32;&#35;97&#46;3c&#46;1</BODY></HTML>",
            "Retryable _ _ _ Cdn",
        ),
        (
            403,
            "",
            "<HTML><BODY><H1>Access Denied</H1><P>https&#58;&#47;&#47;errors&#46;edgesuite&#46;net&#47;18&#46;d</BODY></HTML>",
            "Permanent _ _ _ Cdn",
        ),
        // HAProxy signs nothing
        (
            504,
            "",
            "<html><body><h1>504 Gateway Time-out</h1>\nThe server didn't respond in time.\n</body></html>",
            "Retryable Timeout _ _ Proxy",
        ),
        (
            429,
            "",
            "<html><body><h1>429 Too Many Requests</h1>\nYou have sent too many requests in a given amount of time.\n</body></html>",
            "Retryable RateLimited _ _ Proxy",
        ),
        (
            429,
            "server: cloudflare | cf-ray: x",
            r#"{"error":{"type":"rate_limit_error","message":"Slow"}}"#,
            "_ _ _ _ Api",
        ),
        (
            529,
            "server: cloudflare | cf-ray: x | via: 1.1 google",
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "_ _ _ _ Api",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Too Many Requests"}}"#,
            "_ _ _ _ Unknown",
        ),
        (503, "", r#"{"message":"Service Unavailable"}"#, "_ _ _ _ Unknown"),
        (
            429,
            "",
            r#"{"error":{"code":429,"message":"too many requests."}}"#,
            "_ _ _ _ Unknown",
        ),
        (
            502,
            "server: cloudflare",
            "<html><head><title>api.example.com | 502: Bad gateway</title></head><body><div id=\"cf-wrapper\"><a href=\"/cdn-cgi/x\"></a></div></body></html>",
            "Retryable ServerError _ Ambiguous Cdn",
        ),
        (
            524,
            "server: cloudflare | cf-ray: x",
            "<!DOCTYPE html><title>api.example.com | 524: A timeout occurred</title>",
            "Retryable Timeout _ Ambiguous Cdn",
        ),
        (525, "", "<html>/cdn-cgi/</html>", "Permanent _ _ _ Cdn"),
        (520, "", "error code: 520", "Retryable _ _ _ Cdn"),
        (403, "", "error code: 1020", "Permanent _ _ _ Cdn"),
        (
            403,
            "cf-mitigated: challenge",
            "<html><title>Just a moment...</title></html>",
            "Permanent _ _ _ Cdn",
        ),
        (
            429,
            "server: cloudflare",
            r#"{"type":"https://developers.cloudflare.com/x","title":"Error 1015: You are being rate limited","status":429,"error_code":1015,"cloudflare_error":true,"retry_after":30}"#,
            "Retryable _ _ _ Cdn",
        ),
        (
            503,
            "server: AkamaiGHost",
            "<HTML><HEAD><TITLE>Error</TITLE></HEAD><BODY>An error occurred while processing your request.<p>Reference&#32;&#35;30&#46;x Reference #30.x</BODY></HTML>",
            "Retryable _ _ _ Cdn",
        ),
        (
            502,
            "server: CloudFront | x-cache: Error from cloudfront",
            "<HTML><PRE>Generated by cloudfront (CloudFront)</PRE></HTML>",
            "Retryable _ _ _ Cdn",
        ),
        (
            502,
            "x-cache: Error from cloudfront",
            r#"{"error":{"type":"server_error","message":"Oops, it failed"}}"#,
            "_ _ _ _ Api",
        ),
        (
            503,
            "via: 1.1 varnish | x-served-by: cache-fra-1",
            "<html><body>Guru Mediation: Guru Meditation: <p>Varnish cache server</p></body></html>",
            "_ _ _ _ Cdn",
        ),
        (
            503,
            "via: 1.1 varnish",
            "<html><body><h3>Guru Meditation:</h3><p>Varnish cache server</p></body></html>",
            "_ _ _ Ambiguous Proxy",
        ),
        (
            504,
            "",
            "<html><center><h1>504</h1></center><hr><center>nginx/1.27</center></html>",
            "Retryable Timeout _ _ Proxy",
        ),
        (
            502,
            "server: awselb/2.0",
            "<html><center><h1>502 Bad Gateway</h1></center></html>",
            "_ _ _ _ Proxy",
        ),
        (
            503,
            "",
            "<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle this request.\n</body></html>",
            "_ _ _ _ Proxy",
        ),
        (
            503,
            "server: envoy",
            "no healthy upstream",
            "Retryable Overloaded _ _ Proxy",
        ),
        (
            504,
            "server: envoy",
            "upstream request timeout",
            "Retryable Timeout _ Ambiguous Proxy",
        ),
        (
            429,
            "server: envoy | x-envoy-ratelimited: true",
            "",
            "Retryable RateLimited",
        ),
        (429, "", "local_rate_limited", "Retryable _ _ _ Proxy"),
        (
            429,
            "x-retry-in: 105.7ms | retry-after: 0",
            "Too Many Requests",
            "Retryable _ _ _ Proxy",
        ),
        (
            429,
            "x-kong-response-latency: 1",
            r#"{"message":"API rate limit exceeded"}"#,
            "Retryable _ _ _ Proxy",
        ),
        (
            429,
            "x-kong-upstream-latency: 9 | x-kong-proxy-latency: 1",
            r#"{"error":{"message":"Slow","type":"rate_limit_error"}}"#,
            "Retryable _ _ _ Api",
        ),
        (
            429,
            "retry-after: 3",
            r#"{ "statusCode": 429, "message": "Rate limit is exceeded. Try again in 3 seconds." }"#,
            "Retryable _ _ _ Proxy",
        ),
        (
            429,
            "",
            "<html><title>Sorry...</title>your computer or network may be sending automated queries</html>",
            "Retryable _ _ _ Proxy",
        ),
        (
            403,
            "",
            "<html><title>Sorry...</title>your computer or network may be sending automated queries</html>",
            "Retryable _ _ _ Proxy",
        ),
        (
            504,
            "x-amz-apigw-id: x",
            r#"{"message":"Endpoint request timed out"}"#,
            "Retryable Timeout _ _ Proxy",
        ),
        (
            429,
            "server: nginx",
            r#"{"detail":"Request was throttled. Expected available in 9 seconds."}"#,
            "Retryable _ _ _ Api",
        ),
    ]);
}

/// The same kinds once more, as resellers, marketplaces and smaller vendors put them.
#[test]
fn in_other_words() {
    check(&[
        (
            429,
            "",
            r#"{"error":{"message":"You have hit your weekly limit. It resets Monday.","type":"rate_limit_error"}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Monthly quota exceeded for this API key"}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"You have exceeded the 100 requests in 1 minute limit","code":"rate_limited"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit: 10 requests in 60 seconds. Retry after 12 seconds"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"You have used 1000 of 1000 requests for today."}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error":"daily_limit_exceeded"}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error":"rate_limited","message":"Slow down"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"message":"You've reached your free plan's limit. Upgrade to continue."}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "",
            r#"{"detail":"Monthly request limit reached. Upgrade your plan."}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"message":"Limit exceeded for requests per second. Upgrade your plan for higher limits."}"#,
            "Retryable RateLimited",
        ),
        (
            402,
            "",
            r#"{"error":{"message":"Payment Required"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            403,
            "",
            r#"{"error":{"message":"Your request was blocked.","type":"forbidden"}}"#,
            "Permanent Permission",
        ),
        (
            404,
            "",
            r#"{"error":{"message":"The model `gpt-x` has been deprecated","type":"invalid_request_error","code":"model_not_found"}}"#,
            "Permanent NotFound",
        ),
        (
            503,
            "",
            r#"{"error":{"message":"The server is currently overloaded with other requests. Sorry about that!"}}"#,
            "Retryable Overloaded",
        ),
        (503, "", "Service Unavailable", "Retryable Overloaded"),
        (
            502,
            "",
            "<html><head><title>502 Bad Gateway</title></head></html>",
            "Retryable ServerError",
        ),
        (
            408,
            "",
            r#"{"error":{"message":"Request timed out.","type":"timeout"}}"#,
            "Retryable Timeout",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"当前分组上游负载已饱和，请稍后再试","type":"new_api_error"}}"#,
            "Retryable Overloaded",
        ),
        (
            403,
            "",
            r#"{"error":{"message":"该令牌额度已用尽","type":"new_api_error","code":"insufficient_user_quota"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"您的账户已达到速率限制，请控制请求频率","code":"1302"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"您的账户余额不足","code":"1113"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"已达到每周使用上限","code":"1310"}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"该API已触发流量限制","code":"1305"}}"#,
            "Retryable Overloaded",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"您的账户存在违规行为，已被锁定","code":"1121"}}"#,
            "Permanent Permission",
        ),
        (
            429,
            "",
            r#"{"code":"Throttling.AllocationQuota.FreeTierOnly","message":"free tier exhausted"}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"code":"Throttling.User","message":"Requests throttling triggered."}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"TooManyRequests","message":"x"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"QuotaExceeded","message":"Your account has exhausted the free trial quota of the model."}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"SetLimitExceeded","message":"Your account has reached the set inference limit for the model, and the model service has been paused."}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            429,
            "",
            r#"{"error":{"code":"RateLimitExceeded.EndpointTPMExceeded","message":"The Tokens Per Minute (TPM) limit of the associated endpoint for your account has been exceeded."}}"#,
            "Retryable RateLimited",
        ),
        (
            500,
            "",
            r#"{"error":{"code":"InternalServiceError","message":"internal error"}}"#,
            "Retryable ServerError",
        ),
        (
            400,
            "",
            r#"{"error":{"code":"SensitiveContentDetected","message":"x"}}"#,
            "Permanent ContentPolicy",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"The request body exceeded the maximum allowed length"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            429,
            "retry-after: 172800",
            r#"{"error":{"message":"Request rate limit"}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "retry-after: 3500",
            r#"{"error":{"message":"You exceeded the rate limit of 100 requests per hour"}}"#,
            "Retryable RateLimited",
        ),
        (
            200,
            "",
            r#"{"error":{"message":"Upstream error from provider: 502","code":502}}"#,
            "Retryable ServerError",
        ),
        (
            200,
            "",
            r#"data: {"error":{"code":429,"message":"slow down"}}"#,
            "Retryable RateLimited",
        ),
        (
            200,
            "",
            r#"{"error":{"code":403,"message":"Your input was flagged"}}"#,
            "Permanent ContentPolicy",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Your organization has reached its limit of 5 concurrent requests"}}"#,
            "Retryable RateLimited",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens","type":"invalid_request_error","param":"max_tokens","code":null}}"#,
            "Permanent InvalidRequest",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"","code":null}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of service 'x'","status":"RESOURCE_EXHAUSTED"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Quota exceeded for quota metric 'Requests' and limit 'Requests per day' of service 'x'","status":"RESOURCE_EXHAUSTED"}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            403,
            "",
            r#"{"error":{"errors":[{"domain":"usageLimits","reason":"dailyLimitExceeded"}],"code":403,"message":"Daily Limit Exceeded"}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"detail":{"status":"quota_exceeded","message":"This request exceeds your quota of 10000. You have 12 credits remaining, while 300 credits are required for this request."}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            401,
            "",
            r#"{"detail":{"status":"quota_exceeded","message":"This request exceeds your quota of 10000. You have 12 credits remaining, while 300 credits are required for this request."}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"detail":{"status":"too_many_concurrent_requests","message":"Too many concurrent requests."}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"detail":{"status":"system_busy","message":"The system is experiencing heavy traffic, please try again later."}}"#,
            "Retryable Overloaded",
        ),
        (
            402,
            "",
            r#"{"error":{"message":"Your account balance is negative","code":"402"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            401,
            "",
            r#"{"error":{"message":"Authentication Fails (no such user)","type":"authentication_error"}}"#,
            "Permanent Authentication",
        ),
        (
            429,
            "",
            r#"{"status":"error","error":"request_limit_reached","message":"Request limit: 60 rpm"}"#,
            "Retryable RateLimited",
        ),
        (529, "", r#"{"error":"x"}"#, "Retryable Overloaded"),
        (
            429,
            "",
            r#"{"error":{"type":"rate_limit_error","message":"Number of requests has exceeded your daily rate limit (https://docs.anthropic.com). Please try again later."}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error":{"type":"rate_limit_error","message":"This request would exceed your organization's monthly spend"}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            400,
            "",
            r#"{"error":{"type":"invalid_request_error","message":"Your organization has reached its monthly usage limits"}}"#,
            "QuotaExhausted SpendLimit",
        ),
        (
            400,
            "",
            r#"{"error":{"type":"invalid_request_error","message":"messages: text content blocks must contain non-whitespace text: 'Too many requests, your credit balance is too low'"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            403,
            "",
            r#"{"message":"You have triggered an abuse detection mechanism. Please wait a few minutes before you try again."}"#,
            "Retryable RateLimited",
        ),
        (
            403,
            "",
            "<html><head><title>Attention Required! | Cloudflare</title></head><body>Sorry, you have been blocked /cdn-cgi/</body></html>",
            "Permanent Permission",
        ),
        (
            500,
            "",
            r#"{"error":{"message":"quota check service failed: timeout contacting billing","type":"server_error"}}"#,
            "Retryable ServerError",
        ),
        (
            503,
            "",
            r#"{"error":{"message":"Billing service unavailable, please retry","type":"server_error"}}"#,
            "Retryable Overloaded",
        ),
        (
            500,
            "",
            r#"{"error":{"message":"Internal error. Ref 402","type":"api_error"}}"#,
            "Retryable ServerError",
        ),
        (
            429,
            "",
            r#"{"detail":"You have less than $5.0 credits, so the rate limit is 6 per minute"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":"Rate limit exceeded, add credits to raise it"}"#,
            "Retryable RateLimited",
        ),
        (
            503,
            "",
            "load balancer has exhausted all upstream connections",
            "Retryable Overloaded",
        ),
        (
            503,
            "",
            r#"{"message":"Load balancer: zero healthy targets"}"#,
            "Retryable Overloaded",
        ),
        (
            401,
            "",
            r#"{"message":"You need a valid subscription key. Access denied due to missing subscription key."}"#,
            "Permanent Authentication",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"请求速率过高，购买资源包可提升速率"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached for tokens. To get more, raise your spending limit."}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Your API key's rate limit was reached"}}"#,
            "Retryable RateLimited",
        ),
        (
            503,
            "",
            r#"{"error":{"message":"retry budget exceeded for upstream"}}"#,
            "Retryable Overloaded",
        ),
        (
            503,
            "",
            r#"{"message":"The service isn't available for the moment"}"#,
            "Retryable Overloaded",
        ),
        (
            500,
            "",
            r#"{"error":{"message":"content filter service timed out","type":"server_error"}}"#,
            "Retryable ServerError",
        ),
        (
            404,
            "",
            r#"{"error":{"message":"server resource not found"}}"#,
            "Permanent NotFound",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"You have exceeded the maximum number of tokens per minute"}}"#,
            "Retryable RateLimited",
        ),
        (
            403,
            "",
            r#"{"message":"You've exceeded the limit of projects"}"#,
            "Permanent Permission",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Too many requests in batch: at most 100","type":"invalid_request_error"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            429,
            "",
            r#"{"message":"Rate limit exceeded. Remaining limit: 0. Try again in 5s"}"#,
            "Retryable RateLimited",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"max_tokens must be at most (1024)","type":"invalid_request_error"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"max_tokens must be at most (1000)","type":"invalid_request_error"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            429,
            "",
            r#"{"message":"Too many requests. Our support answers within 24 hours every day"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"message":"You have made 50 requests in 24 hours, which is all your plan has"}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"message":"Too many requests, please try again in 24 minutes"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"code":429,"message":"You exceeded your current quota. Daily quotas reset at midnight.\nPlease retry in 20s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]}]}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached for gpt-4o in organization org-1 on images per min (IPM): Limit 5, Used 5, Requested 1. Please try again in 12s.","type":"images","code":"rate_limit_exceeded"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached for whisper on seconds of audio per day (ASD): Limit 28800, Used 28700, Requested 300. Please try again in 10m0s.","type":"seconds","code":"rate_limit_exceeded"}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached for whisper on seconds of audio per hour (ASH): Limit 7200, Used 7200, Requested 300. Please try again in 10m0s.","type":"seconds","code":"rate_limit_exceeded"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 1000, Used 900, Requested 1300. Please try again in 10m0s."}}"#,
            "Permanent TooLarge",
        ),
        (
            429,
            "x-ratelimit-remaining-tokens: 0|x-ratelimit-reset-tokens: 6m0s",
            r#"{"error":{"message":"x"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "x-ratelimit-remaining-requests-day: 0 | x-ratelimit-reset-requests-day: 33011.38",
            r#"{"message":"Requests limit"}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "x-ratelimit-remaining-tokens-minute: 0 | x-ratelimit-reset-tokens-minute: 33.38",
            r#"{"message":"Requests limit"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"fault":{"faultstring":"Spike arrest violation. Allowed rate : 10ps","detail":{"errorcode":"policies.ratelimit.SpikeArrestViolation"}}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"errors":[{"code":"rate_limit","message":"Slow down"}],"trace":"x"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"errors":[{"code":"token_quota_reached","message":"You've reached your monthly token quota"}],"trace":"x"}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            500,
            "",
            r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
            "Retryable ServerError",
        ),
        (
            400,
            "",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            403,
            "",
            r#"{"error":{"message":"This API key has exceeded its monthly limit"}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            451,
            "",
            r#"{"error":{"message":"Unavailable for legal reasons"}}"#,
            "Permanent Permission",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Model is rate limited upstream, retry shortly","code":429}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Free trial exhausted"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Usage limit reached. Upgrade to Pro."}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (425, "", r#"{"message":"Too early"}"#, "Retryable Other"),
        (
            422,
            "",
            r#"{"detail":[{"msg":"limit must be > 0","loc":["query","limit"]}]}"#,
            "Permanent InvalidRequest",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"limit_rpm/qwen-235b/abc: high demand, 20 requests per minute","code":429}}"#,
            "Retryable Overloaded",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"limit_rpd/some-model-xyz","code":429}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"message":"API calls quota exceeded! maximum admitted 10 per 1m."}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"message":"API calls quota exceeded! maximum admitted 1000 per Day."}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"message":"You have exceeded the DAILY quota for Requests on your current plan, BASIC. Upgrade your plan"}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"message":"You have exceeded the MONTHLY quota for Requests on your current plan, BASIC."}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"message":"You have exceeded the rate limit per minute for your plan, BASIC, by the API provider"}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"requests","code":"rate_limit_exceeded"}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "retry-after: 30",
            r#"{"error":{"message":"You exceeded your current quota","code":"rate_limit_exceeded"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Your requests to gpt-4 for gpt-4 in East US have exceeded the call rate limit for your current OpenAI S0 pricing tier. Please retry after 59 seconds."}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "retry-after: 1800",
            r#"{"error":{"message":"Requests have exceeded token rate limit of your current tier. Please retry after 1800 seconds."}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Too many requests for today, come back tomorrow","code":"daily_quota"}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            403,
            "",
            r#"{"error":{"message":"Your IP address is not in the allow list","code":"ip_not_authorized"}}"#,
            "Permanent Permission",
        ),
        (
            403,
            "",
            r#"{"error":{"code":"1220","message":"您无权访问 glm-4"}}"#,
            "Permanent Permission",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"This model is only available to Tier 5 users","type":"access_denied"}}"#,
            "Permanent Permission",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Your access was terminated due to violation of our policies","code":"access_terminated"}}"#,
            "Permanent Permission",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Your project is temporarily restricted due to unusual traffic, please slow down"}}"#,
            "Retryable RateLimited",
        ),
        (
            503,
            "",
            r#"{"error":{"message":"All available accounts are busy"}}"#,
            "Retryable Overloaded",
        ),
        (
            503,
            "",
            r#"{"error":{"message":"No available accounts: no available accounts","type":"api_error"}}"#,
            "Retryable Overloaded",
        ),
        (
            500,
            "",
            r#"{"error":{"message":"EngineCore encountered an issue. See stack trace","type":"InternalServerError","code":500}}"#,
            "Retryable ServerError",
        ),
        (
            400,
            "",
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).","type":"BadRequestError","param":null,"code":400}"#,
            "Permanent TooLarge",
        ),
        (
            400,
            "",
            r#"{"error":"model 'x' not found, try pulling it first"}"#,
            "Permanent NotFound",
        ),
        (
            404,
            "",
            r#"{"error":"model 'x' not found, try pulling it first"}"#,
            "Permanent NotFound",
        ),
        (
            500,
            "",
            r#"{"error":"llama runner process has terminated: signal: killed"}"#,
            "Retryable ServerError",
        ),
        (
            503,
            "",
            r#"{"error":"llm server loading model"}"#,
            "Retryable ModelLoading",
        ),
        (
            429,
            "",
            r#"{"error":"Model too busy, unable to get response in less than 60 second(s)","error_type":"overloaded"}"#,
            "Retryable Overloaded",
        ),
        (
            422,
            "",
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000","error_type":"validation"}"#,
            "Permanent InvalidRequest",
        ),
        (
            500,
            "",
            r#"{"error":"Request failed during generation: Server error: CUDA out of memory","error_type":"generation"}"#,
            "Retryable ServerError",
        ),
        (
            402,
            "",
            r#"{"error":"You have reached the free monthly usage limit for cohere. Subscribe to PRO"}"#,
            "QuotaExhausted SpendLimit",
        ),
        (504, "", r#"{"error":"Model x time out"}"#, "Retryable Timeout"),
        (
            429,
            "",
            r#"{"message":"Please wait and try again later","data":null}"#,
            "Retryable RateLimited",
        ),
        (
            403,
            "",
            r#"{"code":403,"message":"RPM limit exceeded. Please complete identity verification to lift the restriction."}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"code":50001,"message":"TPD limit reached","data":null}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            503,
            "",
            r#"{"code":50505,"message":"Model service overloaded. Please try again later.","data":null}"#,
            "Retryable Overloaded",
        ),
        (
            400,
            "",
            r#"{"code":20012,"message":"Model does not exist. Please check it carefully.","data":null}"#,
            "Permanent NotFound",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"You have exceeded your 5-hour usage limit. Resets in 2h."}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "retry-after: 7200",
            r#"{"error":{"message":"5h limit reached"}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "retry-after: 120",
            r#"{"error":{"message":"5-hour limit reached"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"message":"Your weekly quota of tokens is used up"}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"已达到每日调用上限"}}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"本周额度已用完，将于下周一重置"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"每分钟Token数超限(TPM)，请稍后重试"}}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"并发数超过限制"}}"#,
            "Retryable RateLimited",
        ),
        (
            403,
            "",
            r#"{"error":{"message":"您的账户已逾期，请及时付款"}}"#,
            "QuotaExhausted Balance",
        ),
        (
            403,
            "",
            r#"{"error":{"message":"您所在地区不支持该服务"}}"#,
            "Permanent Permission",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"输入内容包含敏感信息"}}"#,
            "Permanent ContentPolicy",
        ),
        (
            500,
            "",
            r#"{"error":{"message":"系统繁忙，请稍后重试"}}"#,
            "Retryable Overloaded",
        ),
        (
            503,
            "retry-after: 120",
            r#"<html><head><title>Maintenance</title></head></html>"#,
            "Retryable Overloaded",
        ),
        (
            429,
            "",
            r#"{"title":"Too Many Requests","status":429,"detail":"You have been rate limited. Retry in 10 seconds."}"#,
            "Retryable RateLimited",
        ),
        (
            429,
            "",
            r#"{"type":"about:blank","title":"Quota exceeded","detail":"Monthly request quota for your subscription has been exceeded."}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            403,
            "x-amzn-errortype: AccessDeniedException",
            r#"{"message":"You don't have access to the model with the specified model ID."}"#,
            "Permanent Permission",
        ),
        (
            429,
            "x-amzn-errortype: ThrottlingException",
            r#"{"message":"Your request rate is too high. Reduce the frequency of requests."}"#,
            "Retryable RateLimited",
        ),
        (
            400,
            "x-amzn-errortype: ThrottlingException",
            r#"{"message":"Rate exceeded"}"#,
            "Retryable RateLimited",
        ),
        (
            424,
            "x-amzn-errortype: ModelErrorException",
            r#"{"message":"The model encountered an unexpected error","originalStatusCode":500}"#,
            "Retryable ServerError",
        ),
        (
            408,
            "x-amzn-errortype: ModelTimeoutException",
            r#"{"message":"Model timed out"}"#,
            "Retryable Timeout",
        ),
        (
            429,
            "x-amzn-errortype: ThrottlingException",
            r#"{"message":"Too many tokens per day, please wait before trying again."}"#,
            "QuotaExhausted DailyAllowance",
        ),
        (
            400,
            "",
            r#"{"__type":"com.amazon.coral.service#ServiceQuotaExceededException","message":"quota"}"#,
            "QuotaExhausted Other",
        ),
        (
            429,
            "",
            r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#,
            "Retryable RateLimited",
        ),
        (
            400,
            "",
            r#"{"error":{"message":"Invalid value for 'rate limit': must be a number","type":"invalid_request_error"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            429,
            "",
            r#"{"error":{"message":"Limit 100 requests per 10 minutes. Retry in 8 minutes."}}"#,
            "Retryable RateLimited",
        ),
        (
            200,
            "",
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of request tokens has exceeded your per-minute rate limit"}}"#,
            "Retryable RateLimited",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":2056,"status_msg":"usage limit exceeded"}}"#,
            "QuotaExhausted PlanWindow",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":2013,"status_msg":"invalid params"}}"#,
            "Permanent InvalidRequest",
        ),
        (
            200,
            "",
            r#"{"base_resp":{"status_code":9999,"status_msg":"unknown"}}"#,
            "Retryable ServerError",
        ),
        (
            200,
            "",
            r#"{"error":{"type":"not_found_error","message":"model: x"},"type":"error"}"#,
            "Permanent NotFound",
        ),
        (
            404,
            "",
            r#"{"error":{"message":"No endpoints found for x. The model is overloaded","code":404}}"#,
            "Retryable Overloaded",
        ),
        (
            404,
            "",
            r#"{"error":{"message":"No endpoints found matching your data policy","code":404}}"#,
            "Permanent NotFound",
        ),
    ]);
}

/// Bodies whose class must not depend on how they are written down.
fn bodies() -> Vec<(u16, Value, Class)> {
    vec![
        (
            429,
            json!({"error":{"type":"insufficient_quota","code":null,"message":"x"}}),
            Class::QuotaExhausted,
        ),
        (
            429,
            json!({"error":{"type":"tokens","code":"rate_limit_exceeded","message":"on tokens per min (TPM): Limit 10, Requested 5"}}),
            Class::Retryable,
        ),
        (
            429,
            json!({"error":{"type":"tokens","code":"rate_limit_exceeded","message":"on tokens per min (TPM): Limit 10, Requested 50"}}),
            Class::Permanent,
        ),
        (
            400,
            json!({"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}),
            Class::QuotaExhausted,
        ),
        (
            529,
            json!({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}),
            Class::Retryable,
        ),
        (
            403,
            json!({"error":{"code":"unsupported_country_region_territory","message":"no"}}),
            Class::Permanent,
        ),
        (
            429,
            json!({"error":{"code":"1308","message":"Usage limit reached for 5 hour"}}),
            Class::QuotaExhausted,
        ),
        (200, json!({"error":{"code":429,"message":"slow"}}), Class::Retryable),
    ]
}

fn reordered(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let fields = object
                .iter()
                .rev()
                .map(|(key, value)| format!("{}:{}", json!(key), reordered(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[test]
fn the_class_does_not_depend_on_the_spelling() {
    for (status, body, class) in bodies() {
        let pretty = serde_json::to_string_pretty(&body).unwrap();
        let array = format!("[{pretty}]");
        let bom = format!("\u{feff}\r\n{body}\r\n\r\n");
        let relayed = json!({"error":{"message":format!("Upstream said: {body}"),"code":status}}).to_string();
        let raw =
            json!({"error":{"message":"Provider returned error","code":status,"metadata":{"raw":body.to_string()}}})
                .to_string();
        let spellings = [body.to_string(), pretty, array, bom, reordered(&body), relayed, raw];
        // an array under a success is an answer's own data
        for spelling in spellings
            .iter()
            .filter(|spelling| status != 200 || !spelling.starts_with('['))
        {
            let verdict = classify(&Method::POST, status, &HeaderMap::new(), spelling.as_bytes());
            assert_eq!(verdict.map(|verdict| verdict.class()), Some(class), "{spelling}");
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "\\PC{0,40}",
        "(limit: |requested |per |try again in |[0-9]{1,25}[a-z]?|[.,;' ]){0,12}"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from)
    ];
    let key = prop_oneof![
        "error",
        "message",
        "code",
        "type",
        "details",
        "metadata",
        "raw",
        "response",
        "choices",
        "status_msg",
        "[a-z]{0,6}"
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| fields.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read(status in 100_u16..1000, body in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = classify(&Method::POST, status, &HeaderMap::new(), &body);
    }

    #[test]
    fn any_json_is_read_whole_or_cut(status in 200_u16..600, body in any_json(), cut in 0.0..1.0_f64) {
        let text = body.to_string();
        let _ = classify(&Method::POST, status, &HeaderMap::new(), text.as_bytes());
        let end = (text.len() as f64 * cut) as usize;
        let _ = classify(&Method::POST, status, &HeaderMap::new(), &text.as_bytes()[..end]);
    }

    #[test]
    fn an_array_around_a_failure_changes_nothing(status in 400_u16..600, body in any_json()) {
        prop_assume!(body.is_object());
        let plain = classify(&Method::POST, status, &HeaderMap::new(), body.to_string().as_bytes());
        let wrapped = classify(&Method::POST, status, &HeaderMap::new(), format!("[\n{body:#}]").as_bytes());
        prop_assert_eq!(plain.map(|verdict| verdict.class()), wrapped.map(|verdict| verdict.class()));
    }
}

/// A body is somebody else's: whatever it is, reading it takes time in proportion to its length at most.
#[test]
fn hostile_bodies_take_no_longer() {
    let patterns = [
        "{",
        "[",
        "\"",
        "'",
        "“",
        "{\"a\":",
        "[{",
        "{\"error\":\"{",
        "limit 1, ",
        "limit: 1,111,",
        "per 5 ",
        "credit ",
        "('",
        "`",
        "data: {\n",
        "data: x\n\n",
        "\\\"{",
        "{'",
        "'type': '",
        "1",
        "AbAb",
        "余",
        "\u{0}",
    ];
    for pattern in patterns {
        for prefix in ["", "{\"error\":{\"message\":\"", "x "] {
            let body = format!("{prefix}{}", pattern.repeat(64 * 1024 / pattern.len()));
            let start = std::time::Instant::now();
            let _ = classify(&Method::POST, 429, &HeaderMap::new(), body.as_bytes());
            let took = start.elapsed();
            assert!(took.as_secs() < 5, "{prefix}{pattern} took {took:?}");
        }
    }
}
