//! How an account that others share spends what it has been lent, and what it asks and hears of their store. Knows no
//! connection: what is asked goes out as data, and what is answered comes in as data.

use super::super::lease::Lease;
use super::super::store::{self, Circuit, Order, Reply, RowEvidence, Scope};
use super::*;

impl Grant {
    /// Are others to be told of its end, where there are others?
    #[inline]
    pub(crate) const fn is_told(&self) -> bool {
        self.seat.is_some() || self.token.is_probe()
    }
}

impl Lane {
    /// How the next start may come before its turn, by what headers say; not at all where others hear the same.
    #[inline]
    pub(super) fn lead(&self, now: Tick) -> Lead {
        match self.tie {
            None => self.rate.lead(now),
            Some(_) => Lead::None,
        }
    }

    /// The pace of a lane that others share: all of it, or the part that is one's own.
    #[cold]
    pub(super) fn shared_rate(&mut self, share: f64, now: Tick) -> Option<f64> {
        if let Some(tie) = &mut self.tie {
            tie.forfeit(now);
        }
        let rate = self.rate.steady(now).or_else(|| self.pause.ramp(now))?;
        Some(rate * share)
    }

    /// In flight elsewhere, as far as that is counted.
    #[inline]
    pub(super) fn beside(&self) -> u32 {
        let everywhere = self.tie.as_ref().map_or(0, |tie| tie.everywhere);
        everywhere.saturating_sub(self.ceiling.in_flight())
    }

    /// In flight elsewhere; where that is not counted, others are thought to have as many as this one.
    pub(super) fn elsewhere(&self, processes: u32) -> u32 {
        let counted = self.tie.as_ref().is_some_and(|tie| tie.everywhere > 0);
        if counted {
            self.beside()
        } else {
            self.ceiling.in_flight().saturating_mul(processes.saturating_sub(1))
        }
    }

    /// Has its breaker changed since others were told of it?
    #[inline]
    pub(super) fn has_circuit_news(&self) -> bool {
        self.tie.as_ref().is_some_and(|tie| tie.mark != self.breaker.mark())
    }

    /// Its breaker has been told the time: something may have been found to get through. True if others are to be told.
    #[cold]
    pub(super) fn survived(&mut self, now: Tick) -> bool {
        if let Some(tie) = self.tie.as_mut().filter(|_| !self.breaker.is_barren()) {
            tie.succeeded_at = Some(now);
        }
        self.has_circuit_news()
    }

    /// A send is over: if it is the probe and nothing is known of it, others may probe.
    #[inline]
    pub(super) fn is_told_of_a_probe(&mut self, grant: &Grant) {
        if grant.token.is_probe()
            && let Some(tie) = self.tie.as_mut().filter(|_| self.breaker.is_probed_by(grant.stamp))
        {
            (tie.circuit_changed, tie.news) = (true, true);
        }
    }

    /// Is a start of such a call the probe for all that share it? Then the store must have lent it.
    #[inline]
    pub(super) fn must_be_lent_its_probe(&self, request: &StartRequest, now: Tick) -> bool {
        self.tie.is_some() && self.breaker.gate(request.attempt_timeout(), now) == Gate::Probe
    }

    /// Calls that wait, in all processes in which some do: each of them is thought to have as many as this one.
    #[inline]
    pub(super) fn waiting_everywhere(&self) -> u32 {
        let processes = self.tie.as_ref().map_or(1, |tie| tie.held_processes.max(1));
        self.waiting().saturating_mul(processes)
    }

    /// What the store's answer says of an outage: where the circuit stands, and what has failed elsewhere.
    fn hear_of_outage(&mut self, order: &Order, reply: &Reply, settings: &CircuitBreaker, at: Tick, now: Tick) {
        let Some(tie) = &mut self.tie else { return };
        tie.held_processes = reply.held;
        let (asked, heard) = (order.facts.circuit, reply.facts.circuit);
        let told = &mut tie.facts.circuit.0;
        let differs = heard.0 > asked.0 || heard.1.open != asked.1.open;
        if (differs && heard.0 >= *told) || reply.probe {
            *told = heard.0.max(*told);
            self.hear_of_circuit(heard.1, settings.on, reply.probe, at, now);
        }
        let view = LaneView {
            settings,
            waiting: self.waiting_everywhere(),
            verdict: None,
        };
        let heard_by_all = reply.row.lasted >= store::HEARD_BY_ALL;
        if self.breaker.judge(reply.row, heard_by_all, view, now) == Some(Transition::Opened) {
            self.rate.outage(now);
        }
        let open = self.breaker.open_since().is_some();
        let Some(tie) = &mut self.tie else { return };
        if !open && heard.1.open && heard.0 > asked.0 {
            // it keeps to its own: what was not lent for that may be had now
            tie.again_at = now;
        }
        // those of calls that need not keep to an open circuit are theirs
        let exempt = asked.1.open && !order.holds;
        if open && !exempt && !tie.may_probe {
            tie.return_starts();
        }
    }

    /// Others have found that its circuit stands so.
    fn hear_of_circuit(&mut self, circuit: Circuit, keeps_to_it: bool, probe: bool, at: Tick, now: Tick) {
        let was_open = self.breaker.open_since().is_some();
        // that is told in turn, as something newer
        let knows_better = circuit.open && !was_open && self.has_circuit_news();
        let contradicts = || !probe && !was_open && self.contradicts(at - circuit.lasted);
        if !keeps_to_it || knows_better || (circuit.open && contradicts()) {
            return;
        }
        self.breaker.adopt(circuit, at, now);
        let opened = self.breaker.open_since().is_some();
        if opened && !was_open {
            self.rate.outage(now);
        }
        if probe && opened {
            self.breaker.let_probe(now);
        }
        if let Some(tie) = &mut self.tie {
            tie.may_probe = probe && opened;
            tie.mark = self.breaker.mark();
        }
    }

    /// Others say that nothing has got through since then; has something, here?
    fn contradicts(&self, began: Tick) -> bool {
        let succeeded_at = self.tie.as_ref().and_then(|tie| tie.succeeded_at);
        !self.breaker.is_failing() && succeeded_at.is_some_and(|at| at > began)
    }

    /// What is new of its row of failures; it is taken to be told.
    fn new_evidence(&mut self, now: Tick) -> RowEvidence {
        let Some((began, row)) = self.breaker.evidence(now) else {
            return RowEvidence::default();
        };
        let Some(tie) = &mut self.tie else {
            return RowEvidence::default();
        };
        let told = match tie.told_row {
            (of, told) if of == began => told,
            _ => RowEvidence::default(),
        };
        tie.told_row = (began, row);
        RowEvidence {
            failures: row.failures.saturating_sub(told.failures),
            calls: row.calls.saturating_sub(told.calls),
            ..row
        }
    }

    /// Brings up to date what others are told of it; true if something is new.
    fn tell(&mut self, now: Tick) -> bool {
        let Some(tie) = &mut self.tie else { return false };
        let facts = &mut tie.facts;
        facts.pause = self.pause.until(now).map_or(Duration::ZERO, |until| until.since(now));
        let mut new = false;
        let rate = self.rate.told();
        if rate.is_some() && rate != facts.rate.1 {
            facts.rate = (facts.rate.0.next(), rate);
            new = true;
        }
        if self.ceiling.learnt() != facts.ceiling.1 {
            facts.ceiling = (facts.ceiling.0.next(), self.ceiling.learnt());
            new = true;
        }
        let mark = self.breaker.mark();
        if std::mem::take(&mut tie.circuit_changed) || tie.mark != mark {
            facts.circuit.0 = facts.circuit.0.next();
            tie.mark = mark;
            new = true;
        }
        facts.circuit.1 = self.breaker.circuit(now);
        new
    }
}

impl State {
    /// Others share the account, through a store; so many at the least.
    pub(crate) fn share(&mut self, fewest: u32) {
        self.sharing = Some(Box::new(Sharing::new(fewest)));
    }

    pub(crate) fn sharing(&self) -> Option<&Sharing> {
        self.sharing.as_deref()
    }

    /// Is there something to ask of the store? It is taken to be done.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.sharing
            .as_mut()
            .is_some_and(|sharing| std::mem::take(&mut sharing.due))
    }

    #[inline]
    pub(super) fn ask_store(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.due = true;
        }
    }

    /// Is a start of such a lane one that has been, or must be, lent?
    #[inline]
    pub(super) fn lends(&self, lane: &Lane, weights: Weights, probes: bool, now: Tick) -> bool {
        lane.tie.is_some() && self.lends_to(lane, weights, probes, now)
    }

    #[cold]
    fn lends_to(&self, lane: &Lane, weights: Weights, probes: bool, now: Tick) -> bool {
        match (&lane.tie, &self.sharing) {
            (Some(tie), Some(sharing)) if sharing.away.is_some() => tie.lease.ready_at(weights).is_some(),
            (Some(_), Some(_)) => probes || self.is_limited(lane, now),
            _ => false,
        }
    }

    /// Is there any limit on its starts that others spend of too?
    fn is_limited(&self, lane: &Lane, now: Tick) -> bool {
        let [account, model, own] = self.scopes(lane, now);
        !(account.is_free() && model.is_free() && own.is_free())
    }

    /// Does the first that waits in a lane keep to its open circuit? One that would wait longer for an answer than the
    /// others did may not.
    fn holds(&self, lane: u32, now: Tick) -> bool {
        let Some(queue) = self.lanes.get(lane as usize) else {
            return false;
        };
        let head = self.head_request(lane).unwrap_or_default();
        queue.breaker.open_since().is_some() && queue.breaker.gate(head.attempt_timeout(), now) != Gate::Open
    }

    /// The limits that its starts keep to: the account's, its model's, its own.
    fn scopes(&self, lane: &Lane, now: Tick) -> [Scope; 3] {
        let model = lane.model.and_then(|model| self.rules.models.get(model));
        [
            Scope::of(&self.rules.limits),
            model.map_or_else(Scope::default, |(_, limits)| Scope::of(limits)),
            Scope {
                starts: lane.rate.steady(now).or_else(|| lane.pause.ramp(now)),
                in_flight: lane.ceiling.learnt(),
                ..Scope::default()
            },
        ]
    }

    /// What the first that waits in a lane asks for.
    fn head_request(&self, lane: u32) -> Option<StartRequest> {
        let queue = self.lanes.get(lane as usize)?;
        let head = self.waiters.head(&queue.retries);
        let (.., waiter) = head.or_else(|| self.waiters.head(&queue.fresh))?;
        Some(waiter.request)
    }

    /// When a start that must be lent can be made.
    #[cold]
    #[inline(never)]
    pub(super) fn when_lent(&self, lane: &Lane, weights: Weights, probes: bool, ahead: Load, now: Tick) -> When {
        if probes && lane.tie.as_ref().is_none_or(|tie| !tie.may_probe) {
            return When::Later(Whose::Lane);
        }
        let model = lane.model.and_then(|model| self.models.get(model));
        let pause = lane.pause.until(now);
        let mut at = pause.unwrap_or_default().max(lane.rate.not_before(now));
        if let Some(ramp) = &self.ramp {
            at = at.max(ramp.ready_at(1.0));
        }
        let lent = lane.tie.as_ref().and_then(|tie| tie.lease.ready_at(weights));
        at = at.max(lent.unwrap_or_else(|| {
            // no earlier than if nobody else were there
            let alone = self.counters.ready_at(weights, ahead, Lead::None, now);
            model.map_or(alone, |model| {
                alone.max(model.counters.ready_at(weights, ahead, Lead::None, now))
            })
        }));
        if at > now {
            return When::At(Due {
                at,
                certain: at,
                whose: Whose::Lane,
                look: at.min(pause.unwrap_or(now) + LOOK_AGAIN),
            });
        }
        let room = lane.ceiling.has_room() && model.is_none_or(|model| model.ceiling.has_room());
        if lent.is_none() || !room || !self.ceiling.has_room() {
            return When::Later(Whose::Lane);
        }
        When::Now
    }

    /// A request that had a place in flight is there no more, or was the probe: others are told.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_the_end(&mut self, grant: &Grant) {
        if let Some(lane) = self.granted(grant)
            && let Some(tie) = &mut lane.tie
        {
            if let Some(seat) = grant.seat {
                tie.give_up(seat);
            }
            self.ask_store();
        }
    }

    /// Spends what was lent for a start: whether it was, and its place among those in flight.
    #[inline]
    pub(super) fn spend(&mut self, slot: u32, request: &StartRequest, now: Tick) -> (bool, Option<Seat>) {
        match &self.sharing {
            None => (false, None),
            Some(_) => self.spend_lent(slot, request, now),
        }
    }

    #[cold]
    fn spend_lent(&mut self, slot: u32, request: &StartRequest, now: Tick) -> (bool, Option<Seat>) {
        let weights = request.weights;
        let Some(lane) = self.lanes.get(slot as usize) else {
            return (false, None);
        };
        let probes = lane.must_be_lent_its_probe(request, now);
        let lent = self.lends(lane, weights, probes, now);
        let counted = self.counts_flight(lane, now);
        // one that was not used may not have heard for long
        let listens = now.since(lane.used_at) >= store::LISTEN;
        let Some(tie) = self.lanes.get_mut(slot as usize).and_then(|lane| lane.tie.as_mut()) else {
            return (false, None);
        };
        if listens && let Some(sharing) = &mut self.sharing {
            sharing.due = true;
        }
        tie.may_probe &= !probes;
        if lent {
            let spent = tie.lease.spend(weights);
            self.demand(slot);
            return (spent.is_some(), spent.and_then(|slot| slot.seat));
        }
        // while the store is away it is in flight all the same, and the store will be told
        let seat = self
            .sharing
            .as_mut()
            .filter(|_| counted)
            .map(|sharing| sharing.seats(1));
        let seat = seat.and_then(Seat::new);
        tie.held.extend(seat);
        (false, seat)
    }

    fn counts_flight(&self, lane: &Lane, now: Tick) -> bool {
        self.scopes(lane, now).iter().any(|scope| scope.in_flight.is_some())
    }

    /// Somebody waits: if too little is lent for those that do, the store is asked.
    #[inline]
    pub(super) fn demand(&mut self, slot: u32) {
        if self.sharing.is_some() {
            self.demand_lent(slot);
        }
    }

    #[cold]
    fn demand_lent(&mut self, slot: u32) {
        let head = self.head_weights(slot);
        let Some(lane) = self.lanes.get(slot as usize) else {
            return;
        };
        let Some(tie) = &lane.tie else { return };
        let lent = tie.lease.len();
        if (lent <= tie.low && lane.waiting() > lent) || head.is_some_and(|head| tie.lease.lacks(head)) {
            self.ask_store();
        }
    }

    /// What is to be asked of the store now, or when to look again.
    pub(crate) fn next_order(&mut self, now: Tick) -> Result<Order, Tick> {
        let Some(sharing) = &mut self.sharing else {
            return Err(Tick::NEVER);
        };
        sharing.due = false;
        if let Some(away) = sharing.away.filter(|away| now < away.retry_at) {
            return Err(away.retry_at);
        }
        let (first, lanes) = (sharing.turn, self.lanes.len());
        let mut next = Tick::NEVER;
        for lane in 0..lanes {
            let lane = (first + lane) % lanes;
            match self.order(u32::try_from(lane).unwrap_or(u32::MAX), now) {
                Ok(order) => {
                    if let Some(sharing) = &mut self.sharing {
                        sharing.turn = lane + 1;
                    }
                    return Ok(order);
                }
                Err(at) => next = next.min(at),
            }
        }
        Err(next)
    }

    /// The same for one lane.
    fn order(&mut self, slot: u32, now: Tick) -> Result<Order, Tick> {
        self.refresh(slot, now);
        let head = self.head_weights(slot).unwrap_or_default();
        let newest = self.lanes.iter().map(|lane| lane.used_at).max();
        let Some(lane) = self.lanes.get(slot as usize) else {
            return Err(Tick::NEVER);
        };
        let [account_limit, model_limit, lane_limit] = self.scopes(lane, now);
        let holds = self.holds(slot, now);
        let limited = holds || self.is_limited(lane, now);
        let model = lane.model.and_then(|model| self.rules.models.get(model));
        let model = model.map(|(name, _)| Arc::from(name.as_str()));
        let (live, away) = self
            .sharing
            .as_ref()
            .map_or((1, false), |sharing| (sharing.live, sharing.away.is_some()));
        let Some(lane) = self.lanes.get_mut(slot as usize) else {
            return Err(Tick::NEVER);
        };
        let (load, waiting) = (lane.retries.load().and(lane.fresh.load()), lane.waiting());
        let news = lane.tell(now);
        let failing = lane.breaker.paces() || lane.breaker.evidence(now).is_some();
        let room = lane.breaker.room();
        let paused = lane.pause.until(now);
        let in_use = waiting > 0 || lane.ceiling.in_flight() > 0 || now.since(lane.used_at) < store::IN_USE;
        let spoken_of = in_use || now.since(lane.used_at) < store::FORGOTTEN || Some(lane.used_at) == newest;
        let Some(tie) = &mut lane.tie else {
            return Err(Tick::NEVER);
        };
        let mut order = Order {
            lane: slot,
            generation: lane.generation,
            name: lane.key.number(),
            model,
            account_limit,
            model_limit,
            lane_limit,
            wanted: 0,
            each: Weights::default(),
            top_up: Weights::default(),
            settled: Weights::default(),
            unused: 0,
            facts: tie.facts,
            holds,
            row: RowEvidence::default(),
            succeeded: tie.succeeded_at.map(|at| now.since(at)),
            first_seat: 0,
            given_up: Vec::new(),
            held: Vec::new(),
            sent_at: now,
        };
        tie.news |= news;
        let (lent, size) = (tie.lease.len(), Lease::size(order.rate(), live));
        tie.low = size / 2;
        if limited && waiting > lent && lent <= tie.low && paused.is_none() && !away {
            order.wanted = size.min(waiting - lent).min(room.map_or(u32::MAX, |room| room.max(1)));
            let starts = f64::from(load.starts.max(1));
            order.each = Weights {
                input: load.weights.input / starts,
                output: load.weights.output / starts,
            };
        } else if limited && lent > 0 && waiting > 0 && !away {
            order.top_up = tie.lease.shortage(head);
        }
        // when: what is wanted and what is new at once, else from time to time, to hear what is new elsewhere
        let together = tie.asked_at.map_or(now, |asked| asked + store::TOGETHER);
        let wants = order.wanted > 0 || order.top_up != Weights::default();
        let recent = waiting > 0 || now.since(lane.used_at) < store::IN_OUTAGE;
        let mut at = match (tie.asked_at, in_use, spoken_of) {
            (Some(asked), true, _) if failing && recent => asked + store::LISTEN_IN_OUTAGE,
            (None, _, _) => now,
            (Some(asked), true, _) => asked + store::LISTEN,
            (Some(asked), false, true) => asked + store::LISTEN_IDLE,
            (Some(_), false, false) => Tick::NEVER,
        };
        if wants {
            at = at.min(together.max(tie.again_at));
        }
        if tie.news {
            at = at.min(together);
        }
        if at > now {
            return Err(at);
        }
        tie.asked_at = Some(now);
        tie.news = false;
        order.facts = tie.facts;
        order.row = lane.new_evidence(now);
        let Some(tie) = &mut lane.tie else {
            return Err(Tick::NEVER);
        };
        if waiting == 0 && lent == 0 {
            order.settled = tie.lease.settle();
        }
        order.unused = std::mem::take(&mut tie.unused);
        order.given_up = std::mem::take(&mut tie.given_up);
        if tie.renewed_at.is_none_or(|renewed| now.since(renewed) >= store::RENEW) {
            tie.renewed_at = Some(now);
            order.held.clone_from(&tie.held);
        }
        if order.takes_seats()
            && let Some(sharing) = &mut self.sharing
        {
            order.first_seat = sharing.seats(order.wanted);
        }
        Ok(order)
    }

    /// The store has answered. True if it had been away.
    pub(crate) fn receive(&mut self, order: &Order, reply: Reply, now: Tick, woken: &mut Vec<Waker>) -> bool {
        let Some(sharing) = &mut self.sharing else {
            return false;
        };
        let found = sharing.away.take().is_some();
        sharing.live = reply.live.max(1);
        let (processes, at) = (
            sharing.processes(),
            sharing.answered_at(reply.clock, order.sent_at, now),
        );
        if found {
            sharing.untold = !sharing.untold;
            self.divide(now);
        }
        self.take_in(order, reply, processes, at, now, woken);
        self.demand(order.lane);
        self.settle(now, woken);
        found
    }

    /// What the store has lent to a lane, and says of it.
    fn take_in(&mut self, order: &Order, reply: Reply, processes: u32, at: Tick, now: Tick, woken: &mut Vec<Waker>) {
        let seats = order.takes_seats();
        let settings = self.rules.breaker;
        let Some(lane) = self.lanes.get_mut(order.lane as usize) else {
            return;
        };
        if lane.generation != order.generation {
            return;
        }
        lane.rate.is_one_of(processes);
        let Some(tie) = &mut lane.tie else { return };
        tie.again_at = reply.again.map_or(now, |again| at + again);
        let seat = |offset: u32| Seat::new(order.first_seat.wrapping_add(offset)).filter(|_| seats);
        let slots = reply.slots.iter().zip(0u32..).map(|(due, offset)| Slot {
            due: at + *due,
            seat: seat(offset),
        });
        tie.lease.lend(slots.clone(), order.each, order.rate());
        tie.held.extend(slots.filter_map(|slot| slot.seat));
        if reply.probe {
            tie.lease.lend_probe();
        }
        tie.lease.top_up(order.top_up, at + reply.charged);
        tie.everywhere = if lane.ceiling.learnt().is_some() {
            reply.in_flight
        } else {
            0
        };
        let (told, heard) = (&mut tie.facts, reply.facts);
        if heard.rate.0 > told.rate.0 {
            if let Some(learnt) = heard.rate.1 {
                lane.rate.take_over(learnt, now);
            }
            told.rate = (heard.rate.0, lane.rate.told());
        }
        if heard.ceiling.0 > told.ceiling.0 {
            lane.ceiling.adopt(heard.ceiling.1, now);
            told.ceiling = heard.ceiling;
        }
        lane.hear_of_outage(order, &reply, &settings, at, now);
        let until = at + heard.pause;
        if !heard.pause.is_zero()
            && lane
                .pause
                .until(now)
                .is_none_or(|known| until > known + store::SAME_PAUSE)
            && lane.pause.extend(until)
        {
            self.turn_away(order.lane, until, now, woken);
        }
    }

    /// The store has not answered, or not as it should: whether it has done what it was asked is not known, and is taken to be
    /// so. `phase` keeps those that lost it together from starting together. True if it had not been away before.
    pub(crate) fn lose(&mut self, order: Order, phase: f64, now: Tick, woken: &mut Vec<Waker>) -> bool {
        if let Some(tie) = self
            .lanes
            .get_mut(order.lane as usize)
            .filter(|lane| lane.generation == order.generation)
            .and_then(|lane| lane.tie.as_mut())
        {
            tie.news = true;
            tie.renewed_at = None;
            tie.unused = tie.unused.saturating_add(order.unused);
            tie.given_up.extend(order.given_up);
            if order.first_seat > 0 {
                let seats = (order.first_seat..).take(order.wanted as usize);
                tie.given_up.extend(seats.filter_map(Seat::new));
            }
        }
        let Some(sharing) = &mut self.sharing else {
            return false;
        };
        let lost = sharing.failed(now);
        if lost {
            sharing.untold = !sharing.untold;
            self.divide(now);
            self.begin_alone(phase, now);
        }
        self.settle(now, woken);
        lost
    }

    /// Each limit is all for us, or the part of it that is while the store is away.
    fn divide(&mut self, now: Tick) {
        let Some(sharing) = &self.sharing else { return };
        let share = sharing.share();
        let among = sharing.away.map_or(1, |_| sharing.processes());
        self.counters.share(&self.rules.limits, share, now);
        self.ceiling.share(among);
        for (model, (_, limits)) in self.models.iter_mut().zip(&self.rules.models) {
            model.counters.share(limits, share, now);
            model.ceiling.share(among);
        }
        for lane in &mut self.lanes {
            lane.ceiling.share(among);
        }
    }

    /// The first start that is not lent comes a part of the spacing after the last that was.
    fn begin_alone(&mut self, phase: f64, now: Tick) {
        let share = self.sharing.as_ref().map_or(1.0, |sharing| sharing.share());
        let last = self.lanes.iter().filter_map(|lane| lane.tie.as_ref()?.lease.last_due());
        let last = last.max().map_or(now, |last| last.max(now));
        let hold = |bucket: &mut Bucket| bucket.hold_until(last.plus_seconds(phase / bucket.rate()));
        let models = self.models.iter_mut().map(|model| &mut model.counters);
        for counters in models.chain([&mut self.counters]) {
            counters.requests.iter_mut().for_each(hold);
        }
        for bucket in self.lanes.iter_mut().filter_map(|lane| lane.bucket.as_mut()) {
            bucket.set_rate(bucket.rate() * share, now);
            hold(bucket);
        }
    }
}

impl Scope {
    fn of(limits: &Limits) -> Self {
        let tokens = |per_minute: f64| (per_minute / 60.0, (per_minute / 6.0).max(1.0));
        Self {
            starts: limits.requests_per_minute.map(|per_minute| per_minute / 60.0),
            input: limits.input_tokens_per_minute.map(tokens),
            output: limits.output_tokens_per_minute.map(tokens),
            day: limits.requests_per_day,
            in_flight: limits.max_concurrency,
        }
    }
}

#[cfg(test)]
mod tests;
