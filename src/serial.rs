//! How values are written where serde would write their insides: durations as seconds, statuses as numbers.

use std::time::Duration;

use http::StatusCode;
use serde::{Serialize, Serializer};

pub(crate) fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

pub(crate) fn status<S: Serializer>(status: &Option<StatusCode>, serializer: S) -> Result<S::Ok, S::Error> {
    status.map(|status| status.as_u16()).serialize(serializer)
}
