/** The canary turns red within 5 s when packets of services stop, names the cause, and turns green after the repair. */
import assert from "node:assert/strict";
import { type Lab, NETWORK } from "../../demo/lab.ts";
import { waitFor } from "../chaos/wait.ts";
import { startRestricted } from "./as_executable.ts";
import { inLab } from "./in_lab.ts";

const RED_WITHIN_MS = 5_000, GREEN_WITHIN_MS = 15_000;
const HEALTHZ = 10256;

/** The answer of /healthz in the node. */
interface Health {
  readonly code: number;
  readonly packetsFlow?: boolean;
  readonly reason?: string;
}

async function health(lab: Lab): Promise<Health> {
  const script = `exec 3<>/dev/tcp/127.0.0.1/${HEALTHZ}; printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3`;
  const answer = await lab.run("node", ["bash", "-c", script]).catch(() => "");
  const [head = "", body = "{}"] = answer.split("\r\n\r\n");
  return { ...JSON.parse(body), code: Number(/^HTTP\S* (\d+)/.exec(head)?.[1] ?? 0) };
}

/** One way to stop packets. */
interface Fault {
  readonly name: string;
  readonly stop: readonly (readonly string[])[];
  /** Undefined if Sluice repairs it itself. */
  readonly repair: readonly (readonly string[])[] | undefined;
  readonly cause: RegExp;
  /** 5 s by default; chains are listed less often on a busy machine. */
  readonly withinMs?: number;
}

const sh = (script: string) => ["sh", "-ec", script];

const FLUSHED: Fault = {
  name: "the nat table is flushed",
  stop: [["iptables", "-t", "nat", "-F"]],
  repair: undefined,
  cause: /changes? of services' rules by other programs, repaired now/,
};

const FAULTS: Readonly<Record<"nftables" | "iptables" | "userspace", readonly Fault[]>> = {
  nftables: [
    {
      name: "the table is flushed",
      stop: [["nft", "flush", "ruleset"]],
      repair: undefined,
      cause: /changes? of services' rules by other programs, repaired now/,
    },
    {
      name: "a foreign chain drops what leaves",
      stop: [sh(
        "nft add table inet foreign; " +
          "nft 'add chain inet foreign out { type filter hook output priority 0; }'; nft add rule inet foreign out tcp dport 10260 drop; " +
          // After the translation, the packet has the port of the responder.
          "nft add rule inet foreign out ip daddr 192.0.2.10 counter drop",
      )],
      repair: [["nft", "delete", "table", "inet", "foreign"]],
      cause: /chain out of table inet foreign has the rule “ip daddr 192\.0\.2\.10 drop”/,
    },
    {
      name: "a foreign chain drops what arrives",
      stop: [
        sh(
          "nft add table ip guard; nft 'add chain ip guard in { type filter hook input priority 0; policy drop; }'; " +
            "nft add rule ip guard in tcp dport 10256 accept; nft add rule ip guard in tcp sport 10256 accept",
        ),
      ],
      repair: [["nft", "delete", "table", "ip", "guard"]],
      cause: /chain in of table ip guard drops what its rules do not accept/,
    },
    {
      name: "a foreign chain drops everything forwarded",
      stop: [sh(
        "nft add table ip guard; nft 'add chain ip guard onward { type filter hook forward priority 0; }'; " +
          "nft add rule ip guard onward drop",
      )],
      repair: [["nft", "delete", "table", "ip", "guard"]],
      cause: /chain onward of table ip guard drops all packets that reach its rule “drop”/,
      withinMs: 30_000,
    },
  ],
  iptables: [
    FLUSHED,
    {
      name: "a foreign rule rejects what leaves",
      stop: [["iptables", "-I", "OUTPUT", "-p", "tcp", "-d", "192.0.2.10", "-j", "REJECT"]],
      repair: [["iptables", "-D", "OUTPUT", "-p", "tcp", "-d", "192.0.2.10", "-j", "REJECT"]],
      cause: /chain OUTPUT of table ip filter has the rule “.*ip daddr 192\.0\.2\.10.*reject/,
    },
  ],
  userspace: [FLUSHED],
};

/** A full conntrack table is not tested here: nf_conntrack_max belongs to the whole kernel. */
const FORWARDING_OFF: Fault = {
  name: "forwarding is off",
  stop: [["sysctl", "-qw", "net.ipv4.ip_forward=0"]],
  repair: [["sysctl", "-qw", "net.ipv4.ip_forward=1"]],
  cause: /net\.ipv4\.ip_forward is 0/,
};

for (const mode of ["nftables", "iptables", "userspace"] as const) {
  Deno.test(`${mode}: the canary turns red when packets stop, names the cause, and turns green again`, () =>
    inLab(async (lab) => {
      const sluice = await startRestricted(lab, {
        flags: [
          ...["--proxy-mode", mode, "--canary", "--healthz-bind-address", `127.0.0.1:${HEALTHZ}`],
          ...["--metrics-bind-address", "", "--conntrack-max-per-core", "0", "-v", "0"],
          ...["--cluster-cidr", `${NETWORK.clusterCIDR.IPv4},${NETWORK.clusterCIDR.IPv6}`],
        ],
      });
      const isGreen = async () => {
        const { code, packetsFlow } = await health(lab);
        return code === 200 && packetsFlow === true;
      };
      try {
        await waitFor("the canary answers", 20_000, isGreen);
        for (const { name, stop, repair, cause, withinMs = RED_WITHIN_MS } of [...FAULTS[mode], FORWARDING_OFF]) {
          for (const command of stop) await lab.run("node", command);
          let red: Health | undefined;
          await waitFor(`${name}: red`, withinMs, async () => {
            const answer = await health(lab);
            if (answer.code === 503 && answer.packetsFlow === false) red = answer;
            // The look at the first rules may have repaired them before the canary missed them.
            else if (repair === undefined) { for (const command of stop) await lab.run("node", command); }
            return red !== undefined;
          });
          const isNamed = (text: string) =>
            text.split("\n").some((line) => /packets-not-flowing/.test(line) && cause.test(line));
          const log = await sluice.waitFor(isNamed);
          assert.ok(isNamed(log), `${name}: the log does not name the cause:\n${log}`);
          for (const command of repair ?? []) await lab.run("node", command);
          await waitFor(`${name}: green again`, GREEN_WITHIN_MS, isGreen);
        }
      } finally {
        await sluice.stop();
      }
    }));
}
