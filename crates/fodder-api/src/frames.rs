//! The framed batch protocol: bytes in bulk, beside gRPC and on the same addresses.
//!
//! docs/decisions/0005 says why it exists. [`FrameClient`] is its blocking client; the codec here is what both sides
//! share. It is spoken over TCP and over the Unix socket; leases need the Unix socket.
//!
//! # Layout
//!
//! All numbers are little-endian. A client begins with a hello, the node answers with one, then each side sends frames:
//!
//! ```text
//! hello of the client   0 "FODR"  4 oldest version u16  6 newest version u16
//! hello of the node     0 "FODR"  4 version u16 (0: none in common, and the connection ends)  6 newest version u16
//!
//! request      0 bytes behind these 16 u32   4 request u32   8 op u8   9 zero [3]   12 handle u32
//!   1 OPEN     16 flags u8 (1: a snapshot is named)  17 snapshot [16]  33 dataset utf-8        -> OPENED
//!   2 CLOSE                                                                                    -> DONE
//!   3 GET      16 ids u64 ...                                                                  -> ITEM ... one for each id
//!   4 READ     16 offset u64  24 length u64 (0: to the end)  32 target                         -> ITEM ...
//!   5 LEASE    16 targets ... (ids u64 of items, at most 64)                                   -> LEASE ... one for each
//!   6 LEASE_PATH  16 path utf-8                                                                -> LEASE
//!   7 RETURN   16 leases u64 ...                                                               no reply
//!   8 PING                                                                                     -> DONE
//!   9 NEXT     16 job u64  24 epoch u64  32 number u64  40 rank u32  44 count u32
//!              48 batches u64 that were consumed meanwhile ... (at most 1,024)                 -> BATCH, ITEM ...
//!  10 LOOKUP   16 path utf-8                                                                   -> ENTRIES (one)
//!  11 LIST     16 snapshot [16] (zero: the newest)  32 rank u32  36 count u32  40 bytes of the path u32
//!              44 path utf-8  .. behind utf-8                                                  -> ENTRIES
//!  12 LEASE_OBJECT  16 object  36 (from version 10 on, or absent) 1: ignore what is on its way u8  -> LEASE
//!  13 DESCRIBE 16 object                                                                       -> OBJECT
//!  14 TOUCH    16 objects ... (at most 4,096)                                                  no reply
//!  15 GIVE     16 offset u64  24 length u64  32 key [16]  48 flags u8 (1: only what is held, 2: in the owner's place, 4: only what
//!              is at hand, 8: again)  49 zero u8  50 bytes of the name u16  52 dataset utf-8  .. path utf-8 -> COMING ..., PART ...
//!  16 MEET     16 nonce [16]                                                                   -> MET
//!  17 PROVE    16 proof [32]                                                                   -> DONE
//!  18 TAKE     as GIVE                                                                         -> COMING ..., DONE
//!  19 TELL     16 a PeerMessage of peer.proto                                                  -> COMING ..., TOLD
//!  20 VIEW     16 offset u64  24 length u64  32 reader u64  40 object  60 as 36 of LEASE_OBJECT    -> VIEW
//!  21 VIEWED                                                                                   -> DONE
//!  22 OPEN_OBJECT  16 reader u64  24 object                                                    -> LEASE, or ITEM ...
//!  23 RENEW    16 check u8  17 objects ... (at most 64), with a descriptor for each           -> RENEWED
//!  24 LEASE_CACHED  16 ids u64 ... (at most 64)                                               -> LEASE ... one for each
//!  25 TOUCH_ITEMS   16 ids u64 ...                                                            no reply
//!   target     0 kind u8 (0: item, 1: path, 2: object)  1 id u64 | path utf-8 | object
//!   object     0 slot u32  4 key [16]
//!
//! reply        0 bytes behind these 16 u32   4 request u32   8 kind u8   9 source u8   10 status u8   11 flags u8
//!              12 index u32
//!   1 OPENED   16 handle u32  20 objects u32  24 snapshot [16]  40 items u64  48 bytes of all objects u64
//!   2 DONE
//!   3 ITEM     16 label u32  20 delivery u8  21 zero [3]  24 asked u64  32 served u64  40 size u64
//!              48 bytes, or text if status is not 0
//!   4 LEASE    16 label u32  20 zero u32  24 asked u64  32 served u64  40 lease u64  48 object's size u64
//!              56 offset u64  64 length u64  72 text if status is not 0
//!   5 ERROR    16 text
//!   6 BATCH    16 items u32 that follow, each as an ITEM  20 zero u32
//!   7 ENTRIES  16 snapshot [16]  32 entries u32  36 end u8  37 zero [3]  40 entry ...
//!     entry    0 directory u8  1 link u8  2 bytes of the name u16  4 next u32  8 object  28 size u64
//!              36 modified i64 (ns since 1970; the least number: not known)  44 name utf-8
//!              and behind the name of a link (from version 3 on; else it is what it leads to):
//!              0 modified i64  8 bytes of the target u16  10 target utf-8
//!   8 OBJECT   16 cached bytes u64  24 version utf-8; `source` is the tier that has all of it
//!   9 PART     16 crc-32c of the bytes u32  20 zero u32  24 offset u64  32 end of the answer u64  40 object's size u64
//!              48 bytes
//!  10 MET      16 nonce [16]  32 proof [32]
//!  11 COMING
//!  12 TOLD     16 a PeerReply of peer.proto
//!  13 VIEW
//!  14 RENEWED  16 for each object: lease u64 (0: not counted), status u8 (0: not checked, 1: good, 2: evicted, 3: corrupt)
//! ```
//!
//! Requests 15 to 19 are what nodes of a cluster say to each other, from version 4 on, TELL from version 5 on. Where the cluster has a token, each
//! side proves that it knows it before anything is given or answered: a proof is a keyed BLAKE3 hash of `node` or `peer` and both
//! nonces. A GIVE is answered from the node's tiers, or, if the node owns the bytes, through its own fetch, else with
//! `NotFound`; COMING is said at once and again while the node waits. What is asked for as at hand (from version 7 on) is answered
//! with `NotFound` instead of COMING: so many such requests may be sent behind each other, and are answered in their order. Who
//! was sent bytes that do not match says so when it asks again (from version 8 on): the node first compares what it has of them with
//! its checksums, and drops what differs.
//!
//! `source` is a number of [`Source`](crate::Source), `delivery` one of [`Delivery`](crate::Delivery), `status` one of
//! [`ErrorCode`](crate::v1::ErrorCode), `index` the place of the item in the answer. Flags: 1 there is a label; 2 the
//! item goes on in the next frame, which continues its bytes; 4 a file descriptor came with the frame. `size` is the
//! whole item's. For an object asked for by its path, `asked` and `served` are [`NO_ITEM`]. A failed item voids the parts
//! of it that came before. The items of a NEXT are of the job's snapshot, whatever snapshot its handle was opened at. An
//! ERROR answers a request as a whole; with request 0 it is about the connection, which ends behind it.
//!
//! LOOKUP and LIST speak of the newest snapshot, whatever the handle was opened at, or of the one that LIST names: a
//! listing goes on at the `rank` that an entry of that snapshot gave as its `next`. If the node no longer keeps it, the
//! listing goes on in the newest behind the name `behind` (a directory's has a slash at its end), and the answer says so.
//! Requests that name an object are answered for exactly that version, or with `Stale`. A LEASE_OBJECT is answered with a
//! file only if all of the object is in one tier, else with `Full`: it fetches nothing. It counts as a hit; files that
//! the client has already and opens again are told with TOUCH, late and not all if there are too many. The node waits a moment
//! for bytes that are on their way, unless the client asks it not to: such a request never waits for the origin, only for the
//! node's disk. The same holds for VIEW.
//!
//! An OPEN_OBJECT (from version 6 on, over the Unix socket) asks for both at once: it is answered as a LEASE_OBJECT if all of
//! the object is in one tier and a file can be had of it, else as a READ of the whole object.
//!
//! A VIEW (from version 5 on, over the Unix socket) is answered with a descriptor of the cache file, in which the range stands
//! where it stands in the object, or with `Full` if no tier has all of it soon: then READ it. The file may change at any
//! moment. What was read from it is right if a VIEWED behind it, on the same connection, is answered with DONE; `Stale`
//! means that it may not be. Only the last VIEW of a connection can be asked about, and only once.
//!
//! A RENEW (from version 9 on, over the Unix socket) reports leased files that the client has open and that the node does not
//! know of, because it was restarted or the connection was lost. The node believes the descriptor and not the object: a file that
//! it still has for the object is pinned as a lease is; another one is counted against the quota if it looks like a sealed file
//! of a tier. With `check` it compares the file with its checksums first; a corrupt one is dropped from the cache. Leases of a
//! RENEW are returned like any other.
//!
//! A LEASE_CACHED (from version 9 on) leases items that are whole objects and whole in one tier, and fetches nothing. TOUCH_ITEMS
//! reports reads of leases that a client kept, so that they count as hits.
//!
//! Descriptors travel as SCM_RIGHTS beside the bytes, in the order of the frames that name them.

mod batch;
mod client;
mod codec;
mod lease;
mod socket;

pub use batch::{Batch, BatchItem, Room};
pub use client::{Entries, FrameClient, Opened};
pub use codec::{
    Arriving, BadFrame, BatchHead, EntriesHead, Entry, Flags, Give, Hello, HelloReply, Ids, ItemHead, Kind, LeaseHead,
    LinkInfo, MetHead, ObjectHead, ObjectId, ObjectIds, ObjectInfo, OpenedHead, PartHead, RenewStatus, Renewed,
    ReplyHead, Request, RequestHead, RunningChecksum, TargetRef, checksum,
};
pub use lease::{Lease, LeaseCache, LeaseStatus, Leased};
pub use socket::{Socket, ask_on_signal};

/// The first bytes of every connection, from both sides.
pub const MAGIC: [u8; 4] = *b"FODR";

/// The versions this code speaks, oldest and newest.
pub const VERSIONS: (u16, u16) = (2, 10);

/// The first version in which nodes give each other bytes.
pub const GIVES_SINCE: u16 = 4;

/// The first version in which nodes ask each other in words.
pub const TELLS_SINCE: u16 = 5;

/// The first version in which nodes ask each other for what is at hand.
pub const HANDS_SINCE: u16 = 7;

/// The first version in which a node that is asked again compares what it has before it sends it.
pub const COMPARES_SINCE: u16 = 8;

/// The first version that shows cache files which may still change.
pub const VIEWS_SINCE: u16 = 5;

/// The first version that answers with a file or with bytes, whichever there is.
pub const OPENS_SINCE: u16 = 6;

/// The first version in which clients report the leases that they hold.
pub const RENEWS_SINCE: u16 = 9;

/// The first version in which clients may ask not to wait for bytes that are on their way.
pub const IGNORES_ARRIVING_SINCE: u16 = 10;

/// The first version that tells which entries of a directory are symbolic links.
pub const LINKS_SINCE: u16 = 3;

/// Stands for the item of an object that was asked for by its path.
pub const NO_ITEM: u64 = u64::MAX;

/// Set in the number of a reader: a kernel asks, for pages around one of a mapped file that somebody has touched.
pub const PAGED_READER: u64 = 1 << 63;

/// The longest a request may be behind its head: as many ids as are allowed.
pub const MAX_REQUEST_BYTES: u32 = (crate::MAX_IDS * 8) as u32;

/// The most a reply may carry behind its head: a part of an item, and its own head.
pub const MAX_REPLY_BYTES: u32 = (1 << 20) + 4096;

/// The most entries of a directory in one answer.
pub const MAX_ENTRIES: usize = 4096;

/// The most leases one request may ask for: each brings a file descriptor, and the kernel takes 253 in one message.
pub const MAX_LEASES: usize = 64;

/// Objects that are told of in one TOUCH.
pub const MAX_TOUCHED: usize = 4096;
