//! How an inode's handles are open, all of them alike: the kernel's rules as a state machine.
//!
//! While one handle of an inode reads the backing file (passthrough), every other must, and through the same backing id;
//! while one goes through the kernel's cache, none may be passthrough. The kernel answers a violation with EIO and tells
//! the daemon nothing, so the rules are kept here. An inode is one version of an object: its bytes never change, and what
//! may change about it is only where they are. Knows neither the kernel's calls nor nodes.

use std::sync::Arc;

/// How a handle is open.
#[derive(Debug)]
pub(crate) enum Mode<B> {
    /// The kernel reads the file itself.
    Passthrough(Arc<B>),
    /// Every read is answered, nothing is kept by the kernel.
    Direct,
    /// Reads are answered, and the kernel keeps what it got.
    Cached,
}

impl<B> Clone for Mode<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Passthrough(file) => Self::Passthrough(Arc::clone(file)),
            Self::Direct => Self::Direct,
            Self::Cached => Self::Cached,
        }
    }
}

/// What the open handles of one inode have in common.
#[derive(Debug, Default)]
pub(crate) enum State<B> {
    /// There are none: any mode may come next.
    #[default]
    Idle,
    /// So many, and how they are open.
    Open(usize, Mode<B>),
}

/// What a connection to the kernel lets files be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Files that are whole are passed through; others are direct.
    Passthrough,
    /// The kernel refuses that: it keeps what it gets.
    KeepCache,
}

impl<B> State<B> {
    /// The mode a further handle must have because of those that are open; None: it may be chosen.
    pub(crate) fn bound(&self) -> Option<&Mode<B>> {
        match self {
            Self::Idle => None,
            Self::Open(_, mode) => Some(mode),
        }
    }

    /// Opens one more handle: as the others are, or, if there are none, by what there is of the object.
    pub(crate) fn open(&mut self, policy: Policy, whole: Option<Arc<B>>) -> Mode<B> {
        let mode = match (self.bound(), policy, whole) {
            (Some(mode), _, _) => mode.clone(),
            (None, Policy::Passthrough, Some(file)) => Mode::Passthrough(file),
            (None, Policy::Passthrough, None) => Mode::Direct,
            (None, Policy::KeepCache, _) => Mode::Cached,
        };
        let open = self.handles();
        *self = Self::Open(open + 1, mode.clone());
        mode
    }

    /// One handle was released. If it was the last, how it was open: the caller drops that where it holds no lock.
    pub(crate) fn release(&mut self) -> Option<Mode<B>> {
        match std::mem::take(self) {
            Self::Open(handles, mode) if handles > 1 => {
                *self = Self::Open(handles - 1, mode);
                None
            }
            Self::Open(_, mode) => Some(mode),
            Self::Idle => None,
        }
    }

    /// How many handles are open.
    pub(crate) fn handles(&self) -> usize {
        match self {
            Self::Idle => 0,
            Self::Open(handles, _) => *handles,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// What the kernel keeps of an inode (fs/fuse/iomode.c), and what it refuses.
    #[derive(Default)]
    struct Kernel {
        /// Handles that go through its cache; a direct handle that was mapped shared counts too.
        cached: usize,
        passthrough: usize,
        backing: Option<usize>,
    }

    impl Kernel {
        /// Whether it lets an open be.
        fn open(&mut self, mode: &Mode<u8>) -> bool {
            match mode {
                Mode::Passthrough(file) => {
                    let file = Arc::as_ptr(file).addr();
                    if self.cached > 0 || self.backing.is_some_and(|other| other != file) {
                        return false;
                    }
                    (self.passthrough, self.backing) = (self.passthrough + 1, Some(file));
                }
                Mode::Cached if self.passthrough > 0 => return false,
                Mode::Cached => self.cached += 1,
                Mode::Direct if self.passthrough > 0 => return false,
                Mode::Direct => {}
            }
            true
        }

        fn release(&mut self, mode: &Mode<u8>, mapped: bool) {
            match mode {
                Mode::Passthrough(_) => {
                    self.passthrough -= 1;
                    self.backing = self.backing.filter(|_| self.passthrough > 0);
                }
                Mode::Cached => self.cached -= 1,
                Mode::Direct => self.cached -= usize::from(mapped),
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// Open; whether the object is whole now, in a file of its own each time it is.
        Open(bool),
        /// Map a handle shared.
        Map(usize),
        Release(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => any::<bool>().prop_map(Step::Open),
            1 => (0usize..8).prop_map(Step::Map),
            2 => (0usize..8).prop_map(Step::Release),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn the_kernel_never_has_a_reason_to_refuse(steps in steps(), passthrough: bool) {
            let policy = if passthrough { Policy::Passthrough } else { Policy::KeepCache };
            let (mut state, mut kernel) = (State::<u8>::default(), Kernel::default());
            let mut handles: Vec<(Mode<u8>, bool)> = Vec::new();
            for step in steps {
                match step {
                    Step::Open(whole) => {
                        let mode = state.open(policy, whole.then(|| Arc::new(0)));
                        prop_assert!(kernel.open(&mode), "{mode:?} beside {handles:?}");
                        handles.push((mode, false));
                    }
                    Step::Map(at) => {
                        if let Some((Mode::Direct, mapped)) = handles.get_mut(at) {
                            kernel.cached += usize::from(!*mapped);
                            *mapped = true;
                        }
                    }
                    Step::Release(at) => {
                        if at < handles.len() {
                            let (mode, mapped) = handles.swap_remove(at);
                            kernel.release(&mode, mapped);
                            prop_assert_eq!(state.release().is_some(), handles.is_empty());
                        }
                    }
                }
                prop_assert_eq!(state.handles(), handles.len());
            }
        }
    }

    #[test]
    fn an_object_that_became_whole_is_passed_through_from_the_first_open_after_the_last_release() {
        let mut state = State::default();
        assert!(matches!(state.open(Policy::Passthrough, None), Mode::Direct));
        assert!(matches!(state.open(Policy::Passthrough, Some(Arc::new(1))), Mode::Direct));
        assert!(state.release().is_none());
        assert!(state.release().is_some());
        let first = Arc::new(2);
        assert!(matches!(state.open(Policy::Passthrough, Some(first.clone())), Mode::Passthrough(_)));
        let Mode::Passthrough(second) = state.open(Policy::Passthrough, Some(Arc::new(3))) else { panic!("mixed") };
        assert!(Arc::ptr_eq(&first, &second), "one backing file for all handles");
    }

    #[test]
    fn where_passthrough_is_refused_everything_goes_through_the_kernels_cache() {
        let mut state = State::default();
        assert!(matches!(state.open(Policy::KeepCache, None), Mode::Cached));
        assert!(matches!(state.open(Policy::KeepCache, Some(Arc::new(1))), Mode::Cached));
    }
}
