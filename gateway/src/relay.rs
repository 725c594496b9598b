//! One request from its head to the answer's: routed, relayed through the retry middleware of its upstream, answered. Knows
//! no listener.

use std::time::{Duration, Instant, SystemTime};

use http::header::{self, HeaderValue};
use http::{Extensions, Method, Request, Response};
use hyper::body::{Body as _, Incoming};
use reqwest::{Body, Url, redirect};
use reqwest_ai_retry::{Account, GiveUp, Outcome, RetryMiddleware};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use crate::access::Access;
use crate::config::{Plan, Planned};
use crate::failure::{Failure, note, word};
use crate::headers::AcceptEncoding;
use crate::route::{Astray, Route, Routes, is_own_host};
use crate::{headers, status};

/// All upstreams, and the way to them.
#[derive(Debug)]
pub(crate) struct Gateway {
    routes: Routes,
    upstreams: Vec<Upstream>,
    hosts: Option<Vec<String>>,
    access_log: bool,
}

/// An API with the client and the allowance for it.
#[derive(Debug)]
struct Upstream {
    name: String,
    base: Url,
    accept_encoding: AcceptEncoding,
    client: ClientWithMiddleware,
    account: Account,
    give_up: GiveUp,
}

impl Gateway {
    pub(crate) fn new(plan: Plan, connect_timeout: Duration, access_log: bool) -> reqwest::Result<Self> {
        // what comes back is handed over as it is: redirects are the caller's to follow, encodings the caller's to undo; and
        // another backend that is built in by way of some dependency changes nothing about whom is trusted
        let client = RetryMiddleware::client_builder()
            .tls_backend_rustls()
            .redirect(redirect::Policy::none())
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .connect_timeout(connect_timeout)
            .build()?;
        let upstream = |planned| Upstream::new(planned, client.clone());
        let named = |upstream: &Planned| (upstream.name.clone(), upstream.base.clone());
        Ok(Self {
            routes: Routes::new(plan.upstreams.iter().map(named).collect(), plan.default_upstream),
            upstreams: plan.upstreams.into_iter().map(upstream).collect(),
            hosts: plan.hosts,
            access_log,
        })
    }

    /// The answer to a request; its body goes on as it comes.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let mut access = Access {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            upstream: "",
            sends: 0,
            stop: None,
            status: None,
            began: Instant::now(),
            on: self.access_log,
        };
        let response = match self.admit(&request) {
            Ok(Route::Health) => Ok(text("text/plain", "ok\n".to_owned())),
            Ok(Route::Status) => Ok(text("application/json", self.status())),
            Ok(Route::Upstream { number, url }) => match self.upstreams.get(number) {
                Some(upstream) => {
                    access.upstream = &upstream.name;
                    upstream.relay(request, url, &mut access).await
                }
                None => Err(Failure::astray(Astray::Unknown)),
            },
            Err(failure) => Err(failure),
        };
        let response = response.unwrap_or_else(|failure| failure.response(SystemTime::now()).map(Body::from));
        access.status = Some(response.status());
        response
    }

    /// May the request come in, and where to?
    fn admit(&self, request: &Request<Incoming>) -> Result<Route, Failure> {
        let host = request.headers().get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
        if self.hosts.as_ref().is_some_and(|allowed| !is_own_host(host, allowed)) {
            return Err(Failure::foreign_host());
        }
        let route = self.routes.find(request.uri()).map_err(Failure::astray)?;
        if headers::asks_for_another_protocol(request.headers()) {
            return Err(Failure::another_protocol());
        }
        if headers::goes_in_a_circle(request.headers()) {
            return Err(Failure::circle());
        }
        match route {
            Route::Health | Route::Status if !matches!(*request.method(), Method::GET | Method::HEAD) => {
                Err(Failure::read_only())
            }
            route => Ok(route),
        }
    }

    fn status(&self) -> String {
        let upstreams = self.upstreams.iter();
        let accounts = upstreams.map(|upstream| (upstream.name.as_str(), &upstream.base, upstream.account.status()));
        status::report(accounts).to_string()
    }
}

impl Upstream {
    fn new(planned: Planned, client: reqwest::Client) -> Self {
        let mut retry = RetryMiddleware::builder()
            .policy(planned.policy)
            .account(planned.account.clone());
        if let Some(window) = planned.outer_retry_guard {
            retry = retry.outer_retry_guard(window);
        }
        Self {
            client: ClientBuilder::new(client).with(retry.build()).build(),
            name: planned.name,
            base: planned.base,
            accept_encoding: planned.accept_encoding,
            account: planned.account,
            give_up: planned.give_up,
        }
    }

    /// Dropping this drops the call, wherever it stands: in the queue, in a wait, on the wire.
    async fn relay(
        &self,
        request: Request<Incoming>,
        url: Url,
        access: &mut Access<'_>,
    ) -> Result<Response<Body>, Failure> {
        let (mut head, body) = request.into_parts();
        headers::of_request(&mut head.headers, self.accept_encoding);
        let mut relayed = reqwest::Request::new(head.method, url);
        *relayed.headers_mut() = head.headers;
        if !body.is_end_stream() {
            *relayed.body_mut() = Some(Body::wrap(body));
        }
        let mut extensions = Extensions::new();
        let answered = self.client.execute_with_extensions(relayed, &mut extensions).await;
        let outcome = extensions.get::<Outcome>();
        access.sends = outcome.map_or(1, Outcome::sends);
        access.stop = outcome.map(|outcome| word(outcome.stop()));
        match answered {
            Ok(response) => {
                let mut response = Response::<Body>::from(response);
                // which version the upstream speaks is no matter of the caller's
                *response.version_mut() = http::Version::HTTP_11;
                response.extensions_mut().clear();
                headers::of_response(response.headers_mut());
                if let Some(outcome) = outcome {
                    note(outcome.sends(), outcome.stop(), response.headers_mut());
                }
                Ok(response)
            }
            Err(error) => Err(Failure::of_call(&error, outcome, self.give_up)),
        }
    }
}

fn text(content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
