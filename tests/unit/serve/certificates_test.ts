import assert from "node:assert/strict";
import { createLogger } from "../../../platform/log.ts";
import { followCertificates, readServerCertificate } from "../../../serve/certificates.ts";
import { type CertificateAuthority, createCertificateAuthority } from "../../fakes/certificates.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { until } from "../../fakes/wait.ts";

const authority = await createCertificateAuthority("serve");

/** A server's files as issued. */
async function issued(by: CertificateAuthority = authority) {
  const { cert, key } = await by.issue("server");
  return { ca: by.cert, crt: cert, key };
}

Deno.test("a server's files are a certificate, its key and, to ask clients for theirs, a CA", async () => {
  const files = await issued(), other = await issued();
  assert.match((await readServerCertificate(files)).subject, /server/);
  assert.match((await readServerCertificate({ ...files, ca: undefined })).subject, /server/);
  const broken = {
    "--listen-tls-ca needs a server certificate and key": [{ ...files, crt: undefined }, { ...files, key: undefined }],
    "--listen-tls-ca: not a certificate in PEM form": [{ ...files, ca: "x" }],
    "--listen-tls-crt: not a certificate in PEM form": [{ ...files, crt: "x" }],
    "--listen-tls-key: not a private key in PEM form": [{ ...files, key: "x" }],
    "--listen-tls-key is not the key of the certificate in --listen-tls-crt": [{ ...files, key: other.key }],
  };
  for (const [message, cases] of Object.entries(broken)) {
    for (const files of cases) {
      await assert.rejects(readServerCertificate(files), { message: new RegExp(`^${message}`) });
    }
  }
});

Deno.test("changed files are used once they belong together, and a pair that does not is logged once", async () => {
  const folder = await Deno.makeTempDir(), clock = createFakeClock(), stop = new AbortController();
  const lines: string[] = [], renewed: unknown[] = [];
  const paths = { ca: `${folder}/ca`, crt: `${folder}/crt`, key: `${folder}/key` };
  const write = (files: Partial<Record<keyof typeof paths, string>>) => {
    for (const name of ["ca", "crt", "key"] as const) {
      if (files[name] !== undefined) Deno.writeTextFileSync(paths[name], files[name]);
    }
  };
  const first = await issued(), second = await issued(), third = await issued();
  write(first);
  const following = followCertificates({
    paths,
    current: first,
    renew: (files) => renewed.push(files),
    clock,
    logger: createLogger({ level: "info", format: "text", clock, write: (line) => lines.push(line.slice(25)) }),
    signal: stop.signal,
  });
  const look = async () => {
    await until(() => clock.pending().length > 0);
    await clock.advanceSettled(10_000);
  };
  try {
    await look();
    assert.deepEqual([renewed, lines], [[], []], "unchanged");
    write({ crt: second.crt });
    await look();
    await look();
    assert.deepEqual(renewed, []);
    await until(() => lines.length > 0);
    assert.equal(lines.length, 1);
    assert.match(lines[0]!, /^WARN {2}certificates changed but cannot be used, .* is not the key of the certificate/);
    write({ key: second.key });
    await look();
    await until(() => renewed.length === 1);
    assert.deepEqual(renewed, [second]);
    assert.match(lines[1]!, /^INFO {2}certificates changed, using the new ones for new connections validTo=/);
    // A poll finds the files in use. Another failure like the first one is news again.
    await look();
    write({ crt: third.crt });
    await look();
    await until(() => lines.length === 3);
    assert.match(lines[2]!, /^WARN {2}certificates changed but cannot be used/);
    write({ key: third.key });
    await look();
    await until(() => renewed.length === 2);
    assert.deepEqual(renewed[1], third);
  } finally {
    stop.abort();
    await following;
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("without TLS, or without a certificate of the server, no files are followed", async () => {
  const clock = createFakeClock(), logger = createLogger({ level: "info", format: "text", clock, write() {} });
  const options = { renew() {}, clock, logger, signal: new AbortController().signal };
  await followCertificates({ ...options, paths: { ca: "/x", crt: "/x", key: "/x" }, current: undefined });
  await followCertificates({
    ...options,
    paths: { ca: "/x", crt: undefined, key: undefined },
    current: await issued(),
  });
  assert.deepEqual(clock.pending(), []);
});

Deno.test("the files are also read every ten seconds, since the watch of a replaced folder ends", async () => {
  const folder = await Deno.makeTempDir(), stop = new AbortController(), clock = createFakeClock();
  const logger = createLogger({ level: "info", format: "text", clock, write() {} });
  const paths = { ca: undefined, crt: `${folder}/crt`, key: `${folder}/key` };
  const following = followCertificates({
    ...{ paths, current: await issued(), renew() {}, clock, logger, signal: stop.signal },
  });
  await until(() => clock.pending().includes(10_000));
  stop.abort();
  await following;
  await Deno.remove(folder, { recursive: true });
});
