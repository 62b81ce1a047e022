//! Names of any bytes as text. Names are text everywhere in Fodder; those of files may be anything.
//!
//! A byte that is not part of UTF-8 is spelled as one private character (U+10F780 to U+10F7FF). Text that has such a
//! character is spelled byte by byte, so that no two names are spelled alike. All other names are spelled as they are.

use std::borrow::Cow;

/// What is added to a byte above 0x7f.
const PRIVATE: u32 = 0x10_F700;

/// The first byte of every private character in UTF-8; few other characters have it.
const FIRST_BYTE: u8 = 0xF4;

fn spelled(byte: u8) -> char {
    char::from_u32(PRIVATE + u32::from(byte)).expect("a private character for each byte")
}

fn byte_of(c: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(c).checked_sub(PRIVATE)?).ok()?;
    (byte >= 0x80).then_some(byte)
}

/// A name as text.
pub fn text(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !name.contains(&FIRST_BYTE) => return Cow::Borrowed(text),
        _ => {}
    }
    let mut text = String::with_capacity(name.len() * 2);
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match byte_of(c) {
                Some(_) => text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(spelled)),
                None => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(spelled));
    }
    Cow::Owned(text)
}

/// The name that a text spells.
pub fn name(text: &str) -> Cow<'_, [u8]> {
    if !text.as_bytes().contains(&FIRST_BYTE) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut name = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => name.push(byte),
            None => name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(name)
}

/// Whether a text is how its name is spelled: no other text is taken for the name.
pub fn is_spelled(text: &str) -> bool {
    self::text(&name(text)) == text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_spelled_as_it_is_and_other_bytes_as_private_characters() {
        assert_eq!(text("ünï 😀".as_bytes()), "ünï 😀");
        assert_eq!(text(b"a\xffb"), "a\u{10F7FF}b");
        assert_eq!(name("a\u{10F7FF}b"), &b"a\xffb"[..]);
        // Three bytes that are one character together are no spelling of it.
        assert!(!is_spelled("\u{10F7E2}\u{10F782}\u{10F7AC}") && is_spelled("€"));
        assert_ne!(text("\u{10F7FF}".as_bytes()), text(b"\xff"));
    }

    proptest! {
        #[test]
        fn every_name_survives_its_spelling(bytes: Vec<u8>, private in 0x10_F6F0u32..0x10_F810) {
            let mut bytes = bytes;
            bytes.extend(char::from_u32(private).unwrap().encode_utf8(&mut [0; 4]).bytes());
            let text = text(&bytes);
            prop_assert!(*name(&text) == *bytes && is_spelled(&text));
            prop_assert_eq!(text.contains('\0'), bytes.contains(&0));
            prop_assert_eq!(text.matches('/').count(), bytes.iter().filter(|byte| **byte == b'/').count());
        }
    }
}
