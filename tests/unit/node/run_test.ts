/** A whole proxy: what its parts tell each other, and what the end of a run leaves behind. */
import assert from "node:assert/strict";
import { connectToProxy } from "../../../answers/control/client.ts";
import { listenOnControlSocket } from "../../../answers/control/socket.ts";
import { type CallWorker, readPacketCounts } from "../../../core/model/mod.ts";
import type { Node, RunningProcessFeature } from "../../../features/mod.ts";
import { FAMILIES } from "../../../platform/address.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createLogger, silentLogger } from "../../../platform/log.ts";
import { createStateFile } from "../../../sources/kept/state_file.ts";
import { type ApiObject, startFakeApiServer, statusResponse } from "../../fakes/api_server.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";
import { startSilentLine } from "../../fakes/silent_line.ts";
import { reservePort } from "../../fakes/sockets.ts";
import { createFakeStorage } from "../../fakes/storage.ts";
import { inTime, passing, passingDuring, until } from "../../fakes/wait.ts";
import { withManifests, withWholeProxy } from "../../fakes/whole_proxy.ts";

Deno.test("requests, the link and problems are counted and recorded, and connections closed at the end", async () => {
  const path = `${await Deno.makeTempDir()}/control`, controlSocket = await listenOnControlSocket(path);
  const server = startFakeApiServer(), line = startSilentLine(Number(new URL(server.url).port));
  const recorded = (reason: string) =>
    until(() => server.requests.some(({ verb, body }) => verb === "create" && body.includes(`"reason":"${reason}"`)));
  await withWholeProxy({ args: ["--master", `http://127.0.0.1:${line.port}`], controlSocket }, async (proxy) => {
    await recorded("Starting");
    const control = await connectToProxy(path, { clock: systemClock });
    await until(async () =>
      (await control.events(0)).events.some(({ kind, text }) => kind === "link" && text === "connected")
    );
    const metrics = await (await fetch(`${proxy.url}metrics`)).text();
    assert.match(metrics, /^rest_client_requests_total\{code="200",method="GET",host="127\.0\.0\.1:\d+"\} [1-9]/m);
    assert.match(metrics, /^sluice_source_connected 1$/m);
    proxy.problems("IPv4", "changes", [{ code: "changes-overdue", subject: "IPv4", detail: "60 s" }]);
    await recorded("ChangesOverdue");
  });
  await until(() => line.counts().client === line.counts().opened);
  line.close();
  await server.close();
});

Deno.test("the metrics have the time of the kept state that is served without the API server", async () => {
  const server = startFakeApiServer(), clock = createFakeClock(Date.now()), storage = createFakeStorage();
  const kept = { file: createStateFile("state", storage) }, options = { args: ["--master", server.url], clock, kept };
  await withWholeProxy(options, () => passing(clock, () => storage.written() > 0));
  await server.close();
  const isServed = /^sluice_source_kept_state_timestamp_seconds [1-9]/m;
  await withWholeProxy(
    options,
    ({ url }) => passingDuring(clock, until(async () => isServed.test(await (await fetch(`${url}metrics`)).text()))),
  );
});

/** A Service with this health check node port, and an endpoint on this node. */
const healthCheckedAt = (port: number) =>
  `apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  healthCheckNodePort: ${port}
  clusterIP: 10.96.0.10
  ports: [{ port: 80 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: shop, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ port: 8080 }]
endpoints: [{ addresses: [10.1.0.1], nodeName: host }]
`;

/** A feature of the process that only does this at the start of each run. */
function featureThatStarts(
  startRun: RunningProcessFeature["startRun"],
  attach: RunningProcessFeature["attach"] = () => {},
) {
  const feature: RunningProcessFeature = { attach, startRun, stop: () => Promise.resolve() };
  return new Map([["test", feature]]);
}

const answers = (port: number, status: number) =>
  until(async () => {
    const answer = await fetch(`http://127.0.0.1:${port}`).catch(() => undefined);
    await answer?.body?.cancel();
    return answer?.status === status;
  });

Deno.test("health check node ports answer 503 while a family's last sync has failed", async () => {
  const port = reservePort();
  await withManifests(healthCheckedAt(port), ({ args }) =>
    withWholeProxy({ args }, async ({ report }) => {
      await answers(port, 200);
      report("IPv4", { ok: false });
      await answers(port, 503);
      report("IPv4", {});
      await answers(port, 200);
    }));
});

Deno.test("health check node ports answer 503 while packets do not flow, and while a worker is down for long", async () => {
  const port = reservePort(), nodes: Node[] = [];
  const processFeatures = featureThatStarts((node) => (nodes.push(node), {}));
  await withManifests(
    healthCheckedAt(port),
    ({ args }) =>
      withWholeProxy(
        { args: [...args, "--iptables-sync-period", "10ms"], processFeatures },
        async ({ health, hold }) => {
          await answers(port, 200);
          nodes[0]!.health.setPackets("IPv4", { flow: false, reason: "no-route" });
          await answers(port, 503);
          nodes[0]!.health.setPackets("IPv4", { flow: undefined, reason: "unknown" });
          await answers(port, 200);
          hold("IPv4");
          health("IPv4", { state: "restarting", reason: "it has ended", restarts: 1 });
          await answers(port, 503);
        },
      ),
  );
});

Deno.test("a node without a Node object is not eligible for traffic", async () => {
  const server = startFakeApiServer(), port = reservePort();
  const args = ["--master", server.url, "--healthz-bind-address", `127.0.0.1:${port}`];
  await withWholeProxy({ args }, () =>
    until(async () => {
      const answer = await (await fetch(`http://127.0.0.1:${port}/healthz`)).json();
      return answer.nodeEligible === false;
    }));
  await server.close();
});

Deno.test("changes name their family only if the other family has services", async () => {
  const path = `${await Deno.makeTempDir()}/control`, controlSocket = await listenOnControlSocket(path);
  const manifests = healthCheckedAt(reservePort());
  const service = (name: string, clusterIP: string) =>
    `apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: shop }
spec: { clusterIP: "${clusterIP}", ports: [{ port: 80 }] }
`;
  await withManifests(manifests, ({ args, write }) =>
    withWholeProxy({ args, controlSocket }, async () => {
      const control = await connectToProxy(path, { clock: systemClock });
      const familyOf = async (wanted: RegExp) => {
        let found: { readonly family?: string } | undefined;
        await until(async () => {
          const { events } = await control.events(0);
          return (found = events.find(({ subject, text }) => wanted.test(`${subject}: ${text}`))) !== undefined;
        });
        return found?.family;
      };
      assert.equal(await familyOf(/all services: 1 service port /), undefined);
      const withApi = `${manifests}---\n${service("api", "10.96.0.11")}`;
      write(withApi);
      assert.equal(await familyOf(/shop\/api: added/), undefined);
      write(`${withApi}---\n${service("web6", "fd00:10:96::1")}`);
      assert.equal(await familyOf(/shop\/web6: added/), "IPv6");
    }));
});

Deno.test("health check node ports listen at the addresses of node ports", async () => {
  const port = reservePort();
  // A program that has the port at another address would be in the way of a listener at all addresses.
  const other = Deno.listen({ hostname: "127.0.0.2", port });
  await withManifests(
    healthCheckedAt(port),
    ({ args }) => withWholeProxy({ args: [...args, "--nodeport-addresses", "127.0.0.0/8"] }, () => answers(port, 200)),
  );
  other.close();
});

Deno.test("a host that can serve neither family ends the proxy with status 1", async () => {
  const lines: string[] = [];
  const logger = createLogger({
    level: "error",
    format: "text",
    clock: systemClock,
    write: (line) => lines.push(line),
  });
  await withManifests("", ({ args }) =>
    assert.rejects(
      withWholeProxy({ args, logger }, async ({ health }) => {
        for (const family of FAMILIES) health(family, { state: "unfit", reason: "no nft", unsupported: true });
        await until(() => lines.some((line) => /exiting .*can serve neither IP family \(no nft\)/.test(line)));
      }),
      /has ended with status 1/,
    ));
});

Deno.test("with NodeCIDR, services of a source that has no Node objects do not wait for the node's pod CIDR", async () => {
  const port = reservePort();
  await withManifests(
    healthCheckedAt(port),
    ({ args }) => withWholeProxy({ args: [...args, "--detect-local-mode", "NodeCIDR"] }, () => answers(port, 200)),
  );
});

Deno.test("after a changed configuration, every server listens at the first try", async () => {
  const port = reservePort(), errors: string[] = [];
  const logger = { ...silentLogger, error: (message: string) => void errors.push(message) };
  logger.with = () => logger;
  await withManifests(
    healthCheckedAt(port),
    ({ args }) =>
      withWholeProxy({ args, logger }, async ({ replace }) => {
        await answers(port, 200);
        await replace();
        await answers(port, 200);
      }),
  );
  assert.deepEqual(errors, []);
});

Deno.test("workers outlast a changed configuration, and end with the proxy", async () => {
  let stops: readonly boolean[] = [];
  await withManifests("", ({ args }) =>
    withWholeProxy({ args }, async (proxy) => {
      stops = proxy.stops;
      await proxy.replace();
      assert.deepEqual(stops, [true, true]);
    }));
  assert.deepEqual(stops, [true, true, false, false]);
});

Deno.test("a feature is told of each step of a change, of each scrape, and since when the process runs", async () => {
  const steps = new Set<string>(), attachedMs: number[] = [];
  const note = (step: string) => () => void steps.add(step);
  const processFeatures = featureThatStarts(() => ({
    ...{ planned: note("planned"), changed: note("changed"), reported: note("reported") },
    updateMetrics: () => Promise.resolve(void steps.add("scraped")),
  }), (_, startedAtMs) => void attachedMs.push(startedAtMs));
  const startMs = Date.now();
  await withManifests(
    healthCheckedAt(reservePort()),
    ({ args }) =>
      withWholeProxy({ args, processFeatures }, async ({ url }) => {
        await until(() => steps.size === 3);
        assert.deepEqual([...steps].sort(), ["changed", "planned", "reported"]);
        const metrics = await (await fetch(`${url}metrics`)).text();
        assert.ok(steps.has("scraped"));
        const [, queued] = /^kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds\{ip_family="IPv4"\} (.*)$/m
          .exec(metrics)!;
        for (const ms of [Number(queued) * 1_000, attachedMs[0]!]) assert.ok(ms >= startMs && ms <= Date.now());
      }),
  );
});

Deno.test("what a feature does in a run ends with the proxy, not with a changed configuration", async () => {
  const events: string[] = [];
  const processFeatures = featureThatStarts(() => {
    events.push("started");
    return { stopped: () => Promise.resolve(void events.push("stopped")) };
  });
  await withManifests(
    "",
    ({ args }) =>
      withWholeProxy({ args, processFeatures }, async ({ replace, endReplaced }) => {
        await replace();
        assert.deepEqual(events, ["started", "started"]);
        endReplaced();
      }),
  );
  assert.deepEqual(events, ["started", "started", "stopped"], "the end of the proxy counts, also during a change");
});

/** A Service with this name and spec, at an address of its own. */
const serviceOf = (name: string, number: number, spec: object, annotations = {}): ApiObject => ({
  kind: "Service",
  metadata: { namespace: "shop", name, annotations },
  spec: { clusterIP: `10.96.0.${number}`, ports: [{ port: 80 }], ...spec },
});

for (const site of ["", "branch"]) {
  const named = site === "" ? "" : ", and of a site's node only what asks for an action";
  Deno.test(`Events tell of the Node, the link to the API server, health check ports and balancing${named}`, async () => {
    const server = startFakeApiServer(), clock = createFakeClock(Date.now()), port = reservePort();
    const isRecorded = (text: string) =>
      server.requests.some(({ verb, body }) => verb === "create" && body.includes(text));
    const checked = { type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort: port };
    server.apply(
      serviceOf("web", 10, checked),
      serviceOf("same-port", 11, checked),
      serviceOf("dns", 12, { ports: [{ port: 53, protocol: "UDP" }] }, { "sluice.dev/balance": "least-connections" }),
    );
    const nodes: Node[] = [], processFeatures = featureThatStarts((node) => (nodes.push(node), {}));
    const args = ["--master", server.url, "--site", site];
    await withWholeProxy({ args, clock, processFeatures }, async ({ url }) => {
      nodes[0]!.recordEvent("Tested", "", "of a feature");
      await passing(clock, () => isRecorded('"reason":"Tested"'));
      for (
        const text of ['"reason":"FailedToStartServiceHealthcheck"', '"action":"Balance"', '"reason":"NodeNotFound"']
      ) {
        await passing(clock, () => isRecorded(text), 100);
      }
      server.fault(() => statusResponse(503, "ServiceUnavailable", "down"));
      server.dropWatches("broken");
      const downUntilMs = clock.now() + 15_000;
      await passing(clock, () => clock.now() > downUntilMs, 100);
      server.fault(undefined);
      server.apply(
        serviceOf("other", 13, { ports: [{ port: 53, protocol: "UDP" }] }, { "sluice.dev/balance": "none" }),
      );
      await passing(clock, () => isRecorded('"name":"other"'));
      if (site === "") await passing(clock, () => isRecorded('"reason":"SourceRestored"'));
      const metrics = await passingDuring(clock, fetch(`${url}metrics`).then((answer) => answer.text()));
      assert.match(metrics, /^sluice_problem\{code="balance-ignored",severity="warning"\} 2$/m);
      assert.deepEqual(
        [isRecorded('"reason":"Starting"'), isRecorded('"reason":"SourceRestored"')],
        Array(2).fill(site === ""),
      );
      assert.equal(server.requests.some(({ path }) => path.includes("/sluice-sites/")), site !== "");
    });
    await server.close();
  });
}

Deno.test("listeners of health checks and connections stay within their shares of the open files", async () => {
  // Shared are 2 connections and 6 listeners.
  const fileLimit = 16, clock = createFakeClock(Date.now());
  const manifests = Array.from({ length: 7 }, (_, i) => healthCheckedAt(reservePort()).replaceAll("web", `web${i}`));
  await withManifests(
    manifests.join("---\n"),
    ({ args }) =>
      withWholeProxy({ args, fileLimit, clock }, async ({ url }) => {
        const closed = /^sluice_problem\{code="health-check-port-closed".*\} 1$/m;
        await passingDuring(clock, until(async () => closed.test(await (await fetch(`${url}metrics`)).text())));
        const { port } = new URL(url), connect = () => Deno.connect({ hostname: "127.0.0.1", port: Number(port) });
        const connections = [await connect(), await connect(), await connect()];
        const end = connections[0]!.read(new Uint8Array(1)).catch(() => null);
        assert.equal(await passingDuring(clock, inTime("the end of the first connection", end), 0), null);
        connections.forEach((connection) => connection.close());
      }),
  );
});

Deno.test("the work of rounds delays later ones", async () => {
  const server = startFakeApiServer(), clock = createFakeClock(Date.now());
  let cpuMs = 0;
  await withWholeProxy({ args: ["--master", server.url], clock, cpuMs: () => cpuMs += 10_000 }, async ({ url }) => {
    const isPending = async (count: number) =>
      (await (await fetch(`${url}metrics`)).text()).includes(
        `\nkubeproxy_sync_proxy_rules_service_changes_pending ${count}\n`,
      );
    const synced = async (count: number) =>
      (await (await fetch(`${url}metrics`)).text()).includes(
        `kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} ${count}\n`,
      );
    await server.watches(3);
    await passingDuring(clock, until(() => isPending(0)));
    server.apply(serviceOf("one", 1, {}));
    await until(() => isPending(1));
    clock.advance(1000);
    // No time passes after the sync, in which the next round would come nearer.
    await until(() => synced(1));
    server.apply(serviceOf("two", 2, {}));
    await until(() => isPending(1));
    clock.advance(900);
    await settled();
    assert.ok(await isPending(1));
    clock.advance(100);
    await until(() => isPending(0));
  });
  await server.close();
});

Deno.test("counts of workers are metrics of both families together, and continue after a changed configuration", async () => {
  const counts = { ctStateInvalidDropped: 5, localhostNodePortsAccepted: 0 };
  const call = (): CallWorker => ({ name, checked }) =>
    Promise.resolve(name === readPacketCounts.name ? checked({ ...counts }) : undefined);
  await withManifests(
    "",
    ({ args }) =>
      withWholeProxy({ args: [...args, "--proxy-mode", "iptables"], call }, async ({ url, replace }) => {
        const dropped = async () =>
          /^kubeproxy_iptables_ct_state_invalid_dropped_packets_total (\d+)$/m.exec(
            await (await fetch(`${url}metrics`)).text(),
          )?.[1];
        assert.equal(await dropped(), "10");
        await replace();
        assert.equal(await dropped(), "10");
        counts.ctStateInvalidDropped = 6;
        assert.equal(await dropped(), "12");
      }),
  );
});

Deno.test("a relay's counts are metrics where there is one, and a link's where the source is a server", async () => {
  for (const [mode, isRelayed] of [["userspace", true], ["iptables", false]] as const) {
    const relayCounts = () => Promise.resolve({ connectionsOpen: 3 });
    await withManifests(
      "",
      ({ args }) =>
        withWholeProxy({ args: [...args, "--proxy-mode", mode], relayCounts }, async ({ url }) => {
          const metrics = await (await fetch(`${url}metrics`)).text();
          assert.equal(/^sluice_relay_connections\{ip_family="IPv6"\} 3$/m.test(metrics), isRelayed, mode);
          assert.doesNotMatch(metrics, /^sluice_source_connected/m);
        }),
    );
  }
});

Deno.test("the servers that a node may get the cluster from are metrics", async () => {
  const address = `127.0.0.1:${reservePort()}`;
  await withWholeProxy({ args: ["--source", `grpc://${address}`] }, async ({ url }) => {
    const metrics = await (await fetch(`${url}metrics`)).text();
    assert.ok(metrics.includes(`\nsluice_source_server{server="${address}"} 0\n`));
    assert.match(metrics, /^sluice_source_connected 0$/m);
  });
});
