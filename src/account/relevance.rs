//! Whether the refusals of a lane depend on its pace. Knows the results of sends, not how a pace is set.
//!
//! A provider that is short of capacity may refuse a share of all requests at random, however slowly they come. Slowing down
//! does not help then, and each refusal would slow the lane further. Under a limit, the odds of a refusal fall faster than the
//! pace. Odds that stay the same after the pace was halved do not depend on it, and the lane may speed up again until they
//! grow.

/// The number of sends by which a pace is judged; twice as many while refusals count as independent of it.
const TELLING: u32 = 24;
/// Refusals do not depend on the pace if, at [`LOWER_PACE`] of it, the odds are still [`SAME_ODDS`] of what they were.
/// Below [`LEAST_ODDS`] there are too few to judge by.
const LOWER_PACE: f64 = 0.5;
const SAME_ODDS: f64 = 0.6;
const LEAST_ODDS: f64 = 0.09;
/// A share that exceeds the usual one by so many standard deviations shows that the pace meets a limit: by chance it happens
/// once in some thirty thousand times.
const DEVIATIONS: f64 = 4.0;
/// The usual share is that of about so many sends.
const REMEMBERED: f64 = 480.0;

/// The results of the sends at about one pace, and what was known when it began.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Phase<K> {
    /// The number of sends before it.
    before: u64,
    pace: Option<f64>,
    known: K,
    accepted: u32,
    refused: u32,
}

impl<K> Phase<K> {
    const fn new(before: u64, pace: Option<f64>, known: K) -> Self {
        Self {
            before,
            pace,
            known,
            accepted: 0,
            refused: 0,
        }
    }

    const fn sends(&self) -> u32 {
        self.accepted.saturating_add(self.refused)
    }

    /// Refused sends over accepted ones.
    fn odds(&self) -> f64 {
        f64::from(self.refused) / f64::from(self.accepted.max(1))
    }
}

/// The share of sends that is refused whatever the pace, of so many.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    refused: f64,
    sends: f64,
}

impl Share {
    fn of<K>(phase: &Phase<K>) -> Self {
        Self {
            refused: f64::from(phase.refused),
            sends: f64::from(phase.sends()),
        }
    }

    fn add<K>(&mut self, phase: &Phase<K>) {
        let kept = (REMEMBERED / self.sends).min(1.0);
        let more = Self::of(phase);
        *self = Self {
            refused: kept * self.refused + more.refused,
            sends: kept * self.sends + more.sends,
        };
    }

    fn is_exceeded_by<K>(&self, phase: &Phase<K>) -> bool {
        let (usual, now) = (self.refused / self.sends, Self::of(phase));
        let deviation = (usual * (1.0 - usual) * (1.0 / self.sends + 1.0 / now.sends)).sqrt();
        now.refused / now.sends > usual + DEVIATIONS * deviation
    }
}

/// What a lane's refusals have shown so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Relevance<K> {
    phase: Phase<K>,
    /// An earlier phase, whose pace may have been higher.
    higher: Option<Phase<K>>,
    /// The odds, where they do not depend on the pace.
    regardless: Option<Share>,
}

impl<K: Copy> Relevance<K> {
    pub(super) const fn new(known: K) -> Self {
        Self {
            phase: Phase::new(0, None, known),
            higher: None,
            regardless: None,
        }
    }

    /// Returns `true` if refusals do not depend on the pace, so that nothing is learned from them.
    #[inline]
    pub(super) const fn is_none(&self) -> bool {
        self.regardless.is_some()
    }

    /// Counts the result of the send with this number.
    #[inline]
    pub(super) fn count(&mut self, number: u64, refused: bool) {
        if number > self.phase.before {
            let counter = if refused {
                &mut self.phase.refused
            } else {
                &mut self.phase.accepted
            };
            *counter = counter.saturating_add(1);
        }
    }

    /// Judges the phase once it has enough sends; `sent` is their number in all. If a limit shows after all, returns what was
    /// known before the pace grew into it.
    pub(super) fn judge(&mut self, sent: u64, pace: Option<f64>, known: K) -> Option<K> {
        let enough = if self.is_none() { 2 * TELLING } else { TELLING };
        if self.phase.sends() < enough {
            return None;
        }
        let ended = std::mem::replace(&mut self.phase, Phase::new(sent, pace, known));
        let odds = ended.odds();
        if let Some(share) = &mut self.regardless {
            let met = share.is_exceeded_by(&ended);
            if met {
                (self.regardless, self.higher) = (None, None);
            } else {
                share.add(&ended);
            }
            return met.then_some(ended.known);
        }
        match self.higher.as_ref().map(|higher| (higher.pace, higher.odds())) {
            Some((Some(pace), before)) if odds >= SAME_ODDS * before => {
                let halved = ended.pace.is_some_and(|ended| ended <= LOWER_PACE * pace);
                self.regardless = (halved && odds >= LEAST_ODDS).then(|| Share::of(&ended));
            }
            _ => self.higher = Some(ended),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many sends at that pace, of which this part is refused.
    fn phase(relevance: &mut Relevance<u32>, sent: &mut u64, pace: f64, refused: f64, known: u32) -> Option<u32> {
        let mut judged = None;
        for send in 0..2 * TELLING {
            *sent += 1;
            let share = (f64::from(send) * refused).fract() + refused > 1.0;
            relevance.count(*sent, share);
            judged = judged.or(relevance.judge(*sent, Some(pace), known));
        }
        judged
    }

    #[test]
    fn odds_that_fall_with_the_pace_are_a_limits() {
        let (mut relevance, mut sent) = (Relevance::new(0), 0);
        for (pace, refused) in [(8.0, 0.75), (4.0, 0.5), (2.0, 0.05), (1.0, 0.0)] {
            phase(&mut relevance, &mut sent, pace, refused, 1);
            assert!(!relevance.is_none(), "{pace}");
        }
    }

    #[test]
    fn odds_that_stay_while_the_pace_is_halved_are_regardless_of_it_until_they_grow() {
        let (mut relevance, mut sent) = (Relevance::new(0), 0);
        for pace in [8.0, 6.0, 4.0, 2.0] {
            phase(&mut relevance, &mut sent, pace, 0.3, 1);
        }
        assert!(relevance.is_none());
        assert_eq!(phase(&mut relevance, &mut sent, 6.0, 0.3, 2), None);
        assert!(relevance.is_none());
        let before = (0..3).find_map(|_| phase(&mut relevance, &mut sent, 50.0, 0.7, 3));
        assert!(before.is_some() && !relevance.is_none());
    }

    #[test]
    fn few_refusals_are_worth_nothing() {
        let (mut relevance, mut sent) = (Relevance::new(0), 0);
        for pace in [8.0, 4.0, 2.0, 1.0] {
            phase(&mut relevance, &mut sent, pace, 0.02, 1);
            assert!(!relevance.is_none(), "{pace}");
        }
    }
}
