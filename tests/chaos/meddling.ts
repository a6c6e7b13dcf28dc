/** Others change the rules as Sluice runs: it is noticed and repaired within a sync period, counted, and said once. */
import assert from "node:assert/strict";
import { sleep, systemClock } from "../../platform/clock.ts";
import { rememberState } from "./as_fresh.ts";
import { cluster, clusterIP } from "./cluster.ts";
import { type ChaosLab, withLab } from "./lab.ts";
import { metric } from "./observe.ts";
import { type Figures, type MODES, type Scenario } from "./scenario.ts";
import { createSentinel } from "./sentinel.ts";
import { startSluice } from "./sluice.ts";

const SERVICES = 100;
const SYNC_PERIOD_MS = 1000;
/**
 * How late a repair may be on a machine that is busy with other things. nftables mode looks at the elements and rules of
 * its table less often than every sync period where listing it takes more than a hundredth of that.
 */
const REPAIRED_WITHIN_MS = { iptables: 6_000, nftables: 60_000 };

/** What somebody does, as a shell script in the node. */
const IPTABLES: Readonly<Record<string, string>> = {
  "an administrator's -F of every table": "for t in nat filter; do iptables -t $t -F; ip6tables -t $t -F; done",
  "a flush and deletion of all chains":
    "iptables -t nat -F; iptables -t nat -X; iptables -t filter -F; iptables -t filter -X",
  "a firewall's reload, which loads its own rules over everything": `printf '%s\\n' '*nat' ':PREROUTING ACCEPT' \
':INPUT ACCEPT' ':OUTPUT ACCEPT' ':POSTROUTING ACCEPT' COMMIT '*filter' ':INPUT ACCEPT' ':FORWARD ACCEPT' \
':OUTPUT ACCEPT' COMMIT | iptables-restore`,
  "jumps taken away, as by a restart of docker that goes wrong": `iptables -t nat -N DOCKER; \
iptables -t nat -F PREROUTING; iptables -t nat -I PREROUTING -m addrtype --dst-type LOCAL -j DOCKER; \
iptables -t nat -F PREROUTING; iptables -t nat -X DOCKER`,
  "a dispatch chain emptied": "iptables -t nat -F KUBE-SERVICES",
  "the masquerade mark's chain emptied": "iptables -t nat -F KUBE-MARK-MASQ",
  "a rule deleted": "iptables -t nat -D KUBE-POSTROUTING 1",
  "a foreign rule in a chain": "iptables -t filter -I KUBE-FORWARD -s 192.0.2.200 -j DROP",
  "the rules of a chain in another order": `first=$(iptables-save -t nat | grep '^-A KUBE-POSTROUTING' | head -n 1); \
printf '%s\\n' '*nat' '-D KUBE-POSTROUTING 1' "$first" COMMIT | iptables-restore --noflush`,
  "IPv6 alone: nat flushed": "ip6tables -t nat -F",
};

const NFTABLES: Readonly<Record<string, string>> = {
  "flush ruleset": "nft flush ruleset",
  "our table deleted": "nft delete table ip sluice",
  "our table flushed": "nft flush table ip sluice",
  "IPv6 alone: our table deleted": "nft delete table ip6 sluice",
  "a firewall's reload, which replaces the whole ruleset":
    `printf '%s\\n' 'flush ruleset' 'table inet firewall { chain c { ; }; }' \
| nft -f -; nft delete table inet firewall`,
};

/** What is found only when all of the table is listed, which is not done every sync period. */
const NFTABLES_WITHIN: Readonly<Record<string, string>> = {
  "an element deleted": `nft list map ip sluice services | grep -o '10\\.96\\.1\\.[0-9]* \\. tcp \\. 80' | head -n 1 \
| while read -r key; do nft "delete element ip sluice services { $key }"; done`,
  "a foreign rule in a chain":
    "nft insert rule ip sluice $(nft list table ip sluice | awk '/chain pick/ {print $2; exit}') drop",
};

/** Both modes. */
export const meddling: readonly Scenario[] = [
  { name: "meddling: others change the rules, iptables", run: () => meddle("iptables", IPTABLES) },
  { name: "meddling: others change the rules, nftables", run: () => meddle("nftables", NFTABLES) },
  {
    name: "meddling: others change single elements and rules, nftables",
    onlyLong: true,
    run: () => meddle("nftables", NFTABLES_WITHIN),
  },
];

function meddle(mode: (typeof MODES)[number], deeds: Readonly<Record<string, string>>): Promise<Figures> {
  return withLab(async (lab) => {
    lab.api.apply(...cluster(SERVICES));
    const sentinel = createSentinel(lab);
    const sluice = await startSluice(lab, { mode, syncPeriod: `${SYNC_PERIOD_MS}ms` });
    await sentinel.settle();
    const first = await rememberState(lab, mode);
    const figures: Record<string, string> = {};
    for (const [deed, script] of Object.entries(deeds)) {
      const linesBefore = repairLines(sluice.log()), countedBefore = await metric("sluice_drift_repaired_total") ?? 0;
      await lab.run("node", ["sh", "-c", script]);
      assert.ok(!await first.holds(), `${deed}: this changes nothing, so it is no test`);
      const tookMs = await first.isBack(REPAIRED_WITHIN_MS[mode]);
      await serves(lab);
      // The report of the repair may still be on its way.
      await sleep(systemClock, 100);
      const counted = await metric("sluice_drift_repaired_total") ?? 0, lines = repairLines(sluice.log());
      assert.ok(counted > countedBefore, `${deed}: it is not counted`);
      figures[`${deed}: repaired after ms, changes counted, lines`] = [
        Math.round(tookMs),
        counted - countedBefore,
        lines - linesBefore,
      ].join(", ");
    }
    await sluice.end("SIGTERM");
    return figures;
  });
}

function repairLines(log: string): number {
  return log.split("others had changed what the kernel holds").length - 1;
}

/** Every service of both families that a pod serves answers. */
async function serves(lab: ChaosLab): Promise<void> {
  for (const index of [20, 21, 22, 23]) {
    const outcome = await lab.connect("pod-1", { protocol: "tcp", address: clusterIP(index), port: 80 });
    assert.equal(outcome.kind, "answered");
  }
}
