/** Open connections of services with real packets, when their endpoint dies: which are reset, and what a proxy leaves behind. */
import assert from "node:assert/strict";
import { NETWORK } from "../../demo/lab.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import type { Family } from "../../platform/address.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { node, service } from "../chaos/cluster.ts";
import { API_LINK, type ChaosLab, withLab } from "../chaos/lab.ts";
import { startTrafficProgram } from "../chaos/probes.ts";
import { startSluice } from "../chaos/sluice.ts";
import { waitFor } from "../chaos/wait.ts";
import type { ApiObject } from "../fakes/api_server.ts";
import { run } from "./blackhole.ts";

const PORT = 9000, NODE_PORT = 30080, HOST_PORT = 8443;
const LINK: Readonly<Record<Family, string>> = { IPv4: API_LINK.node, IPv6: "fd00:30::2" };
const CLUSTER_IPS = { web: ["10.96.0.10", "fd00:10:96::10"], other: ["10.96.0.11", "fd00:10:96::11"] } as const;
const EXTERNAL_IPS = ["198.51.100.10", "2001:db8:51::10"], BALANCER_IPS = ["198.51.100.20", "2001:db8:51::20"];
/** The time from a change until nothing more is reset because of it. */
const SETTLED_MS = 2_500;
/** On a machine with nothing else to do, it is 0.6 s. */
const RESET_WITHIN_MS = 1_000;

type Conditions = "ready" | "terminating" | undefined;

/** The slice of a service with the lab's first pod, or without it. */
function slice(name: keyof typeof CLUSTER_IPS, family: Family, conditions: Conditions): ApiObject {
  const isTerminating = conditions === "terminating";
  return {
    kind: "EndpointSlice",
    metadata: {
      name: `${name}-${family.toLowerCase()}`,
      namespace: namespaceOf(name),
      labels: { "kubernetes.io/service-name": name },
    },
    addressType: family,
    endpoints: conditions === undefined ? [] : [{
      addresses: [NETWORK.pods["pod-1"][family]],
      conditions: { ready: !isTerminating, serving: true, terminating: isTerminating },
      nodeName: NETWORK.nodeName,
    }],
    ports: [{ name: "http", protocol: "TCP", port: PORT }],
  };
}

const namespaceOf = (name: keyof typeof CLUSTER_IPS) => name === "web" ? "default" : "tenant";

function services(): ApiObject[] {
  const ports = (nodePort = 0) => [{ name: "http", protocol: "TCP", port: 80, targetPort: PORT, nodePort }];
  const web = service("web", CLUSTER_IPS.web, {
    ...{ type: "LoadBalancer", externalIPs: EXTERNAL_IPS },
    ports: ports(NODE_PORT),
  });
  const other = service("other", CLUSTER_IPS.other, { ports: ports() });
  return [
    { ...web, status: { loadBalancer: { ingress: BALANCER_IPS.map((ip) => ({ ip })) } } },
    { ...other, metadata: { name: "other", namespace: namespaceOf("other") } },
  ];
}

/** An open connection to an echo server. */
interface Held {
  readonly name: string;
  /** Sends a byte and waits for it; whether the connection lives. Rejects if it ends in another way than by a reset. */
  lives(): Promise<boolean>;
  close(): void;
}

async function hold(name: string, hostname: string, port: number): Promise<Held> {
  const connection = await Deno.connect({ hostname, port });
  const byte = new Uint8Array([1]);
  let isReset = false;
  const held: Held = {
    name,
    async lives() {
      if (isReset) return false;
      try {
        await connection.write(byte);
        assert.equal(await connection.read(byte), 1, `${name} was closed`);
        return true;
      } catch (error) {
        if (!(error instanceof Deno.errors.ConnectionReset)) throw error;
        isReset = true;
        return false;
      }
    },
    close: () => connection.close(),
  };
  assert.ok(await held.lives(), name);
  return held;
}

/** A lab with connections from another host, which this process stands for, to a pod of the node. */
async function prepare(lab: ChaosLab): Promise<void> {
  const { IPv4, IPv6 } = LINK;
  await run("ip", "address", "add", "fd00:30::1/64", "dev", API_LINK.device, "nodad");
  await lab.run("node", ["ip", "address", "add", `${IPv6}/64`, "dev", API_LINK.device, "nodad"]);
  const destinations = [NETWORK.node, NETWORK.pods["pod-1"]].map((one) => [one.IPv4, one.IPv6]);
  for (const pair of [...Object.values(CLUSTER_IPS), EXTERNAL_IPS, BALANCER_IPS, ...destinations]) {
    await run("ip", "route", "add", pair[0]!, "via", IPv4);
    await run("ip", "route", "add", pair[1]!, "via", IPv6);
  }
  for (const [ip, family, to] of [["ip", "IPv4", "%"], ["ip6", "IPv6", "[%]"]] as const) {
    const pod = to.replace("%", NETWORK.pods["pod-1"][family]);
    await nft(
      lab,
      `table ${ip} hostport { chain prerouting { type nat hook prerouting priority -110;
      tcp dport ${HOST_PORT} dnat to ${pod}:${PORT}; }; }`,
    );
  }
  startTrafficProgram(lab, "pod-1", ["echo", "::", String(PORT)]);
}

const nft = (lab: ChaosLab, statements: string) => lab.run("node", ["sh", "-ec", `nft -f - <<'X'\n${statements}\nX`]);

for (const mode of ["nftables", "iptables"] as const) {
  Deno.test(`${mode}: connections through the frontends of a service to a dead endpoint are reset within a second, and no others`, async () => {
    requireIsolation();
    await withLab(async (lab) => {
      await prepare(lab);
      const families = ["IPv4", "IPv6"] as const;
      const show = (name: keyof typeof CLUSTER_IPS, conditions: Conditions) =>
        lab.api.apply(...families.map((family) => slice(name, family, conditions)));
      const tables = async () =>
        (await lab.run("node", ["nft", "list", "tables"])).match(/ip6? sluice-resets/g)?.sort() ?? [];
      lab.api.apply(node(), ...services());
      show("web", "ready");
      show("other", "ready");
      const sluice = await startSluice(lab, { mode, fields: { logging: { verbosity: 4 } } });
      const isSynced = () => families.every((family) => sluice.log().includes(`"synced","family":"${family}"`));
      await waitFor("the rules are in effect", 60_000, isSynced);

      const frontends = families.flatMap((family, index) =>
        [
          ["cluster IP", CLUSTER_IPS.web[index]!, 80],
          ["external IP", EXTERNAL_IPS[index]!, 80],
          ["load balancer IP", BALANCER_IPS[index]!, 80],
          ["node port", NETWORK.node[family], NODE_PORT],
        ] as const
      );
      const others = families.flatMap((family, index) =>
        [
          ["the pod's address", NETWORK.pods["pod-1"][family], PORT],
          ["host port", NETWORK.node[family], HOST_PORT],
          ["another service", CLUSTER_IPS.other[index]!, 80],
        ] as const
      );
      const open = (targets: readonly (readonly [string, string, number])[]) =>
        Promise.all(targets.map(([name, at, port]) => hold(`${name} ${at}`, at, port)));
      const areAlive = async (some: readonly Held[], when: string) => {
        for (const one of some) assert.ok(await one.lives(), `${when}: ${one.name} was reset`);
      };
      const [through, beside] = [await open(frontends), await open(others)];
      show("web", "terminating");
      show("web", undefined);
      await sleep(systemClock, SETTLED_MS);
      await areAlive([...through, ...beside], "another service still has the endpoint");
      assert.deepEqual(await tables(), []);

      show("other", undefined);
      for (const one of through) {
        await waitFor(`${one.name} is reset`, RESET_WITHIN_MS, async () => !await one.lives());
      }
      await sleep(systemClock, SETTLED_MS);
      await areAlive(beside, "through something else");
      assert.deepEqual(await tables(), ["ip sluice-resets", "ip6 sluice-resets"]);

      show("web", "ready");
      let again: Held[] = [];
      await waitFor("the endpoint is used again", 10_000, async () => {
        again = await open(frontends).catch(() => []);
        return again.length > 0;
      });
      await sleep(systemClock, SETTLED_MS);
      await areAlive(again, "used again");
      for (const changed of [undefined, "ready"] as const) {
        show("web", changed);
        await sleep(systemClock, SETTLED_MS);
        await areAlive(again, "ready when it left, and back");
      }

      show("web", "terminating");
      show("web", undefined);
      await waitFor("a connection is reset", 2 * RESET_WITHIN_MS, async () => !await again[0]!.lives());
      await sluice.end("SIGTERM");
      assert.deepEqual(await tables(), [], "after SIGTERM");
      // Another proxy serves the endpoint again.
      await nft(
        lab,
        `table ip returned { chain prerouting { type nat hook prerouting priority -110;
        ip daddr ${CLUSTER_IPS.web[0]} tcp dport 80 dnat to ${NETWORK.pods["pod-1"].IPv4}:${PORT}; }; }`,
      );
      const returned = await open(Array.from({ length: 28 }, () => frontends[0]!));
      await areAlive(returned, "with another proxy");
      for (const one of [...through, ...beside, ...again, ...returned]) one.close();
    });
  });
}
