#![allow(clippy::unwrap_used)]
use super::{
    request::{GET, LEASE, LEASE_PATH, NEXT},
    *,
};
use crate::{
    Delivery, MAX_ACKNOWLEDGED, MAX_PATH_BYTES, Source,
    frames::{MAX_LEASES, MAX_REPLY_BYTES, MAX_REQUEST_BYTES},
    v1::ErrorCode,
};
use fodder_policy::job::{BatchRequest, JobId};
use proptest::prelude::*;

fn text(most: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..most / 4).prop_map(String::from_iter)
}

/// Encodes, cuts the head off, decodes, and compares.
fn round_trip(request: Request<'_>, number: u32, handle: u32) {
    let mut frame = vec![7; 3];
    request.encode(number, handle, &mut frame);
    let (head, body) = frame[3..].split_at(RequestHead::BYTES);
    let head = RequestHead::decode(head.try_into().unwrap()).unwrap();
    assert_eq!((head.request, head.handle, head.body_bytes as usize), (number, handle, body.len()));
    assert_eq!(Request::decode(head.op, body).unwrap(), request);
}

proptest! {
    #[test]
    fn a_request_is_decoded_as_it_was_encoded(
        name in text(255), path in text(4096), ids in proptest::collection::vec(any::<u64>(), 0..64),
        snapshot in any::<Option<[u8; 16]>>(), numbers in any::<(u64, u64, u64)>(), rank: u32, number in 1u32..,
        handle: u32,
    ) {
        let mut packed = Vec::new();
        let ids = pack(&ids, &mut packed);
        let mut touched = Vec::new();
        let objects = pack_objects(&[ObjectId { slot: rank, key: [9; 16] }; 3], &mut touched);
        let (item, offset, length) = numbers;
        let batch = BatchRequest { job: JobId(item), epoch: offset, rank, number: length, count: handle };
        let give = Give {
            dataset: &name, path: &path, key: [3; 16], offset: offset / 2, length: length / 2 + 1, only_held: true,
            stand_in: false, at_hand: true, again: false,
        };
        for request in [
            Request::Open { dataset: &name, snapshot },
            Request::Close,
            Request::Get { ids },
            Request::Read { target: TargetRef::Item(item), offset, length, reader: 0 },
            Request::Read { target: TargetRef::Path(&path), offset, length, reader: 0 },
            Request::Lease { ids },
            Request::LeaseCached { ids },
            Request::TouchItems { ids },
            Request::LeasePath { path: &path },
            Request::Return { leases: ids },
            Request::Ping,
            Request::Next { batch, acknowledged: ids },
            Request::Lookup { path: &path },
            Request::List {
                path: &path, behind: &name, snapshot: snapshot.filter(|id| *id != [0; 16]), rank, count: handle,
            },
            Request::LeaseObject {
                object: ObjectId { slot: rank, key: snapshot.unwrap_or_default() },
                arriving: if rank % 2 == 0 { Arriving::Await } else { Arriving::Ignore },
            },
            Request::OpenObject {
                object: ObjectId { slot: rank, key: [5; 16] },
                reader: item,
                arriving: if rank % 2 == 0 { Arriving::Await } else { Arriving::Ignore },
            },
            Request::Touch { objects },
            Request::Renew { check: rank % 2 == 0, objects },
            Request::View {
                object: ObjectId { slot: rank, key: snapshot.unwrap_or_default() },
                offset,
                length,
                reader: item,
                arriving: if rank % 2 == 0 { Arriving::Ignore } else { Arriving::Await },
            },
            Request::Viewed,
            Request::Give(give),
            Request::Take(Give { only_held: false, stand_in: true, at_hand: false, again: true, ..give }),
            Request::Tell { message: path.as_bytes() },
            Request::Meet { nonce: snapshot.unwrap_or_default() },
            Request::Prove { proof: [number as u8; 32] },
            Request::Describe { object: ObjectId { slot: rank, key: snapshot.unwrap_or_default() } },
            Request::Read {
                target: TargetRef::Object(ObjectId { slot: rank, key: [7; 16] }), offset, length, reader: 0,
            },
            Request::Read {
                target: TargetRef::Object(ObjectId { slot: rank, key: [7; 16] }), offset, length, reader: item,
            },
        ] {
            round_trip(request, number, handle);
        }
    }

    #[test]
    fn heads_are_decoded_as_they_were_encoded(
        numbers in any::<[u64; 6]>(), label: u32, index: u32, request: u32, body in 56u32..MAX_REPLY_BYTES,
        kind in 1u8..=14, source in 0i32..=9, delivery in 0i32..=4, status in 0i32..=10, flags in any::<(bool, bool, bool)>(),
        snapshot: [u8; 16],
    ) {
        let [asked, served, size, lease, object_bytes, offset] = numbers;
        let kinds = [Kind::Opened, Kind::Done, Kind::Item, Kind::Lease, Kind::Error, Kind::Batch, Kind::Entries,
            Kind::Object, Kind::Part, Kind::Met, Kind::Coming, Kind::Told, Kind::View, Kind::Renewed];
        let head = ReplyHead {
            body_bytes: body,
            request,
            kind: kinds[usize::from(kind) - 1],
            source: Source::try_from(source).unwrap(),
            status: ErrorCode::try_from(status).unwrap(),
            flags: Flags { label: flags.0, more: flags.1, descriptor: flags.2 },
            index,
        };
        assert_eq!(ReplyHead::decode(&head.encode()).unwrap(), head);
        let item = ItemHead { label, delivery: Delivery::try_from(delivery).unwrap(), asked, served, size };
        assert_eq!(ItemHead::decode(&item.encode()), item);
        let lease = LeaseHead { label, asked, served, lease, object_bytes, offset, length: size };
        assert_eq!(LeaseHead::decode(&lease.encode()), lease);
        for status in [RenewStatus::Unchecked, RenewStatus::Good, RenewStatus::Evicted, RenewStatus::Corrupt] {
            let renewed = Renewed { lease: size, status };
            assert_eq!(Renewed::decode(&renewed.encode()), renewed);
        }
        let batch = BatchHead { items: index };
        assert_eq!(BatchHead::decode(&batch.encode()), batch);
        let part = PartHead { crc: label, offset, end: size, object_bytes };
        assert_eq!(PartHead::decode(&part.encode()), part);
        let met = MetHead { nonce: snapshot, proof: [index as u8; 32] };
        assert_eq!(MetHead::decode(&met.encode()), met);
        let object = ObjectHead { cached_bytes: size };
        assert_eq!(ObjectHead::decode(&object.encode()), object);
        let entries = EntriesHead { snapshot, count: index, end: flags.0 };
        assert_eq!(EntriesHead::decode(&entries.encode()), entries);
        let opened = OpenedHead { handle: label, objects: index, snapshot, items: size, bytes: offset };
        assert_eq!(OpenedHead::decode(&opened.encode()), opened);
    }

    #[test]
    fn bytes_that_come_bit_by_bit_have_the_checksum_of_all_of_them(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000), first in 0usize..5000, step in 1usize..5000,
    ) {
        let (had, rest) = bytes.split_at(first.min(bytes.len()));
        let mut running = RunningChecksum::of(had);
        rest.chunks(step).for_each(|chunk| running.add(chunk));
        prop_assert_eq!(running.value(), checksum(&bytes));
    }

    #[test]
    fn arbitrary_bytes_are_never_more_than_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000), op: u8, head: [u8; 16], hello: [u8; 8],
    ) {
        let _ = Request::decode(op, &bytes);
        let _ = Request::decode(op % 22, &bytes);
        let _ = Entry::decode(&mut bytes.as_slice());
        let _ = RequestHead::decode(&head);
        let _ = ReplyHead::decode(&head);
        let _ = Hello::decode(&hello);
        let _ = HelloReply::decode(&hello);
    }
}

#[test]
fn the_newest_version_that_both_speak_is_chosen() {
    let (oldest, newest) = VERSIONS;
    assert_eq!(Hello { oldest, newest: 900 }.answer().version, newest);
    assert_eq!(Hello { oldest: 900, newest: 901 }.answer(), HelloReply { version: 0, newest });
    assert_eq!(Hello::decode(&Hello::OURS.encode()), Ok(Hello::OURS));
    assert!(Hello::decode(b"FODR\x02\0\x01\0").is_err());
    assert!(Hello::decode(b"HTTP\x01\0\x01\0").is_err());
}

#[test]
fn lengths_beyond_the_bounds_are_refused() {
    let mut head = RequestHead { body_bytes: MAX_REQUEST_BYTES, request: 1, op: GET, handle: 1 };
    assert!(RequestHead::decode(&head.encode()).is_ok());
    head.body_bytes += 1;
    assert!(RequestHead::decode(&head.encode()).is_err());
    assert!(Request::decode(LEASE, &vec![0; (MAX_LEASES + 1) * 8]).is_err());
    assert!(Request::decode(LEASE_PATH, &vec![b'x'; MAX_PATH_BYTES + 1]).is_err());
    assert!(Request::decode(GET, &[0; 9]).is_err());
    assert!(Request::decode(NEXT, &[0; 31]).is_err());
    assert!(Request::decode(NEXT, &vec![0; 32 + MAX_ACKNOWLEDGED * 8]).is_ok());
    assert!(Request::decode(NEXT, &vec![0; 40 + MAX_ACKNOWLEDGED * 8]).is_err());
    assert!(ReplyHead::decode(&ReplyHead::new(Kind::Item, 1, 31).encode()).is_err());
    assert!(ReplyHead::decode(&ReplyHead::new(Kind::Item, 1, MAX_REPLY_BYTES as usize + 1).encode()).is_err());
}

/// Slot, key, size and time of an object.
type Numbers = (u32, [u8; 16], u64, Option<i64>);

proptest! {
    #[test]
    fn entries_are_decoded_one_behind_the_other(
        all in proptest::collection::vec((text(255), any::<Option<Numbers>>(), any::<u32>()), 0..8),
    ) {
        let mut bytes = Vec::new();
        let entry = |(name, object, next): &(String, Option<Numbers>, u32)| {
            let object = object.map(|(slot, key, size, time)| ObjectInfo {
                id: ObjectId { slot, key },
                size,
                modified_ns: time.filter(|time| *time != i64::MIN),
            });
            (name.clone(), object, *next)
        };
        for (name, object, next) in all.iter().map(entry) {
            let link = (next % 3 == 0).then_some(LinkInfo { target: &name, modified_ns: -7 });
            Entry { name: &name, object, link, next }.encode(&mut bytes);
        }
        let mut rest = bytes.as_slice();
        for (name, object, next) in all.iter().map(entry) {
            let link = (next % 3 == 0).then_some(LinkInfo { target: &name, modified_ns: -7 });
            assert_eq!(Entry::decode(&mut rest).unwrap(), Entry { name: &name, object, link, next });
        }
        assert!(rest.is_empty());
    }
}
