//! What an account promises besides: whom it tells apart, in what order it lets them start, what it charges and what it
//! keeps out.

mod breaker;
mod by_hand;
mod cancels;
mod lanes;
mod learning;
mod patience;
mod pauses;
mod queue;
mod quota_hold;
mod set_up;
mod tokens;
mod told;
mod unpolled;
mod weather;
