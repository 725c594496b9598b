//! Who answered: the API, a proxy before it or a CDN's edge. The evidence is the shape of the body and headers that only the
//! answering party writes; brand names stand on relayed answers too and prove nothing alone.

use serde_json::Value;

use super::envelope::Shape;
use super::facts::{Facts, texts};
use crate::classify::Layer;

pub(super) fn of(facts: &Facts<'_>) -> Layer {
    match facts.envelope.shape() {
        Shape::Json | Shape::Stream { .. } => of_json(facts),
        Shape::Html => of_page(facts, facts.page().unwrap_or_default()),
        Shape::Text => of_text(facts, facts.text().unwrap_or_default()),
        Shape::Empty => of_nothing(facts),
    }
}

fn of_json(facts: &Facts<'_>) -> Layer {
    let root = facts.envelope.objects().next();
    if facts.has_header("cf-mitigated") || root.is_some_and(|root| root.contains_key("cloudflare_error")) {
        return Layer::Cdn;
    }
    let relayed = is_litellm(facts)
        || is_api_gateway(facts)
        || is_api_management(facts)
        || is_railway(facts)
        || facts.has_header("x-retry-in")
        || facts.has_header("x-envoy-ratelimited")
        || is_kong(facts);
    if relayed {
        Layer::Proxy
    } else if has_facts_of_its_own(facts) {
        Layer::Api
    } else if has_cdn_status(facts) {
        Layer::Cdn
    } else {
        Layer::Unknown
    }
}

/// A type, a code or a sentence that is more than the status in words.
fn has_facts_of_its_own(facts: &Facts<'_>) -> bool {
    let status = facts.status.as_str();
    let named = facts.envelope.objects().any(|object| {
        let code = object.get("code").or_else(|| object.get("errorCode"));
        let number = code
            .and_then(Value::as_u64)
            .is_some_and(|code| code.to_string() != status);
        let texts = texts(object, &["type", "code", "reason", "error_type", "error_code"]);
        let tells = |text: &str| !text.is_empty() && text != status && text != "None" && !is_status_phrase(facts, text);
        number || texts.into_iter().any(tells)
    });
    named
        || facts.has_header("x-amzn-errortype")
        || facts
            .sentences
            .iter()
            .any(|sentence| !is_status_phrase(facts, &sentence.lower))
}

fn is_status_phrase(facts: &Facts<'_>, text: &str) -> bool {
    const ALSO: &[&str] = &[
        "error",
        "toomanyrequests",
        "serviceunavailable",
        "badgateway",
        "gatewaytimeout",
        "forbidden",
        "internalservererror",
    ];
    let letters = |text: &str| {
        text.chars()
            .filter(|c| c.is_alphabetic())
            .collect::<String>()
            .to_lowercase()
    };
    let text = letters(text);
    text == letters(facts.status.canonical_reason().unwrap_or_default()) || ALSO.contains(&text.as_str())
}

fn is_litellm(facts: &Facts<'_>) -> bool {
    let none = |object: &serde_json::Map<String, Value>| texts(object, &["type", "param"]).any(|text| text == "None");
    facts.is_named("budget_exceeded")
        || facts.envelope.objects().any(none)
        || facts.says_any(&[
            "litellm.",
            "no deployments available",
            "budget has been exceeded",
            "received model group=",
        ])
}

/// Amazon's gateway puts its id on what it passes on as well, so that the exception or the bare phrase must be its own.
fn is_api_gateway(facts: &Facts<'_>) -> bool {
    const OWN: &[&str] = &[
        "TooManyRequestsException",
        "LimitExceededException",
        "ForbiddenException",
        "MissingAuthenticationTokenException",
        "IntegrationTimeout*",
    ];
    let own = OWN.iter().any(|name| facts.is_named(name)) || facts.says_any(&["^endpoint request timed out"]);
    facts.has_header("x-amz-apigw-id") && own
}

/// `{statusCode, message}` and nothing else is what Azure API Management writes.
fn is_api_management(facts: &Facts<'_>) -> bool {
    let root = facts.envelope.objects().next();
    root.is_some_and(|root| root.len() == 2 && root.contains_key("statusCode") && root.contains_key("message"))
}

/// Kong says how long itself took, and how long the upstream took if one was asked.
fn is_kong(facts: &Facts<'_>) -> bool {
    facts.has_header("x-kong-response-latency") && !facts.has_header("x-kong-upstream-latency")
}

fn is_railway(facts: &Facts<'_>) -> bool {
    facts.says("application failed to respond")
}

const ENTITIES: &[(&str, &str)] = &[("&#32;", " "), ("&#35;", "#"), ("&#46;", "."), ("&#47;", "/")];
/// What HAProxy writes under the title, one sentence for each status; it signs nothing.
const HAPROXY: &[&str] = &[
    "request forbidden by administrative rules",
    "your browser didn't send a complete request in time",
    "you have sent too many requests in a given amount of time",
    "the server returned an invalid or incomplete response",
    "no server is available to handle this request",
    "the server didn't respond in time",
];

fn of_page(facts: &Facts<'_>, page: &str) -> Layer {
    let spelled = page.to_lowercase();
    // Akamai writes all but letters and digits as entities
    let page = ENTITIES
        .iter()
        .fold(spelled.clone(), |page, (entity, c)| page.replace(entity, c));
    let has = |marks: &[&str]| marks.iter().any(|mark| page.contains(mark));
    let served_by = |brand: &str| {
        facts
            .header("server")
            .is_some_and(|server| server.to_lowercase().contains(brand))
    };
    let by_varnish = has(&["varnish cache server", "guru meditation"]);
    let by_fastly = facts
        .header("x-served-by")
        .is_some_and(|node| node.starts_with("cache-"));

    let cloudflare = facts.has_header("cf-mitigated")
        || has(&[
            "/cdn-cgi/",
            "cf-error-details",
            "cf-wrapper",
            "used cloudflare to restrict access",
            "cloudflare ray id",
        ])
        || (facts.has_header("cf-ray") && (is_cloudflare_title(&page) || has(&["just a moment..."])));
    let akamai =
        has(&["errors.edgesuite.net"]) || (has(&["reference #"]) && (served_by("akamai") || spelled.contains("&#35;")));
    let other_edge = has(&[
        "generated by cloudfront",
        "incapsula incident id",
        "_incapsula_resource",
        "x-azure-ref",
        "sucuri website firewall",
    ]) || (facts.has_header("x-azure-ref") && !has(&["microsoft-azure-application-gateway"]))
        || (by_varnish && by_fastly);
    let google = has(&["automated queries", "unusual traffic from your computer"])
        || (has(&[
            "the server encountered a temporary error and could not complete your request",
            "that’s all we know",
        ]) && has(&["<title>"]));
    let balancer = by_varnish
        || has(&[
            "<center>nginx",
            "<center>openresty",
            "<center>tengine",
            "<center>cloudflare-nginx",
            "<address>apache",
            "microsoft-azure-application-gateway",
        ])
        || has(HAPROXY)
        || has(&["awselb/2.0"])
        || served_by("awselb");
    if cloudflare || akamai || other_edge || has_cdn_status(facts) {
        Layer::Cdn
    } else if google || balancer || is_kong(facts) || facts.has_header("x-retry-in") || served_by("envoy") {
        Layer::Proxy
    } else {
        Layer::Unknown
    }
}

/// `api.example.com | 522: Connection timed out`
fn is_cloudflare_title(page: &str) -> bool {
    let title = page
        .split("<title>")
        .nth(1)
        .and_then(|rest| rest.split("</title>").next())
        .unwrap_or_default();
    let code = title
        .split_once('|')
        .and_then(|(_, rest)| rest.trim_start().split_once(':'));
    code.is_some_and(|(code, _)| code.len() == 3 && code.chars().all(|c| c.is_ascii_digit()))
}

fn of_text(facts: &Facts<'_>, text: &str) -> Layer {
    let text = text.to_lowercase();
    let starts = |marks: &[&str]| marks.iter().any(|mark| text.starts_with(mark));
    let quotes_an_answer = facts.envelope.objects().next().is_some();
    if is_bare_error_code(&text) || facts.has_header("cf-mitigated") || has_cdn_status(facts) {
        return Layer::Cdn;
    }
    let own_words = starts(&[
        "upstream connect error",
        "upstream request timeout",
        "no healthy upstream",
        "stream timeout",
        "local_rate_limited",
        "rbac: access denied",
        "max rate reached",
        "no available server",
        "no server is available",
        "an error occurred with your deployment",
        "function_invocation_timeout",
    ]);
    let own_headers = [
        "x-retry-in",
        "x-envoy-overloaded",
        "x-envoy-ratelimited",
        "x-vercel-error",
    ];
    let is_proxy =
        own_words || quotes_an_answer || is_kong(facts) || own_headers.iter().any(|name| facts.has_header(name));
    if is_proxy { Layer::Proxy } else { Layer::Unknown }
}

/// `error code: 1015` is Cloudflare's; with more behind it, it is what Python's clients print.
fn is_bare_error_code(text: &str) -> bool {
    let code = text.strip_prefix("error code: ").map(str::trim);
    code.is_some_and(|code| !code.is_empty() && code.chars().all(|c| c.is_ascii_digit()))
}

fn of_nothing(facts: &Facts<'_>) -> Layer {
    if has_cdn_status(facts) || facts.has_header("cf-mitigated") {
        Layer::Cdn
    } else if is_kong(facts) || facts.has_header("x-retry-in") || facts.has_header("x-envoy-overloaded") {
        Layer::Proxy
    } else {
        Layer::Unknown
    }
}

/// Statuses that Cloudflare alone uses: something is wrong between its edge and the origin.
fn has_cdn_status(facts: &Facts<'_>) -> bool {
    matches!(facts.status.as_u16(), 520..=527 | 530)
}
