/**
 * Runs a command isolated from the machine: with its own network, mounts, processes and `/run`. Network namespaces, rules
 * and processes that it creates disappear with it, even if it is killed.
 */

/** Set in the environment of the command and its children. */
const MARK = "SLUICE_ISOLATED";

/** Whether this process is already isolated. */
export function isIsolated(): boolean {
  return Deno.env.get(MARK) === "1";
}

/** @throws if this process is not isolated, for tests that change the network */
export function requireIsolation(): void {
  if (!isIsolated()) throw new Error("this test changes the network: run it with `deno task test:kernel`");
}

/** The kernel's defaults of the settings of a network namespace that Sluice reads or writes, but for those of conntrack's timeouts. */
const DEFAULTS: Readonly<Record<string, number>> = {
  "net.ipv4.ip_forward": 0,
  "net.ipv6.conf.all.forwarding": 0,
  ...Object.fromEntries(
    ["all", "default", "lo"].flatMap((interfaces) =>
      ["arp_announce", "arp_ignore", "route_localnet", "rp_filter"].map((
        name,
      ) => [`net.ipv4.conf.${interfaces}.${name}`, 0])
    ),
  ),
  "net.ipv4.vs.conn_reuse_mode": 1,
  "net.ipv4.vs.conntrack": 0,
  "net.ipv4.vs.expire_nodest_conn": 0,
  "net.ipv4.vs.expire_quiescent_template": 0,
  "net.netfilter.nf_conntrack_acct": 0,
  "net.netfilter.nf_conntrack_tcp_be_liberal": 0,
};

/** A command that sets these defaults in the namespace in which it runs, because a new one inherits some of the machine's settings. */
export const SET_DEFAULTS = `sysctl -qew ${Object.entries(DEFAULTS).map((setting) => setting.join("=")).join(" ")}`;

// The shell stays process 1, because signals without a handler do not terminate process 1.
const INSIDE = `mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up && ${SET_DEFAULTS} && "$@"; exit $?`;

/** Runs a command isolated, with this process's terminal, and resolves with its exit status. */
export async function isolate(command: readonly string[]): Promise<number> {
  const child = new Deno.Command("unshare", {
    args: ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INSIDE, "sh", ...command],
    env: { [MARK]: "1" },
    stdin: "null",
  }).spawn();
  const end = () => child.kill("SIGKILL");
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) Deno.addSignalListener(signal, end);
  const { code } = await child.status;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) Deno.removeSignalListener(signal, end);
  return code;
}

/** The modules that an isolated Sluice and its helper start, relative to the project's folder. */
export const ISOLATED_PROGRAMS: readonly string[] = [
  "main.ts",
  "workers/family.ts",
  "workers/plugin.ts",
  "workers/relay.ts",
  "workers/runtime.ts",
  "workers/serve.ts",
  "demo/agent.ts",
];

/**
 * Downloads the packages of these modules, because an isolated command has no network.
 * @throws with deno's error message if that fails
 */
export async function fetchPackages(modules: readonly string[]): Promise<void> {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), { args: ["cache", ...modules], stdin: "null" })
    .output();
  if (code !== 0) throw new Error(`cannot fetch the packages:\n${new TextDecoder().decode(stderr).trim()}`);
}
