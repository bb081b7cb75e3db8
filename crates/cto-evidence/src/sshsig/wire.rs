//! The encoding of SSH: lengths and numbers, big-endian, nothing left over.

/// Bytes that end too early, go on too long, or spell a number in more bytes than it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Truncated;

/// Bytes that are read from the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Truncated> {
        let (&byte, tail) = self.0.split_first().ok_or(Truncated)?;
        self.0 = tail;
        Ok(byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Truncated> {
        let bytes = self.take(4)?.try_into().map_err(|_| Truncated)?;
        Ok(u32::from_be_bytes(bytes))
    }

    pub(super) fn string(&mut self) -> Result<&'a [u8], Truncated> {
        let length = usize::try_from(self.u32()?).map_err(|_| Truncated)?;
        self.take(length)
    }

    /// A positive number of at most 32 bytes, in its shortest form.
    pub(super) fn scalar(&mut self) -> Result<[u8; 32], Truncated> {
        let bytes = self.string()?;
        let digits = match bytes {
            [0, rest @ ..] if rest.first().is_some_and(|b| b & 0x80 != 0) => rest,
            [first, ..] if *first != 0 && first & 0x80 == 0 => bytes,
            _ => return Err(Truncated),
        };
        let start = 32_usize.checked_sub(digits.len()).ok_or(Truncated)?;
        let mut out = [0; 32];
        out[start..].copy_from_slice(digits);
        Ok(out)
    }

    pub(super) fn end(self) -> Result<(), Truncated> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Truncated)
        }
    }
}

/// Appends bytes with their length.
#[expect(
    clippy::expect_used,
    reason = "what is written here has been read before, or is a few hundred bytes"
)]
pub(super) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a string of SSH is short");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a positive number in its shortest form.
pub(super) fn put_scalar(out: &mut Vec<u8>, digits: &[u8]) {
    let zeros = digits.iter().take_while(|b| **b == 0).count();
    let digits = &digits[zeros..];
    let mut number = Vec::with_capacity(digits.len() + 1);
    if digits.first().is_some_and(|b| b & 0x80 != 0) {
        number.push(0);
    }
    number.extend_from_slice(digits);
    put_string(out, &number);
}
