/** UDP flows in the kernel's conntrack table: which of them a change deletes. */
import assert from "node:assert/strict";
import type { Backend } from "../../backends/contract/backend.ts";
import { loadBackend } from "../../backends/registry.ts";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import type { Runner, ToolResult } from "../../backends/tools/runner.ts";
import type { Family, ProxyMode, ServicePort } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";
import { silentLogger } from "../../platform/log.ts";
import { createFakeClock, settled } from "../fakes/clock.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { answeringAddresses, createBlackhole, type Network, removeBlackhole, run, runner, send } from "./blackhole.ts";

/** A backend in a network, with UDP services. */
function createLab(mode: ProxyMode, family: Family, network: Network, tools: Runner) {
  const clock = createFakeClock(), running = new Set<Promise<ToolResult>>();
  const observed: Runner = {
    ...tools,
    run(call) {
      const result = tools.run(call);
      if (call.tool === "conntrack") running.add(result);
      return result.finally(() => running.delete(result));
    },
  };
  const settings = fakeSettings({ mode, nodeIP: network.node, localhostNodePorts: false });
  let backend: Backend | undefined, revision = 0;
  const lab = {
    /** Starts a backend that knows nothing of an earlier one. */
    async start() {
      backend = await loadBackend(mode, { family, runner: observed, clock, logger: silentLogger });
      await backend.setup();
    },
    /** Syncs these service ports at a time at which stale flows may be removed. */
    async sync(...set: ServicePort[]) {
      clock.advance(1_000);
      const { problems } = await backend!.sync({ revision: ++revision, base: undefined, settings, set, deleted: [] });
      assert.deepEqual(problems, []);
    },
    /** Resolves when conntrack is not running any more. */
    async cleaned() {
      for (await settled(); running.size > 0; await settled()) await Promise.allSettled(running);
    },
    async syncAndClean(...set: ServicePort[]) {
      await lab.sync(...set);
      await lab.cleaned();
    },
    /** The service `default/dns<index>` with these pods, also at a node port. */
    dns: (index: number, pods: readonly number[]) =>
      fakeServicePort(`default/dns${index}:dns`, {
        protocol: "udp",
        clusterIP: network.service(index),
        port: 53,
        nodePort: 30050 + index,
        clusterEndpoints: pods.map((number) => joinHostPort(network.pod(number), 5353)),
        ...(pods.length === 0 ? { internal: "reject", external: "reject" } : {}),
      }),
    cleanup: async () => await backend?.cleanup(),
  };
  return lab;
}

for (const mode of ["iptables", "nftables"] satisfies ProxyMode[]) {
  for (const family of ["IPv4", "IPv6"] as const) {
    Deno.test(`${mode}, ${family}: UDP flows to removed endpoints, of services without endpoints and of deleted ones are deleted, others stay`, async () => {
      const network = await createBlackhole(family);
      const { node, pod, service } = network;
      const { start, syncAndClean: sync, dns, cleanup } = createLab(mode, family, network, runner);
      const flows = () => answeringAddresses(network, /^21\d{3}$/);
      try {
        await start();
        await sync(dns(1, [1]), dns(2, [2]), dns(3, [3]));
        await send(family, 21001, service(1), 53);
        await send(family, 21002, service(2), 53);
        await send(family, 21003, service(3), 53);
        await send(family, 21004, node, 30053);
        await send(family, 21005, pod(9), 30053);
        // A container's published port.
        const published = ["-s", pod(9), "-d", node, "--sport", "21006", "--dport", "8053"];
        const answer = ["-r", pod(3), "-q", pod(9), "--reply-port-src", "5353", "--reply-port-dst", "21006"];
        await run("conntrack", "-I", "-p", "udp", "-t", "600", ...published, ...answer);
        const others = { 21002: pod(2), 21005: pod(9), 21006: pod(3) };
        const third = { 21003: pod(3), 21004: pod(3) };
        assert.deepEqual(await flows(), { 21001: pod(1), ...others, ...third });

        await sync(dns(1, []), dns(2, [2]), dns(3, [3]));
        assert.deepEqual(await flows(), { ...others, ...third }, "the last endpoint is gone");
        await sync(dns(1, [4]), dns(2, [2, 5]), dns(3, [3]));
        assert.deepEqual(await flows(), { ...others, ...third });

        await start();
        await sync(dns(1, [4]), dns(2, [2, 5]));
        assert.deepEqual(await flows(), others, "dns3 was deleted while no backend ran");
        await sync(dns(1, [4]));
        const { 21002: ofDeleted, ...foreign } = others;
        assert.deepEqual([await flows(), ofDeleted], [foreign, pod(2)]);
      } finally {
        await cleanup();
        await removeBlackhole();
      }
    });
  }

  Deno.test(`${mode}: changes are in effect while conntrack hangs, and an endpoint that comes back keeps its flows`, async () => {
    const network = await createBlackhole("IPv4"), { pod, service } = network;
    const folder = await Deno.makeTempDir({ dir: "/run" });
    const script = `[ "$1" = -L ] || { echo > ${folder}/started; read -r line < ${folder}/gate; }`;
    await Deno.writeTextFile(
      `${folder}/conntrack`,
      `#!/bin/sh\n${script}\nPATH=\${PATH#*:} exec conntrack "$@"\n`,
      { mode: 0o755 },
    );
    await run("mkfifo", `${folder}/started`, `${folder}/gate`);
    const tools = createProcessRunner({ clock: systemClock, path: `${folder}:${searchPath()}` });
    const { start, sync, cleaned, syncAndClean, dns, cleanup } = createLab(mode, "IPv4", network, tools);
    const hangs = () => Deno.readTextFile(`${folder}/started`);
    const flows = () => answeringAddresses(network, /^22\d{3}$/);
    try {
      await start();
      await syncAndClean(dns(1, [1]), dns(2, [2]));
      await send("IPv4", 22001, service(1), 53);
      await sync(dns(1, [4]), dns(2, [2]));
      await hangs();
      await sync(dns(1, [4]), dns(2, [3]));
      await send("IPv4", 22002, service(2), 53);
      await sync(dns(1, [4, 1]), dns(2, [3]));
      await cleaned();
      assert.deepEqual(await flows(), { 22001: pod(1), 22002: pod(3) });

      await sync(dns(1, [4]), dns(2, [3]));
      await hangs();
      await Deno.writeTextFile(`${folder}/gate`, "\n");
      await cleaned();
      assert.deepEqual(await flows(), { 22002: pod(3) });
    } finally {
      await cleanup();
      await removeBlackhole();
      await Deno.remove(folder, { recursive: true });
    }
  });
}
