/** The faults: how each is caused in the real kernel, API server or file system, and what a user must see. */
import { sleep, systemClock } from "../../platform/clock.ts";
import { statusResponse } from "../fakes/api_server.ts";
import { type CertificateAuthority, createCertificateAuthority, type Validity } from "../fakes/certificates.ts";
import { NETWORK } from "../../demo/lab.ts";
import { service, slice } from "../chaos/cluster.ts";
import { API_LINK, type ChaosLab } from "../chaos/lab.ts";
import type { MODES } from "../chaos/scenario.ts";
import type { ChaosSluice } from "../chaos/sluice.ts";
import type { TlsProxy } from "../chaos/tls_proxy.ts";
import type { ToolFolder } from "../chaos/tool_folder.ts";
import { waitFor } from "../chaos/wait.ts";
import { endChild } from "../children.ts";

/** The mode that a fault is tried in. */
export type Mode = (typeof MODES)[number];

/** Whatever a fault can break. */
export interface Patient {
  readonly lab: ChaosLab;
  readonly mode: Mode;
  readonly sluice: ChaosSluice;
  readonly tools: ToolFolder;
  /** The TLS server in front of the API server; its authority is `authority`. */
  readonly front: TlsProxy;
  readonly authority: CertificateAuthority;
  /** Moves the wall clock of Sluice alone to a time relative to the real one; only where the fault sets `movesClock`. */
  moveClock(seconds: number): Promise<void>;
  /** Changes a service, so that there is something to write. */
  change(): void;
  /** Returns a number in [0, 1). */
  random(): number;
}

/** One fault. */
export interface Fault {
  readonly name: string;
  readonly modes: readonly Mode[];
  /** The modes in which the merge gate tries it: one fault of each kind, quick and telling. */
  readonly inGate?: readonly Mode[];
  /** Breaks it; resolves with the function that repairs it. */
  break(patient: Patient): Promise<() => Promise<void> | void>;
  /** The text that names the cause in `sluice status`, on the page and in the log; undefined if nothing may be red. */
  readonly cause?: RegExp;
  /** A part of the fix in `sluice status`. */
  readonly fix?: RegExp;
  /** The code in the metrics; undefined if a stopped proxy shows none. */
  readonly code?: RegExp;
  /** Whether `/healthz` must not answer 200, as kube-proxy's would not, or because packets do not flow. */
  readonly unhealthy?: boolean;
  /** The exit status of `sluice status`; 1 if not given, 0 if everything is still in effect. */
  readonly exit?: number;
  /** Most seconds from the fault to the truth everywhere; 15 if not given. */
  readonly withinS?: number;
  /** The fault ends with the proxy's own repair: it must have been red in between, or repaired within the time. */
  readonly repairsItself?: boolean;
  /** Whether Sluice must have a clock of its own. */
  readonly movesClock?: boolean;
}

const BOTH: readonly Mode[] = ["nftables", "iptables"];
const ONCE: readonly Mode[] = ["nftables"];
const RULES_REPAIRED_WITHIN_S = 5;
/** Most entries of the connection tracking table: a setting of the whole kernel, while each network namespace counts its own. */
const MOST_FLOWS_PATH = "/proc/sys/net/netfilter/nf_conntrack_max";
/** The share of the table's entries that fill it; the few others are the lab's. */
const FULL_SHARE = 0.99;
const SLOW_ANSWER_MS = 4_000;
const HOUR_S = 3_600;
/** Services that make the kept state larger than the blocks that its file has; their names are random because it is compressed. */
const GROWN_BY = 600;

/** The API server's side of the network. */
async function atServer(script: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("sh", { args: ["-ec", script], stdin: "null" }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

const inNode = (patient: Patient, script: string) => patient.lab.run("node", ["sh", "-ec", script]);

/** Treats the packets to the API server with a rule. */
function packetsToServer(verdict: string): Fault["break"] {
  return async ({ front, change }) => {
    const port = new URL(front.url).port;
    await atServer(`nft add table inet fault
nft add chain inet fault arrives '{ type filter hook input priority 0; }'
nft add rule inet fault arrives tcp dport ${port} ${verdict}`);
    change();
    return () => atServer("nft delete table inet fault");
  };
}

/** The API server answers every request with this status. */
function answers(code: number, reason: string): Fault["break"] {
  return ({ lab }) => {
    lab.api.fault(() => statusResponse(code, reason, reason));
    lab.api.dropWatches();
    return Promise.resolve(() => lab.api.fault(undefined));
  };
}

/** The API server shows another certificate. */
function showsCertificate(
  issue: (authority: CertificateAuthority) => Promise<{ readonly cert: string; readonly key: string }>,
): Fault["break"] {
  return async ({ front, authority }) => {
    await front.restart({ server: await issue(authority), clientAuthority: authority.cert });
    return async () => {
      const server = await authority.issue("server", 3, API_LINK.server);
      await front.restart({ server, clientAuthority: authority.cert });
    };
  };
}

/** Replaces the tools that write rules, ends what runs of them, and changes a service. */
function toolsBecome(script: string | undefined): Fault["break"] {
  return async ({ tools, mode, change }) => {
    const names = mode === "nftables" ? ["nft"] : ["iptables-restore", "ip6tables-restore"];
    await tools.remove(names);
    if (script !== undefined) await tools.write(names, script);
    if (mode === "nftables") await new Deno.Command("pkill", { args: ["-KILL", "-x", "nft"] }).output();
    change();
    return async () => {
      if (script !== undefined) await tools.remove(names);
      await tools.add(names);
      await new Deno.Command("pkill", { args: ["-KILL", "-f", `^/bin/sh ${tools.env.PATH}/`] }).output();
    };
  };
}

/** Other programs change the rules, and Sluice repairs them. */
function rules(scripts: Readonly<Record<Mode, string>>): Fault["break"] {
  return async (patient) => {
    await inNode(patient, scripts[patient.mode]);
    return () => {};
  };
}

/** Rules of a firewall in a table of its own. */
function firewall(...lines: readonly string[]): Fault["break"] {
  return async (patient) => {
    await inNode(patient, ["nft add table inet firewall", ...lines.map((line) => `nft '${line}'`)].join("\n"));
    return async () => {
      await inNode(patient, "nft delete table inet firewall");
    };
  };
}

/** Edits the configuration file. */
function configured(edit: (file: Record<string, unknown>) => unknown): Fault["break"] {
  return async ({ sluice }) => {
    const text = await Deno.readTextFile(sluice.config);
    await Deno.writeTextFile(sluice.config, JSON.stringify(edit(JSON.parse(text)), undefined, 2));
    return () => Deno.writeTextFile(sluice.config, text);
  };
}

/** A command that fills the connection tracking table with answered flows of clients in a range, which the kernel keeps; it ends at the first refusal. */
function flows(count: number, range: string): string {
  return `awk -v n=${count} -v range=${range} 'BEGIN { for (i = 0; i < n; i++)
  printf "-I -p tcp -s %s.%d.%d -d 10.2.%d.1 --sport 1000 --dport 80 --state ESTABLISHED -u ASSURED,SEEN_REPLY -t 600\\n",
    range, int(i / 256) % 256, i % 256, int(i / 65536) }' | conntrack --load-file - >/dev/null 2>&1`;
}

/** Moves Sluice's clock while it connects again; given a validity, to a server whose new certificate is valid only then. */
function clockMoves(seconds: number, validity?: Validity): Fault["break"] {
  return async ({ lab, front, authority, change, moveClock }) => {
    const show = async (validity: Validity) => {
      const server = await authority.issueFor(validity, "server", API_LINK.server);
      await front.restart({ server, clientAuthority: authority.cert });
    };
    await moveClock(seconds);
    if (validity) await show(validity);
    else lab.api.dropWatches();
    change();
    return async () => {
      await moveClock(0);
      if (validity) await show({});
    };
  };
}

/** All faults, in the order in which they are tried. */
export const FAULTS: readonly Fault[] = [
  {
    name: "API server: refuses connections",
    modes: ONCE,
    inGate: ONCE,
    break: packetsToServer("reject with tcp reset"),
    cause: /refused/i,
    fix: /server runs|reach/,
    code: /api-unreachable/,
  },
  {
    name: "API server: packets are dropped",
    modes: ONCE,
    break: packetsToServer("drop"),
    cause: /has not answered for/,
    fix: /firewall|reaches its address/,
    code: /api-slow/,
  },
  {
    name: "API server: 401",
    modes: ONCE,
    break: answers(401, "Unauthorized"),
    cause: /401|Unauthorized/,
    fix: /replace the token/,
    code: /api-unauthorized/,
  },
  {
    name: "API server: 403",
    modes: ONCE,
    break: answers(403, "Forbidden"),
    cause: /403|Forbidden|not permit|may not/i,
    fix: /grant the verb/,
    code: /api-forbidden/,
  },
  {
    name: "API server: 503",
    modes: ONCE,
    break: answers(503, "ServiceUnavailable"),
    cause: /503|ServiceUnavailable/,
    code: /source-unreachable/,
    fix: /server runs/,
  },
  {
    name: "API server: answers after 4 s",
    modes: ONCE,
    break({ lab }) {
      lab.api.fault(() => sleep(systemClock, SLOW_ANSWER_MS).then(() => undefined));
      lab.api.dropWatches();
      return Promise.resolve(() => lab.api.fault(undefined));
    },
    cause: /not answered within 3 s/,
    fix: /load of the server/,
    code: /api-slow/,
    exit: 0,
  },
  {
    name: "API server: expired certificate",
    modes: ONCE,
    inGate: ONCE,
    break: showsCertificate((authority) => authority.issueFor({ untilMs: -HOUR_S * 1000 }, "server", API_LINK.server)),
    cause: /expired/i,
    fix: /renew the certificate/,
    code: /api-certificate-expired/,
  },
  {
    name: "API server: certificate of another authority",
    modes: ONCE,
    break: showsCertificate(async () =>
      await (await createCertificateAuthority("another")).issue("server", 3, API_LINK.server)
    ),
    cause: /issuer|authority|self.signed|unknown ca/i,
    fix: /certificate-authority/,
    code: /api-certificate-untrusted/,
  },
  {
    name: "tool: missing",
    modes: BOTH,
    inGate: ["iptables"],
    break: toolsBecome(undefined),
    cause: /not installed/,
    fix: /sluice check|install/,
    code: /sync-failed|setup-failed/,
  },
  {
    name: "tool: hangs",
    modes: BOTH,
    inGate: ["nftables"],
    break: toolsBecome("kill -STOP $$"),
    cause: /longer than 5 s|not answer/,
    fix: /stopped `nft`/,
    code: /changes-overdue/,
    withinS: 10,
  },
  {
    name: "tool: killed by SIGSEGV",
    modes: BOTH,
    break: toolsBecome("kill -SEGV $$"),
    cause: /SIGSEGV/,
    fix: /install/,
    code: /tool-killed|sync-failed/,
  },
  {
    name: "rules: all flushed",
    modes: BOTH,
    inGate: BOTH,
    break: rules({
      nftables: "nft flush ruleset",
      iptables: "for t in nat filter; do iptables -t $t -F; ip6tables -t $t -F; done",
    }),
    cause: /repaired/,
    repairsItself: true,
    withinS: RULES_REPAIRED_WITHIN_S,
  },
  {
    name: "rules: our table or chains deleted",
    modes: BOTH,
    break: rules({
      nftables: "nft delete table ip sluice",
      iptables: "iptables -t nat -F; iptables -t nat -X",
    }),
    cause: /repaired/,
    repairsItself: true,
    withinS: RULES_REPAIRED_WITHIN_S,
  },
  {
    name: "firewall: drops what arrives at the node",
    modes: ONCE,
    break: firewall(
      "add chain inet firewall in { type filter hook input priority 0; }",
      // Not from this suite.
      "add rule inet firewall in tcp sport != { 10249, 10256 } tcp dport != { 10249, 10256 } counter drop",
    ),
    cause: /packets do not flow|foreign-chain|firewall/,
    fix: /remove|rule/,
    code: /packets-not-flowing/,
    unhealthy: true,
  },
  {
    name: "firewall: drops what is forwarded",
    modes: ONCE,
    inGate: ONCE,
    break: firewall("add chain inet firewall forward { type filter hook forward priority 0; policy drop; }"),
    cause: /packets do not flow|foreign-chain|firewall/,
    fix: /remove|rule/,
    code: /packets-not-flowing/,
    unhealthy: true,
  },
  {
    name: "conntrack: the table is full",
    modes: ONCE,
    async break(patient) {
      const most = Number(await Deno.readTextFile(MOST_FLOWS_PATH));
      await inNode(patient, `${flows(most, "10.1")} || true`);
      const held = Number(await inNode(patient, "cat /proc/sys/net/netfilter/nf_conntrack_count"));
      if (held < FULL_SHARE * most) throw new Error(`only ${held} of ${most} flows are in the table`);
      // Not from this suite.
      await inNode(
        patient,
        `nft 'add table inet looking
${
          ["prerouting", "output"].map((hook) =>
            `add chain inet looking ${hook} { type filter hook ${hook} priority raw; }
add rule inet looking ${hook} tcp sport { 10249, 10256 } notrack
add rule inet looking ${hook} tcp dport { 10249, 10256 } notrack`
          ).join("\n")
        }'`,
      );
      // Flows end all the time, so others take their place, as on a node with too many clients.
      const others = `while sleep 0.1; do ${flows(100, "10.$((i = i % 200 + 3))")}; done`;
      const filling = patient.lab.start("node", ["sh", "-c", others]);
      return async () => {
        await endChild(filling);
        await inNode(patient, "conntrack -F 2>/dev/null; nft delete table inet looking");
      };
    },
    cause: /nf_conntrack_max/,
    fix: /remove the cause/,
    code: /packets-not-flowing/,
    unhealthy: true,
  },
  {
    name: "endpoint: dead",
    modes: ONCE,
    inGate: ONCE,
    async break({ lab }) {
      const address = "10.96.0.98", { "pod-1": client, "pod-2": dying } = NETWORK.pods;
      const inPod = (script: string) => lab.run("pod-2", ["nft", script]);
      lab.api.apply(service("dying", [address]), slice("dying", "IPv4", ["pod-2", "pod-3"]));
      let isOver = false;
      const clients = (async () => {
        while (!isOver) await lab.connect("pod-1", { protocol: "tcp", address, port: 80, timeoutMs: 300 });
      })();
      // A probe that was answered is the evidence that silence means something.
      await inPod("add table ip dead; add chain ip dead in { type filter hook input priority 0; }");
      await inPod(`add rule ip dead in ip saddr != ${client.IPv4} tcp dport 10250 counter`);
      await waitFor("a probe", 15_000, async () => / packets [1-9]/.test(await inPod("list table ip dead")), 200);
      await inPod(`add rule ip dead in ip daddr ${dying.IPv4} drop`);
      return async () => {
        isOver = true;
        await clients;
        await inPod("delete table ip dead");
      };
    },
    cause: new RegExp(`${NETWORK.pods["pod-2"].IPv4}:${NETWORK.podPort}`),
    fix: /endpoint's node/,
    code: /endpoint-unreachable/,
    exit: 0,
  },
  {
    name: "clock: an hour ahead",
    modes: ONCE,
    movesClock: true,
    break: clockMoves(HOUR_S),
  },
  {
    name: "clock: an hour behind",
    modes: ONCE,
    movesClock: true,
    break: clockMoves(-HOUR_S),
  },
  {
    name: "clock: ahead, after the certificate's end",
    modes: ONCE,
    inGate: ONCE,
    movesClock: true,
    break: clockMoves(HOUR_S, { untilMs: HOUR_S * 500 }),
    cause: /expired/,
    fix: /this node's clock/,
    code: /api-certificate-expired/,
  },
  {
    name: "clock: behind, before the certificate's beginning",
    modes: ONCE,
    movesClock: true,
    break: clockMoves(-HOUR_S, { fromMs: -HOUR_S * 500 }),
    cause: /not valid yet/,
    fix: /this node's clock/,
    code: /api-certificate-expired/,
  },
  {
    name: "configuration: unknown field",
    modes: ONCE,
    break: configured((file) => ({ ...file, failovr: { attempts: 3 } })),
    cause: /failovr/,
    fix: /correct or remove/,
    code: /configuration-ignored/,
    exit: 0,
  },
  {
    name: "configuration: invalid value",
    modes: ONCE,
    inGate: ONCE,
    break: configured((file) => ({ ...file, nftables: { syncPeriod: "never" } })),
    cause: /syncPeriod/,
    fix: /correct/,
    code: /configuration-invalid/,
    exit: 0,
  },
  {
    name: "disk: full",
    modes: ONCE,
    async break({ lab, random }) {
      await atServer(`head -c 64M /dev/zero > ${lab.folder}/state/fill 2>/dev/null || true`);
      const hex = () => Math.floor(random() * 2 ** 32).toString(16);
      const grown = Array.from(
        { length: GROWN_BY },
        (_, i) => service(`s-${hex()}${hex()}${hex()}${hex()}`, [`10.96.${8 + (i >> 8)}.${i & 255}`]),
      );
      lab.api.apply(...grown);
      return async () => {
        await Deno.remove(`${lab.folder}/state/fill`);
        lab.api.remove(...grown);
      };
    },
    cause: /no space left/i,
    fix: /free disk space/,
    code: /state-not-kept/,
    exit: 0,
  },
  {
    name: "IPv6: switched off",
    modes: ONCE,
    inGate: ONCE,
    async break(patient) {
      const addresses = await inNode(patient, "ip -o -6 address show scope global");
      const restored = [...addresses.matchAll(/^\d+: (\S+) +inet6 (\S+)/gm)]
        .map(([, device, address]) => `ip -6 address add ${address} dev ${device} nodad`);
      const routes = await inNode(patient, "ip -6 route show | grep via || true");
      for (const route of routes.split("\n").filter(Boolean)) {
        restored.push(`ip -6 route add ${route.replace(/ pref.*/, "")}`);
      }
      await inNode(patient, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
      return async () => {
        await inNode(patient, ["sysctl -qw net.ipv6.conf.all.disable_ipv6=0", ...restored].join("; "));
      };
    },
    cause: /no IPv6 address/,
    code: /canary-unusable/,
    exit: 0,
  },
  {
    name: "another proxy: deletes our rules every second",
    modes: BOTH,
    break({ lab, mode }) {
      const script = mode === "nftables" ? "nft delete table ip sluice" : "iptables -t nat -F KUBE-SERVICES";
      const other = lab.start("node", ["sh", "-c", `while sleep 1; do ${script}; done`], { stderr: "null" });
      return Promise.resolve(() => endChild(other));
    },
    cause: /another program/,
    fix: /other proxy/,
    code: /rules-changed-by-others/,
  },
  {
    name: "cluster: the Service of another frontend",
    modes: ONCE,
    inGate: ONCE,
    break({ lab }) {
      const twins = ["one", "two"].map((name) => service(`twin-${name}`, ["10.96.0.99"]));
      const slices = ["one", "two"].map((name) => slice(`twin-${name}`, "IPv4", ["pod-2"]));
      lab.api.apply(...twins, ...slices);
      return Promise.resolve(() => lab.api.remove(...twins, ...slices));
    },
    cause: /twin-/,
    fix: /another address or port/,
    code: /frontend-conflict/,
    exit: 0,
  },
  {
    name: "process: stopped",
    modes: ONCE,
    inGate: ONCE,
    break({ sluice }) {
      Deno.kill(sluice.pid, "SIGSTOP");
      return Promise.resolve(() => Deno.kill(sluice.pid, "SIGCONT"));
    },
    cause: /does not answer/,
    exit: 3,
    unhealthy: true,
  },
];

/** Waits a moment between two faults, so that a repair by a backoff does not count for the next one. */
export const settle = (): Promise<void> => sleep(systemClock, 1_000);
