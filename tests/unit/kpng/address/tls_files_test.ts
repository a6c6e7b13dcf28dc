import assert from "node:assert/strict";
import { readTlsFiles } from "../../../../kpng/address/mod.ts";

Deno.test("the files of TLS are read, and each mistake names its flag", async () => {
  const folder = await Deno.makeTempDir();
  const [ca, crt, key] = ["ca", "crt", "key"].map((name) => {
    Deno.writeTextFileSync(`${folder}/${name}`, `the ${name}`);
    return `${folder}/${name}`;
  });
  const none = { ca: undefined, crt: undefined, key: undefined }, flags = "--listen-tls";
  assert.equal(readTlsFiles(none, flags), undefined);
  assert.deepEqual(readTlsFiles({ ca, crt, key }, flags), { ca: "the ca", crt: "the crt", key: "the key" });
  assert.deepEqual(readTlsFiles({ ...none, ca }, flags), { ...none, ca: "the ca" });
  assert.throws(
    () => readTlsFiles({ ...none, crt }, flags),
    /--listen-tls-crt and .*-key belong .* the key is missing/,
  );
  assert.throws(() => readTlsFiles({ ca, crt: undefined, key }, flags), /the certificate is missing/);
  assert.throws(
    () => readTlsFiles({ ...none, ca: `${folder}/x` }, flags),
    /^Error: --listen-tls-ca: cannot read .*\/x: /,
  );
  await Deno.remove(folder, { recursive: true });
});
