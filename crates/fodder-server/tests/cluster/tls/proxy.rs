//! Somebody between two nodes who writes down what passes.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A proxy; it lives until the test's process ends.
pub(super) struct Proxy {
    pub(super) address: String,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Proxy {
    pub(super) fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (heard, target) = (Arc::<Mutex<Vec<u8>>>::default(), target.to_owned());
        let writes = Arc::clone(&heard);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, Ok(server)) = (client.unwrap(), TcpStream::connect(&target)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to, heard) = (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&writes));
                    thread::spawn(move || pass(from, to, &heard));
                }
            }
        });
        Self { address, heard }
    }

    /// Whether these bytes have passed, in one go.
    pub(super) fn overheard(&self, text: &[u8]) -> bool {
        self.heard.lock().unwrap().windows(text.len()).any(|window| window == text)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, heard: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = from.read(&mut buffer) {
        heard.lock().unwrap().extend_from_slice(&buffer[..length]);
        if length == 0 || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
