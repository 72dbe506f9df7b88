# SPDX-License-Identifier: Apache-2.0
"""python3 packaging/sbom.py FOLDER VERSION SECONDS XXHASH_H: prints the list of a release's parts, as CycloneDX 1.5 has it.

Every file of the folder is a component with its sum; so is what is compiled into them. The list depends on the files and the
time alone."""
import datetime
import hashlib
import json
import re
import sys
import uuid
from pathlib import Path


def main(folder: str, version: str, seconds: str, xxhash: str) -> None:
    number = ".".join(re.search(rf"define XXH_VERSION_{part} +(\d+)", Path(xxhash).read_text())[1]
                      for part in ("MAJOR", "MINOR", "RELEASE"))
    jansson = re.search(r"version=([\d.]+)\n *sum=(\w+)", Path(__file__).with_name("cross.sh").read_text())
    library = {"type": "library", "bom-ref": "clattn", "name": "clattn", "version": version,
               "licenses": [{"license": {"id": "Apache-2.0"}}], "purl": f"pkg:generic/clattn@{version}"}
    parts = [
        {"type": "library", "bom-ref": "xxhash", "name": "xxhash", "version": number, "purl": f"pkg:generic/xxhash@{number}",
         "licenses": [{"license": {"id": "BSD-2-Clause"}}], "description": "its header, compiled into the library"},
        {"type": "library", "bom-ref": "jansson", "name": "jansson", "version": jansson[1],
         "purl": f"pkg:generic/jansson@{jansson[1]}", "licenses": [{"license": {"id": "MIT"}}],
         "hashes": [{"alg": "SHA-256", "content": jansson[2]}],
         "description": "linked into clattn-bench and clattn-tune; Debian's packages use the system's"},
    ]
    files = [{"type": "file", "bom-ref": path.name, "name": path.name,
              "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]}
             for path in sorted(Path(folder).iterdir()) if path.name not in ("SHA256SUMS", "sbom.json")]
    identity = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    time = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"clattn:{version}:{identity}").urn,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": library},
        "components": parts + files,
        "dependencies": [{"ref": "clattn", "dependsOn": ["xxhash", "jansson"]}],
    }, indent=2))


main(*sys.argv[1:])
