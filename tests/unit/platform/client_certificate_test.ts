import assert from "node:assert/strict";
import { loadCertificateCheck } from "../../../platform/mod.ts";
import { createCertificateAuthority } from "../../fakes/certificates.ts";

const checkClientCertificate = await loadCertificateCheck();
const authority = await createCertificateAuthority("authority");
const { cert, key } = await authority.issue("system:kube-proxy");

Deno.test("a certificate and its key pass, alone or in one text", () => {
  checkClientCertificate(cert, key);
  checkClientCertificate(`${cert}${key}`, `${cert}${key}`);
});

Deno.test("certificates that Deno cannot use are refused with the reason", async () => {
  const another = await authority.issue("another");
  assert.throws(() => checkClientCertificate(cert, another.key), /does not belong/);
  assert.throws(() => checkClientCertificate("nothing", key), /no PEM certificate/);
  assert.throws(() => checkClientCertificate(cert, cert), /no PEM private key/);
  assert.throws(() => checkClientCertificate(cert.replace(/\n[^-]{40}/, "\n"), key));
});

Deno.test("a certificate of version 1 is refused", async () => {
  const old = await authority.issue("old", 1);
  assert.throws(() => checkClientCertificate(old.cert, old.key), /version 1/);
});
