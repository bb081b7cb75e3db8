//! Reads what lies in the memory of who called: strings, addresses and lists, each with a bound.
//!
//! It can change while it is read and afterwards, and may not be there at all. Nothing read here allows anything.

use std::io;

use crate::attempt::{ARGUMENT_BYTES_MAX, ARGUMENTS_MAX};
use crate::sys::{self, notifying};

use super::address::{ADDRESS_BYTES_MAX, Address};

/// Longest path that the kernel takes.
const PATH_BYTES_MAX: usize = 4096;
/// Most paths are shorter, and reading less is faster.
const FIRST_BYTES: u64 = 256;
/// Most messages of one call whose addresses are looked at.
const MESSAGES_MAX: usize = 16;

/// The memory of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) thread: u32,
}

impl Memory {
    /// Reads a path into `into`, without its end. One that is too long for the kernel is cut.
    pub(super) fn path(self, address: u64, into: &mut Vec<u8>) -> io::Result<()> {
        self.text(address, PATH_BYTES_MAX, into)
    }

    /// Reads up to the first NUL, never beyond the page in which it lies.
    fn text(self, mut address: u64, most: usize, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        let page = sys::page_bytes();
        let mut piece = FIRST_BYTES;
        while into.len() < most {
            let left = u64::try_from(most - into.len()).unwrap_or(0);
            let here = (page - address % page).min(piece).min(left);
            let start = into.len();
            into.resize(start + usize::try_from(here).unwrap_or(0), 0);
            let count = notifying::read_memory(self.thread, address, &mut into[start..]);
            let count = count.inspect_err(|_| into.truncate(start))?;
            into.truncate(start + count);
            if let Some(end) = into[start..].iter().position(|&byte| byte == 0) {
                into.truncate(start + end);
                return Ok(());
            }
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            address = address.wrapping_add(count as u64);
            piece = page;
        }
        Ok(())
    }

    fn exact<const N: usize>(self, address: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        match notifying::read_memory(self.thread, address, &mut bytes)? {
            count if count == N => Ok(bytes),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    pub(super) fn number(self, address: u64) -> io::Result<u64> {
        self.exact(address).map(u64::from_ne_bytes)
    }

    pub(super) fn address(self, address: u64, length: u64) -> io::Result<Address> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut bytes = [0; ADDRESS_BYTES_MAX];
        let wanted = &mut bytes[..length.min(ADDRESS_BYTES_MAX)];
        let count = notifying::read_memory(self.thread, address, wanted)?;
        Ok(Address::parse(&bytes[..count]))
    }

    /// Reads the address in a message header: its first two fields.
    pub(super) fn message_address(self, header: u64) -> io::Result<Address> {
        let bytes: [u8; 16] = self.exact(header)?;
        let (name, rest) = bytes.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]);
        match word(name) {
            0 => Ok(Address::Other),
            name => self.address(name, u64::from(length)),
        }
    }

    /// Reads the addresses in a list of message headers.
    pub(super) fn message_addresses(self, list: u64, count: u64) -> io::Result<Vec<Address>> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let step = std::mem::size_of::<libc::mmsghdr>() as u64;
        (0..count.min(MESSAGES_MAX) as u64)
            .map(|index| self.message_address(list.wrapping_add(index * step)))
            .collect()
    }

    /// Reads the arguments of an execution; what cannot be read ends the list.
    pub(super) fn arguments(self, mut list: u64) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut text = Vec::new();
        while list != 0 && arguments.len() < ARGUMENTS_MAX {
            let Ok(pointer) = self.number(list) else {
                break;
            };
            if pointer == 0 || self.text(pointer, ARGUMENT_BYTES_MAX, &mut text).is_err() {
                break;
            }
            arguments.push(lossy(&text, ARGUMENT_BYTES_MAX));
            list = list.wrapping_add(8);
        }
        arguments
    }
}

/// Returns bytes as text of at most `most` bytes.
pub(super) fn lossy(bytes: &[u8], most: usize) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
