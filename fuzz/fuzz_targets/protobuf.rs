//! Protobuf messages from a stranger: any bytes are a message that is written and read again alike, or an error.
#![no_main]

use fodder_api::{icache, v1};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fn check<M: Message + Default + PartialEq>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        let again = M::decode(message.encode_to_vec().as_slice()).expect("what was written can be read");
        // A NaN is not equal to itself; its encoding is.
        assert!(again == message || again.encode_to_vec() == message.encode_to_vec());
    }
}

fuzz_target!(|bytes: &[u8]| {
    check::<v1::AddDatasetRequest>(bytes);
    check::<v1::GetItemsRequest>(bytes);
    check::<v1::ReadRequest>(bytes);
    check::<v1::StatRequest>(bytes);
    check::<v1::ListRequest>(bytes);
    check::<v1::StatusReply>(bytes);
    check::<v1::ItemBatch>(bytes);
    check::<v1::IntroduceRequest>(bytes);
    check::<v1::BeginEpochRequest>(bytes);
    check::<v1::NextBatchRequest>(bytes);
    check::<v1::ReportScoresRequest>(bytes);
    check::<v1::ReportEmbeddingsRequest>(bytes);
    check::<v1::ResumeRequest>(bytes);
    check::<v1::ListJobsReply>(bytes);
    check::<v1::PeerMessage>(bytes);
    check::<v1::PeerReply>(bytes);
    check::<icache::DcRequest>(bytes);
    check::<icache::DcReply>(bytes);
});
