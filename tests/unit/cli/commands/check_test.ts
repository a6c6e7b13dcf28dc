/** The check of a source, with real files. */
import assert from "node:assert/strict";
import { examineSource } from "../../../../cli/commands/check.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { accepted } from "../../config/parse.ts";

const SERVICE = `apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.0.0.1, ports: [{ port: 80 }] }
`;

const examined = async (source: string) => {
  const { configuration } = accepted(["--source", source, "--hostname-override", "node-a"]);
  const findings = await examineSource(configuration, { clock: systemClock, signal: new AbortController().signal });
  return findings.map(({ verdict, code, message }) => `${verdict} ${code ?? ""} ${message}`).join("\n");
};

Deno.test("a source that cannot be read is red, whichever kind it is", async () => {
  const folder = await Deno.makeTempDir();
  const path = (name: string, text: string) => {
    Deno.writeTextFileSync(`${folder}/${name}`, text);
    return `${folder}/${name}`;
  };
  try {
    assert.match(
      await examined(`file:${path("web.yaml", SERVICE)}`),
      /^green {2}file:.*\/web\.yaml has 1 service port$/,
    );
    assert.match(await examined("file:/does/not/exist"), /^red file-unreadable .*\/exist: no such file or folder/);
    assert.match(await examined(`file:${path("no.yaml", "a: [")}`), /^red file-unreadable .*no\.yaml:1/);
    assert.match(await examined("state:/does/not/exist"), /^red file-unreadable .*no such file/);
    assert.match(await examined(`state:${path("state.yaml", "[")}`), /^red file-unreadable .*state\.yaml/);
    assert.match(await examined(`unix://${folder}/missing`), /^red source-unreachable .*missing/);
    assert.match(await examined("grpc://127.0.0.1:1"), /^red source-unreachable .*127\.0\.0\.1:1/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("mistakes in manifests are yellow, with file and line", async () => {
  const file = await Deno.makeTempFile({ suffix: ".yaml" });
  try {
    Deno.writeTextFileSync(file, `${SERVICE}---\nkind: Servicee\nmetadata: { name: a }\n`);
    const [source, mistake] = (await examined(`file:${file}`)).split("\n");
    assert.match(source!, /^green .* has 1 service port$/);
    assert.equal(
      mistake,
      `yellow object-invalid ${file}:6: kind "Servicee" is not known; did you mean Service? ignored`,
    );
  } finally {
    await Deno.remove(file);
  }
});
