//! Archives as other tools write them, and small ones that would need much to be read.

use std::process::Command;

use crate::place::{Place, sh};

/// Most memory that an import may take, whatever its archive says: enough for any honest one of these tests.
const MEMORY_KIB: u64 = 1 << 20;

#[test]
fn long_names_come_in_however_a_tool_writes_them() {
    let here = Place::new().with_key();
    let pack = here.passed();
    let runs = pack.parent().unwrap();
    let id = pack.file_name().unwrap().to_str().unwrap();
    let long = "n".repeat(180);
    for format in ["gnu", "pax", "posix", "oldgnu"] {
        let there = Place::new().with_key();
        let file = there.path("x.tar");
        let make = format!(
            "tar --format={format} -cf {} --transform 's,^{id},{long},' {id}",
            file.display()
        );
        sh(runs, &make);
        let done = there.cto(&["import", "x.tar", "--json"]).expect(0).json();
        assert_eq!(done["run_id"], id, "{format}");
        assert_eq!(
            there.cto(&["verify", id, "--integrity-only"]).code,
            Some(0),
            "{format}"
        );
    }
    // And with what `git archive` puts in front.
    let there = Place::new().with_key();
    let header = "import tarfile; t = tarfile.open('x.tar', 'w', format=tarfile.PAX_FORMAT, pax_headers={'comment': 'c'}); t.add(r'PACK', 'ID'); t.close()";
    let header = header
        .replace("PACK", &pack.display().to_string())
        .replace("ID", id);
    sh(&there.path(""), &format!("python3 -c \"{header}\""));
    there.cto(&["import", "x.tar"]).expect(0);
}

/// A name of so many megabytes for the next entry, in one of the two ways to write one.
const BOMB: &str = r#"
import gzip, sys
def head(name, size, kind):
    h = bytearray(512)
    h[0:len(name)] = name
    h[100:108] = b'0000644\0'
    h[108:116] = h[116:124] = b'0000000\0'
    h[124:136] = b'%011o\0' % size
    h[136:148] = b'00000000000\0'
    h[156:157] = kind
    h[257:265] = b'ustar  \0'
    h[148:156] = b' ' * 8
    h[148:156] = b'%06o\0 ' % sum(h)
    return bytes(h)
size = 2000 << 20
with gzip.open('x.tar.gz', 'wb', compresslevel=1) as f:
    f.write(head(b'long', size, sys.argv[1].encode()))
    for _ in range(int(sys.argv[2])):
        f.write(b'a' * (1 << 20))
"#;

#[test]
fn a_small_archive_with_an_endless_name_is_refused_before_it_is_read() {
    let place = Place::new().with_key();
    crate::place::write(&place.path("bomb.py"), BOMB);
    for kind in ["L", "x", "g", "K"] {
        // It says two gigabytes; what is there is enough to see whether anybody reads on.
        sh(&place.path(""), &format!("python3 bomb.py {kind} 4"));
        let like = place.command(&["import", "x.tar.gz", "--json"]);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v \"$1\"; shift; exec \"$@\"", "sh"]);
        command.arg(MEMORY_KIB.to_string()).arg(like.get_program());
        command.args(like.get_args()).current_dir(place.path(""));
        command.env_clear();
        command.envs(like.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let ran = crate::place::Ran::of(command.output().unwrap());
        assert_eq!(
            ran.error(),
            "2 archive_entry_refused",
            "{kind}: {}",
            ran.err
        );
    }
    // A record that gives the next entry another size than its head.
    let sized = "import tarfile, io; t = tarfile.open('x.tar', 'w', format=tarfile.PAX_FORMAT); i = tarfile.TarInfo('a/b'); i.size = 1; i.pax_headers = {'size': '99999999'}; t.addfile(i, io.BytesIO(b'x')); t.close()";
    sh(&place.path(""), &format!("python3 -c \"{sized}\""));
    let ran = place.cto(&["import", "x.tar", "--json"]);
    assert!(
        ["2 archive_entry_refused", "2 archive_malformed"].contains(&ran.error().as_str()),
        "{}",
        ran.err
    );
}
