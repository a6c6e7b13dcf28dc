import { SET_KINDS, setName, setOptions } from "../../backends/ipvs/sets.ts";
import type { Answer, Step } from "../kernel/tool_steps.ts";

/** Steps to run with both the real and the fake tools of IPVS mode, in an empty kernel. */
export interface ToolCase {
  readonly name: string;
  readonly steps: readonly Step[];
}

const ipvsadm = (...lines: readonly string[]): Step[] => [
  { tool: "ipvsadm", args: ["--restore"], stdin: lines.map((line) => `${line}\n`).join("") },
  { tool: "ipvsadm", args: ["--save", "-n"] },
];

const ipset = (...lines: readonly string[]): Step[] => [
  { tool: "ipset", args: ["restore", "-exist"], stdin: lines.map((line) => `${line}\n`).join("") },
  { tool: "ipset", args: ["save"] },
];

const run = (command: string): Step => ({ tool: command.split(" ")[0]!, args: command.split(" ").slice(1) });

const SHOW = ["-4 -o addr show dev kube-ipvs0", "-6 -o addr show dev kube-ipvs0"].map((words) => run(`ip ${words}`));

const addresses = (...lines: readonly string[]): Step[] => [
  { tool: "ip", args: ["-force", "-batch", "-"], stdin: lines.map((line) => `${line}\n`).join("") },
  ...SHOW,
];

const ROUTES = "table local proto 122";

const routes = (family: "-4" | "-6", ...lines: readonly string[]): Step[] => [
  {
    tool: "ip",
    args: [family, "-force", "-batch", "-"],
    stdin: lines.map((line) => `route ${line} dev lo ${ROUTES}\n`).join(""),
  },
  run(`ip ${family} -o route show ${ROUTES}`),
];

const WEB = "-t 10.96.0.10:80";

/** Cases that only need ipset, which most kernels have. */
export const SET_CASES: readonly ToolCase[] = [
  {
    name: "ipset prints every set that the backend creates",
    steps: [
      ...ipset(
        ...SET_KINDS.flatMap((kind) =>
          (["IPv4", "IPv6"] as const).map((family) => `create ${setName(kind, family)} ${setOptions(kind, family)}`)
        ),
      ),
      run("ipset list -n"),
    ],
  },
  {
    name: "ipset adds and deletes entries of every kind",
    steps: [
      ...ipset(
        "create ip hash:ip family inet hashsize 1024 maxelem 65536",
        "create port hash:ip,port family inet hashsize 1024 maxelem 65536",
        "create source hash:ip,port,ip family inet hashsize 1024 maxelem 65536",
        "create range hash:ip,port,net family inet hashsize 1024 maxelem 65536",
        "create ports bitmap:port range 0-65535",
        "create six hash:ip,port family inet6 hashsize 1024 maxelem 65536",
      ),
      ...ipset("add ip 10.96.0.1", "add ip 10.96.0.2", "add ip 10.96.0.1"),
      ...ipset("add port 10.96.0.1,tcp:80", "add port 10.96.0.1,udp:53", "add port 10.96.0.1,sctp:5"),
      ...ipset("add source 10.1.0.1,tcp:80,10.1.0.1"),
      ...ipset("add range 10.96.0.1,tcp:80,10.0.0.0/8", "add range 10.96.0.1,tcp:80,10.1.0.0/16"),
      ...ipset("add range 10.96.0.1,tcp:80,10.2.0.1"),
      ...ipset("add ports 30000", "add ports 65535", "add ports 30000"),
      ...ipset("add six fd00:96::1,tcp:80"),
      ...ipset("del ip 10.96.0.1", "del ip 10.96.0.9", "del ports 30001", "del range 10.96.0.1,tcp:80,10.1.0.0/16"),
    ],
  },
  {
    name: "ipset stops a batch at the first line it refuses",
    steps: [
      ...ipset("create a hash:ip family inet hashsize 1024 maxelem 65536", "add a 10.0.0.1"),
      ...ipset("add a 10.0.0.2", "add nosuchset 10.0.0.3", "add a 10.0.0.4"),
      ...ipset("del nosuchset 10.0.0.3", "add a 10.0.0.5"),
      ...ipset("create b hash:ip family inet hashsize 1024 maxelem 65536", "add nosuchset 10.0.0.3"),
      ...ipset("add a 10.0.1.1", "add b 10.0.1.1", "add b 10.0.1.2", "add nosuchset 10.0.0.3"),
      ...ipset("add a 10.0.2.1", "add b 10.0.2.1", "del b 10.0.2.2", "del nosuchset 10.0.0.3"),
      ...ipset("add a 10.0.3.1", "create b hash:ip,port family inet hashsize 1024 maxelem 65536"),
      ...ipset("create a hash:ip family inet hashsize 1024 maxelem 65536", "add a 10.0.0.6"),
      ...ipset("create a hash:ip,port family inet hashsize 1024 maxelem 65536", "add a 10.0.0.7"),
      ...ipset("create a-name-that-is-longer-than-31-bytes hash:ip family inet hashsize 1024 maxelem 65536"),
      ...ipset("create n hash:ip,port,net family inet hashsize 1024 maxelem 65536", "add n 10.0.0.1,tcp:80,0.0.0.0/0"),
      ...ipset("destroy a", "destroy nosuchset"),
      run("ipset list -n"),
    ],
  },
];

/** Cases that need a kernel with IPVS and dummy interfaces. */
export const MACHINE_CASES: readonly ToolCase[] = [
  ...SET_CASES,
  {
    name: "ipvsadm prints virtual servers of every kind",
    steps: [
      ...ipvsadm(`-A ${WEB} -s rr`, "-A -u 10.96.0.10:53 -s rr -p 10800", "-A --sctp-service 10.96.0.10:5 -s sh"),
      ...ipvsadm("-A -t [fd00:96::1]:80 -s rr", "-a -t [fd00:96::1]:80 -r [fd00:1::1]:8080 -m -w 1"),
      ...ipvsadm(`-a ${WEB} -r 10.1.0.1:8080 -m -w 1`, `-a ${WEB} -r 10.1.0.2:8080 -m -w 0`),
      ...ipvsadm("-A -t 10.96.0.12:80 -s mh -b mh-port"),
      ...ipvsadm(`-E ${WEB} -s sh`, `-e ${WEB} -r 10.1.0.1:8080 -m -w 0`, `-d ${WEB} -r 10.1.0.2:8080`),
      run("ipvsadm -Ln"),
      run(`ipvsadm -Ln ${WEB}`),
      run("ipvsadm -Ln -u 10.96.0.10:53"),
      run("ipvsadm -Ln --stats --exact"),
      run("ipvsadm --set 1000 0 60"),
      run("ipvsadm -L --timeout"),
      ...ipvsadm(`-D ${WEB}`, "-D -u 10.96.0.10:53"),
    ],
  },
  {
    name: "ipvsadm continues after a refused line and exits with the status of the last one",
    steps: [
      ...ipvsadm(`-A ${WEB} -s rr`, `-A ${WEB} -s rr`, `-a ${WEB} -r 10.1.0.1:80 -m -w 1`),
      ...ipvsadm(`-a ${WEB} -r 10.1.0.1:80 -m -w 1`, `-a ${WEB} -r 10.1.0.2:80 -m -w 1`),
      ...ipvsadm("-a -t 10.96.0.99:80 -r 10.1.0.1:80 -m -w 1", `-a ${WEB} -r 10.1.0.3:80 -m -w 1`),
      ...ipvsadm("-D -t 10.96.0.99:80", "-E -t 10.96.0.99:80 -s rr", "-d -t 10.96.0.99:80 -r 10.1.0.1:80"),
      ...ipvsadm(`-d ${WEB} -r 10.1.0.9:80`, `-e ${WEB} -r 10.1.0.9:80 -m -w 1`),
      ...ipvsadm("-A -t 10.96.0.11:80 -s nosuchscheduler", "-A -t 10.96.0.12:80 -s rr"),
      ...ipvsadm("-A -t nonsense:80 -s rr", "-A -t 10.96.0.13:80 -s rr"),
      ...ipvsadm("-e -t 10.96.0.99:80 -r 10.1.0.1:80 -m -w 1"),
      run("ipvsadm -Ln -t 10.96.0.99:80"),
    ],
  },
  {
    name: "ip adds, deletes and flushes addresses of the dummy interface",
    steps: [
      run("ip -o link show dev kube-ipvs0"),
      ...SHOW,
      run("ip link del kube-ipvs0"),
      run("ip link add kube-ipvs0 type dummy"),
      run("ip link add kube-ipvs0 type dummy"),
      run("ip -o link show dev kube-ipvs0"),
      ...addresses("addr add 10.96.0.1/32 dev kube-ipvs0", "addr add 10.96.0.2/32 dev kube-ipvs0"),
      ...addresses("addr add 10.96.0.1/32 dev kube-ipvs0", "addr add 10.96.0.3/32 dev kube-ipvs0"),
      ...addresses("addr add fd00:96::1/128 dev kube-ipvs0 nodad"),
      ...addresses("addr del 10.96.0.9/32 dev kube-ipvs0", "addr del 10.96.0.1/32 dev kube-ipvs0"),
      ...addresses("addr del fd00:96::9/128 dev kube-ipvs0", "addr add 10.96.0.4/32 dev nosuchdevice"),
      run("ip -4 addr flush dev kube-ipvs0"),
      ...SHOW,
      run("ip -4 addr flush dev kube-ipvs0"),
      run("ip -6 addr flush dev nosuchdevice"),
      run("ip link del kube-ipvs0"),
      run("ip -o link show dev kube-ipvs0"),
    ],
  },
  {
    name: "ip holds, lists and releases addresses that the dummy interface has or had",
    steps: [
      run("ip link add kube-ipvs0 type dummy"),
      ...addresses("addr add 10.96.0.1/32 dev kube-ipvs0", "addr add fd00:96::1/128 dev kube-ipvs0 nodad"),
      ...routes("-4", "append local 10.96.0.1/32", "append local 10.96.0.2/32", "append local 10.96.0.1/32"),
      ...routes("-6", "append local fd00:96::1/128", "append local fd00:96::2/128"),
      run("ip link del kube-ipvs0"),
      ...routes("-4", "del local 10.96.0.2/32", "del local 10.96.0.9/32"),
      ...routes("-6", "del local fd00:96::2/128"),
      run(`ip -4 route flush ${ROUTES}`),
      run(`ip -6 route flush ${ROUTES}`),
      run(`ip -6 route flush ${ROUTES}`),
      ...routes("-4"),
      ...routes("-6"),
    ],
  },
];

/**
 * Removes what differs between runs (hash seeds, indexes, the order of hashed entries) and what Sluice does not read: column
 * widths, other interfaces, and everything that ip prints besides addresses.
 */
export function comparable(answers: readonly Answer[]): Answer[] {
  return answers.map((answer) => ({ ...answer, stdout: comparableOutput(answer), stderr: answer.stderr.trim() }));
}

function comparableOutput({ step, stdout }: Answer): string {
  const lines = stdout.split("\n").map((line) => line.trim().replace(/\s+/g, " ")).filter((line) => line !== "");
  if (step.startsWith("ipvsadm -Ln")) return virtualServers(lines).sort().join("\n");
  if (step.startsWith("ip -o link")) return String(lines.length);
  if (step.startsWith("ip ")) {
    return lines.map((line) => /kube-ipvs0 inet6? \S+|^local \S+/.exec(line)?.[0] ?? "").sort().join("\n").trim();
  }
  return lines.map((line) => line.replace(/ bucketsize \d+| initval 0x[0-9a-f]+/g, "")).sort().join("\n");
}

/** The lines of `ipvsadm -Ln`, with real servers appended to the line of their virtual server. */
function virtualServers(lines: readonly string[]): string[] {
  const servers: string[] = [];
  for (const line of lines) {
    if (line.startsWith("->") && !line.startsWith("-> Remote")) servers.push(`${servers.pop()} ${line}`);
    else servers.push(line.replace(/\(size=\d+\)/, ""));
  }
  return servers;
}
