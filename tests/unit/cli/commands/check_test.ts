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
  const { verdict, code, message } = await examineSource(configuration, {
    clock: systemClock,
    signal: new AbortController().signal,
  });
  return `${verdict} ${code ?? ""} ${message}`;
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
