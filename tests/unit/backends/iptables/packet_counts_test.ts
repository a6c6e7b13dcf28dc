import assert from "node:assert/strict";
import { settled } from "../../../fakes/clock.ts";
import { readPacketCounts } from "../../../../backends/iptables/backend.ts";
import type { IptablesTools } from "../../../../backends/xtables/tools.ts";
import type { Family } from "../../../../core/model/mod.ts";
import { backendUnderTest, createHost } from "./host.ts";

/** The output of iptables 1.8.9, the same for both variants. */
const FORWARD = [
  "-N KUBE-FORWARD",
  "-A KUBE-FORWARD -m conntrack --ctstate INVALID -c 12 640 -j DROP",
  // A rule of another program.
  "-A KUBE-FORWARD -s 192.0.2.0/24 -c 5 300 -j DROP",
  '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -c 7 420 -j ACCEPT',
  '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -c 9 99 -j ACCEPT',
];
const LOCALHOST = [
  "-N KUBE-SVC-LOCALHOST",
  '-A KUBE-SVC-LOCALHOST -m comment --comment "kubernetes service nodeports at localhost" -c 30 1800 -j KUBE-NODEPORTS',
  '-A KUBE-SVC-LOCALHOST -m comment --comment "kubernetes service nodeports at localhost: there is none" -c 26 1560',
];

function toolsWith(chains: Readonly<Record<string, readonly string[]>>): IptablesTools {
  const unused = () => Promise.reject(new Error("only list may be called"));
  return {
    keepsRules: false,
    restore: unused,
    save: unused,
    flavour: unused,
    list(table, chain, onLine) {
      const lines = chains[`${table} ${chain}`];
      lines?.forEach(onLine);
      return lines ? Promise.resolve() : Promise.reject(new Error(`no chain ${chain}`));
    },
  };
}

const countsOf = (family: Family, chains: Readonly<Record<string, readonly string[]>>) =>
  readPacketCounts(family, toolsWith(chains));

Deno.test("dropped INVALID packets and node ports at localhost are counted", async () => {
  assert.deepEqual(await countsOf("IPv4", { "filter KUBE-FORWARD": FORWARD, "nat KUBE-SVC-LOCALHOST": LOCALHOST }), {
    ctStateInvalidDropped: 12,
    localhostNodePortsAccepted: 4,
  });
  assert.deepEqual(await countsOf("IPv6", { "filter KUBE-FORWARD": FORWARD }), {
    ctStateInvalidDropped: 12,
    localhostNodePortsAccepted: 0,
  });
});

Deno.test("a missing rule counts nothing", async () => {
  const [forward, localhost] = [FORWARD.filter((line) => !line.includes("INVALID")), LOCALHOST.slice(0, 1)];
  assert.deepEqual(await countsOf("IPv4", { "filter KUBE-FORWARD": forward, "nat KUBE-SVC-LOCALHOST": localhost }), {
    ctStateInvalidDropped: 0,
    localhostNodePortsAccepted: 0,
  });
});

Deno.test("the backend lists two chains and waits at most a second for the lock", async () => {
  const host = createHost();
  const { backend, snapshot } = await backendUnderTest(host);
  await snapshot([]);
  await settled();
  host.runner.forgetCalls();
  host.runner.inject(({ args }) => args.at(-1) === "KUBE-FORWARD", { how: "prints", stdout: FORWARD.join("\n") });
  host.runner.inject(({ args }) => args.at(-1) === "KUBE-SVC-LOCALHOST", {
    how: "prints",
    stdout: LOCALHOST.join("\n"),
  });
  assert.deepEqual(await backend.packetCounts!(), { ctStateInvalidDropped: 12, localhostNodePortsAccepted: 4 });
  assert.deepEqual(host.runner.calls.map(({ tool, args }) => [tool, ...args].join(" ")), [
    "iptables -w 1 -t filter -v -S KUBE-FORWARD",
    "iptables -w 1 -t nat -v -S KUBE-SVC-LOCALHOST",
  ]);
});
