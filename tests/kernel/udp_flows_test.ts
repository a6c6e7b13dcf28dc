/** UDP flows in the kernel's conntrack table: which of them a change deletes. */
import assert from "node:assert/strict";
import type { Backend } from "../../backends/contract/backend.ts";
import { loadBackend } from "../../backends/registry.ts";
import type { ProxyMode, ServicePort } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { answeringAddresses, createBlackhole, removeBlackhole, run, runner, send } from "./blackhole.ts";

for (const mode of ["iptables", "nftables"] satisfies ProxyMode[]) {
  for (const family of ["IPv4", "IPv6"] as const) {
    Deno.test(`${mode}, ${family}: UDP flows to removed endpoints, of services without endpoints and of deleted ones are deleted, others stay`, async () => {
      const network = await createBlackhole(family);
      const { node, pod, service } = network;
      const flows = () => answeringAddresses(network, /^41/);
      let last: Backend | undefined;
      let revision = 0;
      const start = async () => {
        last = await loadBackend(mode, { family, runner, clock: systemClock, logger: silentLogger });
        await last.setup();
      };
      const settings = fakeSettings({ mode, nodeIP: node, localhostNodePorts: false });
      const sync = async (...set: ServicePort[]) => {
        const { problems } = await last!.sync({ revision: ++revision, base: undefined, settings, set, deleted: [] });
        assert.deepEqual(problems, []);
      };
      const dns = (index: number, pods: readonly number[]) =>
        fakeServicePort(`default/dns${index}:dns`, {
          protocol: "udp",
          clusterIP: service(index),
          port: 53,
          nodePort: 30050 + index,
          clusterEndpoints: pods.map((number) => joinHostPort(pod(number), 5353)),
          ...(pods.length === 0 ? { internal: "reject", external: "reject" } : {}),
        });
      try {
        await start();
        await sync(dns(1, [1]), dns(2, [2]), dns(3, [3]));
        await send(family, 41001, service(1), 53);
        await send(family, 41002, service(2), 53);
        await send(family, 41003, service(3), 53);
        await send(family, 41004, node, 30053);
        await send(family, 41005, pod(9), 30053);
        // A container's published port.
        const published = ["-s", pod(9), "-d", node, "--sport", "41006", "--dport", "8053"];
        const answer = ["-r", pod(3), "-q", pod(9), "--reply-port-src", "5353", "--reply-port-dst", "41006"];
        await run("conntrack", "-I", "-p", "udp", "-t", "600", ...published, ...answer);
        const others = { 41002: pod(2), 41005: pod(9), 41006: pod(3) };
        const third = { 41003: pod(3), 41004: pod(3) };
        assert.deepEqual(await flows(), { 41001: pod(1), ...others, ...third });

        await sync(dns(1, []), dns(2, [2]), dns(3, [3]));
        assert.deepEqual(await flows(), { ...others, ...third }, "the last endpoint is gone");
        await sync(dns(1, [4]), dns(2, [2, 5]), dns(3, [3]));
        assert.deepEqual(await flows(), { ...others, ...third });

        await start();
        await sync(dns(1, [4]), dns(2, [2, 5]));
        assert.deepEqual(await flows(), others, "dns3 was deleted while no backend ran");
        await sync(dns(1, [4]));
        const { 41002: ofDeleted, ...foreign } = others;
        assert.deepEqual([await flows(), ofDeleted], [foreign, pod(2)]);
      } finally {
        await last?.cleanup();
        await removeBlackhole();
      }
    });
  }
}
