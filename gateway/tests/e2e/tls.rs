//! Upstreams that are reached over TLS, as all of the providers are.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version, server::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::started::{QUICK, Started, ask, upstream};

/// A server for `localhost` over TLS and HTTP/2, which refuses once and then answers.
struct Secure {
    url: String,
    /// Its certificate, as a file of roots.
    roots: PathBuf,
    /// Of each request: the version, the host and the key.
    seen: Arc<Mutex<Vec<(Version, String, String)>>>,
}

impl Secure {
    async fn start() -> Secure {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let roots = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("roots-{}-{port}.pem", std::process::id()));
        std::fs::write(&roots, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];

        let seen = Arc::new(Mutex::new(Vec::new()));
        let (acceptor, noted) = (TlsAcceptor::from(Arc::new(config)), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let noted = Arc::clone(&noted);
                let answer = move |request: Request<Incoming>| {
                    let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
                    let key = request
                        .headers()
                        .get("authorization")
                        .map(|key| key.to_str().unwrap().to_owned());
                    let mut noted = noted.lock().unwrap();
                    noted.push((request.version(), host, key.unwrap_or_default()));
                    let mut response = Response::new("ok".to_owned());
                    if noted.len() == 1 {
                        *response.status_mut() = 429.try_into().unwrap();
                    }
                    async move { Ok::<_, Infallible>(response) }
                };
                let connection = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service_fn(answer)));
            }
        });
        Secure {
            url: format!("https://localhost:{port}"),
            roots,
            seen,
        }
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.roots);
    }
}

#[tokio::test]
async fn an_upstream_over_tls_and_http_2_is_relayed_to_and_retried() {
    let server = Secure::start().await;
    let gateway = Started::trusting(Some(&server.roots), &upstream("one", &server.url, QUICK));
    // what must not stand in a request of HTTP/2
    let call = ask(&gateway)
        .bearer_auth("k")
        .header("te", "trailers")
        .header("keep-alive", "timeout=5");
    let answer = call.send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_11));
    assert_eq!(answer.headers()["x-retry-gateway-sends"], "2");
    assert_eq!(answer.text().await.unwrap(), "ok");
    let host = server.url.strip_prefix("https://").unwrap().to_owned();
    let request = (Version::HTTP_2, host, "Bearer k".to_owned());
    assert_eq!(*server.seen.lock().unwrap(), [request.clone(), request]);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_not_trusted() {
    let (server, other) = (Secure::start().await, Secure::start().await);
    let config = upstream("one", &server.url, &format!("{QUICK}\npolicy.max_attempts = 2"));
    let gateway = Started::trusting(Some(&other.roots), &config);
    let answer = ask(&gateway).bearer_auth("k").send().await.unwrap();
    assert_eq!(answer.status(), 502);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["code"], "upstream_unreachable");
    assert!(server.seen.lock().unwrap().is_empty(), "the key has gone to a stranger");
}
