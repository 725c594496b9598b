//! Stripe, whose 402 is a refused card and whose 409 is a twin still running: the same statuses as an AI provider's, with
//! other meanings.

use super::sign::{Family, Meaning, NOTHING};
use crate::classify::Cause;

pub(super) const FAMILY: Family = Family {
    names: &[
        (Meaning::Refusal(Cause::Other), &["card_error", "card_declined"]),
        (
            Meaning::Transient(Cause::Conflict),
            &["idempotency_key_in_use", "lock_timeout"],
        ),
        (Meaning::Wrong(Cause::InvalidRequest), &["idempotency_error"]),
    ],
    ..NOTHING
};
