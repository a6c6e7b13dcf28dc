import assert from "node:assert/strict";
import { startFakeApiServer, statusResponse } from "../../fakes/api_server.ts";
import { startSilentLine } from "../../fakes/silent_line.ts";
import { silentLogger } from "../../../platform/log.ts";
import { openClusterStore } from "../../../serve/cluster_store.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { until } from "../../fakes/wait.ts";
import { accepted } from "../config/parse.ts";

const NO_KEYS = () => false;
const NO_DETAILS = {
  serviceLabels: NO_KEYS,
  serviceAnnotations: NO_KEYS,
  nodeLabels: NO_KEYS,
  nodeAnnotations: NO_KEYS,
};

const SERVICE = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80, protocol: TCP}]}
`;

/** Opens a store of the source that `args` choose. */
function open(args: readonly string[], signal = new AbortController().signal) {
  const clock = createFakeClock(), problems: string[] = [];
  const opened = openClusterStore({
    configuration: accepted(args).configuration,
    details: NO_DETAILS,
    onProblems: (_, list) => problems.push(...list.map(({ code }) => code)),
    clock,
    logger: silentLogger,
    signal,
  });
  return { clock, problems, opened };
}

Deno.test("a server needs the state of the whole cluster as its source", async () => {
  await assert.rejects(
    open(["--source=grpc://127.0.0.1:1", "--local"]).opened,
    /--local streams only what one node needs/,
  );
});

Deno.test("a store is filled from its source, and says when that last reported something and what is wrong", async () => {
  const folder = await Deno.makeTempDir(), stop = new AbortController();
  try {
    await Deno.writeTextFile(`${folder}/web.yaml`, SERVICE);
    await Deno.writeTextFile(`${folder}/broken.yaml`, "{");
    const { clock, problems, opened } = open([`--source=file:${folder}`], stop.signal);
    const { store, lastEventMs, servers, problems: board, run } = await opened;
    assert.equal(lastEventMs(), undefined);
    const running = run();
    await until(() => store.ready() && board.current().length > 0);
    assert.equal(lastEventMs(), clock.now());
    assert.deepEqual(servers(), []);
    assert.deepEqual(board.current().map(({ code }) => code), ["file-unreadable"]);
    assert.deepEqual(problems, ["file-unreadable"]);
    stop.abort();
    await running.catch(() => {});
  } finally {
    stop.abort();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("of a gRPC source, the servers are known before the first answer", async () => {
  const { opened } = open(["--source=grpc://127.0.0.1:1,grpc://127.0.0.1:2"]);
  assert.deepEqual((await opened).servers(), [
    { address: "127.0.0.1:1", inUse: false },
    { address: "127.0.0.1:2", inUse: false },
  ]);
});

Deno.test("the last report of a source is that of an object or of a complete list, not of a problem", async () => {
  const folder = await Deno.makeTempDir(), stop = new AbortController();
  try {
    const { clock, opened } = open([`--source=file:${folder}`], stop.signal);
    const { store, lastEventMs, problems, run } = await opened;
    const running = run();
    const happens = (isSo: () => boolean) =>
      until(async () => {
        await clock.advanceSettled(3_000);
        return isSo();
      });
    await until(() => store.ready());
    let beforeMs = lastEventMs();
    assert.equal(beforeMs, clock.now(), "an empty list is complete");
    await Deno.writeTextFile(`${folder}/web.yaml`, SERVICE);
    await happens(() => store.state().services.length === 1);
    assert.ok(lastEventMs()! > beforeMs!);
    beforeMs = lastEventMs();
    await Deno.writeTextFile(`${folder}/broken.yaml`, "{");
    await happens(() => problems.current().length > 0);
    assert.equal(lastEventMs(), beforeMs);
    await Deno.remove(`${folder}/web.yaml`);
    await happens(() => store.state().services.length === 0);
    assert.ok(lastEventMs()! > beforeMs!);
    stop.abort();
    await running;
  } finally {
    stop.abort();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the connections to an API server are closed when a store is not filled any more", async () => {
  const server = startFakeApiServer(), line = startSilentLine(Number(new URL(server.url).port));
  const stop = new AbortController();
  // The answer leaves a connection that no request uses.
  server.fault(({ path }) =>
    path.endsWith("/servicecidrs") ? statusResponse(404, "NotFound", "no such resource") : undefined
  );
  const { store, run } = await open([`--master=http://127.0.0.1:${line.port}`], stop.signal).opened;
  const running = run();
  await until(() => store.ready());
  await server.watches(3);
  stop.abort();
  await running;
  await until(() => line.counts().client === line.counts().opened);
  line.close();
  await server.close();
});
