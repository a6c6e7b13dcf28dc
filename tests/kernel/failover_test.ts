/** Connection attempts with real packets: what the kernel counts, and where an unanswered one goes. */
import assert from "node:assert/strict";
import type { Backend } from "../../backends/contract/backend.ts";
import { loadBackend } from "../../backends/registry.ts";
import type { ProxyMode, ServicePort } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { probeTcp } from "../../platform/tcp_probe.ts";
import { waitFor } from "../chaos/wait.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { createBlackhole, removeBlackhole, runner } from "./blackhole.ts";

type Sync = (port: ServicePort, gone?: readonly string[]) => Promise<void>;

async function started(backend: Backend, mode: ProxyMode = "nftables"): Promise<Sync> {
  await backend.setup();
  const settings = fakeSettings({
    mode,
    localhostNodePorts: false,
    countsAttempts: true,
    resetsGone: true,
    goneTimeoutMs: 60_000,
  });
  let revision = 0;
  return async (port, gone = []) => {
    const base = revision === 0 ? undefined : revision;
    const delta = { revision: ++revision, base, settings: base ? undefined : settings, set: [port], deleted: [], gone };
    assert.deepEqual((await backend.sync(delta)).problems, []);
  };
}

for (const family of ["IPv4", "IPv6"] as const) {
  Deno.test(`${family}: attempts are counted, and a waiting connection moves from an endpoint that is left out`, async () => {
    const { node, pod, service } = await createBlackhole(family);
    const backend = await loadBackend("nftables", { family, runner, clock: systemClock, logger: silentLogger });
    const sync = await started(backend);
    const listener = Deno.listen({ hostname: node, port: 0 });
    const dead = joinHostPort(pod(1), 8080), live = joinHostPort(node, listener.addr.port);
    const web = (changes: Partial<ServicePort>) => fakeServicePort("shop/web", { clusterIP: service(1), ...changes });
    try {
      await sync(web({ clusterEndpoints: [dead] }));
      const connecting = Deno.connect({ hostname: service(1), port: 80 });
      const countsOf = async (endpoint: string) => (await backend.attemptCounts!()).get(endpoint);
      await waitFor("the attempt is counted", 10_000, async () => await countsOf(dead) !== undefined);
      assert.equal((await countsOf(dead))!.answered, 0);
      await sync(web({ clusterEndpoints: [live], unreachableEndpoints: [dead] }));
      // The client repeats its first packet after a second; without the removal it would wait for minutes.
      (await connecting).close();
      const { made, answered } = (await countsOf(live))!;
      assert.ok(made > 0 && answered > 0, `${made} attempts, ${answered} answered`);
      assert.equal((await countsOf(dead))!.answered, 0);
    } finally {
      listener.close();
      await backend.cleanup();
      await removeBlackhole();
    }
  });

  for (const mode of ["nftables", "iptables"] as const) {
    Deno.test(`${family}, ${mode}: a connection to an endpoint that is gone is reset at its next packet`, async () => {
      const { node, service } = await createBlackhole(family);
      const backend = await loadBackend(mode, { family, runner, clock: systemClock, logger: silentLogger });
      const sync = await started(backend, mode);
      const listener = Deno.listen({ hostname: node, port: 0 });
      const accepted: Deno.Conn[] = [];
      const accepting = (async () => {
        for await (const connection of listener) accepted.push(connection);
      })();
      const endpoint = joinHostPort(node, listener.addr.port);
      const web = (...clusterEndpoints: readonly string[]) =>
        fakeServicePort("shop/web", {
          clusterIP: service(1),
          clusterEndpoints,
          ...(clusterEndpoints.length > 0 ? {} : { internal: "reject", external: "reject" }),
        });
      const connect = () => Deno.connect({ hostname: service(1), port: 80 });
      const byte = new Uint8Array([1]);
      try {
        await sync(web(endpoint));
        const before = await connect(), direct = await Deno.connect({ hostname: node, port: listener.addr.port });
        await before.write(byte);
        await sync(web(), [endpoint]);
        await before.write(byte);
        await assert.rejects(before.read(byte), Deno.errors.ConnectionReset);
        // A connection to the endpoint itself is none of a service.
        await direct.write(byte);
        assert.equal((await backend.resync()).figures["connections_reset"], 1);
        // Used again: new connections work at once.
        await sync(web(endpoint));
        const after = await connect();
        await after.write(byte);
        await sync(web(endpoint));
        for (const connection of [before, direct, after, ...accepted]) connection.close();
      } finally {
        listener.close();
        await accepting;
        await backend.cleanup();
        await removeBlackhole();
      }
    });
  }

  Deno.test(`${family}: a probe tells silence from an answer`, async () => {
    const { node, pod } = await createBlackhole(family);
    const listener = Deno.listen({ hostname: node, port: 0 });
    const probe = (address: string, port: number) => probeTcp({ address, port }, 200, systemClock);
    assert.equal(await probe(node, listener.addr.port), "answered");
    const { port } = listener.addr;
    listener.close();
    assert.equal(await probe(node, port), "answered", "a refusal is an answer");
    assert.equal(await probe(pod(1), 8080), "silent");
    await removeBlackhole();
  });
}
