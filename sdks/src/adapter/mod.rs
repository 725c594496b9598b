//! A client with middleware in the form that an SDK takes its transport in, one SDK a file, to be copied from.

pub mod azure;
pub mod bedrock;
pub mod octocrab;
