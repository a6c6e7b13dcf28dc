import assert from "node:assert/strict";
import { debianPart, licencesIn } from "../../../../build/release/image_sbom.ts";

Deno.test("Debian's names of licences become SPDX's, each once and sorted", () => {
  const copyright =
    "Format: x\nLicense: LGPL-2.1+\n text\n\nFiles: b\nLicense: GPL-2 or Expat\n\nFiles: c\nLicense: LGPL-2.1+\n";
  assert.equal(licencesIn(copyright), "GPL-2.0-only AND LGPL-2.1-or-later AND MIT");
});

Deno.test("exceptions and unknown names stay valid in an expression", () => {
  assert.equal(licencesIn("License: GPL-3+ with GCC exception\n"), "GPL-3.0-or-later");
  assert.equal(licencesIn("License: public domain\n"), "LicenseRef-debian-public-domain");
});

Deno.test("a copyright file in free text is named as the licence", () => {
  assert.equal(licencesIn("This package was debianized by …\n"), "LicenseRef-debian-copyright-file");
});

Deno.test("a package's purl quotes its version", () => {
  const part = debianPart("Package: libcap2\nVersion: 1:2.66-4+b1\nArchitecture: amd64\n", "License: BSD-3-clause\n");
  assert.equal(part.purl, "pkg:deb/debian/libcap2@1%3A2.66-4%2Bb1?arch=amd64&distro=debian-13");
  assert.equal(part.licence, "BSD-3-Clause");
});
