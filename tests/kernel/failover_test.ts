/** Connection attempts with real packets: what the kernel counts, and where an unanswered one goes. */
import assert from "node:assert/strict";
import type { Backend } from "../../backends/contract/backend.ts";
import { loadBackend } from "../../backends/registry.ts";
import type { ServicePort } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { probeTcp } from "../../platform/tcp_probe.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { createBlackhole, removeBlackhole, runner } from "./blackhole.ts";

async function started(backend: Backend): Promise<(port: ServicePort) => Promise<void>> {
  await backend.setup();
  const settings = fakeSettings({ mode: "nftables", localhostNodePorts: false, countsAttempts: true });
  let revision = 0;
  return async (port) => {
    const base = revision === 0 ? undefined : revision;
    const delta = { revision: ++revision, base, settings: base ? undefined : settings, set: [port], deleted: [] };
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
      while (!await countsOf(dead));
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
