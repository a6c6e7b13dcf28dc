/** UDP flows in the kernel's conntrack table: which of them a change deletes. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import type { Backend } from "../../backends/contract/backend.ts";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import { loadBackend } from "../../backends/registry.ts";
import type { Family, ProxyMode, ServicePort } from "../../core/model/mod.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";
import { silentLogger } from "../../platform/log.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";

const runner = createProcessRunner({ clock: systemClock, path: searchPath() });

async function run(tool: string, ...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await runner.run({ tool, args });
  assert.equal(exitCode, 0, `${tool} ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** The addresses of a family; all but `node` are routed to a device that drops its packets. */
interface Network {
  readonly node: string;
  readonly prefixLength: number;
  readonly pod: (index: number) => string;
  readonly service: (index: number) => string;
  readonly conntrackFamily: string;
}

const NETWORKS: Readonly<Record<Family, Network>> = {
  IPv4: {
    node: "10.7.0.1",
    prefixLength: 32,
    pod: (index) => `10.244.1.${index}`,
    service: (index) => `10.96.0.${index}`,
    conntrackFamily: "ipv4",
  },
  IPv6: {
    node: "fd00:7::1",
    prefixLength: 128,
    pod: (index) => `fd00:244:1::${index}`,
    service: (index) => `fd00:96::${index}`,
    conntrackFamily: "ipv6",
  },
};

async function createNetwork(family: Family): Promise<Network> {
  requireIsolation();
  const network = NETWORKS[family], version = family === "IPv4" ? "-4" : "-6";
  await run("ip", "link", "add", "blackhole", "type", "veth", "peer", "name", "blackhole-peer");
  await run(
    "ip",
    version,
    "addr",
    "add",
    `${network.node}/${network.prefixLength}`,
    "dev",
    "blackhole",
    ...nodad(family),
  );
  for (const device of ["blackhole-peer", "blackhole"]) await run("ip", "link", "set", device, "up", "arp", "off");
  await run("ip", version, "route", "add", "default", "dev", "blackhole");
  return network;
}

const nodad = (family: Family) => family === "IPv6" ? ["nodad"] : [];

/** Sends one datagram and resolves when its flow is tracked. */
async function send(family: Family, sourcePort: number, to: string, port: number): Promise<void> {
  const socket = createSocket(family === "IPv4" ? "udp4" : "udp6");
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.on("error", reject);
  socket.bind(sourcePort, () => socket.send("?", port, to, (error) => error ? reject(error) : resolve()));
  await promise;
  socket.close();
}

/** The tracked flows: answering address by source port. */
async function flows({ conntrackFamily }: Network): Promise<Record<string, string>> {
  const listed = await run("conntrack", "-L", "-p", "udp", "-f", conntrackFamily);
  const answeredBy: Record<string, string> = {};
  for (const line of listed.split("\n")) {
    const source = /sport=(41\d+) /.exec(line), answer = [...line.matchAll(/src=(\S+)/g)].at(1);
    if (source && answer) answeredBy[source[1]!] = answer[1]!;
  }
  return answeredBy;
}

for (const mode of ["iptables", "nftables"] satisfies ProxyMode[]) {
  for (const family of ["IPv4", "IPv6"] as const) {
    Deno.test(`${mode}, ${family}: UDP flows to removed endpoints and deleted services are deleted, others stay`, async () => {
      const network = await createNetwork(family);
      const { node, pod, service } = network;
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
        assert.deepEqual(await flows(network), { 41001: pod(1), ...others, ...third });

        await sync(dns(1, []), dns(2, [2]), dns(3, [3]));
        assert.deepEqual(
          await flows(network),
          { 41001: pod(1), ...others, ...third },
          "the flow stays while no endpoint could take it over",
        );
        await sync(dns(1, [4]), dns(2, [2, 5]), dns(3, [3]));
        assert.deepEqual(await flows(network), { ...others, ...third });

        await start();
        await sync(dns(1, [4]), dns(2, [2, 5]));
        assert.deepEqual(await flows(network), others, "dns3 was deleted while no backend ran");
        await sync(dns(1, [4]));
        const { 41002: ofDeleted, ...foreign } = others;
        assert.deepEqual([await flows(network), ofDeleted], [foreign, pod(2)]);
      } finally {
        await last?.cleanup();
        await run("conntrack", "-F");
        await run("ip", "link", "del", "blackhole");
      }
    });
  }
}
