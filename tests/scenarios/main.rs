//! The faults that users reported of other retry layers, each as a scripted server. The letters are the groups, and the
//! ids in the comments the reports.

mod a_nesting;
mod a_operation;
mod account;
mod b_retry_after;
mod c_quota;
mod d_idempotency;
mod f_deadlines;
mod g_cancellation;
mod h_shared_limits;
mod i_classification;
mod j_visibility;
mod k_configuration;
mod l_bounds;
mod stub;
