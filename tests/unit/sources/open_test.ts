/** The kept state of an API server, from the command line to the sink. */
import assert from "node:assert/strict";
import type { ClusterObject } from "../../../core/objects/mod.ts";
import { createTracking } from "../../../core/tracking/mod.ts";
import { createLogger, systemClock } from "../../../platform/mod.ts";
import { createStateFile } from "../../../sources/kept/state_file.ts";
import { openSource } from "../../../sources/mod.ts";
import { type ApiObject, startFakeApiServer } from "../../fakes/api_server.ts";
import { createFakeStorage, type FakeStorage } from "../../fakes/storage.ts";
import { accepted } from "../config/parse.ts";

const WEB: ApiObject = {
  kind: "Service",
  metadata: { namespace: "default", name: "web" },
  spec: { type: "ClusterIP", clusterIPs: ["10.96.0.10"], ports: [{ protocol: "TCP", port: 80 }] },
};

/** The names of the objects that a start with these flags serves once it serves any state, and its log. */
async function served(storage: FakeStorage, flags: readonly string[]) {
  const { configuration } = accepted(["--hostname-override", "node-a", "--state-directory", "/state", ...flags]);
  const clock = systemClock;
  let log = "";
  const noted = Promise.withResolvers<void>();
  const write = (line: string) => {
    log += line;
    if (line.includes("kept state")) noted.resolve();
  };
  const logger = createLogger({ level: "info", format: "text", clock, write });
  const tracking = createTracking({
    kinds: configuration.modeDescription.kinds,
    nodeName: "node-a",
    bindAddress: "",
    clock,
    onChange: () => {},
    onSynced: () => noted.resolve(),
    onProblems: () => {},
  });
  const servedMs: (number | undefined)[] = [];
  const file = createStateFile("state", storage);
  const kept = { file, objects: tracking.objects, onServing: (atMs: number | undefined) => servedMs.push(atMs) };
  const { source, close } = await openSource({ configuration, logger, clock, kept });
  const ended = new AbortController();
  const running = source.run(tracking, ended.signal);
  await noted.promise;
  const names = Array.from(tracking.objects(), ({ kind, name }: ClusterObject) => `${kind} ${name}`);
  ended.abort();
  await running;
  close();
  return { names, log, isKept: servedMs[0] !== undefined };
}

Deno.test("the state of an API server is served by later starts that cannot reach it, for that server alone", async () => {
  const storage = createFakeStorage();
  const server = startFakeApiServer();
  server.apply(WEB);
  const before = await served(storage, ["--master", server.url]);
  assert.deepEqual([before.names, before.isKept], [["Service web"], false]);
  await server.close();

  const after = await served(storage, ["--master", server.url, "--state-delay", "1h"]);
  assert.deepEqual([after.names, after.isKept], [["Service web"], true], "a refused connection ends the delay");

  const renamed = await served(storage, ["--master", server.url.replace("127.0.0.1", "localhost"), "--state-delay=0s"]);
  assert.deepEqual([renamed.names, renamed.isKept], [[], false]);
  assert.match(
    renamed.log,
    /ignored a kept state .*source kube http:\/\/127\.0\.0\.1:\d+; this is .*http:\/\/localhost:/,
  );
  const otherName = await served(storage, ["--master", server.url, "--state-delay=0s", "--service-proxy-name", "edge"]);
  assert.deepEqual(otherName.isKept, false);
});
