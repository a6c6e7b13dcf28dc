import assert from "node:assert/strict";
import type { Backend } from "../../backends/backend.ts";
import { createNftablesBackend } from "../../backends/nftables/mod.ts";
import { createProcessRunner } from "../../backends/process_runner.ts";
import type { Family, ServicePort } from "../../core/model.ts";
import { isSecluded } from "../../demo/seclude.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/environment.ts";
import { createLogger } from "../../platform/log.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { nftSettings } from "../unit/nftables/host.ts";

function newBackend(family: Family): Backend {
  if (!isSecluded()) throw new Error("this test changes the network: run it by `deno task test:kernel`");
  const clock = systemClock;
  const logger = createLogger({ level: "error", format: "text", clock, write: () => {} });
  return createNftablesBackend({ family, runner: createProcessRunner({ clock, path: searchPath() }), clock, logger });
}

/** Service ports that have between them everything that a table can hold. */
function everything(address: (network: number, host: number) => string, length: number): ServicePort[] {
  const endpoint = (host: number) =>
    address(1, host).includes(":") ? `[${address(1, host)}]:80` : `${address(1, host)}:80`;
  const three = [1, 2, 3].map(endpoint);
  const all: Partial<ServicePort>[] = [
    {},
    { protocol: "udp" },
    { protocol: "sctp" },
    { internal: "reject", external: "reject", clusterEndpoints: [] },
    { internal: "drop", external: "drop", nodePort: 30004 },
    { external: "cluster", nodePort: 30005 },
    { external: "local", nodePort: 30006, localEndpoints: three.slice(1), loadBalancerIPs: [address(9, 6)] },
    {
      external: "cluster",
      loadBalancerIPs: [address(9, 7)],
      sourceRanges: [`${address(5, 0)}/${length}`, `${address(6, 6)}/${length * 2}`],
    },
    { affinitySeconds: 10_800, external: "cluster", nodePort: 30008, endpointsOnThisNode: [endpoint(1)] },
    { affinitySeconds: 90, external: "local", localEndpoints: three.slice(2), nodePort: 30009, protocol: "udp" },
    { affinitySeconds: 7, external: "drop", nodePort: 30010 },
  ];
  return all.map((changes, i) =>
    fakeServicePort(`default/s${i}:p`, {
      clusterIP: address(96, i),
      clusterEndpoints: three,
      endpointsOnThisNode: three.slice(1),
      external: "reject",
      ...changes,
    })
  );
}

const ADDRESSES = {
  IPv4: { address: (network: number, host: number) => `10.${network}.0.${host}`, length: 16, loopback: "127.0.0.1/32" },
  IPv6: {
    address: (network: number, host: number) =>
      host === 0 ? `fd00:${network}::` : `fd00:${network}::${host.toString(16)}`,
    length: 64,
    loopback: "::1/128",
  },
} as const;

for (const family of ["IPv4", "IPv6"] as const) {
  const { address, length, loopback } = ADDRESSES[family];
  const ports = everything(address, length);
  const settings = [
    nftSettings({
      nodeIP: address(2, 1),
      localTraffic: { by: "source-prefix", prefix: `${address(1, 0)}/${length}` },
      nodePortPrefixes: [`${address(2, 1)}/${length * 2}`, `${address(3, 0)}/${length}`, loopback],
      serviceRanges: [`${address(96, 0)}/${length}`, `${address(97, 1)}/${length * 2}`],
    }),
    nftSettings({
      nodeIP: address(6, 6),
      localTraffic: { by: "bridge", interface: "cbr0" },
      nodePortPrefixes: undefined,
    }),
    nftSettings({
      localTraffic: { by: "interface-prefix", prefix: "veth" },
      nodePortPrefixes: [],
      masqueradeMark: 2 ** 31,
    }),
    nftSettings({ localTraffic: { by: "none" }, masqueradeAll: true, conntrackTcpLiberal: true, nodePortPrefixes: [] }),
  ];

  Deno.test(`what is written to ${family} tables reads back as it was written, and changes as it is told to`, async () => {
    const whole = (set: readonly ServicePort[], which: number) =>
      ({ revision: 1, base: undefined, settings: settings[which], set, deleted: [] }) as const;
    const backend = newBackend(family);
    await backend.setup();
    for (let which = 0; which < settings.length; which++) {
      assert.deepEqual((await backend.sync(whole(ports, which))).problems, []);
      const { problems, figures } = await newBackend(family).sync(whole(ports, which));
      assert.deepEqual(problems, []);
      assert.equal(figures["nftables_transactions"], 0, `settings ${which} read otherwise than they were written`);
    }
    // Everything becomes something else, by way of a state that has half of it.
    const rotated = ports.map((port, i) => ({
      ...ports[(i + 1) % ports.length]!,
      name: port.name,
      clusterIP: port.clusterIP,
    }));
    assert.deepEqual((await backend.sync(whole(ports.slice(5), 0))).problems, []);
    assert.deepEqual((await backend.sync(whole(rotated, 1))).problems, []);
    const { figures } = await newBackend(family).sync(whole(rotated, 1));
    assert.equal(figures["nftables_transactions"], 0);
    await backend.cleanup();
  });
}
