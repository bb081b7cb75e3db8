//! A file of output with the known secrets taken out and the machine's paths renamed.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use cto_rules::secrets::{Known, Redactor};

/// Takes bytes as they come and writes what may be kept of them.
pub(crate) struct RedactedFile {
    file: io::BufWriter<File>,
    secrets: Redactor,
    places: Redactor,
    clean: Vec<u8>,
    buffer: Vec<u8>,
    error: Option<io::Error>,
}

impl RedactedFile {
    pub(crate) fn create(path: &Path, known: &Known, places: &Known) -> io::Result<Self> {
        Ok(Self::new(File::create_new(path)?, known, places))
    }

    pub(crate) fn new(file: File, known: &Known, places: &Known) -> Self {
        Self {
            file: io::BufWriter::new(file),
            secrets: Redactor::new(known),
            places: Redactor::new(places),
            clean: Vec::new(),
            buffer: Vec::new(),
            error: None,
        }
    }

    /// Takes bytes and returns what is written of them; the first error is kept and ends the writing.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> &[u8] {
        self.clean.clear();
        self.buffer.clear();
        self.secrets.push(bytes, &mut self.clean);
        self.places.push(&self.clean, &mut self.buffer);
        if self.error.is_none() {
            self.error = self.file.write_all(&self.buffer).err();
        }
        &self.buffer
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.clean.clear();
        self.buffer.clear();
        self.secrets.finish(&mut self.clean);
        self.places.push(&self.clean, &mut self.buffer);
        self.places.finish(&mut self.buffer);
        match self.error.take() {
            Some(error) => Err(error),
            None => self
                .file
                .write_all(&self.buffer)
                .and_then(|()| self.file.flush()),
        }
    }
}
