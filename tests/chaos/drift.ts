/** Other programs change the rules while Sluice runs: it repairs them within a sync period, counts the drift and logs it once. */
import assert from "node:assert/strict";
import { cluster, clusterIP } from "./cluster.ts";
import { takeSnapshot } from "./kernel.ts";
import { type ChaosLab, withLab } from "./lab.ts";
import { metric } from "./process.ts";
import { type Counts, type MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { waitFor } from "./wait.ts";

const SERVICES = 100;
const SYNC_PERIOD_MS = 1000;
/**
 * Upper bounds on a busy machine. nftables mode compares the contents of its table less often than every sync period if
 * listing the table takes more than 1 % of that period.
 */
const REPAIRED_WITHIN_MS = { iptables: 6_000, nftables: 60_000 };

/** Changes made by other programs, as shell scripts to run in the node. */
const IPTABLES: Readonly<Record<string, string>> = {
  "an administrator's -F of every table": "for t in nat filter; do iptables -t $t -F; ip6tables -t $t -F; done",
  "a flush and deletion of all chains":
    "iptables -t nat -F; iptables -t nat -X; iptables -t filter -F; iptables -t filter -X",
  "a firewall reload that replaces both tables": `printf '%s\\n' '*nat' ':PREROUTING ACCEPT' \
':INPUT ACCEPT' ':OUTPUT ACCEPT' ':POSTROUTING ACCEPT' COMMIT '*filter' ':INPUT ACCEPT' ':FORWARD ACCEPT' \
':OUTPUT ACCEPT' COMMIT | iptables-restore`,
  "jumps removed, as by a failed restart of docker": `iptables -t nat -N DOCKER; \
iptables -t nat -F PREROUTING; iptables -t nat -I PREROUTING -m addrtype --dst-type LOCAL -j DOCKER; \
iptables -t nat -F PREROUTING; iptables -t nat -X DOCKER`,
  "a dispatch chain emptied": "iptables -t nat -F KUBE-SERVICES",
  "the masquerade mark's chain emptied": "iptables -t nat -F KUBE-MARK-MASQ",
  "a rule deleted": "iptables -t nat -D KUBE-POSTROUTING 1",
  "a foreign rule in a chain": "iptables -t filter -I KUBE-FORWARD -s 192.0.2.200 -j DROP",
  "the rules of a chain reordered": `first=$(iptables-save -t nat | grep '^-A KUBE-POSTROUTING' | head -n 1); \
printf '%s\\n' '*nat' '-D KUBE-POSTROUTING 1' "$first" COMMIT | iptables-restore --noflush`,
  "IPv6 alone: nat flushed": "ip6tables -t nat -F",
};

const NFTABLES: Readonly<Record<string, string>> = {
  "flush ruleset": "nft flush ruleset",
  "our table deleted": "nft delete table ip sluice",
  "our table flushed": "nft flush table ip sluice",
  "IPv6 alone: our table deleted": "nft delete table ip6 sluice",
  "a firewall reload that replaces the whole ruleset":
    `printf '%s\\n' 'flush ruleset' 'table inet firewall { chain c { ; }; }' \
| nft -f -; nft delete table inet firewall`,
};

/** Changes that only a full listing of the table reveals, which does not happen every sync period. */
const NFTABLES_SINGLE: Readonly<Record<string, string>> = {
  "an element deleted": `nft list map ip sluice services | grep -o '10\\.96\\.1\\.[0-9]* \\. tcp \\. 80' | head -n 1 \
| while read -r key; do nft "delete element ip sluice services { $key }"; done`,
  "a foreign rule in a chain":
    "nft insert rule ip sluice $(nft list table ip sluice | awk '/chain pick/ {print $2; exit}') drop",
};

/** Both modes. */
export const drift: readonly Scenario[] = [
  { name: "drift: other programs change the rules, iptables", run: () => repairs("iptables", IPTABLES) },
  { name: "drift: other programs change the rules, nftables", inGate: true, run: () => repairs("nftables", NFTABLES) },
  {
    name: "drift: other programs change single elements and rules, nftables",
    onlyLong: true,
    run: () => repairs("nftables", NFTABLES_SINGLE),
  },
];

function repairs(mode: (typeof MODES)[number], changes: Readonly<Record<string, string>>): Promise<Counts> {
  return withLab(async (lab) => {
    lab.api.apply(...cluster(SERVICES));
    const marker = createSyncMarker(lab);
    const sluice = await startSluice(lab, { mode, syncPeriod: `${SYNC_PERIOD_MS}ms` });
    await marker.settle();
    const first = await takeSnapshot(lab, mode);
    const counts: Record<string, string> = {};
    for (const [change, script] of Object.entries(changes)) {
      const linesBefore = repairLines(sluice.log()), countedBefore = await driftRepaired();
      await lab.run("node", ["sh", "-c", script]);
      // It may be repaired already; that it changed something shows in the count below.
      const tookMs = await first.waitUntilRestored(REPAIRED_WITHIN_MS[mode]);
      await assertServed(lab);
      let counted = countedBefore;
      await waitFor(
        `${change}: the repair to be counted`,
        5000,
        async () => (counted = await driftRepaired()) > countedBefore,
      );
      counts[`${change}: repaired after ms, changes counted, log lines`] = [
        Math.round(tookMs),
        counted - countedBefore,
        repairLines(sluice.log()) - linesBefore,
      ].join(", ");
    }
    assert.ok(repairLines(sluice.log()) > 0, "no repair was logged");
    await sluice.end("SIGTERM");
    return counts;
  });
}

async function driftRepaired(): Promise<number> {
  return await metric("sluice_drift_repaired_total") ?? 0;
}

function repairLines(log: string): number {
  return log.split("\n").filter((line) => line.includes("repaired")).length;
}

/** Asserts that probed services of both families answer. */
async function assertServed(lab: ChaosLab): Promise<void> {
  for (const index of [20, 21, 22, 23]) {
    const outcome = await lab.connect("pod-1", { protocol: "tcp", address: clusterIP(index), port: 80 });
    assert.equal(outcome.kind, "answered");
  }
}
