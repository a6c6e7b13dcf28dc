/** Connection attempts with real packets: what the kernel counts, and where an unanswered one goes. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import type { Backend } from "../../backends/contract/backend.ts";
import { loadBackend } from "../../backends/registry.ts";
import type { Runner } from "../../backends/tools/mod.ts";
import type { ProxyMode, ServicePort } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { probeTcp } from "../../features/failover/endpoint_probe.ts";
import { waitFor } from "../chaos/wait.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { createBlackhole, removeBlackhole, run, runner } from "./blackhole.ts";

type Sync = (port: ServicePort) => Promise<void>;

async function started(backend: Backend, mode: ProxyMode = "nftables"): Promise<Sync> {
  await backend.setup();
  const settings = fakeSettings({
    mode,
    localhostNodePorts: false,
    countsAttempts: true,
  });
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
    Deno.test(`${family}, ${mode}: of a connection to a dead endpoint, packets that begin or end it pass, and others are reset`, async () => {
      const { node, service, conntrackFamily } = await createBlackhole(family);
      const backend = await loadBackend(mode, { family, runner, clock: systemClock, logger: silentLogger });
      const sync = await started(backend, mode);
      const listener = Deno.listen({ hostname: node, port: 0 });
      const endpoint = joinHostPort(node, listener.addr.port), frontend = joinHostPort(service(1), 80);
      const web = fakeServicePort("shop/web", { clusterIP: service(1), clusterEndpoints: [endpoint] });
      const byte = new Uint8Array([1]);
      const open = async (hostname = service(1), port = 80) => {
        const [client, server] = await Promise.all([Deno.connect({ hostname, port }), listener.accept()]);
        return { client, server };
      };
      try {
        await sync(web);
        const reset = await open(), direct = await open(node, listener.addr.port);
        const finished = await open(), aborting = connect(80, service(1)), aborted = await listener.accept();
        await backend.resetGone!([{ namespace: "default", endpoint, frontends: [frontend] }]);
        await reset.client.write(byte);
        await assert.rejects(reset.client.read(byte), Deno.errors.ConnectionReset);
        assert.equal((await backend.resync()).counts["connections_reset"], 1);
        await direct.client.write(byte);
        assert.equal(await direct.server.read(byte), 1);
        await finished.client.closeWrite();
        assert.equal(await finished.server.read(byte), null, "the FIN has arrived");
        aborting.resetAndDestroy();
        await assert.rejects(aborted.read(byte), Deno.errors.ConnectionReset);
        // The SYN of a new connection passes; what follows does not, until the endpoint is used again.
        const refused = Deno.connect({ hostname: service(1), port: 80 }).then((client) => client.read(byte));
        await assert.rejects(refused, Deno.errors.ConnectionReset);
        await sync(fakeServicePort("shop/other", { clusterIP: service(2), clusterEndpoints: [endpoint] }));
        const again = await open();
        await again.client.write(byte);
        assert.equal(await again.server.read(byte), 1);
        await backend.resetGone!([{ namespace: "default", endpoint, frontends: [frontend] }]);
        await backend.stop!();
        await again.client.write(byte);
        assert.equal(await again.server.read(byte), 1, "without the proxy");

        // Beside a flow table, the entries of exactly these connections are deleted.
        const withFlowTable: Runner = {
          run: (call) =>
            call.args.join(" ") === "list flowtables"
              ? Promise.resolve({ exitCode: 0, stdout: "\tflowtable fast {\n", stderr: "" })
              : runner.run(call),
        };
        const options = { family, runner: withFlowTable, clock: systemClock, logger: silentLogger };
        const offloading = await loadBackend(mode, options);
        await offloading.setup();
        const entries = async () =>
          (await run("conntrack", "-L", "-p", "tcp", "-f", conntrackFamily)).split("\n").filter((line) =>
            line.includes("ESTABLISHED") && line.includes(`dport=${listener.addr.port} `) || line.includes("dport=80 ")
          );
        const isOf = ({ client }: typeof again) => (line: string) =>
          line.includes(`sport=${(client.localAddr as Deno.NetAddr).port} `);
        assert.ok((await entries()).some(isOf(again)));
        await offloading.resetGone!([{ namespace: "default", endpoint, frontends: [frontend] }]);
        while ((await entries()).some(isOf(again)));
        assert.ok((await entries()).some(isOf(direct)));
        await offloading.stop!();
        for (const { client, server } of [reset, direct, finished, again]) {
          client.close();
          server.close();
        }
        aborted.close();
      } finally {
        listener.close();
        await backend.cleanup();
        await removeBlackhole();
      }
    });
  }

  Deno.test(`${family}: a probe tells silence from an answer`, async () => {
    const { node, pod } = await createBlackhole(family);
    const listener = Deno.listen({ hostname: node, port: 0 });
    const { port } = listener.addr;
    // On a busy machine, an answer may take longer than 200 ms.
    const probeNode = () => probeTcp({ address: node, port }, 60_000, systemClock);
    assert.equal(await probeNode(), "answered");
    listener.close();
    assert.equal(await probeNode(), "answered", "a refusal is an answer");
    assert.equal(await probeTcp({ address: pod(1), port: 8080 }, 200, systemClock), "silent");
    await removeBlackhole();
  });
}
