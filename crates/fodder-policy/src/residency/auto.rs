//! `auto`: follow whichever policy would hit most. One id of sixteen is watched, and every other policy keeps a shadow
//! of itself over the watched ids, in a cache as much smaller; the one whose shadow hits clearly more bytes for a while
//! takes over, and is handed the residents in small steps.
//!
//! It begins as `minio`. Policies that live on scores or plans join when the first of these come; those that live on
//! plans are told them whether chosen or not, so that they know every id when they take over. It costs what these and
//! the chosen one cost, a sixteenth of all others together, and a quarter of a byte an id for sizes.

mod contest;
mod reach;
mod sample;
mod shadow;
mod trial;

use super::{
    Explanation, Policy, Pressure, Residency, Settings,
    dense::Dense,
    signal::{Signal, unscore},
};
use contest::Contest;
use reach::Reach;
use sample::{ScorePicker, of_list, of_plan, watched};
use shadow::Shadow;
use std::sync::Arc;

/// Who needs no more than hits and misses. The first decides until another has shown itself better.
const ALWAYS: [Policy; 5] = [Policy::Minio, Policy::Lru, Policy::Lfu, Policy::Sieve, Policy::S3Fifo];

/// The state of `auto`.
#[derive(Debug)]
pub struct Auto {
    settings: Settings,
    /// Who decides.
    active: Box<dyn Residency>,
    /// Who decided before, with the residents it has not handed over yet.
    leaving: Option<(Policy, Box<dyn Residency>)>,
    /// Who lives on plans and does not decide: empty, and told of plans all the same.
    waiting: Vec<(Policy, Box<dyn Residency>)>,
    shadows: Vec<Shadow>,
    contest: Contest,
    reach: Reach,
    /// The bytes of each watched id, as first seen; 0 until then.
    sizes: Dense<u32>,
    /// Whether anything had to stay out or go for want of room: only then does the choice matter.
    is_full: bool,
    /// All that ever came in: for the mean.
    came_bytes: u64,
    came: u64,
    /// The last scores, for whoever takes over.
    scores: Option<Arc<[f32]>>,
    picker: Option<ScorePicker>,
    /// The scores of the watched, as shadows have them.
    picked: Option<Arc<[f32]>>,
}

impl Auto {
    /// Nothing seen yet. The settings are those of the policies it may choose.
    pub fn new(settings: &Settings) -> Self {
        Self::with(settings, Contest::new(ALWAYS[0]))
    }

    fn with(settings: &Settings, contest: Contest) -> Self {
        Self {
            settings: *settings,
            active: ALWAYS[0].build_with(settings),
            leaving: None,
            waiting: Vec::new(),
            shadows: ALWAYS.map(|policy| Shadow::new(policy, settings, u64::MAX)).into(),
            contest,
            reach: Reach::default(),
            sizes: Dense::default(),
            is_full: false,
            came_bytes: 0,
            came: 0,
            scores: None,
            picker: None,
            picked: None,
        }
    }

    /// An id was asked for: whether the cache had it, and its bytes where they are known.
    fn asked(&mut self, id: u32, hit: bool, bytes: Option<u32>) {
        self.contest.asked(hit);
        let Some(id) = watched(id) else { return };
        let usual = bytes.unwrap_or(self.mean_bytes()).max(1);
        let size = self.sizes.entry(id, 0);
        if *size == 0 {
            *size = usual;
        }
        let size = *size;
        self.shadows.iter_mut().for_each(|shadow| shadow.ask(id, &self.sizes));
        if self.contest.watched_asked(size, self.sizes.len()) {
            self.judge();
        }
    }

    /// A window is over: shadows follow the size of the cache, and the best takes over if it is time.
    fn judge(&mut self) {
        let window = self.contest.turn();
        self.shadows.iter_mut().for_each(|shadow| shadow.turn(window.watched_bytes));
        self.reach.turn();
        if self.is_full {
            self.resize();
        }
        // One move at a time, and none before it matters.
        if self.is_full && self.leaving.is_none() {
            let before = self.contest.chosen();
            if let Some(best) = self.contest.judge(&self.shadows, &window, self.reach.get()) {
                self.choose(before, best);
            }
        }
    }

    /// The shadows' caches are to all of the cache as the watched are to all ids.
    fn resize(&mut self) {
        let capacity_bytes = self.shadow_bytes();
        self.shadows.iter_mut().for_each(|shadow| shadow.resize(capacity_bytes, &self.sizes));
    }

    /// What a shadow may hold: what the cache holds once it is full, scaled.
    fn shadow_bytes(&self) -> u64 {
        let resident_bytes = self.len() as u64 * u64::from(self.mean_bytes());
        if self.is_full { resident_bytes / u64::from(sample::STRIDE) } else { u64::MAX }
    }

    /// The mean size of what came in, which stands for the size of who is resident.
    fn mean_bytes(&self) -> u32 {
        self.came_bytes.checked_div(self.came).map_or(1, |mean| mean as u32)
    }

    fn choose(&mut self, before: Policy, next: Policy) {
        let machine = match self.waiting.iter().position(|(policy, _)| *policy == next) {
            Some(place) => self.waiting.swap_remove(place).1,
            None => {
                let mut machine = next.build_with(&self.settings);
                if let Some(scores) = &self.scores {
                    machine.signal(Signal::Scores(Arc::clone(scores)));
                }
                machine
            }
        };
        self.leaving = Some((before, std::mem::replace(&mut self.active, machine)));
    }

    /// Hands over a few residents, those first that would have gone first. Whether more are left.
    fn hand_over(&mut self, steps: usize) -> bool {
        let bytes = self.mean_bytes();
        let Some((_, leaving)) = &mut self.leaving else { return false };
        for _ in 0..steps {
            let Some(id) = leaving.victim(Pressure::Yield) else {
                self.waiting.extend(self.leaving.take().filter(|(policy, _)| lives_on_plans(*policy)));
                return false;
            };
            leaving.removed(id);
            self.active.inserted(id, bytes);
        }
        true
    }

    /// Scores of the watched, a few at a time. Whether more are left.
    fn pick_scores(&mut self, steps: usize) -> bool {
        let Some(picker) = &mut self.picker else { return false };
        let Some(scores) = picker.pick(steps) else { return true };
        self.picker = None;
        self.join(Policy::Importance);
        self.tell_shadows(&Signal::Scores(Arc::clone(&scores)));
        self.picked = Some(scores);
        false
    }

    /// Lets a policy join that has just been told what it lives on.
    fn join(&mut self, policy: Policy) {
        if self.shadows.iter().any(|shadow| shadow.policy == policy) {
            return;
        }
        if lives_on_plans(policy) {
            self.waiting.push((policy, policy.build_with(&self.settings)));
        }
        self.shadows.push(Shadow::new(policy, &self.settings, self.shadow_bytes()));
    }

    fn tell_shadows(&mut self, signal: &Signal<'_>) {
        self.shadows.iter_mut().for_each(|shadow| shadow.signal(signal.clone()));
    }

    /// Tells shadows what a signal says of the watched.
    fn pass_on(&mut self, signal: Signal<'_>) {
        match signal {
            Signal::Scores(scores) => {
                self.picker = Some(ScorePicker::new(Arc::clone(&scores)));
                self.scores = Some(scores);
            }
            Signal::Planned(ids) => self.tell_shadows(&Signal::Planned(of_plan(ids).as_ids())),
            Signal::Consumed(id) => {
                if let Some(id) = watched(id) {
                    self.tell_shadows(&Signal::Consumed(id));
                }
            }
            Signal::Dropped(ids) => self.tell_shadows(&Signal::Dropped(&of_list(ids))),
            Signal::NextUse { id, at } => {
                if let Some(id) = watched(id) {
                    self.reach.asked(id, at);
                    self.tell_shadows(&Signal::NextUse { id, at });
                }
            }
            // Chunks and likenesses are for jobs that take what is there instead of what they asked for, which no
            // count of hits can weigh: who wants `quiver` or `semantic` says so.
            Signal::NextChunk | Signal::Packed(_) | Signal::Neighbours(_) => {}
        }
    }
}

/// Whether a policy must have heard of plans from the first on to know its ids.
fn lives_on_plans(policy: Policy) -> bool {
    matches!(policy, Policy::Pending | Policy::Plan)
}

impl Residency for Auto {
    fn hit(&mut self, id: u32) {
        self.active.hit(id);
        if let Some((_, leaving)) = &mut self.leaving {
            leaving.hit(id);
        }
        self.asked(id, true, None);
    }

    fn admit(&mut self, id: u32, bytes: u32, room: bool) -> bool {
        if !room && !self.is_full {
            self.is_full = true;
            self.resize();
        }
        self.asked(id, false, Some(bytes));
        self.active.admit(id, bytes, room)
    }

    /// While residents are handed over, newcomers take places only of those who have been; space that must be given back
    /// comes from the others first.
    fn victim(&mut self, pressure: Pressure) -> Option<u32> {
        match (pressure, &mut self.leaving) {
            (Pressure::Yield, Some((_, leaving))) if !leaving.is_empty() => leaving.victim(pressure),
            _ => self.active.victim(pressure),
        }
    }

    fn inserted(&mut self, id: u32, bytes: u32) {
        if let Some((_, leaving)) = &mut self.leaving {
            leaving.removed(id);
        }
        self.active.inserted(id, bytes);
        self.came += 1;
        self.came_bytes += u64::from(bytes);
    }

    fn removed(&mut self, id: u32) {
        self.active.removed(id);
        if let Some((_, leaving)) = &mut self.leaving {
            leaving.removed(id);
        }
    }

    fn forget(&mut self, ids: &[u32]) {
        self.active.forget(ids);
        let others = self.leaving.iter_mut().chain(&mut self.waiting);
        others.for_each(|(_, machine)| machine.forget(ids));
        if let Some(scores) = &mut self.scores {
            unscore(scores, ids);
        }
    }

    fn signal(&mut self, signal: Signal<'_>) {
        self.active.signal(signal.clone());
        if let Some((_, leaving)) = &mut self.leaving {
            leaving.signal(signal.clone());
        }
        // Who joins is told already what made it join.
        match signal {
            Signal::Planned(_) => self.join(Policy::Pending),
            Signal::NextUse { .. } => self.join(Policy::Plan),
            _ => {}
        }
        self.waiting.iter_mut().for_each(|(_, machine)| machine.signal(signal.clone()));
        self.pass_on(signal);
    }

    /// Those that live on plans are told them whether chosen or not.
    fn heeds_plans(&self) -> bool {
        true
    }

    fn heeds_next_use(&self) -> bool {
        true
    }

    fn settle(&mut self, steps: usize) -> bool {
        let mut more = self.active.settle(steps) || self.hand_over(steps) || self.pick_scores(steps);
        for shadow in &mut self.shadows {
            more = more || shadow.settle(steps);
        }
        more
    }

    fn stand_in(&self, id: u32) -> Option<u32> {
        self.active.stand_in(id)
    }

    fn explain(&self) -> Option<Explanation> {
        Some(self.contest.explain(&self.shadows))
    }

    fn len(&self) -> usize {
        self.active.len() + self.leaving.as_ref().map_or(0, |(_, leaving)| leaving.len())
    }

    fn memory_bytes(&self) -> usize {
        let leaving = self.leaving.as_ref().map_or(0, |(_, leaving)| leaving.memory_bytes());
        let shadows = self.shadows.capacity() * size_of::<Shadow>();
        let within = self.shadows.iter().map(Shadow::heap_bytes).sum::<usize>();
        let picker = self.picker.as_ref().map_or(0, ScorePicker::heap_bytes);
        // Of scores as they came, the sender's are the bytes.
        let picked = self.picked.as_ref().map_or(0, |picked| size_of_val(&**picked) + 2 * size_of::<usize>());
        let waiting = self.waiting.iter().map(|(_, machine)| machine.memory_bytes()).sum::<usize>()
            + self.waiting.capacity() * size_of::<(Policy, Box<dyn Residency>)>();
        let own = size_of::<Self>() + self.sizes.heap_bytes() + self.contest.heap_bytes() + self.reach.heap_bytes();
        own + self.active.memory_bytes() + leaving + waiting + shadows + within + picker + picked
    }
}

#[cfg(test)]
mod tests;
