//! Writes down what the node is asked for, piece by piece, for `fodder sim --trace`.
//!
//! Whoever reads only appends a few bytes to a buffer; a thread of its own writes them to the file. A file that cannot
//! take them costs the record, and never a read. What must not be here: the format, which is the simulator's.

use super::{Dataset, Source};
use crate::{Error, Result, id::ObjectSlot};
use fodder_policy::sim::trace::Recorder;
use parking_lot::{Condvar, Mutex};
use std::{
    fs::File,
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// So many bytes are written at once, unless less came for [`REST`].
const CHUNK_BYTES: usize = 256 << 10;

/// How long what was recorded may wait to be written.
const REST: Duration = Duration::from_secs(1);

/// What may wait to be written. A disk that is slower than the readers loses reads from the record.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// A record that is being written.
#[derive(Debug)]
pub(super) struct Recording {
    inner: Mutex<Inner>,
    /// There is a chunk, or it is the end.
    due: Condvar,
    began: Instant,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Inner {
    recorder: Recorder,
    lost: u64,
    ended: bool,
}

impl Recording {
    /// Begins a record; what the file held before is gone.
    pub(super) fn start(path: &Path) -> Result<Arc<Self>> {
        let file = File::create(path).map_err(|error| Error::io("write the recording", path, &error))?;
        let recording = Arc::new(Self {
            inner: Mutex::default(),
            due: Condvar::new(),
            began: Instant::now(),
            writer: Mutex::default(),
        });
        let (writer, path) = (Arc::clone(&recording), path.to_owned());
        let thread = std::thread::Builder::new().name("record".into()).spawn(move || writer.write(file, path));
        let thread = thread.map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))?;
        *recording.writer.lock() = Some(thread);
        Ok(recording)
    }

    /// The number under which a dataset's reads are recorded.
    pub(super) fn dataset(&self, name: &str) -> u32 {
        self.inner.lock().recorder.dataset(name)
    }

    /// Pieces of a dataset were read: their ids, and how many bytes each has.
    pub(super) fn read(&self, dataset: u32, pieces: Range<u32>, bytes: impl Fn(u32) -> u32) {
        let mut inner = self.inner.lock();
        // Taken under the lock, so that time does not go back in the record.
        let at_ms = self.began.elapsed().as_millis() as u64;
        if inner.recorder.pending_bytes() > MAX_WAITING_BYTES {
            inner.lost += u64::from(pieces.end - pieces.start);
            return;
        }
        pieces.for_each(|piece| inner.recorder.read(dataset, at_ms, piece, bytes(piece)));
        if inner.recorder.pending_bytes() >= CHUNK_BYTES {
            self.due.notify_one();
        }
    }

    /// The pieces of a dataset are worth this from now on.
    pub(super) fn scores(&self, dataset: u32, by_piece: &[f32]) {
        self.inner.lock().recorder.scores(dataset, by_piece);
        self.due.notify_one();
    }

    /// Writes what is left, and ends.
    pub(super) fn close(&self, deadline: Option<Instant>) -> bool {
        self.inner.lock().ended = true;
        self.due.notify_one();
        let writer = self.writer.lock().take();
        super::shutdown::join_until(deadline, writer.into_iter().collect()) == 0
    }

    fn write(&self, mut file: File, path: PathBuf) {
        loop {
            let (bytes, ended, lost) = {
                let mut inner = self.inner.lock();
                if !inner.ended && inner.recorder.pending_bytes() < CHUNK_BYTES {
                    self.due.wait_for(&mut inner, REST);
                }
                (inner.recorder.take(), inner.ended, std::mem::take(&mut inner.lost))
            };
            if lost > 0 {
                tracing::warn!(reads = lost, "the recording has a gap: the disk did not keep up");
            }
            if let Err(error) = file.write_all(&bytes) {
                tracing::warn!(path = %path.display(), %error, "the recording cannot be written and ends here");
                return;
            }
            if ended {
                return;
            }
        }
    }
}

impl Dataset {
    /// A read was answered: it is counted and sampled, and written down if that was asked for.
    pub(super) fn answered(&self, object: ObjectSlot, range: Range<u64>, source: Source) {
        self.counters.served(source, range.end - range.start);
        let objects = self.objects.load();
        let (first, piece_bytes) = (objects.first_piece(object).0, u64::from(objects.piece_bytes()));
        let pieces = self.pieces_in(object, &range);
        let bytes = |piece: u32| {
            let behind = objects.size(object).saturating_sub(u64::from(piece - first) * piece_bytes);
            behind.min(piece_bytes) as u32
        };
        self.meter.read(pieces.clone(), bytes);
        if let (Some(recording), Some(number)) = (&self.shared.recording, self.recorded_as) {
            recording.read(number, pieces, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fodder_policy::sim::trace::{Choice, Reader};

    #[test]
    fn what_was_read_is_in_the_file_in_its_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let recording = Recording::start(&path).unwrap();
        let dataset = recording.dataset("pets");
        recording.read(dataset, 3..6, |_| 100);
        recording.read(dataset, 0..1, |_| 7);
        assert!(recording.close(None));
        let mut reader = Reader::new(Choice::default());
        reader.feed(&std::fs::read(&path).unwrap()).unwrap();
        let trace = reader.finish().unwrap();
        assert_eq!(trace.requests.len(), 4);
        let sizes: Vec<_> = trace.requests.iter().map(|id| trace.sizes.of(*id)).collect();
        assert_eq!(sizes, [100, 100, 100, 7]);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = Recording::start(Path::new("/no/such/place/trace")).unwrap_err();
        assert!(error.to_string().contains("/no/such/place/trace"), "{error}");
    }
}
