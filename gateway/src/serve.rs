//! Accepts connections until it is told to stop, then lets calls in flight end, within a bound. Knows no route.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};

use crate::relay::Gateway;

/// How long a caller may take for the head of its next request, so that idle sockets do not pile up. Longer than callers keep an
/// idle connection (Go and reqwest: 90 s): the side that closes first must be theirs, or a request would meet the close.
const HEAD_TIME: Duration = Duration::from_secs(120);
/// After an accept that failed (no file descriptor left, mostly), since the next would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` ends, and then for as long as calls are in flight, but no longer than `grace` or until `stop_now`
/// ends.
pub(crate) async fn serve(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    grace: Duration,
    stop: impl Future<Output = ()>,
    stop_now: impl Future<Output = ()>,
) {
    let connections = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, _)) => connect(stream, &gateway, &connections),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tracing::info!(connections = connections.count(), "stopping: calls in flight may end");
    tokio::select! {
        () = connections.shutdown() => tracing::info!("stopped"),
        () = tokio::time::sleep(grace) => tracing::warn!("stopped with calls in flight: their time is over"),
        () = stop_now => tracing::warn!("stopped with calls in flight, as asked"),
    }
}

fn connect(stream: TcpStream, gateway: &Arc<Gateway>, connections: &GracefulShutdown) {
    // an event of a stream must not wait for the next one
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let gateway = Arc::clone(gateway);
    let service = service_fn(move |request| {
        let gateway = Arc::clone(&gateway);
        async move { Ok::<_, Infallible>(gateway.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service);
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        // a caller that hangs up, or a body that breaks off above: told of in the access log, or by nobody's fault
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
    });
}
