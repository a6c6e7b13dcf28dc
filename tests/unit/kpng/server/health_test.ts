import assert from "node:assert/strict";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import { HEALTH, HEALTH_REQUEST, HEALTH_RESPONSE } from "../../../../kpng/server/isolate.ts";
import { startServing } from "../../../../kpng/server/mod.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { createFrameReader, framesOf, STATUS } from "../../../../kpng/transport/grpc.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { openGrpcCall } from "../../../fakes/kpng.ts";
import { until } from "../../../fakes/wait.ts";
import { callHeaders, connectRaw, FLAG, frame, TYPE } from "../../../fakes/raw_http2.ts";

/** Starts a server whose store is not in sync yet. */
async function startUnsynced() {
  const store = createStore({ clock: systemClock, onProblems: () => {} });
  const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const serving = await startServing({
    address,
    tls: undefined,
    store,
    clock: systemClock,
    logger: silentLogger,
    // The clients leave by themselves, and a busy machine may take long to answer them.
    limits: { serviceCalls: 3, lingerMs: 60_000 },
  });
  assert.ok(serving.address.kind === "tcp");
  const { port } = serving.address;
  const sync = () => {
    for (const kind of KINDS) store.synced(kind);
  };
  return { serving, port, sync };
}

/** Calls a method of the health service. */
function callHealth(port: number, method: "Check" | "Watch", service?: string) {
  const { session, stream, status } = openGrpcCall(port, `/grpc.health.v1.Health/${method}`);
  const frames = createFrameReader(1000);
  const reports: number[] = [];
  let onReport = () => {};
  stream.on("data", (bytes: Uint8Array) => {
    for (const message of frames.push(bytes)) reports.push(HEALTH_RESPONSE.decode(message).status ?? HEALTH.UNKNOWN);
    onReport();
  });
  stream.end(framesOf([HEALTH_REQUEST.encode({ service })]));
  return {
    reports,
    status,
    /** Resolves when there are so many reports. */
    async reported(count: number) {
      while (reports.length < count) await new Promise<void>((resolve) => onReport = resolve);
    },
    close: () => session.destroy(),
  };
}

/** The report and the status of a check. */
async function check(port: number, service?: string) {
  const call = callHealth(port, "Check", service);
  const status = await call.status;
  call.close();
  return [...call.reports, status];
}

Deno.test("a health check answers SERVING for each service once the store is in sync", async () => {
  const { serving, port, sync } = await startUnsynced();
  assert.deepEqual(await check(port), [HEALTH.NOT_SERVING, STATUS.OK]);
  sync();
  for (const service of [undefined, "localv1.Sets", "globalv1.Sets"]) {
    assert.deepEqual(await check(port, service), [HEALTH.SERVING, STATUS.OK]);
  }
  assert.deepEqual(await check(port, "localv2.Sets"), [STATUS.NOT_FOUND]);
  await serving.close();
});

/**
 * Watches by hand-made frames until the trailers: Deno's client resets its calls on a GOAWAY, before it reads their end. The
 * returned function resolves with what was received, and leaves.
 */
async function watchRaw(port: number, service: string) {
  const raw = await connectRaw(
    port,
    frame(TYPE.headers, FLAG.endHeaders, 1, callHeaders("/grpc.health.v1.Health/Watch")),
    frame(TYPE.data, FLAG.endStream, 1, framesOf([HEALTH_REQUEST.encode({ service })])),
  );
  const frames = raw.frames(({ type, flags }) => type === TYPE.headers && (flags & FLAG.endStream) !== 0);
  return async () => {
    const received = (await frames).filter(({ type }) => type !== TYPE.settings).slice(1);
    raw.close();
    return received.map(({ type, flags, payload }) => {
      if (type === TYPE.goaway) return "GOAWAY";
      if (type === TYPE.data) return HEALTH_RESPONSE.decode(Uint8Array.from(payload.subarray(5))).status;
      if (type !== TYPE.headers || (flags & FLAG.endStream) === 0) return `frame of type ${type}, flags ${flags}`;
      return new TextDecoder().decode(payload).includes("14") ? "UNAVAILABLE" : "another status";
    });
  };
}

Deno.test("a health watch reports each change, and NOT_SERVING at shutdown", async () => {
  const { serving, port, sync } = await startUnsynced();
  const known = await watchRaw(port, "globalv1.Sets");
  const unknown = await watchRaw(port, "localv2.Sets");
  const synced = callHealth(port, "Watch");
  await synced.reported(1);
  sync();
  await synced.reported(2);
  assert.deepEqual(synced.reports, [HEALTH.NOT_SERVING, HEALTH.SERVING]);
  synced.close();
  const closed = serving.close();
  const { NOT_SERVING, SERVING, SERVICE_UNKNOWN } = HEALTH;
  assert.deepEqual(await known(), [NOT_SERVING, SERVING, "GOAWAY", NOT_SERVING, "UNAVAILABLE"]);
  assert.deepEqual(await unknown(), [SERVICE_UNKNOWN, "GOAWAY", "UNAVAILABLE"]);
  await closed;
});

Deno.test("health calls over their limit are refused, until others end", async () => {
  const { serving, port } = await startUnsynced();
  const watches = Array.from({ length: 3 }, () => callHealth(port, "Watch"));
  await Promise.all(watches.map((watch) => watch.reported(1)));
  assert.deepEqual(await check(port), [STATUS.RESOURCE_EXHAUSTED]);
  watches[0]!.close();
  await until(async () => (await check(port)).length > 1);
  for (const watch of watches) watch.close();
  await serving.close();
});
