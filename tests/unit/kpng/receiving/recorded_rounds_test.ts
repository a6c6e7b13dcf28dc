/** Recorded messages of KPNG, replayed in both directions. */
import assert from "node:assert/strict";
import { createStateSource } from "../../../../sources/state/mod.ts";
import { createGrpcSource } from "../../../../sources/grpc/mod.ts";
import { startServing } from "../../../../kpng/server/mod.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { createTracking } from "../../../../core/tracking/trackers.ts";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import {
  ENDPOINT,
  ENDPOINT_INFO,
  METHODS,
  OP_ITEM,
  SERVICE,
  SERVICE_INFO,
  WATCH_REQUEST,
} from "../../../../kpng/messages/messages.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import {
  comparable,
  connectKpngClient,
  recordedCalls,
  type RecordedRound,
  recordedStateFiles,
  startKpngServer,
} from "../../../fakes/kpng.ts";
import { sayProblems } from "../../../fakes/problems.ts";

const onProblems = sayProblems((where, message) => assert.fail(`${where}: ${message}`));

/** Serves a state file on loopback while `test` runs; `write` replaces the file. */
async function withServedStateFile(
  content: string,
  test: (port: number, write: (content: string) => void) => Promise<void>,
): Promise<void> {
  const folder = Deno.makeTempDirSync();
  const path = `${folder}/state.yaml`;
  // At once: the source may be reading the file.
  const write = (content: string) => {
    Deno.writeTextFileSync(`${path}.new`, content);
    Deno.renameSync(`${path}.new`, path);
  };
  write(content);
  const stop = new AbortController();
  const store = createStore({ clock: systemClock, onProblems });
  const source = createStateSource({ path, inFull: true, clock: systemClock, logger: silentLogger });
  const ended = source.run(store, stop.signal);
  const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const serving = await startServing({ address, tls: undefined, store, clock: systemClock, logger: silentLogger });
  try {
    assert.equal(serving.address.kind, "tcp");
    await test((serving.address as typeof address).port, write);
  } finally {
    stop.abort();
    await serving.close();
    await ended;
    Deno.removeSync(folder, { recursive: true });
  }
}

/**
 * A round of Sluice without what KPNG's server leaves out of the state of a file and its backends need all the same: empty external
 * IPs, and the override of a named port that equals the target port.
 */
function asRecorded(round: readonly Uint8Array<ArrayBuffer>[]): readonly (readonly string[])[] {
  return comparable(round).map((operations) =>
    operations.map((operation) =>
      operation.replace(',"externalIPs":{}', "")
        .replace(/\{"name":"http","port":8080\},?/, "")
        .replace(/,"portOverrides":\[\]/, "")
    )
  );
}

const [nodeA, nodeB, global] = recordedCalls() as [RecordedRound[], RecordedRound[], RecordedRound[]];
const files = recordedStateFiles();

for (
  const [name, call, content] of [["node-a", nodeA, files.before], [
    "all of the cluster",
    global,
    files.before,
  ]] as const
) {
  Deno.test(`a KPNG client that watches ${name} receives what KPNG sent, round by round`, async () => {
    await withServedStateFile(content, async (port, write) => {
      const client = connectKpngClient(port, call[0]!.method);
      assert.deepEqual(asRecorded(await client.round(call[0]!.request)), comparable(call[0]!.responses));
      const second = client.round(call[1]!.request);
      write(files.after);
      assert.deepEqual(asRecorded(await second), comparable(call[1]!.responses));
      client.close();
    });
  });
}

Deno.test("a local watch without a node name, as KPNG's backends send it, is answered for a node without labels", async () => {
  await withServedStateFile(files.before, async (port) => {
    const client = connectKpngClient(port, METHODS.local);
    const round = (await client.round(WATCH_REQUEST.encode({}))).map((bytes) => OP_ITEM.decode(bytes));
    const paths = round.flatMap(({ set }) => set?.ref?.path ?? []).filter((path) => path.split("/").length === 2);
    assert.deepEqual(paths, ["default/sticky", "default/web"]);
    const endpoints = round.filter(({ set }) => set?.ref?.set === 2).map(({ set }) => ENDPOINT.decode(set!.bytes!));
    assert.ok(endpoints.length > 0);
    assert.ok(endpoints.every(({ local }) => !local));
    client.close();
  });
});

Deno.test("a KPNG client on another node receives what KPNG sent", async () => {
  await withServedStateFile(files.before, async (port) => {
    const client = connectKpngClient(port, nodeB[0]!.method);
    assert.deepEqual(asRecorded(await client.round(nodeB[0]!.request)), comparable(nodeB[0]!.responses));
    client.close();
  });
});

Deno.test("every recorded message is encoded as it was decoded", () => {
  for (const { responses, method } of [nodeA, nodeB, global].flat()) {
    for (const bytes of responses) {
      const operation = OP_ITEM.decode(bytes);
      assert.deepEqual(OP_ITEM.encode(operation), bytes);
      if (operation.set?.ref?.set !== 1 && operation.set?.ref?.set !== 11) continue;
      const kind = method === METHODS.local ? SERVICE : operation.set.ref.set === 11 ? ENDPOINT_INFO : SERVICE_INFO;
      assert.deepEqual(kind.encode(kind.decode(operation.set.bytes!)), operation.set.bytes);
    }
  }
});

/** The tracked state of the recorded services, for comparison. */
function known(tracking: ReturnType<typeof createTracking>) {
  const targets = (service: string, port: string, protocol: "tcp" | "udp") =>
    [
      ...tracking.endpoints.IPv4.endpointsOf(service, port, protocol),
      ...tracking.endpoints.IPv6.endpointsOf(service, port, protocol),
    ]
      .map(({ target, endpoint }) => `${target} ${endpoint.nodeName || "elsewhere"}`);
  return {
    services: [...tracking.services.keys()].sort(),
    http: targets("default/web", "http", "tcp"),
    dns: targets("default/web", "dns", "udp"),
    policies: tracking.services.get("default/web")?.externalPolicyLocal,
    ranges: tracking.services.get("default/web")?.sourceRanges,
    healthCheckNodePort: tracking.services.get("default/web")?.healthCheckNodePort,
  };
}

for (
  const [scope, call, homes] of [
    ["global", global, ["node-a", "node-b"]],
    ["local", nodeA, ["node-a", "elsewhere"]],
  ] as const
) {
  Deno.test(`a source that watches a KPNG server's ${scope} state ends in that state, even after reconnects`, async () => {
    const server = await startKpngServer(call);
    let changed = Promise.withResolvers<void>();
    const tracking = createTracking({
      kinds: KINDS,
      nodeName: "node-a",
      bindAddress: "0.0.0.0",
      clock: systemClock,
      onChange: () => changed.resolve(),
      onProblems,
    });
    const stop = new AbortController();
    const source = createGrpcSource({
      addresses: [server.address],
      tls: undefined,
      scope,
      nodeName: "node-a",
      inFull: false,
      clock: systemClock,
      logger: silentLogger,
      backoff: { firstMs: 1, longestMs: 5 },
    });
    const ended = source.run(tracking, stop.signal);
    try {
      server.allow(1);
      await changed.promise;
      const first = tracking.take();
      assert.deepEqual([...first.services].sort(), ["default/sticky", "default/web"]);
      const [a, b] = homes;
      const web = {
        dns: [`10.180.0.11:9090 ${a}`, `[fd00:10:180::11]:9090 ${a}`],
        policies: true,
        ranges: ["203.0.113.0/24"],
        healthCheckNodePort: 32000,
      };
      assert.deepEqual(known(tracking), {
        services: ["default/sticky", "default/web"],
        http: [
          `10.180.0.11:8080 ${a}`,
          `10.180.1.21:8080 ${b}`,
          `10.180.1.22:8080 ${b}`,
          `[fd00:10:180::11]:8080 ${a}`,
        ],
        ...web,
      });
      const request = WATCH_REQUEST.decode(server.requests[0]!);
      assert.equal(request.nodeName, scope === "local" ? "node-a" : undefined);

      changed = Promise.withResolvers();
      server.allow(2);
      await changed.promise;
      const second = tracking.take();
      assert.deepEqual([...second.services], ["default/sticky"], "unchanged objects are not reported again");
      const after = {
        services: ["default/web"],
        http: [
          `10.180.0.11:8080 ${a}`,
          `10.180.1.22:8080 ${b}`,
          `10.180.1.23:8080 ${b}`,
          `[fd00:10:180::11]:8080 ${a}`,
        ],
        ...web,
      };
      assert.deepEqual(known(tracking), after);

      // The server sends everything again from the first round, including entries deleted since.
      server.allow(1);
      changed = Promise.withResolvers();
      server.drop();
      await changed.promise;
      assert.deepEqual(
        [...tracking.take().services],
        ["default/sticky"],
        "after a reset only differences are reported",
      );
      changed = Promise.withResolvers();
      server.allow(2);
      await changed.promise;
      assert.deepEqual(known(tracking), after);
    } finally {
      stop.abort();
      await ended;
      await server.close();
    }
  });
}
